"""What a `credentials` block holds: the one reader of it, which opens nothing.

Without prefect-gcp a block reference in a job variable arrives as the block's plain values; with it
a user may hand over the block itself. Both are read here; no key is parsed by Google's library and
no file is read. No secret stands in a message or in a repr: what names credentials elsewhere is
`CredentialValues.key`, a digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.spelling import closest, shown

_FIELDS = ("service_account_info", "service_account_file", "project")
_KEY_LENGTH = 16
_REFERENCE = (
    "Choose the block in the pool's form, or set credentials to "
    '"{{ prefect.blocks.gcp-credentials.NAME }}" by API; `prefect deploy` would store the key.'
)
_OF_A_KEY = ("client_email", "private_key", "token_uri")
_WHOLE_FILE = "Paste the whole content of the service account's key file."


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialValues:
    """The values of a GCP credentials block; all empty for the worker's own credentials.

    Attributes:
        service_account_info: A service account key's content.
        service_account_file: Path to one on the worker's machine.
        own_project: The project that the block itself names; empty if it names none.
    """

    service_account_info: Mapping[str, Any] | None = field(default=None, repr=False)
    service_account_file: str = ""
    own_project: str = ""

    @property
    def key(self) -> str:
        """What tells these credentials from others; another key in the block is another one.

        Empty for the worker's own, whatever project the block names.
        """
        if self.service_account_info is not None:
            text = json.dumps(dict(self.service_account_info), sort_keys=True, default=str)
            return _digest("info", text)
        return _digest("file", self.service_account_file) if self.service_account_file else ""

    @property
    def project(self) -> str:
        """The project that the block names, else its key's; empty if neither names one."""
        return self.own_project or self._of_key("project_id")

    @property
    def service_account(self) -> str:
        """The service account's address that the key names; empty if it names none."""
        return self._of_key("client_email")

    def as_block(self) -> dict[str, Any]:
        """The values as a block holds them; empty for the worker's own credentials."""
        values = (self.service_account_info, self.service_account_file, self.own_project)
        return {name: value for name, value in zip(_FIELDS, values, strict=True) if value}

    def _of_key(self, name: str) -> str:
        value = (self.service_account_info or {}).get(name)
        return value if isinstance(value, str) else ""


def read_credentials(value: object) -> CredentialValues:
    """Read a credentials block, as plain values or as the block itself; None: the worker's own.

    Raises:
        PlanError: It is neither, has a field that no such block has and none that it needs, its key
            is no mapping, or it names two keys. No value is shown.
    """
    if value is None:
        return CredentialValues()
    if isinstance(value, CredentialValues):
        return value
    if isinstance(value, Mapping):
        info, path, project = (value.get(name) for name in _FIELDS)
    elif any(hasattr(value, name) for name in _FIELDS):
        info, path, project = (getattr(value, name, None) for name in _FIELDS)
    else:
        raise PlanError(
            f"credentials is a {type(value).__name__}, expected a GCP Credentials block.",
            variable="credentials",
            hint=_REFERENCE,
        )
    if isinstance(value, Mapping) and not (info or path):
        _check_fields(value)
    key = _information(_plain(info))
    if key is not None and path:
        raise PlanError(
            "credentials sets both service_account_info and service_account_file.",
            variable="credentials",
            hint="Keep one of them.",
        )
    return CredentialValues(
        service_account_info=key,
        service_account_file=str(_plain(path) or ""),
        own_project=str(project or ""),
    )


def check_whole_key(key: Mapping[str, Any], where: str) -> None:
    """Refuse a service account key with which no request could be signed.

    Google's library asks for these fields (google-auth 2, service_account.Credentials); the worker
    finds out when it signs its first request.

    Args:
        key: A key's content.
        where: Where it was found, for the message.

    Raises:
        PlanError: It is of another type, or a field is missing. No value but the type is shown.
    """
    kind = key.get("type", "service_account")
    if kind != "service_account":
        raise PlanError(
            f"{where} is of type {shown(kind)}, not a service account's key.",
            variable="credentials",
            hint="Leave the key empty to use the worker's own credentials of that type.",
        )
    for name in (name for name in _OF_A_KEY if not key.get(name)):
        raise PlanError(
            f"{where} has no {name}, which every service account's key has.",
            variable="credentials",
            hint=_WHOLE_FILE,
        )


def _check_fields(block: Mapping[str, Any]) -> None:
    """Refuse values that would be taken for the worker's own credentials by mistake."""
    unknown = [str(name) for name, value in block.items() if value and name not in _FIELDS]
    if not unknown:
        return
    if {"type", *_OF_A_KEY} & set(unknown):
        raise PlanError(
            "credentials is a service account's key, expected a GCP Credentials block.",
            variable="credentials",
            hint=_REFERENCE,
        )
    raise PlanError(
        f"credentials has no field {shown(unknown[0])}; the closest is "
        f"{closest(unknown[0], _FIELDS)!r}.",
        variable="credentials",
        hint=_REFERENCE,
    )


def _plain(value: Any) -> Any:
    """Pydantic's secret types as a block object holds them; plain values pass."""
    reveal = getattr(value, "get_secret_value", None)
    return reveal() if callable(reveal) else value


def _information(value: Any) -> dict[str, Any] | None:
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError:
            # Not chained: the decoder's error carries the text, which is the secret.
            raise _no_key() from None
    if value in (None, "", {}, []):
        return None
    if not isinstance(value, Mapping):
        raise _no_key()
    return {str(name): _plain(item) for name, item in value.items()}


def _no_key() -> PlanError:
    return PlanError(
        "credentials has a service_account_info that is not the JSON of a key.",
        variable="credentials",
        hint=_WHOLE_FILE,
    )


def _digest(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind}:{text}".encode()).hexdigest()[:_KEY_LENGTH]
