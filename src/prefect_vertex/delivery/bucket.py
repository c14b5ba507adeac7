"""A bucket of Cloud Storage: how it is opened and asked, and what its refusals mean to a user."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from prefect_vertex.errors import CodeStoreError

CONNECT_SECONDS = 10.0
READ_SECONDS = 120.0  # of silence, not for the whole transfer

_ATTEMPTS = 4
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


class GcsBucket:
    """A bucket, or its emulator's where `STORAGE_EMULATOR_HOST` says so. Nothing is opened yet.

    Args:
        location: Bucket name, or `gs://bucket/prefix`.
        setting: Where a user wrote that, for messages.
        credentials: google-auth credentials; by default the machine's own (ADC). The emulator
            gets none.
        pause_seconds: Before the first repetition of a failed call; doubled for each further one.

    Raises:
        CodeStoreError: `location` names no bucket.
    """

    def __init__(
        self,
        location: str,
        *,
        setting: str,
        credentials: Any = None,
        pause_seconds: float = 0.5,
    ) -> None:
        match = _LOCATION.fullmatch(location.strip())
        if match is None or any(len(part) > _PART_LENGTH for part in match[1].split(".")):
            raise CodeStoreError(
                f"{location!r} is not a bucket: a name has 3 to 63 characters (more between dots),"
                " lower-case letters, digits, '-', '_' and '.', with a letter or digit at both"
                " ends.",
                hint=f"Set {setting} to a bucket name or to gs://bucket/prefix.",
            )
        self.name = match[1]
        self.prefix = (match[2] or "").strip("/")
        self._setting = setting
        self._credentials = credentials
        self._pause_seconds = pause_seconds
        self._action = "upload"

    def uri(self, name: str) -> str:
        """An object's address."""
        return f"gs://{self.name}/{name}"

    def blob(self, name: str) -> Any:
        """Google's handle of an object; nothing is asked."""
        return self._bucket.blob(name)

    @contextmanager
    def speaking_of(self, name: str, action: str) -> Iterator[None]:
        """Rename what Google's client raises; one line each, the original as its cause.

        Args:
            name: The object.
            action: What is done, for messages: upload, download.

        Raises:
            CodeStoreError: The bucket refused, is missing, or did not answer.
        """
        self._action = action
        with _quiet(), _translated(self.uri(name), self.name, action, self._setting):
            yield

    def call(self, method: Any, *args: Any, **options: Any) -> Any:
        """Call one of a blob's methods, and again while the service is ill."""
        attempts = Retrying(
            retry=retry_if_exception(_is_transient),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(multiplier=self._pause_seconds, max=10),
            reraise=True,
        )
        # Repeated here, so that Google's own retries (two minutes, silently) stay out.
        timeout = (CONNECT_SECONDS, READ_SECONDS)
        return attempts(method, *args, timeout=timeout, retry=None, **options)

    @cached_property
    def _bucket(self) -> Any:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.storage import Client

        credentials, attempted = self._credentials, f"Cannot {self._action} to {self.name}"
        if self._action != "upload":
            attempted = f"Cannot {self._action} from {self.name}"
        if emulator := os.environ.get(_EMULATOR):
            if not emulator.startswith(("http://", "https://")):
                raise CodeStoreError(
                    f"{attempted}: {_EMULATOR} is {emulator!r}, without http:// before it.",
                    hint=f"Set {_EMULATOR}=http://{emulator.rpartition('//')[2]}",
                )
            credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]  # google-auth's
        elif credentials is None and (fault := _key_file_fault()):
            raise CodeStoreError(f"{attempted}: {fault}", hint=_KEY_HINT)
        # The project is of no use here, and looking for one can fail.
        return Client(project=None, credentials=credentials).bucket(self.name)


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
def _translated(uri: str, bucket: str, action: str, setting: str) -> Iterator[None]:
    import requests
    from google.api_core import exceptions
    from google.auth.exceptions import GoogleAuthError

    attempted = f"Cannot {action} {uri}"
    try:
        yield
    except GoogleAuthError as error:
        raise _credentials_error(attempted, error) from error
    except exceptions.NotFound as error:
        if action != "upload":
            raise CodeStoreError(
                f"{attempted}: it is not there.",
                hint=f"It was deleted, or never stored, or {setting} is another bucket.",
            ) from error
        raise CodeStoreError(
            f"{attempted}: there is no bucket {bucket}.",
            hint=f"Create it (`gcloud storage buckets create gs://{bucket}`; for the emulator:"
            f" `prefect-vertex emulator start --bucket {bucket}`), or correct {setting}.",
        ) from error
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        raise CodeStoreError(
            f"{attempted}: {_line(error)}",
            hint=f"Grant this account roles/storage.objectUser on gs://{bucket}.",
        ) from error
    except exceptions.GoogleAPICallError as error:
        raise CodeStoreError(f"{attempted}: {_line(error)}") from error
    except requests.RequestException as error:
        where = os.environ.get(_EMULATOR)
        raise CodeStoreError(
            f"{attempted}: {where or 'Cloud Storage'} does not answer ({type(error).__name__}).",
            hint=f"Start the emulator, or unset {_EMULATOR}."
            if where
            else "Check this machine's network and proxy.",
        ) from error


def _credentials_error(attempted: str, error: Exception) -> CodeStoreError:
    import requests
    from google.auth.exceptions import DefaultCredentialsError

    # Google's further arguments: another error, or the token service's whole answer.
    reason = ": ".join(_line(part) for part in error.args if not isinstance(part, dict))
    network = _cause(error, requests.RequestException)
    if network is not None:
        host = urlsplit(getattr(network.request, "url", None) or "").hostname
        service = f"Google's token service {host or ''}".strip()
        return CodeStoreError(
            f"{attempted}: {service} did not answer ({type(network).__name__}).",
            hint="Check this machine's network and proxy.",
        )
    if not isinstance(error, DefaultCredentialsError):
        return CodeStoreError(
            f"{attempted}: the Google credentials are not accepted: {reason}",
            hint="Run `gcloud auth application-default login` again.",
        )
    if path := os.environ.get(_KEY_FILE):
        return CodeStoreError(f"{attempted}: {_KEY_FILE} is {path}: {reason}", hint=_KEY_HINT)
    return CodeStoreError(
        f"{attempted}: there are no Google credentials on this machine.",
        hint="Run `gcloud auth application-default login`, or set"
        f" {_KEY_FILE} to a service account's key file.",
    )


def _cause(error: BaseException | None, kind: type[_Error]) -> _Error | None:
    while error is not None and not isinstance(error, kind):
        error = error.__cause__
    return error


def _line(error: object) -> str:
    return " ".join(str(error).split())
