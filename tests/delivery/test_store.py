"""The staging bucket: the real storage server, and scripted ones for what it never does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.delivery.bundle import Bundle, build_bundle
from prefect_vertex.delivery.store import GcsCodeStore
from prefect_vertex.errors import CodeStoreError

Serve = Callable[..., Any]


@pytest.fixture
def bundle(tmp_path: Path, write_tree: Callable[[Path, Mapping[str, str | bytes]], Path]) -> Bundle:
    root = write_tree(tmp_path / "tree", {"flow.py": "x = 1\n"})
    return build_bundle(root, into=tmp_path, name="demo")


@pytest.mark.parametrize("scheme", ["", "gs://"])
@pytest.mark.parametrize(("prefix", "folder"), [("", "code"), ("/a/b/", "a/b/code")])
def test_the_first_upload_stores_and_the_second_finds(
    storage: Any, bundle: Bundle, scheme: str, prefix: str, folder: str
) -> None:
    store = GcsCodeStore(f"{scheme}{storage.bucket}{prefix}")

    first, second = store.upload(bundle), store.upload(bundle)

    assert (first.uploaded, second.uploaded) == (True, False)
    assert first.reference == second.reference
    assert first.reference.uri == f"gs://{storage.bucket}/{folder}/{bundle.name}"
    assert first.reference.sha256 == bundle.sha256
    assert storage.names() == [f"{folder}/{bundle.name}"]


def test_another_object_of_that_name_is_not_taken_for_the_archive(
    storage: Any, bundle: Bundle
) -> None:
    storage.put(f"code/{bundle.name}", b"half an upl")

    with pytest.raises(CodeStoreError, match=r"is not the archive of that name: it has 11 bytes"):
        GcsCodeStore(storage.bucket).upload(bundle)


@pytest.mark.parametrize(
    "location", ["", "gs://", "s3://x", "Bad_Bucket", "a b", "bk", "b" * 64, "gs://b/x/../y\n"]
)
def test_what_is_no_bucket_is_refused_before_any_call(location: str) -> None:
    """The refusal says what a name looks like, and both places where it may have been typed."""
    with pytest.raises(
        CodeStoreError,
        match=r"is not a bucket: .* 3 to 63 .*Set staging_bucket \(of stage-code: --bucket\)",
    ):
        GcsCodeStore(location)


def test_an_emulator_address_without_a_scheme_is_told_with_one(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "127.0.0.1:14443")

    with pytest.raises(
        CodeStoreError,
        match=r"without http://.*Set STORAGE_EMULATOR_HOST=http://127\.0\.0\.1:14443$",
    ):
        GcsCodeStore("staging").upload(bundle)


def test_a_missing_bucket_is_named(storage: Any, bundle: Bundle) -> None:
    with pytest.raises(CodeStoreError, match=r"there is no bucket absent-bucket. Create it"):
        GcsCodeStore("absent-bucket").upload(bundle)


def test_an_emulator_that_is_not_there_is_named(
    bundle: Bundle, unused_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{unused_address}")

    with pytest.raises(CodeStoreError, match=f"{unused_address} does not answer") as caught:
        GcsCodeStore("staging", pause_seconds=0.01).upload(bundle)

    assert "\n" not in str(caught.value)


def test_without_credentials_the_remedy_is_told(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")

    with pytest.raises(CodeStoreError, match=r"no Google credentials.*application-default login"):
        GcsCodeStore("staging").upload(bundle)


ACCOUNT = '{"type": "service_account", "client_email": "a@b", "token_uri": "https://x", '


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        pytest.param(None, "there is no such file", id="absent"),
        pytest.param("{}", "it holds no JSON object with a type", id="empty object"),
        pytest.param("[]", "it holds no JSON object with a type", id="list"),
        pytest.param("key = 1", "it is not JSON", id="no JSON"),
        pytest.param(ACCOUNT, "it is not JSON", id="cut off"),
        pytest.param(ACCOUNT + '"project_id": "p"}', "private_key field was not found", id="part"),
        pytest.param(ACCOUNT + '"private_key": "-----BEGIN"}', "Unable to load PEM", id="half key"),
        pytest.param('{"type": "x"}', "Type is x, expected one of", id="another type"),
    ],
)
def test_a_key_file_that_gives_no_credentials_is_named_with_its_variable(
    bundle: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str | None,
    fault: str,
) -> None:
    file = tmp_path / "key.json"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))

    with pytest.raises(CodeStoreError) as caught:
        GcsCodeStore("staging").upload(bundle)

    assert f"GOOGLE_APPLICATION_CREDENTIALS is {file}: " in caught.value.message
    assert fault in caught.value.message
    assert "\n" not in str(caught.value)


def test_a_key_file_that_is_a_directory_is_named(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path))

    with pytest.raises(CodeStoreError, match=f"{tmp_path}: it cannot be read: Is a directory"):
        GcsCodeStore("staging").upload(bundle)


def account(token_uri: str) -> Any:
    """A user's login whose token has to be fetched first."""
    from google.oauth2.credentials import Credentials

    values = {"refresh_token": "r", "client_id": "c", "client_secret": "s"}
    return Credentials(None, token_uri=token_uri, **values)  # type: ignore[no-untyped-call]  # google-auth's


