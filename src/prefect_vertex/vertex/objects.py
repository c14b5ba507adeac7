"""Objects of Cloud Storage by its REST API, as little of it as launch records need."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol
from urllib.parse import quote

import anyio

from prefect_vertex.errors import CodeStoreError
from prefect_vertex.vertex.rest import GoogleRest, RestAnswer

_JSON: Final = "application/json"
_SERVICE: Final = "storage"
_EMULATOR: Final = "STORAGE_EMULATOR_HOST"
_PAUSES: Final = (1.0, 5.0)
_PASSING: Final = frozenset({0, 408, 429, 500, 502, 503, 504})
_REFUSED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


class Objects(Protocol):
    """Objects that are JSON, under `gs://bucket/name`."""

    async def put_once(self, uri: str, content: bytes, *, key: str = "") -> bool:
        """Write an object that is not there yet; False where it is, which leaves it as it is.

        Args:
            uri: Its own.
            content: A JSON object.
            key: Of the credentials to write with.

        Raises:
            CodeStoreError: The bucket refused, is missing, or did not answer.
        """
        ...


class GcsObjects:
    """`Objects` in Cloud Storage, or in its emulator.

    Args:
        rest: Asks.
        pauses: Seconds before each repetition of a request that may yet succeed.
    """

    def __init__(self, rest: GoogleRest, *, pauses: Sequence[float] = _PAUSES) -> None:
        self._rest = rest
        self._pauses = pauses

    async def put_once(self, uri: str, content: bytes, *, key: str = "") -> bool:
        """Write an object that is not there yet; see `Objects.put_once`."""
        bucket, name = _parts(uri)
        answer = await self._ask(
            f"upload/storage/v1/b/{bucket}/o",
            key=key,
            content=_multipart(name, content),
            params={"uploadType": "multipart", "name": name, "ifGenerationMatch": "0"},
        )
        if answer.status == HTTPStatus.PRECONDITION_FAILED:
            # Also where the answer to our own first request was lost.
            return False
        if not answer.ok:
            raise _error(
                f"Could not write {uri}", bucket, answer, role="roles/storage.objectCreator"
            )
        return True

    async def read(self, uri: str, *, key: str = "") -> Mapping[str, Any]:
        """The JSON object that an object holds; empty where it holds none.

        Raises:
            CodeStoreError: It is not there, or the bucket refused or did not answer.
        """
        bucket, name = _parts(uri)
        path = f"storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        answer = await self._ask(path, key=key, params={"alt": "media"})
        if not answer.ok:
            raise _error(f"Could not read {uri}", bucket, answer, role="roles/storage.objectViewer")
        return answer.body

    async def is_there(self, uri: str, *, key: str = "") -> bool | None:
        """Whether an object exists; None where that is not said."""
        bucket, name = _parts(uri)
        answer = await self._ask(f"storage/v1/b/{bucket}/o/{quote(name, safe='')}", key=key)
        if answer.status == HTTPStatus.NOT_FOUND:
            return False
        return True if answer.ok else None

    async def _ask(self, path: str, **request: Any) -> RestAnswer:
        answer = await self._rest.ask(_SERVICE, path, **request)
        for pause in self._pauses:
            if answer.status not in _PASSING or not answer.asked:
                break
            await anyio.sleep(pause)
            answer = await self._rest.ask(_SERVICE, path, **request)
        return answer


def _multipart(name: str, content: bytes) -> tuple[str, bytes]:
    """Media type and body of an upload with its metadata.

    The emulator minds `ifGenerationMatch` in this kind of upload only (read 2026-11).
    """
    # JSON has no line that begins so.
    boundary = "==prefect-vertex=="
    metadata = json.dumps({"name": name, "contentType": _JSON}).encode()
    parts = b"".join(
        f"--{boundary}\r\nContent-Type: {_JSON}\r\n\r\n".encode() + part + b"\r\n"
        for part in (metadata, content)
    )
    return f'multipart/related; boundary="{boundary}"', parts + f"--{boundary}--\r\n".encode()


def _parts(uri: str) -> tuple[str, str]:
    """Bucket and name.

    Raises:
        CodeStoreError: It is not the address of an object.
    """
    bucket, _, name = uri.removeprefix("gs://").partition("/")
    if not uri.startswith("gs://") or not bucket or not name:
        raise CodeStoreError(f"{uri} names no object: expected gs://bucket/object.")
    return bucket, name


def _error(attempted: str, bucket: str, answer: RestAnswer, *, role: str) -> CodeStoreError:
    if answer.status == HTTPStatus.NOT_FOUND:
        return CodeStoreError(
            f"{attempted}: there is no such bucket or object.",
            hint=(
                f"{_EMULATOR} is set: the emulator was asked, which keeps objects only with --data."
                if os.environ.get(_EMULATOR)
                else f"`gcloud storage ls gs://{bucket}/` shows what there is."
            ),
        )
    hint = ""
    if answer.status in _REFUSED:
        hint = f"Grant this account {role} on gs://{bucket}."
    elif not answer.asked:
        hint = f"Set {_EMULATOR} to where the emulator's Cloud Storage is."
    elif os.environ.get(_EMULATOR):
        hint = f"Start the emulator, or unset {_EMULATOR}."
    problem = answer.problem.rstrip(".") or f"HTTP status {answer.status}"
    return CodeStoreError(f"{attempted}: {problem}.", hint=hint)
