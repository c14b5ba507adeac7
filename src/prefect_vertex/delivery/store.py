"""The staging bucket: an archive is uploaded once, under a name that its content determines."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from prefect_vertex.delivery.bundle import Bundle
from prefect_vertex.errors import CodeStoreError
from prefect_vertex.planning.code import CodeReference

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0  # of silence, not for the whole upload

_ATTEMPTS = 4
_FOLDER = "code"
_LOCATION = re.compile(r"(?:gs://)?([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(.*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCode:
    """What an upload came to.

    Attributes:
        reference: Where the archive lies; for `code_uri` and `code_sha256`.
        uploaded: False where it was there already.
    """

    reference: CodeReference
    uploaded: bool


class CodeStore(Protocol):
    """Keeps archives under names that their content determines."""

    def upload(self, bundle: Bundle) -> StoredCode:
        """Store the archive unless it is there; safe to repeat and to race.

        Raises:
            CodeStoreError: The store refused, is missing, or did not answer.
        """
        ...


class GcsCodeStore:
    """A bucket of Cloud Storage, or of its emulator where `STORAGE_EMULATOR_HOST` says so.

    Args:
        location: Bucket name, or `gs://bucket/prefix`. Archives lie below `<prefix>/code/`.
        credentials: google-auth credentials; by default the machine's own (ADC). The emulator
            gets none.
        pause_seconds: Before the first repetition of a failed call; doubled for each further one.

    Raises:
        CodeStoreError: `location` names no bucket.
    """

    def __init__(
        self, location: str, *, credentials: Any = None, pause_seconds: float = 0.5
    ) -> None:
        match = _LOCATION.fullmatch(location.strip())
        if match is None:
            raise CodeStoreError(
                f"{location!r} is not a bucket.",
                hint="Set staging_bucket to a bucket name or to gs://bucket/prefix.",
            )
        self._bucket_name = match[1]
        prefix = (match[2] or "").strip("/")
        self._folder = f"{prefix}/{_FOLDER}" if prefix else _FOLDER
        self._credentials = credentials
        self._pause_seconds = pause_seconds

    def upload(self, bundle: Bundle) -> StoredCode:
        """Upload the archive unless it is there. Blocks; see `CodeStore.upload`."""
        name = f"{self._folder}/{bundle.name}"
        uri = f"gs://{self._bucket_name}/{name}"
        with _translated(uri, self._bucket_name):
            blob = self._bucket.blob(name)
            uploaded = not self._is_there(blob, bundle) and self._create(blob, bundle)
        return StoredCode(reference=CodeReference(uri, bundle.sha256), uploaded=uploaded)

    @cached_property
    def _bucket(self) -> Any:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.storage import Client

        credentials = self._credentials
        if os.environ.get("STORAGE_EMULATOR_HOST"):
            credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]  # google-auth's
        # The project is of no use here, and looking for one can fail.
        return Client(project=None, credentials=credentials).bucket(self._bucket_name)

    def _is_there(self, blob: Any, bundle: Bundle) -> bool:
        from google.api_core import exceptions

        try:
            self._call(blob.reload)
        except (exceptions.NotFound, exceptions.Forbidden):
            # Forbidden: an account that may only create sees nothing.
            return False
        if blob.size != bundle.size:
            raise CodeStoreError(
                f"gs://{blob.bucket.name}/{blob.name} is not the archive of that name: it has"
                f" {blob.size} bytes, not {bundle.size}.",
                hint="Delete it, and stage again.",
            )
        return True

    def _create(self, blob: Any, bundle: Bundle) -> bool:
        from google.api_core import exceptions

        try:
            self._call(
                blob.upload_from_filename,
                str(bundle.path),
                content_type="application/zip",
                if_generation_match=0,
            )
        except exceptions.PreconditionFailed:
            # Somebody else was quicker, or an answer to our own upload was lost.
            return False
        return True

    def _call(self, method: Any, *args: Any, **options: Any) -> None:
        attempts = Retrying(
            retry=retry_if_exception(_is_transient),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(multiplier=self._pause_seconds, max=10),
            reraise=True,
        )
        # Repeated here, so that Google's own retries (two minutes, silently) stay out.
        attempts(method, *args, timeout=(CONNECT_SECONDS, READ_SECONDS), retry=None, **options)


def _is_transient(error: BaseException) -> bool:
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import TransportError

    return isinstance(
        error,
        (
            exceptions.ServerError,
            exceptions.TooManyRequests,
            requests.ConnectionError,
            requests.Timeout,
            TransportError,
        ),
    )


@contextmanager
def _translated(uri: str, bucket: str) -> Iterator[None]:
    """Rename what Google's client raises; one line each, the original as its cause."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError

    try:
        yield
    except DefaultCredentialsError as error:
        raise CodeStoreError(
            f"Cannot upload {uri}: there are no Google credentials on this machine.",
            hint="Run `gcloud auth application-default login`, or set"
            " GOOGLE_APPLICATION_CREDENTIALS to a service account's key file.",
        ) from error
    except GoogleAuthError as error:
        raise CodeStoreError(
            f"Cannot upload {uri}: the Google credentials are not accepted: {_line(error)}",
            hint="Run `gcloud auth application-default login` again.",
        ) from error
    except exceptions.NotFound as error:
        raise CodeStoreError(
            f"Cannot upload {uri}: there is no bucket {bucket}.",
            hint=f"Create it (`gcloud storage buckets create gs://{bucket}`; for the emulator:"
            f" `prefect-vertex emulator start --bucket {bucket}`), or correct staging_bucket.",
        ) from error
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        raise CodeStoreError(
            f"Cannot upload {uri}: {_line(error)}",
            hint=f"Grant this account roles/storage.objectUser on gs://{bucket}.",
        ) from error
    except exceptions.GoogleAPICallError as error:
        raise CodeStoreError(f"Cannot upload {uri}: {_line(error)}") from error
    except requests.RequestException as error:
        where = os.environ.get("STORAGE_EMULATOR_HOST")
        raise CodeStoreError(
            f"Cannot upload {uri}: {where or 'Cloud Storage'} does not answer"
            f" ({type(error).__name__}).",
            hint="Start the emulator, or unset STORAGE_EMULATOR_HOST."
            if where
            else "Check this machine's network and proxy.",
        ) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
