"""The base job template that a new work pool gets."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

from prefect_vertex.template.configuration import VertexJobConfiguration
from prefect_vertex.template.variables import VertexVariables


def base_job_template() -> dict[str, Any]:
    """The template of `prefect work-pool create --type vertex-custom-job`; a new copy each time."""
    variables = VertexVariables.model_json_schema()
    variables.pop("title", None)
    return deepcopy(
        {"job_configuration": VertexJobConfiguration.json_template(), "variables": variables},
    )


def base_job_template_json() -> str:
    """The same as the text of `work_pool_templates/vertex-forecast.json`."""
    return json.dumps(base_job_template(), indent=2, ensure_ascii=False) + "\n"
