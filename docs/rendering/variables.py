"""The job variables of the base job template."""

from __future__ import annotations

from typing import Any

from prefect_vertex.template import base_job_template
from rendering.markdown import code, page, shown_default, table


def variables_page() -> str:
    """Every variable, in the order of the pool's form."""
    properties: dict[str, dict[str, Any]] = base_job_template()["variables"]["properties"]
    rows = [
        (code(name), shown_default(schema.get("default")), str(schema.get("description", "")))
        for name, schema in properties.items()
    ]
    return page(
        "# Job variables",
        "Set them in the pool's form, in a deployment's `job_variables`, or for one run; the "
        "later wins. Null means unset. `env.NAME` and `labels.name` set one entry.",
        table(("variable", "default", "meaning"), rows),
    )
