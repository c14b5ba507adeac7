"""Google credentials from a block's values or from the machine (ADC).

Which credentials are meant is read in `planning.credentials`; here files are read and the metadata
server may be asked.  No secret stands in a message or in a repr.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import google.auth
from google.auth import compute_engine
from google.auth import credentials as google_credentials
from google.auth import exceptions as google_errors
from google.auth.transport import requests as auth_requests
from google.oauth2 import service_account

from prefect_vertex.errors import AccessDeniedError
from prefect_vertex.planning.credentials import CredentialValues
from prefect_vertex.vertex.translate import translated

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
DEFAULT_UNIVERSE = "googleapis.com"

_NO_CREDENTIALS_HINT = (
    "Set GOOGLE_APPLICATION_CREDENTIALS to a key file, run `gcloud auth application-default login`,"
    " run the worker under a service account of Google Cloud, or give the pool a `credentials`"
    " block. Emulators need none: export all variables that `prefect-vertex emulator start` prints."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexCredentials:
    """Credentials that are ready to sign requests.

    Attributes:
        google: google-auth credentials with the cloud-platform scope.
        key: As in the values that they were made of.
        project: Empty where nothing names one.
        service_account_email: Empty where it is not known.
        universe_domain: Domain of the cloud that they belong to.
    """

    google: google_credentials.Credentials = field(repr=False)
    key: str = ""
    project: str = ""
    service_account_email: str = ""
    universe_domain: str = DEFAULT_UNIVERSE


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
        info = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
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


def load_credentials(values: CredentialValues) -> VertexCredentials:
    """Make credentials of a block's values. Blocks: it reads files and may ask the metadata server.

    The project is the block's own, else the key's, else the one that comes with the machine's
    credentials, else the one that they are billed to.

    Raises:
        AccessDeniedError: There are none, or they are not what they should be.
        ServiceUnavailableError: The metadata server or token service did not answer.
    """
    project = values.project
    with translated("load Google credentials"):
        if values.service_account_info is not None:
            info = values.service_account_info
            credentials = _from_info(info, "The credentials block's service_account_info")
        elif values.service_account_file:
            info = _read_info(values.service_account_file)
            credentials = _from_info(info, values.service_account_file)
            project = project or str(info.get("project_id", ""))
        else:
            credentials, of_machine = _adc()
            project = project or of_machine
        universe = credentials.universe_domain or DEFAULT_UNIVERSE
        account = _account(credentials)
    return VertexCredentials(
        google=credentials,
        key=values.key,
        project=project or str(getattr(credentials, "quota_project_id", None) or ""),
        service_account_email=account,
        universe_domain=universe,
    )


def _account(credentials: google_credentials.Credentials) -> str:
    """The service account's address; empty where it has none, as a person's credentials."""
    if isinstance(credentials, compute_engine.Credentials):
        # Until the metadata server has been asked, it goes by that server's alias, "default".
        refresh: Callable[..., None] = credentials.refresh
        refresh(auth_requests.Request())
    account = str(getattr(credentials, "service_account_email", None) or "")
    # On GKE it may be the name of a workload identity pool, which no job can run as.
    return account if "@" in account else ""


def key_file_stamp(values: CredentialValues) -> tuple[int, ...]:
    """What changes when the key file is replaced; empty without one. Reads the disk."""
    if not values.service_account_file:
        return ()
    try:
        found = Path(values.service_account_file).expanduser().stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
