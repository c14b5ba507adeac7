"""The meeting place, on a real storage server: who waits for whom, and who is missed."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prefect.utilities.importtools import load_script_as_module

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.meeting import Meeting
from prefect_vertex.replica.membership import Membership
from prefect_vertex.replica.store import Folder

Members = Callable[..., list[Membership]]


def test_nobody_passes_a_barrier_before_the_last_has_come(members: Members, doing: Any) -> None:
    first, second, third = (Meeting(member) for member in members(3))
    waiting = [doing(first.barrier, "ready"), doing(second.barrier, "ready")]
    waiting[0].thread.join(0.5)

    assert all(each.thread.is_alive() for each in waiting)
    third.barrier("ready")
    for each in waiting:
        each.end()


def test_the_same_name_again_is_another_meeting(members: Members, doing: Any) -> None:
    first, second = (Meeting(member) for member in members(2))
    once = doing(first.barrier, "round")
    second.barrier("round")
    once.end()

    again = doing(first.barrier, "round")
    again.thread.join(0.5)
    assert again.thread.is_alive()
    second.barrier("round")
    again.end()


def test_a_flow_that_is_retried_passes_its_barriers_without_the_others(
    members: Members, doing: Any
) -> None:
    first, second = (Meeting(member) for member in members(2))
    once = doing(first.barrier, "ready")
    second.barrier("ready")
    once.end()

    first.start_over()
    doing(first.barrier, "ready").end()


def test_the_leader_gathers_a_list_by_rank_and_the_others_go_on(members: Members) -> None:
    meetings = [Meeting(member) for member in members(3)]
    told = [meeting.gather({"rank": rank}, "parts") for rank, meeting in enumerate(meetings[1:], 1)]

    assert told == [None, None]
    assert meetings[0].gather("mine", "parts") == ["mine", {"rank": 1}, {"rank": 2}]


def test_a_value_that_cannot_travel_takes_no_visit(members: Members) -> None:
    """The flow may go on with another, as it would alone."""
    leader, follower = (Meeting(member) for member in members(2))
    with pytest.raises(TypeError, match="pickle"):
        follower.gather(threading.Lock(), "parts")
    follower.gather("instead", "parts")

    assert leader.gather("mine", "parts") == ["mine", "instead"]


def test_a_visit_of_which_the_bucket_was_not_told_is_made_by_the_next_call(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow that catches the error and calls again comes to where the others wait."""
    leader, follower = (Meeting(member) for member in members(2))
    put_once = Folder.put_once

    def away(*_: Any) -> bool:
        raise ReplicaError("the bucket is away")

    monkeypatch.setattr(Folder, "put_once", away)
    with pytest.raises(ReplicaError, match="away"):
        follower.gather("theirs", "parts")
    monkeypatch.setattr(Folder, "put_once", put_once)
    follower.gather("theirs", "parts")

    assert leader.gather("mine", "parts") == ["mine", "theirs"]


