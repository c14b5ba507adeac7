"""The runs of one attempt on a real Prefect server: made once, found again, seen to their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Crashed

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.crew import Crew, Leaving
from prefect_vertex.replica.ending import Followers
from prefect_vertex.replica.engine import Ceremony
from prefect_vertex.replica.follower import settled
from prefect_vertex.replica.leader import Departure
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import Membership

Prefect = Any  # the fixture's class; test modules cannot import a conftest


def _members(leader: FlowRun, world_size: int = 2, **fields: Any) -> list[Membership]:
    return [
        Membership(rank=rank, world_size=world_size, leader_id=str(leader.id), **fields)
        for rank in range(world_size)
    ]


def _followers(leader: FlowRun, world_size: int = 2, **fields: Any) -> list[FlowRun]:
    """The runs of ranks 1 and up, made."""
    return [
        Crew(member).follower_run(leader) for member in _members(leader, world_size, **fields)[1:]
    ]


def _departure(leader: FlowRun, member: Membership) -> Departure:
    departure = Departure(member, Crew(member), leader)
    departure.ended_seconds = 0.2
    departure.longest_seconds = 2
    return departure


def test_a_follower_s_run_is_a_pending_child_of_the_leader_s_without_a_deployment(
    prefect: Prefect,
) -> None:
    leader = prefect.leader(horizon=12)
    (run,) = _followers(leader, attempt=3)
    seen = prefect.read(run.id)
    parent = prefect.client.read_task_run(seen.parent_task_run_id)

    assert seen.name == "amber-lion-r1"
    assert seen.deployment_id is None
    assert seen.state is not None
    assert seen.state.is_pending()
    assert (seen.parameters, seen.tags) == ({"horizon": 12}, ["a-tag"])
    assert (parent.flow_run_id, parent.name) == (leader.id, "replica-1")
    assert {key: value for key, value in seen.labels.items() if key.startswith("prefect-v")} == {
        "prefect-vertex.leader": str(leader.id),
        "prefect-vertex.attempt": "3",
        "prefect-vertex.rank": "1",
    }


def test_a_replica_that_is_started_again_finds_its_own_run(prefect: Prefect) -> None:
    leader = prefect.leader()
    (first,) = _followers(leader)
    (second,) = _followers(leader)

    assert second.id == first.id


def test_each_attempt_has_followers_of_its_own(prefect: Prefect) -> None:
    leader = prefect.leader()
    (first,) = _followers(leader, attempt=1)
    (second,) = _followers(leader, attempt=2)

    assert first.id != second.id
    assert Crew(_members(leader, attempt=2)[0]).followers().keys() == {1}
    assert Crew(_members(leader, attempt=2)[0]).followers()[1].id == second.id


def test_the_last_word_is_written_once_and_read_by_rank(prefect: Prefect) -> None:
    leader = prefect.leader()
    for member in _members(leader, 3)[1:]:
        Crew(member).say_left(Leaving(code=0, why=f"rank {member.rank}"))
        Crew(member).say_left(Leaving(code=1, why="a second start"))

    assert Crew(_members(leader, 3)[0]).left() == {
        1: Leaving(code=0, why="rank 1"),
        2: Leaving(code=0, why="rank 2"),
    }
    assert Crew(_members(leader, 3, attempt=2)[0]).left() == {}


def test_the_last_word_to_a_run_that_was_deleted_is_lost_quietly(prefect: Prefect) -> None:
    (_, member) = _members(prefect.leader().model_copy(update={"id": uuid4()}))

    Crew(member).say_left(Leaving(code=0, why="it completed"))
    assert Crew(member).leader() is None


def test_the_leader_s_function_waits_until_all_followers_are_completed(
    prefect: Prefect, doing: Callable[..., Any]
) -> None:
    leader = prefect.leader()
    first, second = _followers(leader, 3)
    prefect.put(first.id, "COMPLETED")
    waiting = doing(Followers(_members(leader, 3)[0]).wait)
    waiting.thread.join(1)

    assert waiting.thread.is_alive()
    prefect.put(second.id, "COMPLETED")
    waiting.end()


def test_a_follower_that_failed_is_named_with_its_run_and_message(prefect: Prefect) -> None:
    leader = prefect.leader()
    _, second = _followers(leader, 3)
    prefect.put(second.id, "CRASHED", "Process exited with status code: -9.")

    with pytest.raises(
        ReplicaError,
        match=r"Replica 2 of 3 \(flow run amber-lion-r2\) ended Crashed: .* code: -9\.$",
    ):
        Followers(_members(leader, 3)[0]).wait()


def test_a_follower_s_message_is_repeated_to_the_letter(prefect: Prefect) -> None:
    """Paths and dots of its own included; only a full stop is not doubled."""
    leader = prefect.leader()
    (run,) = _followers(leader)
    prefect.put(run.id, "FAILED", "no such file: ../data/x.csv, tried twice...")

    with pytest.raises(ReplicaError, match=r"file: \.\./data/x\.csv, tried twice\.\.\.$"):
        Followers(_members(leader)[0]).wait()


def test_a_follower_that_left_without_an_end_is_named(prefect: Prefect) -> None:
    leader = prefect.leader()
    _followers(leader)
    Crew(_members(leader)[1]).say_left(Leaving(code=74, why="the Prefect API did not answer it"))

    with pytest.raises(ReplicaError, match=r"Replica 1 of 2 left without an end: the Prefect API"):
        Followers(_members(leader)[0]).wait()


@pytest.mark.parametrize("known_by", ["its run", "its last word"])
def test_a_follower_that_was_told_to_end_fails_the_leader_only_after_a_while(
    prefect: Prefect, doing: Callable[..., Any], known_by: str
) -> None:
    """Until then the job may end, which is no fault of the leader's flow."""
    leader = prefect.leader()
    lead, follow = _members(leader, loss_seconds=2)
    (run,) = _followers(leader)
    if known_by == "its run":
        Crew(follow).say_told(run.id)
        prefect.put(run.id, "CRASHED", "told to end")
    else:
        Crew(follow).say_left(Leaving(code=1, why="told to end", told=True))
    waiting = doing(Followers(lead).wait)
    waiting.thread.join(1)

    assert waiting.thread.is_alive()
    with pytest.raises(ReplicaError, match=r"Replica 1 of 2 .*: told to end\.$"):
        waiting.end()


