"""Quotas skip what cannot fit, clamp what fits in part, and where they are unknown do nothing."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_vertex.capacity.meters import Demand, PoolDemand
from prefect_vertex.capacity.quota import (
    LIMITS_ARE_NOT_USAGE,
    Preflight,
    ProjectQuotas,
    Standing,
    preflight,
)
from prefect_vertex.capacity.refusals import RefusalReason, Scope

PREFIX = "aiplatform.googleapis.com/custom_model_training_"
T4, CPUS = f"{PREFIX}nvidia_t4_gpus", f"{PREFIX}cpus"


def a_demand(index: int = 0, workers: int = 1, *, t4: int = 1, **fields: Any) -> Demand:
    """One n1-standard-4 with a T4 for each replica."""
    machine: dict[str, Any] = {
        "machine_type": "n1-standard-4",
        "accelerator_type": "NVIDIA_TESLA_T4" if t4 else "",
        "accelerator_count": t4,
    }
    pools = [PoolDemand(replicas=1, **machine)]
    if workers > 1:
        pools.append(PoolDemand(replicas=workers - 1, **machine))
    return Demand(
        **{
            "index": index,
            "project": "p",
            "location": "us-central1",
            "pools": tuple(pools),
            "worker_count": workers,
            **fields,
        }
    )


def quotas(**limits: int) -> dict[str, ProjectQuotas]:
    found = {(f"{PREFIX}{name}", "us-central1"): limit for name, limit in limits.items()}
    return {"p": ProjectQuotas(limits=found)}


@pytest.mark.parametrize(
    ("workers", "limit", "standing", "worker_count"),
    [
        (1, 1, Standing.OK, 1),
        (1, 0, Standing.BLOCKED, 1),
        (1, -1, Standing.OK, 1),
        (1, None, Standing.UNKNOWN, 1),
        (4, 4, Standing.OK, 4),
        (4, 12, Standing.OK, 4),
        (4, 3, Standing.CLAMPED, 3),
        (4, 1, Standing.CLAMPED, 1),
        (4, 0, Standing.BLOCKED, 4),
        (4, -1, Standing.OK, 4),
        (4, None, Standing.UNKNOWN, 4),
    ],
)
def test_the_device_quota_clamps_the_worker_count(
    workers: int, limit: int | None, standing: Standing, worker_count: int
) -> None:
    limits = {"cpus": 2200} if limit is None else {"cpus": 2200, "nvidia_t4_gpus": limit}

    (outcome,) = preflight([a_demand(workers=workers)], quotas(**limits)).outcomes

    assert (outcome.standing, outcome.worker_count) == (standing, worker_count)


@pytest.mark.parametrize(
    ("limit", "per_replica", "worker_count"), [(8, 4, 2), (9, 4, 2), (7, 4, 1), (4, 4, 1)]
)
def test_a_replica_counts_with_all_its_devices(
    limit: int, per_replica: int, worker_count: int
) -> None:
    demand = a_demand(workers=3, t4=per_replica)

    (outcome,) = preflight([demand], quotas(nvidia_t4_gpus=limit, cpus=99)).outcomes

    assert outcome.worker_count == worker_count


@pytest.mark.parametrize(
    ("limit", "standing"),
    [(16, Standing.OK), (15, Standing.ADVISED), (4, Standing.ADVISED), (3, Standing.BLOCKED)],
)
def test_a_shared_quota_only_advises_unless_not_one_replica_fits(
    limit: int, standing: Standing
) -> None:
    (outcome,) = preflight([a_demand(workers=4)], quotas(nvidia_t4_gpus=9, cpus=limit)).outcomes

    assert (outcome.standing, outcome.worker_count) == (standing, 4)


def test_pools_of_fixed_size_fit_or_do_not() -> None:
    """Their numbers are the template's own: no worker count makes them smaller."""
    demand = a_demand(workers=4, worker_count=1)

    (outcome,) = preflight([demand], quotas(nvidia_t4_gpus=3, cpus=99)).outcomes

    assert (outcome.standing, outcome.worker_count) == (Standing.BLOCKED, 1)


