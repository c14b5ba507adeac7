"""Whose account a worker of this machine would use, read from variables and files alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect_vertex.errors import SetupError
from prefect_vertex.planning.credentials import check_whole_key
from prefect_vertex.template import CredentialValues


def known_identity(credentials: CredentialValues) -> tuple[str, str]:
    """Project and service account of credentials, as far as variables and files name them.

    Raises:
        PlanError: The block's key is not a whole one.
        SetupError: A file is not readable, or a variable of this machine is wrong.
    """
    from prefect_vertex.vertex.channel import emulator_address

    project, account = credentials.project, credentials.service_account
    path = credentials.service_account_file
    if not credentials.key:
        project = project or os.environ.get("GOOGLE_CLOUD_PROJECT", "")
        path = str(_default_file() or "")
    # As the worker under an emulator, which opens no file and no key.
    if emulator_address():
        return project, account
    if credentials.service_account_info is not None:
        check_whole_key(credentials.service_account_info, "credentials.service_account_info")
    if not path:
        return project, account
    content = _read_json(path)
    if credentials.key:
        check_whole_key(content, f"The key in {path}")
    project = project or str(content.get("project_id") or content.get("quota_project_id") or "")
    return project, account or _account(content)


def _default_file() -> Path | None:
    """The file of the Application Default Credentials, where Google's libraries look for it."""
    if named := os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return Path(named)
    folder = os.environ.get("CLOUDSDK_CONFIG") or Path("~/.config/gcloud").expanduser()
    usual = Path(folder) / "application_default_credentials.json"
    return usual if usual.is_file() else None


def _read_json(path: str) -> Mapping[str, Any]:
    try:
        content = json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError(f"Could not read the credentials in {path}: {error.strerror}.") from error
    except ValueError:
        # Not chained: the decoder's error carries the text, which is the secret.
        raise SetupError(f"The credentials in {path} are not JSON.") from None
    return content if isinstance(content, Mapping) else {}


def _account(content: Mapping[str, Any]) -> str:
    """The service account of a key, or the one that it impersonates."""
    url = str(content.get("service_account_impersonation_url") or "")
    impersonated = url.rpartition("/")[2].partition(":")[0]
    return str(content.get("client_email") or impersonated)
