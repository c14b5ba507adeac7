"""From rendered values to what a candidate needs: the job spec, the project, the region.

`JOB_SPEC_TEMPLATE` is the part of the base job template that becomes the CustomJobSpec.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, Protocol

from prefect_vertex.errors import MachineSpecError, PlanError, SchedulingError
from prefect_vertex.planning.fields import without_nulls
from prefect_vertex.planning.forms import check_service_account
from prefect_vertex.planning.hardware import resolve_machine
from prefect_vertex.planning.scheduling import (
    parse_duration,
    parse_strategy,
    resolve_scheduling,
)
from prefect_vertex.planning.spelling import shown

JOB_SPEC_TEMPLATE: dict[str, Any] = {
    "service_account": "{{ service_account_name }}",
    "network": "{{ network }}",
    "reserved_ip_ranges": "{{ reserved_ip_ranges }}",
    "base_output_directory": {"output_uri_prefix": "{{ base_output_directory }}"},
    "psc_interface_config": "{{ psc_interface_config }}",
    "persistent_resource_id": "{{ persistent_resource_id }}",
    "tensorboard": "{{ tensorboard }}",
    "experiment": "{{ experiment }}",
    "enable_web_access": "{{ enable_web_access }}",
    "enable_dashboard_access": "{{ enable_dashboard_access }}",
    "scheduling": "{{ scheduling }}",
    "worker_pool_specs": [
        {
            "replica_count": 1,
            "container_spec": {"image_uri": "{{ image }}"},
            "machine_spec": {
                "machine_type": "{{ machine_type }}",
                "accelerator_type": "{{ accelerator_type }}",
                "accelerator_count": "{{ accelerator_count }}",
                "reservation_affinity": "{{ reservation_affinity }}",
            },
            "disk_spec": {
                "boot_disk_type": "{{ boot_disk_type }}",
                "boot_disk_size_gb": "{{ boot_disk_size_gb }}",
            },
        },
    ],
}

_OF_CONTAINERS = ("container_spec", "python_package_spec")


def job_spec(
    rendered: Mapping[str, Any],
    *,
    strategy: str | list[str] | None,
    maximum_run_time_hours: float,
    disable_retries: bool,
    service_account: str,
) -> dict[str, Any]:
    """The CustomJobSpec that the rendered one and the variables beside it say together.

    Args:
        rendered: `job_spec` as the template rendered it; not changed.
        strategy: The variable.
        maximum_run_time_hours: The variable; one in the job spec itself wins, as prefect-gcp's
            templates have it there.
        disable_retries: The variable; one in the scheduling options wins.
        service_account: What the credentials name; one in the job spec wins.

    Raises:
        PlanError: Two of them contradict each other, or a value is of the wrong type.
    """
    spec: dict[str, Any] = without_nulls(without_blanks(rendered))
    spec["scheduling"] = resolve_scheduling(
        spec.get("scheduling"),
        strategy=strategy,
        maximum_run_time_hours=_hours(
            spec.pop("maximum_run_time_hours", maximum_run_time_hours),
        ),
        disable_retries=disable_retries,
    )
    account = _run_as(spec.pop("service_account_name", None), spec.pop("service_account", None))
    account = account or (service_account if "@" in service_account else "")
    if account:
        spec["service_account"] = account
    folder = spec.get("base_output_directory")
    if isinstance(folder, str):
        spec["base_output_directory"] = {"output_uri_prefix": folder}
    return spec


def without_blanks(value: Any) -> Any:
    """A copy without blank texts: a field of a form that was emptied is not set.

    What containers run is theirs.
    """
    if isinstance(value, Mapping):
        return {
            key: item if key in _OF_CONTAINERS else without_blanks(item)
            for key, item in value.items()
            if not (isinstance(item, str) and not item.strip())
        }
    if isinstance(value, list | tuple):
        return [without_blanks(item) for item in value]
    return value


class Hardware(Protocol):
    """The variables that choose a machine besides those in the job spec."""

    hardware: Literal["cpu", "gpu"] | None
    gpu_type: str | None
    validate_hardware: Literal["error", "warn"]
    worker_pools: list[dict[str, Any] | None]


def with_hardware(
    variables: Hardware,
    spec: Mapping[str, Any],
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The same job spec with the machine that the variables ask for, and warnings.

    It goes into the first worker pool, from which the others take theirs. Where `worker_pools`
    unsets the accelerator of that pool with a null and names a machine, that machine is meant.

    Raises:
        MachineSpecError: They contradict each other or what the pool says.
    """
    pools = spec.get("worker_pool_specs")
    if not isinstance(pools, list) or not pools or not isinstance(pools[0], Mapping):
        return dict(spec), ()  # What is wrong with it the plan says.
    machine = pools[0].get("machine_spec", {})
    if not isinstance(machine, Mapping):
        return dict(spec), ()
    own = _own_machine(variables.worker_pools)
    if own.get("machine_type") and own.get("accelerator_type", "") is None:
        kept = {key: item for key, item in machine.items() if key != "accelerator_count"}
        chosen = kept if own.get("accelerator_count") is None else machine
        return {**spec, "worker_pool_specs": [{**pools[0], "machine_spec": chosen}, *pools[1:]]}, ()
    try:
        complete, warnings = resolve_machine(
            machine,
            hardware=variables.hardware,
            gpu_type=variables.gpu_type,
            warn_only=variables.validate_hardware == "warn",
        )
    except MachineSpecError as error:
        raise (_of_pool(error) if own else error) from error
    if complete:
        pools = [{**pools[0], "machine_spec": complete}, *pools[1:]]
    return {**spec, "worker_pool_specs": pools}, warnings


