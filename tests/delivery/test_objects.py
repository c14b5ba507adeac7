"""Objects of the bucket by REST: the real storage server, and what it never says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from prefect_vertex.errors import CodeStoreError
from prefect_vertex.vertex.gateways import Gateways
from prefect_vertex.vertex.objects import GcsObjects
from prefect_vertex.vertex.rest import UNASKED, GoogleRest, RestAnswer, read_answer

pytestmark = pytest.mark.anyio


@pytest.fixture
def objects() -> GcsObjects:
    """With no credentials at all: the emulator gets none."""
    gateways = Gateways(submissions_per_minute=1, reads_per_minute=1, environ={})
    return GcsObjects(GoogleRest(gateways.credentials), pauses=(0.01,))


class Scripted(GoogleRest):
    """Answers as it is told, the last answer for ever."""

    def __init__(self, *answers: RestAnswer) -> None:
        self.answers = list(answers)
        self.asked: list[Mapping[str, Any]] = []

    async def ask(self, service: str, path: str, **request: Any) -> RestAnswer:
        self.asked.append({"service": service, "path": path, **request})
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.mark.parametrize("name", ["launches/r/a1.json", "team a/ü+&?/a1.json"])
async def test_what_is_written_is_read_again(storage: Any, objects: GcsObjects, name: str) -> None:
    uri = f"gs://{storage.bucket}/{name}"
    content = json.dumps({"text": "ü\n"}, indent=2).encode()

    assert await objects.put_once(uri, content)
    assert await objects.read(uri) == {"text": "ü\n"}
    assert await objects.is_there(uri)
    assert storage.names() == [name]


async def test_a_second_write_leaves_the_first_as_it_is(storage: Any, objects: GcsObjects) -> None:
    uri = f"gs://{storage.bucket}/launches/r/a1.json"

    assert await objects.put_once(uri, b'{"a": 1}')
    assert not await objects.put_once(uri, b'{"a": 2}')
    assert await objects.read(uri) == {"a": 1}


async def test_what_is_not_there_is_said_so(storage: Any, objects: GcsObjects) -> None:
    uri = f"gs://{storage.bucket}/launches/r/a1.json"

    assert await objects.is_there(uri) is False
    with pytest.raises(CodeStoreError, match=f"Could not read {uri}: there is no such bucket"):
        await objects.read(uri)
    with pytest.raises(CodeStoreError, match="Could not write gs://no-such-bucket"):
        await objects.put_once("gs://no-such-bucket/x.json", b"{}")


@pytest.mark.parametrize(
    ("emulator", "says"),
    [
        ("", "`gcloud storage ls gs://staging/` shows what there is."),
        ("http://127.0.0.1:9", "STORAGE_EMULATOR_HOST is set: the emulator was asked"),
    ],
)
async def test_what_is_not_there_is_looked_for_where_it_was_asked_for(
    emulator: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an emulator gcloud has no part: it would show another cloud's buckets."""
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    if emulator:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", emulator)
    with pytest.raises(CodeStoreError, match="there is no such bucket or object") as caught:
        await GcsObjects(Scripted(refusal(404)), pauses=()).read("gs://staging/x.json")

    assert caught.value.hint.startswith(says)
    assert ("gcloud" in caught.value.hint) == (not emulator)


async def test_what_holds_no_json_object_is_empty(storage: Any, objects: GcsObjects) -> None:
    assert await objects.read(storage.put("archive.zip", b"PK\x03\x04")) == {}


async def test_an_emulator_that_is_not_there_is_named(
    objects: GcsObjects, unused_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{unused_address}")

    with pytest.raises(CodeStoreError, match=f"{unused_address} did not answer") as caught:
        await objects.put_once("gs://staging/x.json", b"{}")
    assert "unset STORAGE_EMULATOR_HOST" in caught.value.hint
    assert await objects.is_there("gs://staging/x.json") is None


def refusal(status: int, message: str = "Denied.") -> RestAnswer:
    return read_answer(status, {"error": {"message": message}})


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            refusal(403, "no storage.objects.create"),
            "no storage.objects.create. Grant this account",
        ),
        (refusal(401), "roles/storage.objectCreator on gs://staging"),
        (refusal(400, "Bad."), "Could not write gs://staging/x.json: Bad."),
        (RestAnswer(problem="No credentials."), "No credentials."),
        (UNASKED, "Set STORAGE_EMULATOR_HOST"),
    ],
)
async def test_a_refusal_says_what_to_grant_or_set(answer: RestAnswer, says: str) -> None:
    with pytest.raises(CodeStoreError) as caught:
        await GcsObjects(Scripted(answer), pauses=()).put_once("gs://staging/x.json", b"{}")

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_what_may_pass_is_asked_again_in_the_same_words() -> None:
    """An answer that was lost is met by the object that is there already."""
    rest = Scripted(refusal(503), refusal(412))

    assert not await GcsObjects(rest, pauses=(0.001,)).put_once("gs://b/x.json", b"{}", key="k")
    assert rest.asked[0] == rest.asked[1]
    assert rest.asked[0]["key"] == "k"
    assert rest.asked[0]["params"]["ifGenerationMatch"] == "0"


@pytest.mark.parametrize("uri", ["gs://bucket", "gs://bucket/", "bucket/x", "s3://b/x"])
async def test_what_names_no_object_is_refused(uri: str) -> None:
    with pytest.raises(CodeStoreError, match="names no object: expected gs://bucket/object"):
        await GcsObjects(Scripted(UNASKED)).read(uri)
