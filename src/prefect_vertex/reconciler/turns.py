"""What comes right before a create: the turn to submit, and the run's own word of what is sent."""

from __future__ import annotations

import anyio

from prefect_vertex.capacity.ledger import format_names
from prefect_vertex.capacity.trail import format_trail
from prefect_vertex.lifecycle.policy import format_policy
from prefect_vertex.lifecycle.run import (
    ATTEMPT_LABEL,
    CANDIDATE_LABEL,
    INSTANCE_LABEL,
    LOCATION_LABEL,
    NAMES_LABEL,
    POLICY_LABEL,
    PROJECT_LABEL,
    SETTLED_LABEL,
    WAIT_LABEL,
    WALK_LABEL,
    RunView,
)
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.ports import World
from prefect_vertex.vertex.gateway import JobGateway


async def take_turn(care: Care, gateway: JobGateway) -> bool:
    """Wait for the submission budget, perhaps for minutes; False if the run stopped waiting."""
    taken = False
    care.interrupt = interrupt = anyio.Event()

    async def interrupted(scope: anyio.CancelScope) -> None:
        await interrupt.wait()
        scope.cancel()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(interrupted, group.cancel_scope)
            await gateway.submission_turn()
            taken = True
            group.cancel_scope.cancel()
    finally:
        care.interrupt = None
    return taken


async def announce(world: World, care: Care, view: RunView, plan: JobPlan) -> None:
    """Identity before existence: the run says who creates what and where."""
    if care.assignment is None or care.choice is None:  # pragma: no cover - asked before
        raise RuntimeError(f"Flow run {care.run_id} is announced without a candidate.")
    trail, index = care.choice.trail, care.choice.candidate
    care.policy, text = care.assignment.policy_at(index), format_trail(trail)
    pools = plan.request.custom_job.job_spec.worker_pool_specs
    replicas = sum(pool.replica_count for pool in pools)
    await world.runs.label(
        care.run_id,
        {
            INSTANCE_LABEL: world.signature,
            PROJECT_LABEL: plan.target.project,
            LOCATION_LABEL: plan.target.location,
            ATTEMPT_LABEL: str(plan.attempt),
            WAIT_LABEL: view.state_id,
            # From now on it may have one.
            SETTLED_LABEL: "",
            POLICY_LABEL: format_policy(care.policy),
            CANDIDATE_LABEL: f"{plan.attempt}:{index}:{replicas}",
            WALK_LABEL: text,
            NAMES_LABEL: format_names(care.assignment.names),
        },
    )
    care.trail, care.trail_text = trail, text
