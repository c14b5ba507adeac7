"""How a replica gets its code: the real bootstrap as a subprocess, without site-packages."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prefect_vertex.delivery.bootstrap import web
from prefect_vertex.delivery.packing import bootstrap_source, pack_source, packed_bootstrap
from prefect_vertex.delivery.staging import stage_directory
from prefect_vertex.delivery.store import GcsCodeStore

WHERE = (
    "import json,os,pkg.mod,sys;"
    "print(json.dumps([os.getcwd(), pkg.mod.__file__, os.environ['PYTHONPATH']]))"
)


def last_json(text: str) -> Any:
    return json.loads(text.splitlines()[-1])


def test_a_staged_directory_arrives_whole(
    storage: Any,
    bootstrap: Callable[..., Any],
    tmp_path: Path,
    write_tree: Callable[[Path, Mapping[str, str | bytes]], Path],
) -> None:
    """What was staged is the working directory, importable, with data files and running scripts."""
    files = {
        "pkg/mod.py": "",
        "data.bin": "data\n",
        "run.sh": "#!/bin/sh\necho ran; cat data.bin\n",
    }
    root = write_tree(tmp_path / "flows", files)
    reference = stage_directory(root, GcsCodeStore(storage.bucket)).stored.reference
    env = {
        "STORAGE_EMULATOR_HOST": storage.url,
        "PREFECT_VERTEX_CODE_URI": reference.uri,
        "PREFECT_VERTEX_CODE_SHA256": reference.sha256,
        "PYTHONPATH": "/image/lib",
    }

    found = bootstrap(sys.executable, "-c", WHERE, env=env)
    directory, module, path = last_json(found.stdout)
    script = bootstrap("./run.sh", "x", env=env)

    assert module == f"{directory}/pkg/mod.py"
    assert path == f"{directory}:/image/lib"
    assert Path(directory).name == "code"
    assert Path(directory).is_relative_to(tmp_path / "tmp")
    assert script.code == 0
    assert script.stdout.endswith("\nran\ndata\n")


def test_children_of_the_command_find_the_code_too(
    bootstrap: Callable[..., Any],
    zipped: Callable[..., bytes],
    code_env: Callable[[bytes], dict[str, str]],
) -> None:
    env = code_env(zipped({"pkg/mod.py": "", "pkg/__init__.py": ""}))
    child = f"cd / && exec {sys.executable} -c 'import pkg.mod; print(pkg.mod.__file__)'"

    assert bootstrap("sh", "-c", child, env=env).stdout.endswith("/code/pkg/mod.py\n")


def test_without_an_archive_the_image_is_left_as_it_is(
    bootstrap: Callable[..., Any], tmp_path: Path
) -> None:
    ended = bootstrap("sh", "-c", "pwd; env")

    assert ended.stdout.startswith(f"{tmp_path / 'work'}\n")
    assert "PYTHONPATH" not in ended.stdout


@pytest.mark.parametrize("digest", ["0" * 64, "", None])
def test_another_digest_than_the_expected_runs_nothing(
    bootstrap: Callable[..., Any],
    zipped: Callable[..., bytes],
    code_env: Callable[[bytes], dict[str, str]],
    tmp_path: Path,
    digest: str | None,
) -> None:
    archive = zipped({"x.py": ""})
    env = code_env(archive)
    env.pop("PREFECT_VERTEX_CODE_SHA256")
    if digest is not None:
        env["PREFECT_VERTEX_CODE_SHA256"] = digest

    ended = bootstrap("touch", str(tmp_path / "ran"), env=env)

    assert ended.code == 72
    assert hashlib.sha256(archive).hexdigest() in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "ran").exists()
    assert not list((tmp_path / "tmp").glob("*/code"))


@pytest.mark.parametrize(
    "name",
    ["../x", "a/../../x", "/etc/x", "//x", "a//x", "./x", "..\\x", "C:\\x", "C:x", "a/..", "x\0y"],
)
def test_entries_that_leave_the_directory_are_refused(
    bootstrap: Callable[..., Any],
    zipped: Callable[..., bytes],
    code_env: Callable[[bytes], dict[str, str]],
    tmp_path: Path,
    name: str,
) -> None:
    """Nothing at all is written then, not even the entries before it."""
    archive = zipped({"good.py": "", name.replace("\0", "#"): "evil"})
    env = code_env(archive.replace(b"x#y", b"x\0y"))

    ended = bootstrap("touch", str(tmp_path / "ran"), env=env)

    assert ended.code == 72
    assert "holds an entry that is refused" in ended.stderr
    assert not (tmp_path / "ran").exists()
    assert not list(tmp_path.rglob("good.py"))


def test_links_in_an_archive_are_refused(
    bootstrap: Callable[..., Any], code_env: Callable[[bytes], dict[str, str]]
) -> None:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        link = zipfile.ZipInfo("out")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc")

    ended = bootstrap("true", env=code_env(buffer.getvalue()))

    assert (ended.code, "'out'" in ended.stderr) == (72, True)


@pytest.mark.parametrize("damage", [b"not a zip archive", None])
def test_an_archive_that_cannot_be_read_is_one_line(
    bootstrap: Callable[..., Any],
    zipped: Callable[..., bytes],
    code_env: Callable[[bytes], dict[str, str]],
    damage: bytes | None,
) -> None:
    flipped = zipped({"x.py": "content"}).replace(b"content", b"CONTENT")

    ended = bootstrap("true", env=code_env(damage or flipped))

    assert ended.code == 72
    assert ended.stderr.startswith("prefect-vertex: the code archive cannot be read")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("uri", "code", "words"),
    [
        ("gs://absent-bucket/x.zip", 71, "HTTP 404 Not Found; stage the code again"),
        ("gs://bucket-alone", 78, "is not gs://bucket/object"),
        ("s3://bucket/x.zip", 78, "is not gs://bucket/object"),
    ],
)
def test_an_address_without_an_archive_is_named(
    bootstrap: Callable[..., Any], storage: Any, uri: str, code: int, words: str
) -> None:
    env = {"STORAGE_EMULATOR_HOST": storage.url, "PREFECT_VERTEX_CODE_URI": uri}

    ended = bootstrap("true", env=env)

    assert ended.code == code
    assert uri in ended.stderr
    assert words in ended.stderr


def test_storage_that_is_not_there_is_given_up_after_a_while(
    bootstrap: Callable[..., Any], unused_address: str
) -> None:
    env = {"STORAGE_EMULATOR_HOST": unused_address, "PREFECT_VERTEX_CODE_URI": "gs://b/x.zip"}

    ended = bootstrap("true", env=env, hasty=True)

    assert ended.code == 71
    assert f"cannot fetch gs://b/x.zip from http://{unused_address}" in ended.stderr
    assert "refused" in ended.stderr


def archive_env(archive: bytes, **others: str) -> dict[str, str]:
    return {
        "PREFECT_VERTEX_CODE_URI": "gs://bucket/code/demo 1.zip",
        "PREFECT_VERTEX_CODE_SHA256": hashlib.sha256(archive).hexdigest(),
        **others,
    }


def test_a_flaky_download_is_repeated(
    bootstrap: Callable[..., Any], serve: Callable[..., Any], zipped: Callable[..., bytes]
) -> None:
    """A hang-up, a 503 and a 429 later the archive is there; no token goes to the emulator."""
    archive = zipped({"x.py": ""})
    answers = iter([(0, b""), (503, b""), (429, b""), (200, archive)])
    server = serve(lambda _: next(answers))

    ended = bootstrap("true", env=archive_env(archive, STORAGE_EMULATOR_HOST=server.url))

    assert (ended.code, ended.stderr) == (0, "")
    assert [asked.path for asked in server.asked] == [
        "/storage/v1/b/bucket/o/code%2Fdemo%201.zip?alt=media"
    ] * 4
    assert not any("Authorization" in asked.headers for asked in server.asked)


def test_an_answer_that_ends_early_is_repeated(
    bootstrap: Callable[..., Any], zipped: Callable[..., bytes], tmp_path: Path
) -> None:
    """Half an archive is the network's fault, not a wrong digest."""
    archive = zipped({"x.py": "0" * 5000})
    served = tmp_path / "cut.py"
    served.write_text(_CUTTING_SERVER.format(archive=archive))
    with subprocess.Popen([sys.executable, served], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            address = server.stdout.readline().strip()
            ended = bootstrap("true", env=archive_env(archive, STORAGE_EMULATOR_HOST=address))
        finally:
            server.terminate()

    assert (ended.code, ended.stderr) == (0, "")


_CUTTING_SERVER = """
import socket
archive = {archive!r}
head = f"HTTP/1.1 200 OK\\r\\nContent-Length: {{len(archive)}}\\r\\n\\r\\n".encode()
listener = socket.create_server(("127.0.0.1", 0))
print("127.0.0.1:%d" % listener.getsockname()[1], flush=True)
for end in (100, len(archive)):
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(head + archive[:end])
    connection.close()
"""


@pytest.mark.parametrize(("breaks_after", "tries"), [([90.0, 0.0], 3), ([90.0, 90.0], 2)])
def test_a_try_that_breaks_late_is_repeated_and_those_after_it_only_for_a_minute(
    breaks_after: list[float], tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, made = 1000.0, 0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    def download() -> str:
        nonlocal made
        made += 1
        if made > len(breaks_after):
            return "digest"
        sleep(breaks_after[made - 1])
        raise ConnectionError("broken")

    monkeypatch.setattr(web, "time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    with contextlib.suppress(ConnectionError):
        assert web.persist(download) == "digest"
    assert made == tries


# --- with a token: Cloud Storage itself, at an address that the test can serve --------------------


@pytest.fixture
def cloud_bootstrap(bootstrap_env: dict[str, str]) -> Callable[..., Any]:
    """Run the bootstrap with Cloud Storage's address replaced, and nothing else."""

    def run(address: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        real = '"https://storage.googleapis.com"'
        assert bootstrap_source().count(real) == 1
        packed = pack_source(bootstrap_source().replace(real, repr(address)))
        return subprocess.run(
            [sys.executable, "-I", "-S", "-c", packed, "true"],
            env={**bootstrap_env, **env},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_a_metadata_server_that_is_not_up_yet_is_waited_for(
    serve: Callable[..., Any], zipped: Callable[..., bytes], cloud_bootstrap: Callable[..., Any]
) -> None:
    """It hangs up, answers 503, 404 and nonsense while it starts; then its token is used."""
    archive = zipped({"x.py": ""})
    token = b'{"access_token": "t0ken", "expires_in": 99}'
    answers = iter([(0, b""), (503, b""), (404, b""), (200, b"<html>"), (200, token)])
    metadata = serve(lambda _: next(answers))
    bucket = serve(lambda _: (200, archive))
    env = archive_env(
        archive,
        GCE_METADATA_HOST=metadata.address,
        http_proxy="http://127.0.0.1:9",
        no_proxy=bucket.address,
    )

    ended = cloud_bootstrap(bucket.url, env)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert len(metadata.asked) == 5
    assert {asked.headers.get("Metadata-Flavor") for asked in metadata.asked} == {"Google"}
    assert [asked.headers.get("Authorization") for asked in bucket.asked] == ["Bearer t0ken"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_names_account_and_scopes(
    serve: Callable[..., Any], cloud_bootstrap: Callable[..., Any], status: int
) -> None:
    """With those two a person knows what to grant; the token itself is never shown."""
    values = {
        "token": b'{"access_token": "t0ken"}',
        "email": b"runner@p.iam.gserviceaccount.com",
        "scopes": b"https://a/devstorage.read_only\nhttps://a/logging.write\n",
    }
    metadata = serve(lambda asked: (200, values[asked.path.rpartition("/")[2]]))
    bucket = serve(lambda _: (status, b""))

    ended = cloud_bootstrap(bucket.url, archive_env(b"", GCE_METADATA_HOST=metadata.address))

    assert ended.returncode == 71
    assert f"HTTP {status}" in ended.stderr
    assert "account runner@p.iam.gserviceaccount.com" in ended.stderr
    assert "scopes https://a/devstorage.read_only https://a/logging.write" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "t0ken" not in ended.stderr + ended.stdout
    assert len(bucket.asked) == 1


def test_a_metadata_server_that_never_comes_is_given_up(
    bootstrap: Callable[..., Any], unused_address: str
) -> None:
    env = archive_env(b"", GCE_METADATA_HOST=unused_address)

    ended = bootstrap("true", env=env, hasty=True)

    assert ended.code == 71
    assert "no access token from the metadata server" in ended.stderr


def test_a_signal_during_the_download_ends_it(
    serve: Callable[..., Any],
    bootstrap_env: dict[str, str],
    wait_until: Callable[..., None],
) -> None:
    """Every process has that default, but for PID 1: so the handlers come first."""
    server = serve(lambda _: (503, b""))
    env = archive_env(b"", STORAGE_EMULATOR_HOST=server.url)
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", packed_bootstrap(), "true"],
        env={**bootstrap_env, **env},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: bool(server.asked), "the download")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate()

    assert process.returncode == 143
    assert stderr == "prefect-vertex: ended by signal 15 before the command began\n"
