"""What a `credentials` block holds, read without prefect-gcp.

Without that package a block reference in a job variable arrives as the block's plain values; with
it a user may hand over the block itself. Both are read here, neither is opened: no key is parsed
by Google's library and no file is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect_vertex.errors import PlanError

_FIELDS = ("service_account_info", "service_account_file", "project")


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialValues:
    """The values of a GCP credentials block; all empty for the worker's own credentials.

    Attributes:
        service_account_info: A key, or any other credentials that Google's library reads from JSON.
        service_account_file: Path of the same in a file on the worker's machine.
        project: The project that the block names, else the key's own; empty if neither does.
    """

    service_account_info: Mapping[str, Any] | None = field(default=None, repr=False)
    service_account_file: str = ""
    project: str = ""

    @property
    def key(self) -> str:
        """What tells these credentials from others; another key in the block is another one."""
        if not self.service_account_info and not self.service_account_file:
            return ""
        told = [self.service_account_info, self.service_account_file]
        text = json.dumps(told, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def as_block(self) -> dict[str, Any]:
        """The values as a block holds them; empty for the worker's own credentials."""
        values = {
            "service_account_info": self.service_account_info,
            "service_account_file": self.service_account_file,
            "project": self.project,
        }
        return {name: value for name, value in values.items() if value}

    @property
    def service_account(self) -> str:
        """The address that the key names; empty if it names none."""
        email = (self.service_account_info or {}).get("client_email")
        return email if isinstance(email, str) else ""


def read_credentials(value: object) -> CredentialValues:
    """Read a credentials block, as plain values or as the block itself.

    Raises:
        PlanError: It is neither, or its key is no mapping. No value of it is shown.
    """
    if value is None:
        return CredentialValues()
    if isinstance(value, Mapping):
        given = {name: value.get(name) for name in _FIELDS}
    elif any(hasattr(value, name) for name in _FIELDS):
        given = {name: getattr(value, name, None) for name in _FIELDS}
    else:
        raise PlanError(
            f"credentials is a {type(value).__name__}, expected a GCP Credentials block.",
            variable="credentials",
            hint='Set it to "{{ prefect.blocks.gcp-credentials.NAME }}".',
        )
    info = _information(given["service_account_info"])
    project = given["project"] or (info or {}).get("project_id") or ""
    return CredentialValues(
        service_account_info=info,
        service_account_file=str(given["service_account_file"] or ""),
        project=str(project),
    )


def _information(value: Any) -> Mapping[str, Any] | None:
    value = value.get_secret_value() if hasattr(value, "get_secret_value") else value
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError:
            value = 0
    if not value and not isinstance(value, int):
        return None
    if not isinstance(value, Mapping):
        raise PlanError(
            "credentials has a service_account_info that is not the JSON of a key.",
            variable="credentials",
        )
    return dict(value)
