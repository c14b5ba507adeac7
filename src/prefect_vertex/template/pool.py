"""The base job templates: the one that a new work pool gets, and those of work_pool_templates/.

They differ in the defaults of their variables and in nothing else, so that a pool can be changed
from one kind to another in its form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from prefect_vertex.template.configuration import VertexJobConfiguration
from prefect_vertex.template.form import as_form
from prefect_vertex.template.variables import VertexVariables

POOL_TEMPLATES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "vertex-forecast": {},
        "vertex-cpu": {"hardware": "cpu"},
        "vertex-gpu": {"hardware": "gpu", "gpu_type": "L4", "accelerator_count": 1},
        # Spot where there is any, in this region and then in the further ones, else regular.
        "vertex-spot": {"strategy": ["SPOT", "STANDARD"]},
        "vertex-replicas": {"hardware": "cpu", "worker_count": 4},
        "vertex-emulator": {
            "region": "us-central1",
            "project": "emulated-project",
            # There are no images in the emulator: the command runs in its own environment.
            "image": "us-docker.pkg.dev/emulated-project/flows/none:1",
            "job_watch_poll_interval": 1,
        },
    },
)
"""File name in work_pool_templates/ → defaults that differ from those of a new pool."""


def base_job_template(defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The template of `prefect work-pool create --type vertex-custom-job`; a new copy each time.

    Args:
        defaults: Job variables whose default is another one here.

    Raises:
        KeyError: One of them is no job variable.
    """
    variables = VertexVariables.model_json_schema()
    variables.pop("title", None)
    properties: dict[str, Any] = variables["properties"]
    for name, value in (defaults or {}).items():
        properties[name]["default"] = value
    variables["properties"] = as_form(properties)
    return deepcopy(
        {"job_configuration": VertexJobConfiguration.json_template(), "variables": variables},
    )


def base_job_template_json(name: str = "vertex-forecast") -> str:
    """The text of a file in work_pool_templates/.

    Raises:
        KeyError: There is no template of that name.
    """
    template = base_job_template(POOL_TEMPLATES[name])
    return json.dumps(template, indent=2, ensure_ascii=False) + "\n"
