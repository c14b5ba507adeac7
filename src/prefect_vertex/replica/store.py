"""One folder of a bucket of Cloud Storage, as little of it as the replicas need."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from prefect_vertex.errors import ReplicaError

_EMULATOR = "STORAGE_EMULATOR_HOST"
_SCHEME = "gs://"
_CONNECT_SECONDS = 10.0
_CALL_SECONDS = 60.0
_PATIENCE_SECONDS = 60.0
_DELETERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An object as a listing shows it.

    Attributes:
        updated: When the store last saw it change, by the store's own clock.
        notes: The object's custom metadata.
    """

    updated: datetime
    notes: Mapping[str, str] = field(default_factory=dict)


class Folder:
    """Objects below one prefix. Calls block; a failed one is repeated for a minute.

    Args:
        location: `gs://bucket/path`.
        patience_seconds: How long a call that fails for a passing reason is repeated.
        call_seconds: How long one call may be without an answer.
    """

    def __init__(
        self,
        location: str,
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
        call_seconds: float = _CALL_SECONDS,
    ) -> None:
        bucket, _, path = location.removeprefix(_SCHEME).partition("/")
        self.location = location
        self._bucket_name = bucket
        self._path = path.strip("/")
        self._patience_seconds = patience_seconds
        self._timeout = (min(_CONNECT_SECONDS, call_seconds), call_seconds)

    def put_once(self, name: str, content: bytes) -> bool:
        """Create an object; False where it was there already, which leaves it as it is."""
        from google.api_core import exceptions

        with self._translated("write", name):
            try:
                self._blob(name).upload_from_string(
                    content, if_generation_match=0, timeout=self._timeout, retry=self._retry
                )
            except exceptions.PreconditionFailed:
                # Also where the answer to our own first request was lost.
                return False
        return True

    def put(self, name: str, content: bytes, notes: Mapping[str, str]) -> None:
        """Write an object over what was there, with notes that a listing shows."""
        with self._translated("write", name):
            blob = self._blob(name)
            blob.metadata = dict(notes)
            blob.upload_from_string(content, timeout=self._timeout, retry=self._retry)

    def get(self, name: str) -> bytes:
        """Read an object."""
        with self._translated("read", name):
            content: bytes = self._blob(name).download_as_bytes(
                timeout=self._timeout, retry=self._retry
            )
        return content

    def entries(self, prefix: str) -> dict[str, Entry]:
        """The objects whose names begin with a prefix, by the rest of their names."""
        start = self._full(prefix)
        with self._translated("list", prefix):
            found = self._client.list_blobs(
                self._bucket_name,
                prefix=start,
                fields="items(name,updated,metadata),nextPageToken",
                timeout=self._timeout,
                retry=self._retry,
            )
            return {
                blob.name.removeprefix(start): Entry(
                    updated=blob.updated, notes=dict(blob.metadata or {})
                )
                for blob in found
            }

    def clear(self) -> int:
        """Delete everything in the folder; how many objects there were. Safe to repeat."""
        names = list(self.entries(""))
        with self._translated("delete", ""):
            if not threading.main_thread().is_alive():
                # At exit no thread can be begun any more.
                for name in names:
                    self._delete(name)
            else:
                with ThreadPoolExecutor(_DELETERS) as deleters:
                    list(deleters.map(self._delete, names))
        return len(names)

    def delete(self, name: str) -> None:
        """Delete an object, if it is there."""
        with self._translated("delete", name):
            self._delete(name)

    @cached_property
    def _client(self) -> Any:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.storage import Client

        emulated = os.environ.get(_EMULATOR)
        credentials = AnonymousCredentials() if emulated else None  # type: ignore[no-untyped-call]  # google-auth's
        # The project is of no use here, and looking for one can fail.
        return Client(project=None, credentials=credentials)

    @cached_property
    def _retry(self) -> Any:
        from google.cloud.storage.retry import DEFAULT_RETRY

        return DEFAULT_RETRY.with_timeout(self._patience_seconds)

    def _delete(self, name: str) -> None:
        from google.api_core import exceptions

        with contextlib.suppress(exceptions.NotFound):
            self._blob(name).delete(timeout=self._timeout, retry=self._retry)

    def _full(self, name: str) -> str:
        return f"{self._path}/{name}" if self._path else name

    def _blob(self, name: str) -> Any:
        return self._client.bucket(self._bucket_name).blob(self._full(name))

    @contextmanager
    def _translated(self, verb: str, name: str) -> Iterator[None]:
        """Rename what Google's client raises; one line each, the original as its cause."""
        import requests
        from google.api_core import exceptions
        from google.auth.exceptions import GoogleAuthError

        what = f"Cannot {verb} {self.location}/{name}"
        try:
            yield
        except exceptions.NotFound as error:
            raise ReplicaError(
                f"{what}: there is no such bucket or object.",
                hint="Set staging_bucket to a bucket that exists.",
            ) from error
        except (exceptions.Forbidden, exceptions.Unauthorized) as error:
            raise ReplicaError(
                f"{what}: {_line(error)}",
                hint="Grant the job's service account roles/storage.objectUser on"
                f" gs://{self._bucket_name}.",
            ) from error
        except (exceptions.GoogleAPIError, GoogleAuthError, requests.RequestException) as error:
            raise ReplicaError(f"{what}: {type(error).__name__}: {_line(error)}") from error


def _line(error: object) -> str:
    return " ".join(str(error).split())