def _own_machine(worker_pools: object) -> Mapping[str, Any]:
    """What the first entry of `worker_pools` says of its machine, nulls included."""
    entry = worker_pools[0] if isinstance(worker_pools, list) and worker_pools else None
    machine = entry.get("machine_spec") if isinstance(entry, Mapping) else None
    return machine if isinstance(machine, Mapping) else {}


def _of_pool(error: MachineSpecError) -> MachineSpecError:
    return MachineSpecError(
        f"worker_pools[0].machine_spec: {error.message}",
        variable=error.variable,
        hint=f"{error.hint} Nulls for accelerator_type and accelerator_count there, beside a "
        "machine_type, mean no accelerator.",
    )


def _hours(value: object) -> float:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise SchedulingError(
        f"maximum_run_time_hours is {shown(value)}, expected a number of hours.",
        variable="maximum_run_time_hours",
    )


def _run_as(*given: object) -> str:
    accounts: list[str] = []
    for account in (account for account in given if account):
        # prefect-gcp's worker sends the word "default" on Google's own machines; no account has it.
        check_service_account(account)
        accounts.append(str(account))
    if len(set(accounts)) > 1:
        raise PlanError(
            "job_spec has both service_account and service_account_name, and they differ.",
            variable="service_account_name",
            hint="Keep one of them.",
        )
    return accounts[0] if accounts else ""


def project(variable: str | None, of_credentials: str, default: str) -> str:
    """The project to run in: the variable, else the credentials', else the worker's own.

    Raises:
        PlanError: None of them names one.
    """
    found = variable or of_credentials or default
    if not found:
        raise PlanError(
            "project is not set, and the credentials name none.",
            variable="project",
            hint="Set project, or GOOGLE_CLOUD_PROJECT in the worker's environment.",
        )
    return found


def region(variable: str | None) -> str:
    """The region to run in.

    Raises:
        PlanError: It is not set.
    """
    if not variable:
        raise PlanError(
            "region is not set.",
            variable="region",
            hint="Set region in the work pool or the deployment, for example to us-central1.",
        )
    return variable


def limits(
    rendered: Mapping[str, Any],
    *,
    maximum_run_time_hours: float,
    strategy: str | list[str] | None,
) -> tuple[float | None, str]:
    """The job's longest run time in seconds and its strategy, as far as they can be read.

    For a run whose job cannot be planned; what is sent says both better.
    """
    spec = without_blanks(rendered)
    options = spec.get("scheduling")
    options = options if isinstance(options, Mapping) else {}
    if isinstance(strategy, list):
        strategy = strategy[0] if strategy else None
    seconds, name = None, ""
    with suppress(SchedulingError):
        name = parse_strategy(options.get("strategy") or strategy or 0)
    with suppress(SchedulingError):
        given = options.get("timeout")
        if given is not None:
            seconds = parse_duration(given, "scheduling.timeout").total_seconds()
        else:
            seconds = _hours(spec.get("maximum_run_time_hours") or maximum_run_time_hours) * 3600
    return seconds, name
