"""The Cloud Storage server, through Google's own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Client

from prefect_vertex.cli.storage import StorageServer
from prefect_vertex.errors import SetupError


def client_of(server: StorageServer) -> Any:
    options = {"api_endpoint": server.address}
    credentials: Any = AnonymousCredentials
    return Client("demo", credentials(), client_options=options)


@pytest.fixture(scope="module")
def server() -> Iterator[StorageServer]:
    with StorageServer() as started:
        yield started


def test_object_comes_back_as_it_was_sent(server: StorageServer) -> None:
    server.create_bucket("round-trip")
    content = bytes(range(256)) * 50_000
    blob = client_of(server).bucket("round-trip").blob("a/b.bin", chunk_size=1 << 20)

    blob.upload_from_string(content)

    assert blob.download_as_bytes() == content


def test_generation_precondition_is_kept(server: StorageServer) -> None:
    server.create_bucket("once")
    blob = client_of(server).bucket("once").blob("only")
    blob.upload_from_string(b"first", if_generation_match=0)

    with pytest.raises(exceptions.PreconditionFailed):
        blob.upload_from_string(b"second", if_generation_match=0)


def test_bucket_that_exists_stays_as_it_is(server: StorageServer) -> None:
    server.create_bucket("kept")
    client_of(server).bucket("kept").blob("object").upload_from_string(b"x")

    server.create_bucket("kept")

    assert client_of(server).bucket("kept").blob("object").exists()


def test_objects_in_a_directory_outlive_the_server(tmp_path: Path) -> None:
    with StorageServer(data=tmp_path) as first:
        first.create_bucket("bucket")
        client_of(first).bucket("bucket").blob("object").upload_from_string(b"content")

    with StorageServer(data=tmp_path) as second:
        content = client_of(second).bucket("bucket").blob("object").download_as_bytes()

    assert content == b"content"


def test_stopped_server_leaves_no_process() -> None:
    before = psutil.Process().children(recursive=True)
    server = StorageServer()
    server.start()
    started = [p for p in psutil.Process().children(recursive=True) if p not in before]
    assert len(started) == 2

    server.stop()
    server.stop()

    assert not any(process.is_running() for process in started)


def test_port_in_use_is_a_setup_error(server: StorageServer) -> None:
    port = int(server.address.rpartition(":")[2])

    with pytest.raises(SetupError, match=f"on port {port}: Address already in use"):
        StorageServer(port=port).start()