def test_a_location_s_own_limit_counts_before_the_project_s() -> None:
    limits = {(T4, ""): 0, (T4, "us-east1"): 1, (CPUS, ""): 99}
    demands = [a_demand(0), a_demand(1, location="us-east1")]

    found = preflight(demands, {"p": ProjectQuotas(limits=limits)})

    assert [each.standing for each in found.outcomes] == [Standing.BLOCKED, Standing.OK]


def test_blocked_candidates_are_skipped_in_a_walk_that_has_others() -> None:
    demands = [a_demand(0), a_demand(1, location="us-east1"), a_demand(2, t4=0)]
    limits = {(T4, "us-central1"): 0, (T4, "us-east1"): 2, (CPUS, ""): 99}

    found = preflight(demands, {"p": ProjectQuotas(limits=limits)})

    assert found.skipped == {0}
    refusal = found.refusals[0]
    assert (refusal.reason, refusal.scope) == (RefusalReason.QUOTA, Scope.HOP_NEVER_BACK)
    assert refusal.message == (
        "By its quotas candidate 1 (us-central1, STANDARD) cannot be created: "
        "custom_model_training_nvidia_t4_gpus allows 0 accelerators in us-central1; "
        "the job takes 1."
    )


def test_where_all_are_blocked_all_are_tried() -> None:
    """A meter may be wrong, and a wrong meter must not stop a run."""
    found = preflight([a_demand(0, 3), a_demand(1)], quotas(nvidia_t4_gpus=0, cpus=99))

    assert found.is_all_blocked
    assert (found.skipped, found.refusals, found.worker_counts) == (frozenset(), {}, {})
    assert "No candidate fits its quotas; all are tried all the same." in found.lines


def test_what_is_clamped_is_said_with_the_caution_that_limits_are_not_usage() -> None:
    found = preflight([a_demand(0, 4), a_demand(1)], quotas(nvidia_t4_gpus=2, cpus=99))

    assert found.worker_counts == {0: 2}
    clamp, caution = found.lines
    assert clamp == (
        "By its quotas candidate 1 (us-central1, STANDARD) has 2 of 4 replicas: "
        "custom_model_training_nvidia_t4_gpus allows 2 accelerators in us-central1; "
        "the job takes 4 for 4 replicas."
    )
    assert caution.startswith(LIMITS_ARE_NOT_USAGE)


@pytest.mark.parametrize(("cpus", "is_said"), [(8, False), (7, True)])
def test_a_shared_quota_is_held_against_the_clamped_job(cpus: int, *, is_said: bool) -> None:
    found = preflight([a_demand(0, 4)], quotas(nvidia_t4_gpus=2, cpus=cpus))

    assert any("may be refused" in line for line in found.lines) is is_said


def test_enough_of_everything_says_nothing() -> None:
    assert preflight([a_demand()], quotas(nvidia_t4_gpus=1, cpus=4)).lines == ()


def test_what_could_not_be_read_changes_nothing_and_says_why() -> None:
    found = preflight([a_demand(0, 4)], {"p": ProjectQuotas(problem="no answer.")})

    assert (found.skipped, found.worker_counts) == (frozenset(), {})
    assert found.lines == ("The quotas of project p are unknown: no answer.",)


def test_a_project_that_nobody_read_is_unknown() -> None:
    (outcome,) = preflight([a_demand()], {}).outcomes

    assert outcome.standing is Standing.UNKNOWN


def test_each_project_has_its_own_quotas() -> None:
    readings = {**quotas(nvidia_t4_gpus=0), "q": ProjectQuotas(limits={(T4, ""): 1})}

    found = preflight([a_demand(0), a_demand(1, project="q")], readings)

    assert found.skipped == {0}


def test_an_exempt_job_is_not_judged() -> None:
    demand = a_demand(workers=4, exempt="it runs on persistent resource x")

    (outcome,) = preflight([demand], quotas(nvidia_t4_gpus=0, cpus=0)).outcomes

    assert (outcome.standing, outcome.worker_count) == (Standing.OK, 4)


def test_no_candidates_is_no_preflight() -> None:
    assert preflight([], {}) == Preflight()
    assert not Preflight().is_all_blocked
