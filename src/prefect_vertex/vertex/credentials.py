"""Google credentials from a block's plain values or from the machine (ADC).

`parse_credentials` is pure and knows which credentials are meant; `load_credentials` reads files
and may ask the metadata server.  No secret stands in a message or in a repr: what names credentials
elsewhere is `CredentialsSource.key`, a digest.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google.auth
from google.auth import credentials as google_credentials
from google.auth import exceptions as google_errors
from google.oauth2 import service_account

from prefect_vertex.errors import AccessDeniedError, SetupError
from prefect_vertex.vertex.translate import translated

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
DEFAULT_UNIVERSE = "googleapis.com"

_KEY_LENGTH = 16
_NO_CREDENTIALS_HINT = (
    "Set GOOGLE_APPLICATION_CREDENTIALS to a key file, run `gcloud auth application-default login`,"
    " run the worker under a service account of Google Cloud, or give the pool a `credentials`"
    " block; VERTEX_AI_EMULATOR_HOST needs none."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialsSource:
    """Which credentials are meant, before anything has been read or asked.

    Attributes:
        key: Stable digest that tells one from another; empty: the worker's own (ADC).
        service_account_info: A service account key's content.
        service_account_file: Path to one.
        project: The block's own project; empty: the credentials'.
    """

    key: str = ""
    service_account_info: Mapping[str, Any] | None = field(default=None, repr=False)
    service_account_file: str = ""
    project: str = ""

    @property
    def stated_project(self) -> str:
        """The project as far as it is known without reading or asking; empty if it is not."""
        own = (self.service_account_info or {}).get("project_id", "")
        return self.project or str(own) or ("" if self.key else _environment_project())

    @property
    def stated_account(self) -> str:
        """The service account's e-mail as far as it is known without reading or asking."""
        return str((self.service_account_info or {}).get("client_email", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexCredentials:
    """Credentials that are ready to sign requests.

    Attributes:
        google: google-auth credentials with the cloud-platform scope.
        key: As in the source.
        project: Empty where nothing names one.
        service_account_email: Empty where it is not known.
        universe_domain: Domain of the cloud that they belong to.
    """

    google: google_credentials.Credentials = field(repr=False)
    key: str = ""
    project: str = ""
    service_account_email: str = ""
    universe_domain: str = DEFAULT_UNIVERSE


def _environment_project() -> str:
    return os.environ.get("GOOGLE_CLOUD_PROJECT", "")


def _plain(value: object) -> Any:
    """Pydantic's secret types as a block object holds them; plain values pass."""
    reveal = getattr(value, "get_secret_value", None)
    return reveal() if callable(reveal) else value


def _digest(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind}:{text}".encode()).hexdigest()[:_KEY_LENGTH]


def _parse_info(value: object) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            # Not chained: the decoder's error carries the text, which is the secret.
            raise SetupError(
                "The credentials block's service_account_info is not JSON.",
                hint="Paste the whole content of the service account's key file.",
            ) from None
    if not isinstance(value, Mapping):
        raise SetupError(
            "The credentials block's service_account_info is neither an object nor JSON text.",
            hint="Paste the whole content of the service account's key file.",
        )
    return {str(key): _plain(item) for key, item in value.items()}


def parse_credentials(values: Mapping[str, Any] | None) -> CredentialsSource:
    """Read the values of prefect-gcp's GcpCredentials block; nothing set means the worker's own.

    Args:
        values: `service_account_info` (object or JSON text), `service_account_file`, `project`.

    Raises:
        SetupError: Both kinds at once, or not a service account's key.
    """
    values = values or {}
    info = _plain(values.get("service_account_info"))
    path = _plain(values.get("service_account_file"))
    project = str(values.get("project") or "")
    if info and path:
        raise SetupError(
            "The credentials block sets both service_account_info and service_account_file.",
            hint="Keep one of them.",
        )
    if info:
        parsed = _parse_info(info)
        key = _digest("info", json.dumps(parsed, sort_keys=True, default=str))
        return CredentialsSource(key=key, service_account_info=parsed, project=project)
    if path:
        text = str(Path(str(path)).expanduser())
        return CredentialsSource(
            key=_digest("file", text), service_account_file=text, project=project
        )
    return CredentialsSource(project=project)


def _from_info(info: Mapping[str, Any], origin: str) -> google_credentials.Credentials:
    kind = info.get("type", "service_account")
    if kind != "service_account":
        raise AccessDeniedError(
            f"{origin} holds credentials of type {kind!r}, not a service account's key.",
            hint="Leave the block's key empty to use the worker's own credentials of that type.",
        )
    load: Callable[..., google_credentials.Credentials] = (
        service_account.Credentials.from_service_account_info
    )
    try:
        return load(dict(info), scopes=[SCOPE])
    except (ValueError, google_errors.GoogleAuthError):
        # Not chained: the parser's error may quote the key.
        raise AccessDeniedError(
            f"{origin} is not a whole service account key.",
            hint="Create a new key and paste the whole content of its file.",
        ) from None


def _read_info(path: str) -> dict[str, Any]:
    try:
        info = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise AccessDeniedError(
            f"Could not read the service account key {path}: {error.strerror}.",
            hint="Set the credentials block's service_account_file to a file on the worker.",
        ) from error
    except ValueError:
        info = None
    if not isinstance(info, dict):
        raise AccessDeniedError(
            f"{path} is not a service account key: it holds no JSON object.",
            hint="Set the credentials block's service_account_file to a key file.",
        )
    return info


def _adc() -> tuple[google_credentials.Credentials, str]:
    try:
        credentials, project = google.auth.default(scopes=[SCOPE])
    except google_errors.DefaultCredentialsError as error:
        variable = os.environ.get("GOOGLE_APPLICATION_CREDENTIALS", "")
        seen = f"GOOGLE_APPLICATION_CREDENTIALS ({variable or 'not set'})"
        raise AccessDeniedError(
            f"Found no Google credentials: looked at {seen}, gcloud's application-default login"
            " and the metadata server.",
            hint=_NO_CREDENTIALS_HINT,
        ) from error
    return credentials, project or ""


def load_credentials(source: CredentialsSource) -> VertexCredentials:
    """Make credentials of a source. Blocks: it reads files and may ask the metadata server.

    Raises:
        AccessDeniedError: There are none, or they are not what they should be.
        ServiceUnavailableError: The metadata server or token service did not answer.
    """
    project = ""
    with translated("load Google credentials"):
        if source.service_account_info is not None:
            info = source.service_account_info
            credentials = _from_info(info, "The credentials block's service_account_info")
        elif source.service_account_file:
            info = _read_info(source.service_account_file)
            credentials = _from_info(info, source.service_account_file)
        else:
            info = {}
            credentials, project = _adc()
        universe = credentials.universe_domain or DEFAULT_UNIVERSE
    account = str(getattr(credentials, "service_account_email", "") or "")
    return VertexCredentials(
        google=credentials,
        key=source.key,
        project=source.project or str(info.get("project_id", "")) or project,
        # The metadata server's alias, until a first token has been fetched.
        service_account_email="" if account == "default" else account,
        universe_domain=universe,
    )