def test_classes_of_a_script_that_each_replica_loads_under_a_name_of_its_own_travel(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect makes it up from the script's path where another module has its name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    scripts: list[Any] = []
    for folder in ("theirs", "ours"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "json.py").write_text("class Part:\n    size = 3\n")
        scripts.append(load_script_as_module(str(tmp_path / folder / "json.py")))
    theirs, ours = scripts
    leader, follower = (Meeting(member) for member in members(2))
    follower.gather(theirs.Part(), "parts")
    monkeypatch.delitem(sys.modules, theirs.__name__)  # the leader's process never had it

    gathered = leader.gather(ours.Part(), "parts")
    assert gathered is not None
    assert [part.size for part in gathered] == [3, 3]


def test_a_retry_gathers_the_same_list_also_where_it_brings_another_value(
    members: Members,
) -> None:
    leader, follower = (Meeting(member) for member in members(2))
    follower.gather("theirs", "parts")
    first = leader.gather("mine", "parts")
    for meeting in (leader, follower):
        meeting.start_over()
    follower.gather("theirs, later", "parts")

    assert leader.gather("mine, later", "parts") == first == ["mine", "theirs"]


def test_a_retry_that_came_to_fewer_places_than_the_others_is_an_error(members: Members) -> None:
    """Its own code left some out, and it got the values of those for the later ones."""
    leader, follower = (Meeting(member) for member in members(2))
    for phase in range(4):
        follower.gather(phase, "parts / all")
    leader.start_over()
    assert leader.gather(0, "parts / all") == [0, 0]
    leader.check_visits()  # a first try is not looked at
    leader.start_over()
    for phase in (1, 2, 3):
        leader.gather(phase, "parts / all")

    with pytest.raises(
        ReplicaError, match=r"left out visits of gather 'parts / all'.*a name of its own"
    ):
        leader.check_visits()


def test_what_was_left_by_an_earlier_attempt_does_not_count(members: Members, doing: Any) -> None:
    for member in members(2, attempt=1):
        doing(Meeting(member).barrier, "ready")
    Meeting(members(2, attempt=1)[1]).say_alive(left="it was preempted")
    leader, follower = (Meeting(member) for member in members(2, attempt=2))
    waiting = doing(leader.barrier, "ready")
    waiting.thread.join(0.5)

    assert waiting.thread.is_alive()
    follower.barrier("ready")
    waiting.end()


def test_a_replica_that_goes_silent_fails_the_barrier_of_all_by_name(
    members: Members, beating: Callable[[Membership], None], doing: Any
) -> None:
    leader, follower, silent = members(3)
    Meeting(silent).say_alive()
    beating(leader)
    waiting = [doing(Meeting(member).barrier, "ready") for member in (leader, follower)]

    for each in waiting:
        with pytest.raises(
            ReplicaError, match=r"Replica 2 of 3 .*'ready': no sign of life for \d+ s"
        ):
            each.end()


def test_a_replica_that_left_without_coming_fails_the_barrier_at_once_and_says_why(
    members: Members,
) -> None:
    leader, follower = (Meeting(member) for member in members(2))
    follower.say_alive(left="its flow run ended Failed: no such file")

    with pytest.raises(ReplicaError, match=r"Replica 1 of 2 left without coming.*no such file"):
        leader.barrier("ready")


@pytest.mark.parametrize("lost", ["told to end", "silent"])
def test_a_replica_that_was_lost_with_its_machine_fails_a_barrier_only_after_a_while(
    members: Members, beating: Callable[[Membership], None], doing: Any, lost: str
) -> None:
    """Until then the job may end, and that is no fault of the others' flows."""
    leader, follower = members(2, loss_seconds=2)
    beating(leader)
    if lost == "told to end":
        Meeting(follower).say_alive(left="its flow run ended Crashed", told=True)
    else:
        Meeting(follower).say_alive()
    waiting = doing(Meeting(leader).barrier, "ready")
    waiting.thread.join(1.5)

    assert waiting.thread.is_alive()
    with pytest.raises(ReplicaError, match=r"Replica 1 of 2 (left without|did not) com"):
        waiting.end()


def test_a_replica_that_was_lost_and_is_started_again_is_waited_for(
    members: Members, beating: Callable[[Membership], None], doing: Any
) -> None:
    leader, follower = members(2, loss_seconds=2)
    Meeting(follower).say_alive(left="its flow run ended Crashed", told=True)
    waiting = doing(Meeting(leader).barrier, "ready")
    waiting.thread.join(1)
    beating(follower)
    waiting.thread.join(2)

    assert waiting.thread.is_alive()
    Meeting(follower).barrier("ready")
    waiting.end()


def test_a_replica_that_came_and_then_left_has_come(members: Members) -> None:
    leader, follower = (Meeting(member) for member in members(2))
    follower.gather(1, "parts")
    follower.say_alive(left="its flow run ended Completed")

    assert leader.gather(0, "parts") == [0, 1]


def test_a_replica_that_has_not_begun_is_waited_for(
    members: Members, beating: Callable[[Membership], None], doing: Any
) -> None:
    leader, follower = members(2)
    beating(leader)
    waiting = doing(Meeting(leader).barrier, "ready")
    waiting.thread.join(2 * leader.silence_seconds)

    assert waiting.thread.is_alive()
    Meeting(follower).barrier("ready")
    waiting.end()


@pytest.mark.parametrize("name", ["a/b", "größe", "100 %", "..", "a b?c#d"])
def test_a_barrier_may_have_any_name(members: Members, doing: Any, name: str) -> None:
    first, second = (Meeting(member) for member in members(2))
    waiting = doing(first.barrier, name)
    second.barrier(name)

    waiting.end()


def test_a_barrier_needs_a_name(members: Members) -> None:
    with pytest.raises(ValueError, match="needs a name"):
        Meeting(members(2)[0]).barrier("")


def test_clearing_deletes_every_attempt_of_this_run_and_nothing_else(members: Members) -> None:
    for attempt in (1, 2):
        Meeting(members(2, attempt=attempt)[1]).gather("x", "parts")
    other = members(2, leader_id="another-run")
    Meeting(other[1]).say_alive()
    leader = Meeting(members(2, attempt=2)[0])

    leader.clear()
    leader.clear()

    assert Meeting(members(2, attempt=1)[0])._missing("gather/parts/0") == {0, 1}
    assert leader._missing("gather/parts/0") == {0, 1}
    assert set(Meeting(other[0]).signs_of_life()) == {1}


def test_without_a_staging_bucket_the_error_says_what_to_set(members: Members) -> None:
    with pytest.raises(ReplicaError, match=r"Replica 0 of 2 .*Set the job variable staging_bucket"):
        Meeting(members(2, staging="")[0])


def test_a_bucket_that_does_not_exist_is_named(members: Members) -> None:
    meeting = Meeting(members(2, staging="gs://no-such-bucket")[0])

    with pytest.raises(ReplicaError, match=r"gs://no-such-bucket/replicas/.*staging_bucket"):
        meeting.barrier("ready")