def test_a_token_service_that_does_not_answer_is_no_fault_of_the_login(
    bundle: Bundle, unused_address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """And the repetitions, which the library makes over HTTPS only, are not logged one by one."""
    login = account(f"https://{unused_address}/token")
    store = GcsCodeStore("staging", credentials=login, pause_seconds=0.01)

    with pytest.raises(
        CodeStoreError,
        match=r"token service 127\.0\.0\.1 did not answer \(ConnectionError\)\. Check .*network",
    ):
        store.upload(bundle)

    assert [record.getMessage() for record in caplog.records] == []


def test_a_login_that_is_refused_is_told_in_one_line(bundle: Bundle, serve: Serve) -> None:
    body = b'{"error": "invalid_grant", "error_description": "Token has been revoked."}'
    server = serve(lambda _: (400, body))
    store = GcsCodeStore("staging", credentials=account(server.url), pause_seconds=0.01)

    with pytest.raises(
        CodeStoreError, match=r"not accepted: invalid_grant: Token has been revoked\. Run `gcloud"
    ):
        store.upload(bundle)


def scripted_store(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, script: Callable[[Any], tuple[int, bytes]]
) -> tuple[GcsCodeStore, list[Any]]:
    """A store whose bucket answers what the script says, and the calls that it got."""
    calls: list[Any] = []

    def answer(asked: Any) -> tuple[int, bytes]:
        # Google's client asks for the bucket itself in a thread of its own, for tracing.
        if "/o" not in asked.path:
            return 404, b"{}"
        calls.append(asked)
        return script(asked)

    monkeypatch.setenv("STORAGE_EMULATOR_HOST", serve(answer).url)
    return GcsCodeStore("staging", pause_seconds=0.01), calls


@pytest.mark.parametrize("status", [200, 412])
def test_whoever_comes_second_in_a_race_is_content(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, bundle: Bundle, status: int
) -> None:
    """412 says that the archive appeared between our look and our upload: the same bytes."""
    store, calls = scripted_store(
        serve, monkeypatch, lambda asked: (404 if asked.method == "GET" else status, b"{}")
    )

    assert store.upload(bundle).uploaded is (status == 200)
    assert "ifGenerationMatch=0" in calls[-1].path


def test_a_server_that_recovers_is_asked_again(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, bundle: Bundle
) -> None:
    answers = iter([503, 0, 404, 429, 500, 200])
    store, calls = scripted_store(serve, monkeypatch, lambda _: (next(answers), b"{}"))

    assert store.upload(bundle).uploaded
    assert len(calls) == 6


def test_a_server_that_stays_ill_is_reported_in_its_own_words(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, bundle: Bundle
) -> None:
    body = b'{"error": {"message": "backend\\nerror"}}'
    store, calls = scripted_store(serve, monkeypatch, lambda _: (503, body))

    with pytest.raises(CodeStoreError, match=r"503 .*backend error"):
        store.upload(bundle)

    assert len(calls) == 4


def test_an_account_that_may_only_create_can_stage(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, bundle: Bundle
) -> None:
    store, _ = scripted_store(
        serve, monkeypatch, lambda asked: (403 if asked.method == "GET" else 200, b"{}")
    )

    assert store.upload(bundle).uploaded


def test_a_refusal_says_which_role_is_missing(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, bundle: Bundle
) -> None:
    body = b'{"error": {"message": "me@x does not have storage.objects.create access"}}'
    store, _ = scripted_store(serve, monkeypatch, lambda _: (403, body))

    with pytest.raises(
        CodeStoreError, match=r"me@x does not .*roles/storage\.objectUser"
    ) as caught:
        store.upload(bundle)

    assert "\n" not in str(caught.value)
