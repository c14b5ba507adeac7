"""Followers of a run, found and ended through a real server."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import FlowRunCreate, TaskRunCreate
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.states import Pending, to_state_create

from prefect_vertex.lifecycle.run import ATTEMPT_LABEL, LEADER_LABEL, RANK_LABEL, RunState, RunView
from prefect_vertex.runs import followers as module
from prefect_vertex.runs.followers import crashed_followers
from prefect_vertex.runs.port import Proposal
from prefect_vertex.runs.prefect import PrefectFlowRuns
from prefect_vertex.runs.translate import to_view

if TYPE_CHECKING:
    from tests.runs.conftest import Pool

pytestmark = pytest.mark.anyio


class Replicas:
    """What the replicas of a job write to Prefect."""

    def __init__(self, client: PrefectClient) -> None:
        self._client = client

    async def follow(
        self, leader: FlowRun, attempt: int, rank: int, *, labelled: bool = True
    ) -> FlowRun:
        """A follower's flow run: Pending, of no deployment, a child of a task run of the leader."""
        place = f"a{attempt}-r{rank}"
        task = TaskRunCreate(
            flow_run_id=leader.id,
            task_key="prefect_vertex.replica",
            dynamic_key=place,
            name=f"replica-{rank}",
            state=to_state_create(Pending()),
        )
        answer = await self._client.request(
            "POST", "/task_runs/", json=task.model_dump(mode="json", exclude_unset=True)
        )
        labels = {LEADER_LABEL: str(leader.id), ATTEMPT_LABEL: str(attempt), RANK_LABEL: str(rank)}
        wanted = FlowRunCreate(
            flow_id=leader.flow_id,
            parent_task_run_id=answer.json()["id"],
            state=to_state_create(Pending()),
            idempotency_key=f"prefect-vertex:{leader.id}:a{attempt}:r{rank}",
            labels=labels if labelled else {},
        )
        made = await self._client.request(
            "POST", "/flow_runs/", json=wanted.model_dump(mode="json", exclude_unset=True)
        )
        return FlowRun.model_validate(made.json())


@pytest.fixture
def replicas(client: PrefectClient) -> Replicas:
    return Replicas(client)


def ids(views: list[RunView]) -> set[str]:
    return {view.id for view in views}


async def test_followers_that_have_not_ended_are_found_by_their_leader(
    runs: PrefectFlowRuns, pool: Pool, replicas: Replicas
) -> None:
    """Of every attempt; a flow that the leader calls is none, nor is another run's follower."""
    leader, other = await pool.run(StateType.RUNNING), await pool.run(StateType.RUNNING)
    waiting = await replicas.follow(leader, 1, 1)
    running = await replicas.follow(leader, 2, 2)
    await pool.put(running, StateType.RUNNING)
    ended = await replicas.follow(leader, 2, 1)
    await pool.put(ended, StateType.COMPLETED)
    await replicas.follow(leader, 2, 3, labelled=False)
    elsewhere = await replicas.follow(other, 1, 1)

    found = await runs.followers([str(leader.id)])
    both = await runs.followers([str(leader.id), str(other.id)])

    assert ids(found) == {str(waiting.id), str(running.id)}
    assert ids(both) == ids(found) | {str(elsewhere.id)}
    (view,) = [view for view in found if view.id == str(running.id)]
    assert (view.attempt, view.labels[RANK_LABEL], view.state) == (2, "2", RunState.RUNNING)


async def test_they_are_in_no_pool(runs: PrefectFlowRuns, pool: Pool, replicas: Replicas) -> None:
    leader = await pool.run(StateType.RUNNING)
    await replicas.follow(leader, 1, 1)

    assert ids(await runs.unfinished()) == {str(leader.id)}


