"""What a pool's own template lacks: templates outlive the packages and workers that they came from.

A pool keeps the template that it was made with. It may be one of this package's older ones, or that
of prefect-gcp's `vertex-ai` worker, whose pools work here unchanged; either renders what it has and
leaves out what came later.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from prefect.client.schemas.objects import WorkPool

from prefect_vertex.template.names import unused
from prefect_vertex.template.pool import base_job_template

OURS = "vertex-custom-job"
PREFECT_GCP = "vertex-ai"


def lacking(template: Mapping[str, Any]) -> tuple[str, ...]:
    """Job variables of this package that a template does not declare, in the form's order."""
    declared = (template.get("variables") or {}).get("properties") or {}
    ours = base_job_template()["variables"]["properties"]
    return tuple(name for name in ours if name not in declared)


def template_warning(pool: WorkPool) -> str:
    """What to say once when a worker starts on a pool, one line; empty if there is nothing.

    A user who took a variable out of the template on purpose is told so too: a template does not
    say what it was made from.
    """
    template = pool.base_job_template
    missing, idle = lacking(template), unused(template)
    said: list[str] = []
    if missing:
        said.append(f"{_origin(pool)} {', '.join(missing)}.")
    if idle:
        said.append(
            f"{'It' if said else f'Work pool {pool.name!r}'} declares variables without effect, "
            f"because its job_configuration does not use them: {', '.join(idle)}."
        )
    if not said:
        return ""
    file = "template.json"
    commands = [
        f"prefect work-pool get-default-base-job-template --type {OURS} --file {file}",
        f"prefect work-pool update {shlex.quote(pool.name)} --base-job-template {file}",
    ]
    said.append(f"To have all of them: {' && '.join(commands)}")
    said.append("(what was set in the pool's form has to be set again then).")
    return " ".join(said)


def _origin(pool: WorkPool) -> str:
    if pool.type == PREFECT_GCP:
        return (
            f"Work pool {pool.name!r} was made for prefect-gcp's worker and works with this one as "
            "it is; what its template does not have is"
        )
    return (
        f"Work pool {pool.name!r} has a base job template that is older than this package, or was "
        "edited: it lacks"
    )
