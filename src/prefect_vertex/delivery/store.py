"""The staging bucket: an archive is uploaded once, under a name that its content determines."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from prefect_vertex.delivery.bundle import Bundle
from prefect_vertex.errors import CodeStoreError
from prefect_vertex.planning.code import CodeReference

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0  # of silence, not for the whole upload

_ATTEMPTS = 4
_FOLDER = "code"
_LOCATION = re.compile(r"(?:gs://)?([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(.*))?")
_PART_LENGTH = 63
_KEY_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_EMULATOR = "STORAGE_EMULATOR_HOST"
_CHATTY = ("urllib3.connectionpool", "google.auth.compute_engine._metadata")


_Error = TypeVar("_Error", bound=BaseException)
_KEY_HINT = (
    f"Set {_KEY_FILE} to a service account's whole key file, or unset it and run"
    " `gcloud auth application-default login`."
)


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
        if match is None or any(len(part) > _PART_LENGTH for part in match[1].split(".")):
            raise CodeStoreError(
                f"{location!r} is not a bucket: a name has 3 to 63 characters (more between dots),"
                " lower-case letters, digits, '-', '_' and '.', with a letter or digit at both"
                " ends.",
                hint="Set staging_bucket (of stage-code: --bucket) to a bucket name or to"
                " gs://bucket/prefix.",
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
        with _quiet(), _translated(uri, self._bucket_name):
            blob = self._bucket.blob(name)
            uploaded = not self._is_there(blob, bundle) and self._create(blob, bundle)
        return StoredCode(reference=CodeReference(uri, bundle.sha256), uploaded=uploaded)

    @cached_property
    def _bucket(self) -> Any:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.storage import Client

        credentials = self._credentials
        if emulator := os.environ.get(_EMULATOR):
            if not emulator.startswith(("http://", "https://")):
                raise CodeStoreError(
                    f"Cannot upload to {self._bucket_name}: {_EMULATOR} is {emulator!r}, without"
                    " http:// before it.",
                    hint=f"Set {_EMULATOR}=http://{emulator.rpartition('//')[2]}",
                )
            credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]  # google-auth's
        elif credentials is None and (fault := _key_file_fault()):
            raise CodeStoreError(f"Cannot upload to {self._bucket_name}: {fault}", hint=_KEY_HINT)
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


def _key_file_fault() -> str:
    """Say what is wrong with the file that the environment names; empty where that is not seen.

    Google's library words some of these faults badly, and lets others escape as other errors.
    """
    path = os.environ.get(_KEY_FILE)
    if not path:
        return ""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        fault = "there is no such file"
    except OSError as error:
        fault = f"it cannot be read: {error.strerror}"
    except ValueError:
        # Without the decoder's words: they may quote the file, which is a secret.
        fault = "it is not JSON"
    else:
        if isinstance(content, dict) and content.get("type"):
            return ""
        fault = "it is no key file: it holds no JSON object with a type"
    return f"{_KEY_FILE} is {path}: {fault}."


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' warnings of each repetition quiet; the error at the end says it once."""
    loggers = [logging.getLogger(name) for name in _CHATTY]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _translated(uri: str, bucket: str) -> Iterator[None]:
    """Rename what Google's client raises; one line each, the original as its cause."""
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    try:
        yield
    except GoogleAuthError as error:
        raise _credentials_error(uri, error) from error
    except exceptions.NotFound as error:
        raise CodeStoreError(
            f"Cannot upload {uri}: there is no bucket {bucket}.",
            hint=f"Create it (`gcloud storage buckets create gs://{bucket}`; for the emulator:"
            f" `prefect-vertex emulator start --bucket {bucket}`), or correct"
            " staging_bucket (of stage-code: --bucket).",
        ) from error
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        raise CodeStoreError(
            f"Cannot upload {uri}: {_line(error)}",
            hint=f"Grant this account roles/storage.objectUser on gs://{bucket}.",
        ) from error
    except exceptions.GoogleAPICallError as error:
        raise CodeStoreError(f"Cannot upload {uri}: {_line(error)}") from error
    except requests.RequestException as error:
        where = os.environ.get(_EMULATOR)
        raise CodeStoreError(
            f"Cannot upload {uri}: {where or 'Cloud Storage'} does not answer"
            f" ({type(error).__name__}).",
            hint=f"Start the emulator, or unset {_EMULATOR}."
            if where
            else "Check this machine's network and proxy.",
        ) from error


def _credentials_error(uri: str, error: Exception) -> CodeStoreError:
    import requests
    from google.auth.exceptions import DefaultCredentialsError

    # Google's further arguments: another error, or the token service's whole answer.
    reason = ": ".join(_line(part) for part in error.args if not isinstance(part, dict))
    network = _cause(error, requests.RequestException)
    if network is not None:
        host = urlsplit(getattr(network.request, "url", None) or "").hostname
        service = f"Google's token service {host or ''}".strip()
        return CodeStoreError(
            f"Cannot upload {uri}: {service} did not answer ({type(network).__name__}).",
            hint="Check this machine's network and proxy.",
        )
    if not isinstance(error, DefaultCredentialsError):
        return CodeStoreError(
            f"Cannot upload {uri}: the Google credentials are not accepted: {reason}",
            hint="Run `gcloud auth application-default login` again.",
        )
    if path := os.environ.get(_KEY_FILE):
        return CodeStoreError(
            f"Cannot upload {uri}: {_KEY_FILE} is {path}: {reason}", hint=_KEY_HINT
        )
    return CodeStoreError(
        f"Cannot upload {uri}: there are no Google credentials on this machine.",
        hint="Run `gcloud auth application-default login`, or set"
        f" {_KEY_FILE} to a service account's key file.",
    )


def _cause(error: BaseException | None, kind: type[_Error]) -> _Error | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error


def _line(error: object) -> str:
    return " ".join(str(error).split())