def test_a_follower_that_went_silent_is_named(
    prefect: Prefect, staging: str, beating: Callable[[Membership], None]
) -> None:
    leader = prefect.leader()
    members = _members(leader, staging=staging, heartbeat_seconds=0.1, loss_seconds=0)
    _followers(leader)
    Meeting(members[1]).say_alive()
    beating(members[0])

    with pytest.raises(ReplicaError, match=r"Replica 1 of 2 has given no sign of life for"):
        Followers(members[0]).wait()


def test_a_leader_that_is_retried_after_a_follower_failed_fails_before_its_work(
    prefect: Prefect,
) -> None:
    leader = prefect.leader()
    (run,) = _followers(leader)
    ceremony = Ceremony(_members(leader)[0])
    prefect.put(run.id, "FAILED", "no such file")
    ceremony.begin()

    with pytest.raises(ReplicaError, match=r"ended Failed: no such file\.$"):
        ceremony.begin()


@pytest.mark.anyio
async def test_an_async_flow_s_wait_can_be_cancelled_and_comes_to_an_end(
    prefect: Prefect,
) -> None:
    leader = prefect.leader()
    (run,) = _followers(leader)
    followers = Followers(_members(leader)[0])
    with anyio.move_on_after(0.5) as scope:
        await followers.wait_async()

    assert scope.cancelled_caught
    prefect.put(run.id, "COMPLETED")
    await followers.wait_async()


def test_the_leader_goes_once_all_followers_have_left(
    prefect: Prefect, doing: Callable[..., Any]
) -> None:
    leader = prefect.leader()
    (run,) = _followers(leader)
    prefect.put(leader.id, "COMPLETED")
    lead, follow = _members(leader)
    departure = Departure(lead, Crew(lead), prefect.read(leader.id))
    waiting = doing(departure.wait)
    waiting.thread.join(1)

    assert waiting.thread.is_alive()
    prefect.put(run.id, "COMPLETED")
    Crew(follow).say_left(Leaving(code=0, why="it completed"))
    waiting.end()


def test_a_follower_whose_run_has_ended_is_not_waited_for_long(
    prefect: Prefect, doing: Callable[..., Any]
) -> None:
    leader = prefect.leader()
    (run,) = _followers(leader)
    prefect.put(run.id, "CRASHED")
    departure = _departure(leader, _members(leader)[0])
    departure.longest_seconds = 600

    doing(departure.wait).end()


@pytest.mark.parametrize(
    ("leader_ended", "follower_ends"),
    [("FAILED", "CRASHED"), ("COMPLETED", "CRASHED"), ("CANCELLED", "CANCELLED")],
)
def test_a_follower_that_does_not_leave_is_settled_by_the_leader(
    prefect: Prefect, doing: Callable[..., Any], leader_ended: str, follower_ends: str
) -> None:
    leader = prefect.leader()
    stuck, done = _followers(leader, 3)
    prefect.put(stuck.id, "RUNNING")
    prefect.put(done.id, "COMPLETED")
    prefect.put(leader.id, leader_ended)
    departure = _departure(prefect.read(leader.id), _members(leader, 3)[0])

    doing(departure.wait).end()
    departure.settle()

    assert prefect.read(stuck.id).state.type.value == follower_ends
    assert prefect.read(done.id).state.type.value == "COMPLETED"


@pytest.mark.parametrize("by", ["its launcher", "the leader"])
def test_a_run_whose_process_ended_while_it_was_cancelled_ends_cancelled(
    prefect: Prefect, by: str
) -> None:
    """Prefect takes no other end from there, and the run would stay open."""
    leader = prefect.leader()
    lead, follow = _members(leader)
    (run,) = _followers(leader)
    prefect.put(run.id, "CANCELLING", "The leader's run is Failed")
    prefect.put(leader.id, "FAILED")

    if by == "the leader":
        _departure(prefect.read(leader.id), lead).settle()
    else:
        ended = anyio.run(settled, Crew(follow), run)
        assert ended.state is not None
        assert ended.state.is_cancelled()

    assert prefect.read(run.id).state.type.value == "CANCELLED"


def test_a_run_that_was_deleted_needs_no_state(prefect: Prefect) -> None:
    """It may be at any moment, also between a look at it and a proposal."""
    (_, member) = _members(prefect.leader())

    Crew(member).propose(uuid4(), Crashed(message="too late"))


def test_the_meeting_place_is_cleaned_up_when_the_leader_goes(
    prefect: Prefect, staging: str
) -> None:
    leader = prefect.leader()
    prefect.put(leader.id, "COMPLETED")
    lead, follow = _members(leader, staging=staging)
    Meeting(follow).say_alive(left="it completed")

    _departure(prefect.read(leader.id), lead).settle()

    assert Meeting(lead).signs_of_life() == {}
