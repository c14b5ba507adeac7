"""What the submitting side lacks: a work pool with storage for bundles, and uv or a launcher."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from typing import Any

from prefect.client.schemas.objects import WorkPool
from prefect.flows import Flow

from prefect_vertex.errors import SetupError

POOL_TYPE = "vertex-custom-job"


def about_missing_pool(name: str) -> SetupError:
    """What to say where there is no such work pool."""
    return SetupError(
        f"There is no work pool {name!r}.",
        hint=f"Create it: `prefect work-pool create {shlex.quote(name)} --type {POOL_TYPE}`.",
    )


def check_pool(pool: WorkPool, *, creates: bool = False) -> None:
    """See that its runs become CustomJobs.

    Args:
        pool: The work pool.
        creates: Whether this process is about to create a job; a pause of the pool, which holds
            back its workers, would not hold back that.

    Raises:
        SetupError: It is of another type, or paused.
    """
    if pool.type != POOL_TYPE:
        raise SetupError(
            f"Work pool {pool.name!r} is of type {pool.type!r}, not {POOL_TYPE!r}.",
            hint="Name a pool of that type.",
        )
    if creates and pool.is_paused:
        raise SetupError(
            f"Work pool {pool.name!r} is paused.",
            hint=f"Resume it (`prefect work-pool resume {shlex.quote(pool.name)}`), or use "
            "submit_to_work_pool, whose run waits until then.",
        )


def check_storage(flow: Flow[..., Any], pool: WorkPool) -> None:
    """See that the code can be bundled and uploaded, before there is a flow run to fail.

    Prefect lists the environment's packages with `uv pip freeze`, unless the flow has a launcher
    for the container's side, and uploads with `uv run`, unless the flow or the work pool's upload
    step has a launcher for that side.

    Args:
        flow: What is submitted.
        pool: Where to.

    Raises:
        SetupError: The pool has no storage, or uv is needed and missing.
    """
    upload_step = pool.storage_configuration.bundle_upload_step
    if upload_step is None or pool.storage_configuration.bundle_execution_step is None:
        raise SetupError(
            f"Cannot submit flow {flow.name!r}: work pool {pool.name!r} has no storage for its "
            "code.",
            hint=f"Run `prefect work-pool storage configure gcs {pool.name} --bucket <bucket>` or "
            f"`prefect-vertex bundle-storage {pool.name} --bucket <bucket>`.",
        )
    launchers: Mapping[str, Any] = getattr(flow, "launcher", None) or {}
    freezes = not launchers.get("execution")
    uploads = not (launchers.get("upload") or _launcher_of(upload_step))
    if not (freezes or uploads) or shutil.which("uv"):
        return
    found = _packaged_uv()
    if found and not uploads:
        return
    what = "uploading" if uploads else "bundling"
    if found:
        raise SetupError(
            f"Cannot submit flow {flow.name!r}: {what} its code takes uv, which is not on PATH.",
            hint=f"Add the folder of {found} to PATH (activating the environment does), or give "
            "the flow a launcher.",
        )
    raise SetupError(
        f"Cannot submit flow {flow.name!r}: {what} its code takes uv, which is not installed.",
        hint="Install prefect-vertex[gcp], or give the flow a launcher.",
    )


def _launcher_of(step: Mapping[str, Any]) -> Any:
    arguments = next(iter(step.values()), None)
    return arguments.get("launcher") if isinstance(arguments, Mapping) else None


def _packaged_uv() -> str:
    """The program that the uv package brings; empty if it is not installed."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return ""
