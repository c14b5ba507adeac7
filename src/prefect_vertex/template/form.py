"""How Prefect's form shows the base job template: the order of its fields, and what is in them.

Looked at in Prefect 3.9.1, in both of its user interfaces:

- The order of the fields is that of the schema.
- An optional field whose default is null hides behind a switch that says None; with no default at
  all, which is the same to Prefect, one can type into it at once.
- An optional mapping has no editor in the newer interface unless the schema names its keys.
- A list of types (`type: [string, null]`) breaks the older one.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

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


def _key(title: str, *types: str, description: str = "") -> dict[str, Any]:
    kinds = [{"type": kind} for kind in (*types, "null")]
    told = {"description": description} if description else {}
    return {"title": title, **told, "anyOf": kinds}


# Other keys are let through: what is wrong with them is said by the plan, with the closest name.
_KEYS: Mapping[str, Mapping[str, dict[str, Any]]] = MappingProxyType(
    {
        "scheduling": {
            "timeout": _key("Timeout", "string", "number", description="Such as 3600s."),
            "strategy": _key("Strategy", "string", "integer"),
            "max_wait_duration": _key("Maximum Wait Duration", "string", "number"),
            "disable_retries": _key("Disable Retries", "boolean"),
            "restart_job_on_worker_restart": _key("Restart Job on Worker Restart", "boolean"),
        },
        "capacity": {
            "max_attempts": _key("Attempts", "integer"),
            "max_wall_seconds": _key("Wall Clock (Seconds)", "number"),
            "max_passes": _key("Passes", "integer"),
            "backoff_seconds": _key("Backoff (Seconds)", "number"),
            "backoff_max_seconds": _key("Longest Backoff (Seconds)", "number"),
            "max_restarts": _key("Restarts", "integer"),
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
    form = {name: deepcopy(properties[name]) for name in (*FIRST, *rest, *LAST)}
    for schema in form.values():
        if schema.get("default", "") is None:
            del schema["default"]
    for name, keys in _KEYS.items():
        schema = form[name]
        for kind in schema.get("anyOf", [schema]):
            if kind.get("type") == "object":
                kind["title"] = schema["title"]
                kind["properties"] = deepcopy(dict(keys))
    return form