async def test_many_are_read_page_by_page(
    runs: PrefectFlowRuns, pool: Pool, replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_SIZE", 2)
    leaders = [await pool.run(StateType.RUNNING) for _ in range(3)]
    made = [await replicas.follow(leader, 1, rank) for leader in leaders for rank in (1, 2, 3)]

    found = await runs.followers([str(leader.id) for leader in leaders])

    assert ids(found) == {str(run.id) for run in made}


async def test_those_of_a_deleted_leader_are_found_by_what_they_were_made_under(
    runs: PrefectFlowRuns, pool: Pool, client: PrefectClient, replicas: Replicas
) -> None:
    """The server drops the link between them with the leader's task runs."""
    leader = await pool.run(StateType.RUNNING)
    first, second = [await replicas.follow(leader, 2, rank) for rank in (1, 2)]
    await replicas.follow(leader, 1, 1)
    await pool.put(second, StateType.FAILED)
    await client.delete_flow_run(leader.id)

    assert await runs.followers([str(leader.id)]) == []
    assert ids(await runs.followers_of_deleted(str(leader.id), 2, 3)) == {str(first.id)}
    assert await runs.followers_of_deleted(str(leader.id), 3, 200) == []


@pytest.mark.parametrize(
    ("before", "proposed"),
    [
        (StateType.PENDING, RunState.CRASHED),
        (StateType.RUNNING, RunState.CRASHED),
        (StateType.PAUSED, RunState.CRASHED),
        (StateType.RUNNING, RunState.CANCELLED),
        (StateType.CANCELLING, RunState.CANCELLED),
    ],
)
async def test_one_that_its_process_has_left_is_ended(
    before: StateType,
    proposed: RunState,
    runs: PrefectFlowRuns,
    pool: Pool,
    replicas: Replicas,
) -> None:
    leader = await pool.run(StateType.RUNNING)
    follower = await replicas.follow(leader, 1, 1)
    await pool.put(follower, before)

    end = Proposal(state=proposed, name=proposed.value.title(), message="Its job ended.")
    assert await runs.propose(str(follower.id), end)

    assert await runs.followers([str(leader.id)]) == []
    view = await runs.read(str(follower.id))
    assert view is not None
    assert view.state is proposed


async def test_a_claim_of_any_replica_is_seen_by_how_its_key_begins(
    runs: PrefectFlowRuns, pool: Pool
) -> None:
    run_id = str((await pool.run(StateType.PENDING)).id)
    await runs.claim(run_id, "prefect-vertex-start-a12-r3", "{}")
    await runs.claim(run_id, "prefect-vertex-here-a1-j4711-r3", "{}")

    assert not await runs.has_claim(run_id, "prefect-vertex-start-a1-")
    assert await runs.has_claim(run_id, "prefect-vertex-start-a12-")
    await runs.claim(run_id, "prefect-vertex-start-a1-r63", "{}")
    await runs.claim(run_id, "prefect-vertex-start-a1-workerpool2-0", "{}")
    assert await runs.has_claim(run_id, "prefect-vertex-start-a1-")


async def test_a_deleted_run_has_no_claims(
    runs: PrefectFlowRuns, pool: Pool, client: PrefectClient
) -> None:
    run = await pool.run(StateType.PENDING)
    await runs.claim(str(run.id), "prefect-vertex-start-a1-r0", "{}")
    await client.delete_flow_run(run.id)

    assert not await runs.has_claim(str(run.id), "prefect-vertex-start-a1-")


async def test_those_of_the_last_attempt_that_crashed_are_found_the_first_to_die_first(
    pool: Pool, replicas: Replicas, client: PrefectClient
) -> None:
    leader = await pool.run(StateType.RUNNING)
    early, late = [await replicas.follow(leader, 2, rank) for rank in (2, 1)]
    lives, old = await replicas.follow(leader, 2, 3), await replicas.follow(leader, 1, 1)
    for run in (old, early, late):
        await pool.put(run, StateType.CRASHED)
    await pool.put(lives, StateType.FAILED)
    view = replace(to_view(leader, observed_at=datetime.now(UTC)), labels={ATTEMPT_LABEL: "2"})

    found = await crashed_followers(client, view)

    assert [each.id for each in found] == [str(early.id), str(late.id)]
