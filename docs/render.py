"""Write the reference pages from the code; `make docs` runs it, a test compares the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from prefect_vertex.settings import VertexSettings
from prefect_vertex.template import base_job_template

HERE = Path(__file__).resolve().parent


def settings_page() -> str:
    """The settings of the worker process."""
    lines = [
        "# Settings of the worker process",
        "",
        (
            "Set them as environment variables, in `.env`, in `prefect.toml` under "
            "`[integrations.vertex]`, or in `pyproject.toml` under "
            "`[tool.prefect.integrations.vertex]`."
        ),
        "They are read once, when the worker starts, and do not travel to the container.",
        "`prefect config set` knows only Prefect's own names.",
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for name, field in VertexSettings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        variable = f"PREFECT_INTEGRATIONS_VERTEX_{name.upper()}"
        lines.append(f"| `{variable}` | `{default}` | {field.description} |")
    lines += [
        "",
        "## Where it connects",
        "",
        "| variable | effect |",
        "|---|---|",
        (
            "| `VERTEX_AI_EMULATOR_HOST=host:port` | every JobService call goes there, in plain "
            "text and without credentials, whatever the location |"
        ),
        (
            "| `STORAGE_EMULATOR_HOST=http://host:port` | Google's own: Cloud Storage calls go "
            "there, the bootstrap's too |"
        ),
        (
            "| `CLOUD_LOGGING_EMULATOR_HOST=host:port` | log entries are read there "
            "(`stream_output`), in plain text and without credentials |"
        ),
        (
            "| `CLOUD_QUOTAS_EMULATOR_HOST=host:port` | quotas are read there (`preflight_quota`, "
            "`plan --quota`), in plain text and without credentials |"
        ),
        (
            "| `SECRET_MANAGER_EMULATOR_HOST=http://host:port` | the bootstrap reads "
            "`prefect_api_key_secret` there, over Secret Manager's REST API and without a token |"
        ),
        "| `GCE_METADATA_HOST` | Google's own: where the bootstrap asks for tokens |",
    ]
    return "\n".join(lines) + "\n"


def variables_page() -> str:
    """The job variables of the base job template."""
    properties: dict[str, dict[str, Any]] = base_job_template()["variables"]["properties"]
    lines = [
        "# Job variables",
        "",
        (
            "Set them in the pool's form, in a deployment's `job_variables`, or for one run; the "
            "later wins. Null means unset. `env.NAME` and `labels.name` set one entry."
        ),
        "",
        "| variable | default | meaning |",
        "|---|---|---|",
    ]
    for name, schema in properties.items():
        default = schema.get("default")
        shown = "-" if default in (None, {}, []) else f"`{default}`"
        text = str(schema.get("description", "")).replace("\n", " ").replace("|", "\\|")
        lines.append(f"| `{name}` | {shown} | {text} |")
    return "\n".join(lines) + "\n"


PAGES = {"settings.md": settings_page, "job-variables.md": variables_page}


def main() -> int:
    """Write every page."""
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
