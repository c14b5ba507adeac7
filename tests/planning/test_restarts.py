"""What a container is told about being started again and about being asked to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.planning.plan import JobPlan

APlan = Callable[..., JobPlan]

GUARD = "PREFECT_VERTEX_GUARD"
SIGTERM = "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"
IMAGE = "europe-docker.pkg.dev/p/flows/forecast:1"
RETRIES_OFF: dict[str, Any] = {"scheduling": {"disable_retries": True}}


def environments(plan: JobPlan) -> list[dict[str, str]]:
    """The environment of each pool."""
    pools = plan.request.custom_job.job_spec.worker_pool_specs
    return [{entry.name: entry.value for entry in pool.container_spec.env} for pool in pools]


@pytest.mark.parametrize(
    ("scheduling", "behavior", "guard"),
    [
        pytest.param({"disable_retries": True}, "reschedule", None, id="off"),
        pytest.param({"disable_retries": "true"}, "reschedule", None, id="off, in words"),
        pytest.param({"disable_retries": False}, "relinquish", "0", id="on"),
        pytest.param({"timeout": 60}, "relinquish", "0", id="on, Vertex AI's own default"),
        pytest.param(None, "relinquish", "0", id="no scheduling, the same default"),
    ],
)
def test_with_vertex_retries_the_platform_starts_the_run_again_without_them_the_worker(
    a_plan: APlan, scheduling: dict[str, Any] | None, behavior: str, guard: str | None
) -> None:
    """What counts is what the request says, whoever wrote it."""
    (only,) = environments(a_plan(spec={"scheduling": scheduling}))

    assert (only[SIGTERM], only.get(GUARD)) == (behavior, guard)


def test_only_the_primary_replica_reschedules_its_run(a_plan: APlan) -> None:
    """A follower's run has no worker that could take it up again."""
    for disable_retries in (True, False):
        spec = {"scheduling": {"disable_retries": disable_retries}}
        primary, others = environments(a_plan(worker_count=3, spec=spec))

        assert SIGTERM in primary
        assert SIGTERM not in others


def test_the_guard_is_off_in_every_pool_or_in_none(a_plan: APlan) -> None:
    spec = {"scheduling": {"disable_retries": False}}

    assert [each[GUARD] for each in environments(a_plan(worker_count=3, spec=spec))] == ["0", "0"]


@pytest.mark.parametrize("disable_retries", [True, False])
def test_a_value_of_the_users_own_wins(
    a_plan: APlan,
    disable_retries: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Whether it comes with the run, deployment or template, or stands in the pool itself."""
    scheduling = {"scheduling": {"disable_retries": disable_retries}}
    first = {"image_uri": IMAGE, "env": [{"name": SIGTERM, "value": "crash"}]}

    (by_env,) = environments(a_plan(env={SIGTERM: "crash"}, spec=scheduling))
    (by_pool,) = environments(a_plan(pool={"container_spec": first}, spec=scheduling))

    assert (by_env[SIGTERM], by_pool[SIGTERM]) == ("crash", "crash")


def test_a_null_in_the_pool_leaves_the_choice_to_the_image(a_plan: APlan) -> None:
    first = {"image_uri": IMAGE, "env": [{"name": SIGTERM, "value": None}]}

    (only,) = environments(a_plan(pool={"container_spec": first}, spec=RETRIES_OFF))

    assert SIGTERM not in only


def test_nobody_is_warned_of_a_default_that_they_replaced(a_plan: APlan) -> None:
    assert a_plan(env={SIGTERM: "crash"}, spec=RETRIES_OFF).warnings == ()


def test_the_guard_itself_cannot_be_switched_by_hand(a_plan: APlan) -> None:
    """A second start runs the flow twice: that is asked for with disable_retries alone."""
    spec = {"scheduling": {"disable_retries": False}}
    plan = a_plan(env={GUARD: "1"}, spec=spec)

    assert environments(plan)[0][GUARD] == "0"
    assert [line.split()[1] for line in plan.warnings] == [GUARD]
