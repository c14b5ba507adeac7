"""From one rendered configuration to one candidate of its run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prefect_vertex.errors import PlanError
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.planning.command import argument_list, check_launch
from prefect_vertex.planning.fields import without_nulls
from prefect_vertex.planning.scheduling import SPOT_STRATEGIES
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.template import resources, secrets, storage
from prefect_vertex.template.job import job_parts

if TYPE_CHECKING:
    from prefect_vertex.template.configuration import VertexJobConfiguration


_API = "PREFECT_API_URL"


@dataclass(frozen=True, slots=True)
class Given:
    """What the template rendered, before a flow run's own values joined it."""

    env: Mapping[str, str | None]
    labels: Mapping[str, str]
    name: str | None
    command: str | None


def build_candidate(
    configuration: VertexJobConfiguration,
    *,
    index: int,
    flow_run_id: str,
    project: str,
    service_account: str,
) -> Candidate:
    """The candidate that a configuration describes.

    Args:
        configuration: Rendered for that candidate, and prepared for the flow run.
        index: Its place in the walk.
        flow_run_id: The run's.
        project: The project that the candidate's credentials, or the worker's own, name.
        service_account: The service account that they name.

    Raises:
        PlanError: A variable that is missing or wrong.
    """
    credentials = configuration.credential_values()
    parts = job_parts(configuration)
    job_spec = resources.job_spec(
        parts.job_spec,
        strategy=configuration.strategy,
        maximum_run_time_hours=configuration.maximum_run_time_hours,
        disable_retries=configuration.disable_retries,
        service_account=credentials.service_account or service_account,
    )
    check_launch(configuration.python_command, configuration.setup_command)
    job_spec, _ = resources.with_hardware(configuration, job_spec)
    guarded = secrets.guard(configuration, job_spec)
    return Candidate(
        index=index,
        project=resources.project(configuration.project, credentials.project, project),
        location=resources.region(configuration.region),
        job_spec=guarded.job_spec,
        worker_count=configuration.worker_count,
        name=configuration.name or "",
        labels=dict(configuration.given.labels),
        env=guarded.env,
        command=tuple(argument_list(configuration.command, "command")),
        python_command=tuple(configuration.python_command),
        setup_command=tuple(configuration.setup_command),
        encryption_spec=parts.encryption_spec,
        job_spec_patch=tuple(configuration.job_spec_patch),
        code=storage.code(configuration.code_uri, configuration.code_sha256),
        checkpoint_dir=storage.checkpoint_directory(
            job_spec, configuration.staging_bucket, flow_run_id
        ),
        staging_folder=storage.staging_folder(configuration.staging_bucket),
        replicas=configuration.replicas,
        gang_start=configuration.gang_start,
        gang_seconds=configuration.provisioning_timeout_seconds,
        credentials_key=credentials.key,
        validate_hardware=configuration.validate_hardware,
        secret_env=guarded.secret_env,
        hidden=configuration.hidden,
        api_secrets=guarded.api_secrets,
    )


def candidate_warnings(configuration: VertexJobConfiguration) -> list[str]:
    """What the user should know about one candidate's variables."""
    found: list[str] = []
    with suppress(PlanError):  # what is wrong there, the candidate's building says
        spec = without_nulls(job_parts(configuration).job_spec)
        own = argument_list(_first_command(spec), "command")
        if own and argument_list(configuration.given.command, "command") not in ([], own):
            found.append(
                "command has no effect: the first worker pool has a command of its own "
                "(job_spec.worker_pool_specs[0].container_spec.command)."
            )
        found += resources.with_hardware(configuration, spec)[1]
    if configuration.given.env.get(_API, "") is None:
        found.append(f"env unsets {_API}: the flow run cannot reach the Prefect API without it.")
    found += secrets.about_left_out(configuration, configuration.given.env)
    return found


def _first_command(spec: Mapping[str, Any]) -> object:
    """The command that the first pool brings itself; None for none, or where there is no pool."""
    pools = spec.get("worker_pool_specs")
    first = pools[0] if isinstance(pools, list) and pools else None
    container = first.get("container_spec") if isinstance(first, Mapping) else None
    return container.get("command") if isinstance(container, Mapping) else None


def candidate_policy(configuration: VertexJobConfiguration) -> RunPolicy:
    """How patient the worker is with a job of one candidate; never an error."""
    timeout, strategy = resources.limits(
        configuration.job_spec,
        maximum_run_time_hours=configuration.maximum_run_time_hours,
        strategy=configuration.strategy,
    )
    return RunPolicy(
        provisioning_timeout_seconds=configuration.provisioning_timeout_seconds,
        start_grace_seconds=configuration.start_grace_seconds,
        stall_timeout_seconds=configuration.stall_timeout_seconds,
        cancel_grace_seconds=configuration.cancel_grace_seconds,
        stream_output=configuration.stream_output,
        timeout_seconds=timeout,
        poll_interval_seconds=configuration.job_watch_poll_interval,
        spot=strategy in SPOT_STRATEGIES,
    )
