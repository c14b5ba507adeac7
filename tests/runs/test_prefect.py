"""PrefectFlowRuns against a real server."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import anyio.to_thread
import httpx
import pytest
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    LogFilter,
    LogFilterFlowRunId,
)
from prefect.client.schemas.objects import (
    TERMINAL_STATES,
    FlowRun,
    State,
    StateDetails,
    StateType,
)
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex.lifecycle.run import ATTEMPT_LABEL, INSTANCE_LABEL, RunState
from prefect_vertex.runs import prefect as module
from prefect_vertex.runs.port import PrefectUnavailableError, Proposal, Roster
from prefect_vertex.runs.prefect import PrefectFlowRuns

if TYPE_CHECKING:
    from tests.runs.conftest import Pool

pytestmark = pytest.mark.anyio
NOBODY = str(uuid4())
A_RESULT = {
    "storage_key": "a-key",
    "expiration": None,
    "serializer": {"type": "pickle", "picklelib": "cloudpickle", "picklelib_version": None},
    "prefect_version": "3.9.1",
    "storage_block_id": None,
}
CRASH = Proposal(state=RunState.CRASHED, name="Crashed", message="It failed.")


def shown(name: str) -> Proposal:
    return Proposal(state=RunState.PENDING, name=name, message="It waits.")


# --- reading --------------------------------------------------------------------------------------


async def test_a_run_is_read_as_it_is(runs: PrefectFlowRuns, pool: Pool) -> None:
    run = await pool.run(StateType.PENDING, "Submitting", infrastructure_pid="a-job")

    view = await runs.read(str(run.id))

    assert view is not None
    assert (view.state, view.state_name) == (RunState.PENDING, "Submitting")
    assert view.identifier == "a-job"
    assert view.deployment_id == str(pool.deployment_id)


async def test_a_run_that_does_not_exist_is_none(runs: PrefectFlowRuns) -> None:
    assert await runs.read(NOBODY) is None
    assert await runs.read_many([NOBODY]) == {}
    assert await runs.read_many([]) == {}


async def test_many_are_read_page_by_page(
    runs: PrefectFlowRuns, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_SIZE", 2)
    ids = {str((await pool.run(StateType.RUNNING)).id) for _ in range(5)}

    assert (await runs.read_many([*ids, NOBODY])).keys() == ids
    assert {view.id for view in await runs.unfinished()} == ids


async def test_the_servers_largest_page_is_ours(
    runs: PrefectFlowRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    await runs.unfinished()
    monkeypatch.setattr(module, "PAGE_SIZE", module.PAGE_SIZE + 1)

    with pytest.raises(PrefectUnavailableError, match="422"):
        await runs.unfinished()


async def test_what_is_unfinished(runs: PrefectFlowRuns, pool: Pool) -> None:
    by_kind = {kind: str((await pool.run(kind)).id) for kind in StateType}
    begun = {StateType.PENDING, StateType.RUNNING, StateType.PAUSED, StateType.CANCELLING}

    assert {view.id for view in await runs.unfinished()} == {by_kind[kind] for kind in begun}


async def test_runs_that_wait_for_a_retry_are_unfinished(runs: PrefectFlowRuns, pool: Pool) -> None:
    """One that waits in a dead container is offered to nobody: only a sweep finds it."""
    run = await pool.run(StateType.SCHEDULED, "AwaitingRetry")
    await pool.run(StateType.FAILED, "AwaitingRetry")
    await pool.run()

    assert [view.id for view in await runs.unfinished()] == [str(run.id)]


async def test_what_is_cancelling_or_has_ended(runs: PrefectFlowRuns, pool: Pool) -> None:
    before = datetime.now(UTC)
    by_kind = {kind: str((await pool.run(kind)).id) for kind in StateType}
    wanted = {by_kind[kind] for kind in TERMINAL_STATES}
    cancelling = by_kind[StateType.CANCELLING]

    seen = await runs.cancelling_or_ended(before)
    later = await runs.cancelling_or_ended(datetime.now(UTC) + timedelta(minutes=1))

    assert sorted(view.id for view in seen) == sorted({*wanted, cancelling})
    assert [view.id for view in later] == [cancelling]


async def test_a_run_that_goes_on_after_its_end_has_not_ended(
    runs: PrefectFlowRuns, pool: Pool
) -> None:
    before = datetime.now(UTC)
    run = await pool.run(StateType.FAILED)
    await pool.put(run, StateType.SCHEDULED, "AwaitingRetry")

    assert await runs.cancelling_or_ended(before) == []


async def test_other_pools_runs_are_not_ours(
    runs: PrefectFlowRuns, pool: Pool, client: PrefectClient
) -> None:
    before = datetime.now(UTC)
    await pool.run(StateType.CANCELLING)
    await pool.run(StateType.COMPLETED)
    other = PrefectFlowRuns(client, "another-pool")

    assert await other.cancelling_or_ended(before) == []
    assert await other.unfinished() == []


async def test_where_a_run_came_from(runs: PrefectFlowRuns, pool: Pool) -> None:
    run = await pool.run(StateType.PENDING, infrastructure_pid="a-job")
    for kind in (StateType.RUNNING, StateType.SCHEDULED):
        await pool.put(run, kind)
    scheduled = await runs.read(str(run.id))
    await pool.put(run, StateType.PENDING)
    pending = await runs.read(str(run.id))
    assert pending is not None
    came_from = await runs.came_from(pending)
    await pool.put(run, StateType.CANCELLING)
    (cancelling,) = await runs.cancelling_or_ended(datetime.now(UTC))

    assert scheduled is not None
    assert scheduled.previous is RunState.RUNNING
    assert pending.previous is None
    assert came_from is RunState.RUNNING
    assert cancelling.previous is RunState.PENDING


# --- writing --------------------------------------------------------------------------------------


async def test_a_proposal_that_is_accepted_shows(runs: PrefectFlowRuns, pool: Pool) -> None:
    run = await pool.run(StateType.PENDING)

    assert await runs.propose(str(run.id), shown("InfrastructurePending"))

    view = await runs.read(str(run.id))
    assert view is not None
    assert view.state_name == "InfrastructurePending"


@pytest.mark.parametrize(
    ("kind", "name", "proposal"),
    [
        (StateType.PENDING, "Provisioning", shown("Provisioning")),
        (StateType.RUNNING, "", shown("Provisioning")),
        (StateType.COMPLETED, "", CRASH),
        (StateType.CANCELLING, "", CRASH),
    ],
)
async def test_a_refusal_is_no_error_and_changes_nothing(
    kind: StateType, name: str, proposal: Proposal, runs: PrefectFlowRuns, pool: Pool
) -> None:
    run = await pool.run(kind, name)

    assert not await runs.propose(str(run.id), proposal)

    view = await runs.read(str(run.id))
    assert view is not None
    assert view.state_id == str(run.state_id)


@pytest.mark.parametrize("word", ["InfrastructurePending", "Pending"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (StateType.COMPLETED, "Completed"),
        (StateType.FAILED, "Failed"),
        (StateType.CRASHED, "Crashed"),
        (StateType.FAILED, "TimedOut"),
    ],
)
async def test_an_end_that_a_late_word_took_away_is_given_back(
    kind: StateType, name: str, word: str, runs: PrefectFlowRuns, pool: Pool
) -> None:
    """The server takes the word; nothing else of the end is lost with it."""
    run = await pool.run(StateType.RUNNING)
    # The server itself keeps an end with a kept result, if it is Completed.
    data = None if kind is StateType.COMPLETED else A_RESULT
    fields = {"type": kind.value, "name": name, "message": "It said so.", "data": data}
    body = {"state": fields, "force": True}
    await pool.client.request(
        "POST", "/flow_runs/{id}/set_state", path_params={"id": run.id}, json=body
    )
    end = await end_of(pool, run)
    assert await runs.propose(str(run.id), shown(word))
    late = await runs.read(str(run.id))
    assert late is not None
    assert late.state is RunState.PENDING

    assert await runs.restore(late)

    assert await end_of(pool, run) == end
    assert not await runs.restore(late)


async def end_of(pool: Pool, run: FlowRun) -> dict[str, Any]:
    """What a run's state says, its result too."""
    answer = await pool.client.request("GET", "/flow_runs/{id}", path_params={"id": run.id})
    state = answer.json()["state"]
    return {key: state[key] for key in ("type", "name", "message", "data")}


