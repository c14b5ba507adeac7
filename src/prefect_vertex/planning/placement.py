"""Rules between the parts of a CustomJob that Vertex AI would refuse, or leave waiting for ever.

Network, scheduling strategy, reservations, persistent resources, TPUs, and the location that a
name bears. They judge the job as it will be sent, so that no way of writing it (a variable, the
template, a patch) goes round them. Machines by themselves are judged in `machines.py`.

Sources, read 2026-11: the CustomJobSpec, Scheduling and ReservationAffinity messages of
google.cloud.aiplatform_v1 (2.7.0), and below
https://docs.cloud.google.com/gemini-enterprise-agent-platform/machine-learning/training/ the pages
using-private-ip, schedule-jobs-dws, use-spot-vms, use-reservations and configure-compute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from prefect_vertex.errors import MachineSpecError, PlanError, SchedulingError
from prefect_vertex.planning.fields import path_of, variable_of
from prefect_vertex.planning.machines import ACCELERATORS
from prefect_vertex.planning.naming import region_of
from prefect_vertex.planning.scheduling import SPOT_STRATEGIES
from prefect_vertex.planning.spelling import listed, shown, with_article
from prefect_vertex.planning.tpu import is_tpu, is_tpu_pod

Values = Mapping[str, Any]

_NETWORK = re.compile(r"^projects/\d+/global/networks/[^/]+$")
_RESERVATION = re.compile(r"^projects/[^/]+/zones/[^/]+/reservations/[^/]+(/.+)?$")
_RESOURCE_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_BEARS_LOCATION = re.compile(
    r"^(?://[^/]+/)?projects/[^/]+/(locations|regions|zones)/([^/]+)/(\w+)/",
)

_WITHOUT_PEERING = frozenset(
    {"NVIDIA_H100_MEGA_80GB", "NVIDIA_H200_141GB", "NVIDIA_B200", "NVIDIA_GB200"},
)
_WITH_FLEX_START = (
    *("NVIDIA_L4", "NVIDIA_TESLA_A100", "NVIDIA_A100_80GB", "NVIDIA_H100_80GB"),
    *("NVIDIA_H100_MEGA_80GB", "NVIDIA_H200_141GB", "NVIDIA_B200"),
)
_SPOT_OR_FLEX_START = SPOT_STRATEGIES | {"FLEX_START"}
_SEND_ANYWAY = "To send it anyway, set validate_hardware to warn."


def check_placement(job_spec: Values, *, warn_only: bool = False) -> tuple[str, ...]:
    """Judge a CustomJobSpec as a whole.

    Args:
        job_spec: In snake_case, complete, enums by name.
        warn_only: Report instead of refusing (`validate_hardware`).

    Returns:
        The warnings.

    Raises:
        PlanError: The first rule that the job breaks; a `MachineSpecError` or a `SchedulingError`
            where it is about machines or the strategy.
    """
    found = [error for rule in _RULES for error in rule(job_spec)]
    if found and not warn_only:
        raise found[0]
    return tuple(
        f"{error.message} It is sent because validate_hardware is warn." for error in found
    )


def check_locations(custom_job: object, location: str) -> None:
    """Refuse a name that bears another location than the job's own.

    KMS keys, TensorBoards, network attachments, reservations, experiments and persistent resources
    are used from where they are. What containers are told is theirs, and where a bucket is no name
    says.

    Args:
        custom_job: A CustomJob in snake_case, or a part of one.
        location: The job's.

    Raises:
        PlanError: There is one.
    """
    for path, kind, name, where in _located(custom_job, ""):
        if where != location:
            variable = _variable(path)
            raise PlanError(
                f"{path_of(path, variable)} names {kind} in {where}, but the job runs in "
                f"{location}: {shown(name)}.",
                variable=variable,
                hint=f"Use one in {location}; with several regions, write {{region}} into the name "
                "or set it in each of candidates.",
            )


# --- networks -------------------------------------------------------------------------------------


def _network(spec: Values) -> Iterator[PlanError]:
    network, interface = spec.get("network"), spec.get("psc_interface_config")
    if network and interface:
        yield PlanError(
            "network and psc_interface_config are both set; a job is peered or has an interface.",
            variable="network",
            hint="Remove one of them.",
        )
    if spec.get("reserved_ip_ranges") and not network:
        yield PlanError(
            "reserved_ip_ranges is set without the network that the ranges belong to.",
            variable="reserved_ip_ranges",
            hint="Set network, or remove reserved_ip_ranges.",
        )
    if network and not _NETWORK.match(str(network)):
        yield PlanError(
            f"network is {shown(network)}, expected projects/NUMBER/global/networks/NAME.",
            variable="network",
            hint="Use the project's number, which `gcloud projects describe PROJECT_ID "
            f"--format='value(projectNumber)'` prints, not its id. {_SEND_ANYWAY}",
        )
    kinds = sorted({machine.get("accelerator_type", "") for machine in _machines(spec)})
    for kind in kinds:
        if network and kind in _WITHOUT_PEERING:
            yield MachineSpecError(
                f"{kind} machines cannot be peered with a network, which network asks for.",
                variable="network",
                hint=f"Use psc_interface_config instead. {_SEND_ANYWAY}",
            )


# --- strategies -----------------------------------------------------------------------------------


def _flex_start(spec: Values) -> Iterator[PlanError]:
    if _strategy(spec) != "FLEX_START":
        return
    machines = _machines(spec)
    for machine in machines:
        kind = machine.get("accelerator_type", "")
        if kind not in _WITH_FLEX_START and (not kind or kind in ACCELERATORS):
            name = machine.get("machine_type")
            yield MachineSpecError(
                f"FLEX_START waits for {listed(_WITH_FLEX_START)}; {name} "
                + (f"has {kind}." if kind else "has no GPU."),
                variable="strategy",
                hint=f"Ask for one of those, or set strategy to STANDARD or SPOT. {_SEND_ANYWAY}",
            )
            break
    if any(machine != machines[0] for machine in machines):
        yield SchedulingError(
            "FLEX_START needs the same machine in all worker pools; theirs differ.",
            variable="strategy",
            hint=f"Give every pool the machine of the first. {_SEND_ANYWAY}",
        )


def _spot(spec: Values) -> Iterator[PlanError]:
    strategy = _strategy(spec)
    if strategy in SPOT_STRATEGIES and any(is_tpu_pod(machine) for machine in _machines(spec)):
        yield MachineSpecError(
            f"{strategy} is not offered for TPU pods, which take more than one host.",
            variable="strategy",
            hint=f"Ask for a topology of one host, or set strategy to STANDARD. {_SEND_ANYWAY}",
        )


# --- reservations and persistent resources --------------------------------------------------------


def _reservation(spec: Values) -> Iterator[PlanError]:
    for machine in _machines(spec):
        affinity = machine.get("reservation_affinity") or {}
        kind = affinity.get("reservation_affinity_type", "TYPE_UNSPECIFIED")
        if kind == "SPECIFIC_RESERVATION":
            yield from _specific(affinity)
        elif affinity.get("key") or affinity.get("values"):
            yield _affinity(
                f"reservation_affinity names a reservation, but its type is {kind}.",
                "Set reservation_affinity_type to SPECIFIC_RESERVATION.",
            )
        if kind not in {"ANY_RESERVATION", "SPECIFIC_RESERVATION"}:
            continue
        strategy = _strategy(spec)
        if strategy in _SPOT_OR_FLEX_START:
            yield _affinity(
                f"A reservation cannot be used with strategy {strategy}.",
                f"Set strategy to STANDARD, or remove reservation_affinity. {_SEND_ANYWAY}",
            )
        if spec.get("persistent_resource_id"):
            yield _affinity(
                "A reservation cannot be used by a job on a persistent resource.",
                f"Remove reservation_affinity or persistent_resource_id. {_SEND_ANYWAY}",
            )


def _specific(affinity: Values) -> Iterator[PlanError]:
    key, values = affinity.get("key"), affinity.get("values") or []
    if key != _RESERVATION_KEY or not values:
        yield _affinity(
            "reservation_affinity is SPECIFIC_RESERVATION, which needs key and values; they are "
            f"{shown(key)} and {shown(values)}.",
            f"Set key to {_RESERVATION_KEY} and values to the reservation's full name.",
        )
    for value in values:
        if not _RESERVATION.match(str(value)):
            yield _affinity(
                f"reservation_affinity names {shown(value)}, expected "
                "projects/PROJECT/zones/ZONE/reservations/NAME.",
                "Write the reservation's full name.",
            )


def _affinity(message: str, hint: str) -> PlanError:
    return PlanError(message, variable="reservation_affinity", hint=hint)


def _persistent_resource(spec: Values) -> Iterator[PlanError]:
    name = spec.get("persistent_resource_id")
    if not name:
        return
    if not _RESOURCE_ID.fullmatch(str(name)):
        yield PlanError(
            f"persistent_resource_id is {shown(name)}, expected lower case letters, numbers and "
            "hyphens, at most 63, a letter first and no hyphen last.",
            variable="persistent_resource_id",
            hint="Write the id alone, without project and location.",
        )
    strategy = _strategy(spec)
    if strategy in _SPOT_OR_FLEX_START:
        yield SchedulingError(
            f"A job on a persistent resource has its machines; strategy is {strategy}.",
            variable="strategy",
            hint=f"Leave strategy out, or remove persistent_resource_id. {_SEND_ANYWAY}",
        )


# --- TPUs -----------------------------------------------------------------------------------------


def _tpu(spec: Values) -> Iterator[PlanError]:
    """Several replicas are refused where the pools are laid out."""
    machines = _machines(spec)
    for machine in machines:
        name = str(machine.get("machine_type", ""))
        if len(machines) > 1 and is_tpu(name):
            yield MachineSpecError(
                f"{name} is a TPU host, of which a job has one worker pool; there are "
                f"{len(machines)}.",
                variable="worker_pools",
                hint=f"Leave one pool. {_SEND_ANYWAY}",
            )
            return


_RULES: tuple[Callable[[Values], Iterator[PlanError]], ...] = (
    _network,
    _persistent_resource,
    _reservation,
    _tpu,
    _spot,
    _flex_start,
)


def _machines(spec: Values) -> list[Values]:
    """The machine specs of the pools that have one; an empty pool has none."""
    pools = spec.get("worker_pool_specs") or ()
    return [pool["machine_spec"] for pool in pools if pool.get("machine_spec")]


def _strategy(spec: Values) -> str:
    scheduling = spec.get("scheduling") or {}
    return str(scheduling.get("strategy", ""))


def _located(value: object, path: str) -> Iterator[tuple[str, str, str, str]]:
    """Path, kind, name and location of every name in `value` that bears one."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key not in {"container_spec", "python_package_spec", "labels"}:
                yield from _located(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _located(item, f"{path}[{index}]")
    elif isinstance(value, str) and (match := _BEARS_LOCATION.match(value)):
        scope, where, kind = match.groups()
        # Some resources have the form of a region's, and a zone in it.
        location = (where.rpartition("-")[0] or where) if scope == "zones" else region_of(where)
        yield path, with_article(_singular(kind)), value, location


def _variable(path: str) -> str:
    leaf = variable_of(path)
    return "reservation_affinity" if leaf == "values" else leaf


def _singular(kind: str) -> str:
    return {"keyRings": "KMS key", "networkAttachments": "network attachment"}.get(
        kind,
        re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.removesuffix("s")).lower(),
    )
