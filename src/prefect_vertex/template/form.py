"""How Prefect's form shows the base job template: the order of its fields, and what is in them.

Looked at in Prefect 3.9.1, in both of its user interfaces:

- The order of the fields is that of `position`, else of the schema; a server on PostgreSQL keeps
  the template as JSONB, which forgets the schema's.
- Several alternatives (`anyOf`) are tabs, named by their titles or else by Python's types, such as
  `str` and `None`. A field of one type has none, and the server lets null through all the same:
  it adds that alternative itself, except beside an `enum`, which it would still hold null against.
- An optional field whose default is null hides behind the tab that says None; with no default at
  all, which is the same to Prefect, one can type into it at once.
- A list to choose from comes of an `enum`; what else is allowed beside it needs a tab of its own.
- An optional mapping has no editor in the newer interface unless the schema names its keys.
- A list of types (`type: [string, null]`) breaks the older one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from prefect_vertex.planning.hardware import GPU_TYPES

FIRST = (
    "region",
    "project",
    "image",
    "hardware",
    "gpu_type",
    "accelerator_count",
    "machine_type",
    "worker_count",
    "strategy",
    "regions",
    "maximum_run_time_hours",
    "service_account_name",
    "credentials",
    "env",
    "labels",
    "staging_bucket",
    "prefect_api_key_secret",
)
"""What most pools set; the rest follows as `VertexVariables` has it."""

LAST = ("name", "command")
"""What a deployment sets, if anybody."""


_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"gpu_type": tuple(GPU_TYPES), "strategy": ("STANDARD", "SPOT", "FLEX_START")},
)
"""Offered to choose from; other texts, such as the same in lower case, are let through."""

_TABS: Mapping[str, str] = MappingProxyType(
    {"string": "Text", "integer": "Number", "number": "Number", "array": "List"},
)


def _key(title: str, *types: str, description: str = "") -> dict[str, Any]:
    told = {"description": description} if description else {}
    return {"title": title, **told, "anyOf": [{"type": kind} for kind in types]}


# Other keys are let through: what is wrong with them is said by the plan, with the closest name.
_KEYS: Mapping[str, Mapping[str, dict[str, Any]]] = MappingProxyType(
    {
        "scheduling": {
            "timeout": _key("Timeout", "string", "number", description="Such as 3600s."),
            "strategy": _key(
                "Strategy", "string", "integer", description="STANDARD, SPOT or FLEX_START."
            ),
            "max_wait_duration": _key(
                "Maximum Wait Duration", "string", "number", description="Such as 1800s."
            ),
            "disable_retries": _key("Disable Retries", "boolean"),
            "restart_job_on_worker_restart": _key("Restart Job on Worker Restart", "boolean"),
        },
        "capacity": {
            "max_attempts": _key("Attempts", "integer", description="0: no limit. Empty: 6."),
            "max_wall_seconds": _key(
                "Wall Clock (Seconds)", "number", description="0: no limit. Empty: 3600."
            ),
            "max_passes": _key("Passes", "integer", description="0 or empty: no limit."),
            "backoff_seconds": _key("Backoff (Seconds)", "number", description="Empty: 60."),
            "backoff_max_seconds": _key(
                "Longest Backoff (Seconds)", "number", description="Empty: 600."
            ),
            "max_restarts": _key("Restarts", "integer", description="0: none. Empty: 6."),
        },
        "psc_interface_config": {
            "network_attachment": _key("Network Attachment", "string"),
            "dns_peering_configs": _key("DNS Peering Configs", "array"),
        },
        "reservation_affinity": {
            "reservation_affinity_type": _key("Type", "string", "integer"),
            "key": _key("Key", "string"),
            "values": _key("Values", "array"),
        },
    },
)


def as_form(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The schema's properties as the form is to show them; a copy.

    Raises:
        KeyError: One of those named here is no job variable.
    """
    rest = [name for name in properties if name not in {*FIRST, *LAST}]
    names = (*FIRST, *rest, *LAST)
    form = {name: _field(properties[name], _CHOICES.get(name, ())) for name in names}
    for name, keys in _KEYS.items():
        fields = {key: _field(schema) for key, schema in keys.items()}
        form[name]["properties"] = _in_order(fields)
    return _in_order(form)


def _field(given: Mapping[str, Any], choices: tuple[str, ...] = ()) -> dict[str, Any]:
    """One field with as few tabs as its types allow."""
    schema = dict(deepcopy(given))
    if schema.get("default", "") is None:
        del schema["default"]
    kinds = [kind for kind in schema.pop("anyOf", ()) if kind.get("type") != "null"]
    if choices:
        kinds = [{"type": "string", "enum": list(choices)}, *kinds]
    if len(kinds) == 1 and "enum" not in kinds[0]:
        return {**schema, **kinds[0]}
    return {**schema, "anyOf": [*_tabs(kinds), {"type": "null"}]} if kinds else schema


def _tabs(kinds: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for kind in kinds:
        name = "Choice" if "enum" in kind else _TABS.get(kind.get("type", ""), "Block")
        yield {"title": name, **kind}


def _in_order(fields: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        name: {**schema, "position": place} for place, (name, schema) in enumerate(fields.items())
    }