async def test_a_pause_that_a_late_word_took_away_is_given_back(
    runs: PrefectFlowRuns, pool: Pool
) -> None:
    run = await pool.run(StateType.RUNNING)
    details = StateDetails(pause_reschedule=True, pause_key="a-key")
    paused = State(type=StateType.PAUSED, name="Suspended", state_details=details)
    await pool.client.set_flow_run_state(run.id, paused, force=True)
    await pool.put(run, StateType.PENDING, "Provisioning")
    late = await runs.read(str(run.id))
    assert late is not None

    assert await runs.restore(late)

    view = await runs.read(str(run.id))
    assert view is not None
    assert (view.state_name, view.suspended) == ("Suspended", True)


async def test_a_run_that_waits_as_it_should_is_given_nothing_back(
    runs: PrefectFlowRuns, pool: Pool
) -> None:
    run = await pool.run(StateType.PENDING)
    await runs.propose(str(run.id), shown("InfrastructurePending"))
    view = await runs.read(str(run.id))
    assert view is not None

    assert not await runs.restore(view)
    assert await runs.read(str(run.id)) is not None


async def test_a_proposal_is_sent_once(runs: PrefectFlowRuns, pool: Pool) -> None:
    """Repeated by Prefect's own client, it could arrive when it is true no more."""
    sent: list[str] = []

    class Broken(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/csrf-token"):
                return httpx.Response(404, request=request)  # as a server without them
            sent.append(request.url.path)
            raise httpx.ReadError("broken", request=request)

    run = await pool.run(StateType.PENDING)
    broken = {"transport": Broken()}
    async with PrefectClient("http://127.0.0.1/api", httpx_settings=broken) as client:
        with pytest.raises(PrefectUnavailableError):
            await PrefectFlowRuns(client, pool.name).propose(str(run.id), shown("Provisioning"))

    assert sent == [f"/api/flow_runs/{run.id}/set_state"]


async def test_labels_are_merged(runs: PrefectFlowRuns, pool: Pool) -> None:
    run = await pool.run(StateType.PENDING)
    await runs.label(str(run.id), {INSTANCE_LABEL: "w/1", ATTEMPT_LABEL: "1"})
    await runs.label(str(run.id), {ATTEMPT_LABEL: "2"})

    view = await runs.read(str(run.id))

    assert view is not None
    assert (view.holder, view.attempt) == ("w/1", 2)


async def test_labels_hold_nothing_that_postgresql_refuses(
    runs: PrefectFlowRuns, pool: Pool
) -> None:
    """A run's trail quotes what Vertex AI and replicas say."""
    run = await pool.run(StateType.PENDING)
    await runs.label(str(run.id), {INSTANCE_LABEL: "w\0/1"})

    view = await runs.read(str(run.id))

    assert view is not None
    assert view.holder == "w/1"


async def test_the_identifier_is_written(runs: PrefectFlowRuns, pool: Pool) -> None:
    run = await pool.run(StateType.PENDING)
    await runs.name_infrastructure(str(run.id), "projects/p/locations/l/customJobs/1")

    view = await runs.read(str(run.id))

    assert view is not None
    assert view.identifier == "projects/p/locations/l/customJobs/1"


async def test_what_is_written_to_a_deleted_run_is_lost_without_an_error(
    runs: PrefectFlowRuns,
) -> None:
    await runs.label(NOBODY, {"a": "b"})
    await runs.name_infrastructure(NOBODY, "a-job")
    await runs.hand_back(NOBODY)

    assert not await runs.propose(NOBODY, CRASH)
    assert await runs.claim(NOBODY, "a-key", "me") == ""
    assert await runs.read_claim(NOBODY, "a-key") == ""


@pytest.mark.parametrize("kind", [StateType.PENDING, StateType.RUNNING])
async def test_a_run_that_is_scheduled_again_is_offered_to_the_workers(
    kind: StateType, runs: PrefectFlowRuns, pool: Pool
) -> None:
    run = await pool.run(kind)
    again = Proposal(state=RunState.SCHEDULED, name="AwaitingRetry", message="Another is due.")
    assert run.id not in await pool.offered()

    assert await runs.propose(str(run.id), again)

    assert run.id in await pool.offered()


async def test_a_run_that_is_handed_back_is_offered_to_the_workers(
    runs: PrefectFlowRuns, pool: Pool
) -> None:
    run = await pool.run(StateType.RUNNING)
    policy = run.empirical_policy.model_copy(update={"retry_type": "in_process"})
    await pool.client.update_flow_run(run.id, empirical_policy=policy)
    await pool.put(run, StateType.SCHEDULED, "AwaitingRetry")
    view = await runs.read(str(run.id))
    assert view is not None
    assert view.retries_in_process
    assert run.id not in await pool.offered()

    await runs.hand_back(str(run.id))

    assert run.id in await pool.offered()


# --- claims and leases ----------------------------------------------------------------------------


async def test_of_many_claims_one_wins_and_all_learn_which(
    runs: PrefectFlowRuns, pool: Pool
) -> None:
    run = await pool.run(StateType.PENDING)
    heard: list[str] = []

    async def claim(number: int) -> None:
        heard.append(await runs.claim(str(run.id), "prefect-vertex-create-a1", f"w/{number}"))

    async with anyio.create_task_group() as group:
        for number in range(12):
            group.start_soon(claim, number)

    (winner,) = set(heard)
    assert winner.startswith("w/")
    assert await runs.read_claim(str(run.id), "prefect-vertex-create-a1") == winner


async def test_a_claim_is_kept_and_its_owner_recognised(runs: PrefectFlowRuns, pool: Pool) -> None:
    run = await pool.run(StateType.PENDING)

    assert [await runs.claim(str(run.id), "a-key", who) for who in "abab"] == ["a"] * 4
    assert await runs.claim(str(run.id), "another-key", "b") == "b"
    assert await runs.read_claim(str(run.id), "no-key") == ""


async def test_the_lease_of_a_waiting_run_is_renewed(runs: PrefectFlowRuns, pool: Pool) -> None:
    run = await pool.limited_run()
    await runs.propose(str(run.id), shown("Pending"))
    view = await runs.read(str(run.id))

    assert view is not None
    assert view.lease_id
    assert await runs.renew_lease(view.lease_id)
    assert not await runs.renew_lease(NOBODY)


async def test_a_worker_without_a_heartbeat_is_offline(
    runs: PrefectFlowRuns, pool: Pool, client: PrefectClient, until: Any
) -> None:
    await client.send_worker_heartbeat(pool.name, "fast", heartbeat_interval_seconds=30)
    roster = await runs.roster()
    assert roster == Roster(online=frozenset({"fast"}), heard_at=roster.heard_at)
    assert roster.heard_at is not None
    assert abs(datetime.now(UTC) - roster.heard_at) < timedelta(seconds=60)
    # Offline is three intervals without a sign of life; the smallest interval is one second.
    await client.send_worker_heartbeat(pool.name, "slow", heartbeat_interval_seconds=1)

    async def offline() -> frozenset[str]:
        return (await runs.roster()).offline

    assert await until(offline) == {"slow"}


# --- telling --------------------------------------------------------------------------------------


async def test_log_lines_arrive(
    runs: PrefectFlowRuns, pool: Pool, api_url: str, until: Any
) -> None:
    run = await pool.run(StateType.PENDING)
    view = await runs.read(str(run.id))
    assert view is not None
    with temporary_settings({PREFECT_API_URL: api_url}):
        runs.log(view, logging.INFO, "CustomJob 1 is queued.")
        assert await until(lambda: logged(pool.client, view.id)) == ["CustomJob 1 is queued."]


async def test_an_event_arrives_only_once(
    runs: PrefectFlowRuns, pool: Pool, api_url: str, until: Any
) -> None:
    run = await pool.run(StateType.PENDING)
    view = await runs.read(str(run.id))
    assert view is not None
    event, later = (f"prefect-vertex.job.{uuid4().hex}" for _ in range(2))
    with temporary_settings({PREFECT_API_URL: api_url}):
        # One at a time: Prefect's own queue takes no two of one id, but each process has its own.
        for name in (event, event, later):
            runs.emit(view, name, "us-central1/1", {"resource_name": "a-job"})
            await anyio.to_thread.run_sync(EventsWorker.instance().wait_until_empty)
        await until(lambda: emitted(pool.client, later))

    assert await emitted(pool.client, event) == [f"prefect.flow-run.{view.id}"]


async def test_a_table_stands_in_the_place_of_its_last_version(
    runs: PrefectFlowRuns, pool: Pool, api_url: str
) -> None:
    run = await pool.run(StateType.PENDING)
    view = await runs.read(str(run.id))
    assert view is not None
    key = f"vertex-capacity-{run.id}"
    rows = [{"candidate": "us-central1", "message": "words"}, {"candidate": "europe-west4"}]

    # Prefect's client tells of an artifact by an event, which has no other address.
    with temporary_settings({PREFECT_API_URL: api_url}):
        await runs.publish(view, key, rows[:1], "One try.")
        await runs.publish(view, key, rows, "Two tries.")

    ours = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
    assert len(await pool.client.read_artifacts(artifact_filter=ours)) == 1
    path = {"key": key}
    answer = await pool.client.request("GET", "/artifacts/{key}/latest", path_params=path)
    latest = answer.json()
    assert json.loads(latest["data"]) == rows
    assert (latest["type"], latest["description"]) == ("table", "Two tries.")
    assert latest["flow_run_id"] == str(run.id)


async def logged(client: PrefectClient, run_id: str) -> list[str]:
    wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run_id]))
    return [log.message for log in await client.read_logs(wanted)]


async def emitted(client: PrefectClient, event: str) -> list[str]:
    """The first related resource of each such event."""
    wanted = {"event": {"name": [event]}}
    answer = await client.request("POST", "/events/filter", json={"filter": wanted})
    return [each["related"][0]["prefect.resource.id"] for each in answer.json()["events"]]
