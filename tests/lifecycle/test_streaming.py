"""Which jobs' entries a run's log needs, from when and until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.lifecycle.run import ATTEMPT_LABEL, CANDIDATE_LABEL, RunState
from prefect_vertex.lifecycle.streaming import (
    AFTER_END,
    LATE,
    OTHERS_BEFORE,
    WINDOW,
    Need,
    Stream,
    loud_jobs,
    need_of,
    stream_of,
)
from prefect_vertex.planning.spec import Target

SECOND = timedelta(seconds=1)


@pytest.fixture
def needed(a_run: Any, a_job: Any, now: datetime) -> Any:
    """What a run in a state needs of a job in a phase that ended some time ago."""

    def need(state: RunState, job: Any = None, age: timedelta = timedelta()) -> Need:
        return need_of(a_run(state=state, state_time=now - age), job, now)

    return need


@pytest.fixture
def stream(a_run: Any, a_job: Any, now: datetime) -> Stream:
    run = a_run(state=RunState.PENDING, state_time=now, observed_at=now)
    return stream_of(run, a_job(created=0), Target("p", "us-central1"))


def test_a_run_that_waits_needs_all_of_a_live_job(needed: Any, a_job: Any) -> None:
    assert needed(RunState.PENDING, a_job()) is Need.ALL


@pytest.mark.parametrize("state", [state for state in RunState if state.value != "CRASHED"])
def test_a_run_without_a_job_needs_nothing(needed: Any, state: RunState) -> None:
    assert needed(state) is Need.NOTHING


def test_a_crash_is_told_for_three_minutes(needed: Any) -> None:
    assert needed(RunState.CRASHED, age=AFTER_END) is Need.AFTER_LAST_WORD
    assert needed(RunState.CRASHED, age=AFTER_END + SECOND) is Need.NOTHING


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.COMPLETED, RunState.CANCELLED])
def test_a_run_that_has_begun_needs_what_was_before(
    needed: Any, a_job: Any, state: RunState
) -> None:
    assert needed(state, a_job(), age=LATE) is Need.BEFORE_START
    assert needed(state, a_job(), age=LATE + SECOND) is Need.NOTHING


def test_an_attempt_that_failed_is_told_while_the_run_waits_for_the_next(
    a_run: Any, a_job: Any, now: datetime
) -> None:
    run = a_run(state=RunState.PENDING)
    for age, need in ((AFTER_END, Need.ALL), (AFTER_END + SECOND, Need.NOTHING)):
        job = a_job("FAILED", ended=age.total_seconds())
        assert need_of(run, job, now) is need


def test_a_started_runs_stream_takes_only_what_was_before_and_ends_when_that_has_come(
    stream: Stream, now: datetime
) -> None:
    start = now + 10 * SECOND
    started = stream.started(replace(stream.run, observed_at=start), start)

    assert started.takes(now + 9 * SECOND)
    assert not started.takes(start)
    for read_at, is_over in ((start + LATE, False), (start + LATE + SECOND, True)):
        assert started.after_read(read_at, now).is_over(read_at) is is_over


def test_a_started_runs_stream_waits_for_a_read_that_is_late_enough(
    stream: Stream, now: datetime
) -> None:
    """Reads may be two minutes apart; but it does not wait for ever."""
    started = stream.started(stream.run, now).after_read(now, now)

    assert not started.is_over(now + 2 * LATE)
    assert started.is_over(now + AFTER_END + SECOND)


def test_a_start_is_timed_by_one_clock(stream: Stream, now: datetime) -> None:
    """The time of the start is the server's, that of the reads is this machine's."""
    here = now + 90 * SECOND
    started = stream.started(replace(stream.run, observed_at=here), now)
    assert not started.after_read(here + SECOND, now).is_over(here + SECOND)


def test_a_run_that_crashed_before_its_start_is_told_everything(
    stream: Stream, now: datetime
) -> None:
    crashed = stream.crashed(stream.run, None, now + 5 * SECOND)

    assert crashed.takes(now)
    assert crashed.takes(now + 99 * SECOND)


def test_a_run_that_crashed_later_is_told_what_followed_its_last_word(
    stream: Stream, now: datetime
) -> None:
    followed = stream.after_read(now + 2 * SECOND, now - WINDOW)
    crashed = followed.crashed(stream.run, now + 10 * SECOND, now + 20 * SECOND)

    taken = [second for second in (0, 9, 10, 19, 20, 30) if crashed.takes(now + second * SECOND)]
    assert taken == [0, 9, 20, 30]


def test_of_other_replicas_it_is_told_what_they_wrote_some_time_before(
    stream: Stream, now: datetime
) -> None:
    last_word = now + 10 * SECOND + OTHERS_BEFORE
    crashed = stream.crashed(stream.run, now + 5 * SECOND, last_word)
    for task_name, first in (("workerpool1-3", now + 10 * SECOND), ("service", last_word)):
        assert crashed.takes(first, task_name)
        assert not crashed.takes(first - SECOND, task_name)
    early = stream.crashed(stream.run, now + 5 * SECOND, now + 6 * SECOND)
    assert early.takes(now + 5 * SECOND, "workerpool1-3")


def test_a_failure_of_several_replicas_may_have_a_dead_one(a_run: Any, now: datetime) -> None:
    """Of one replica it has none: its process has said why."""
    for replicas, need in ((1, Need.NOTHING), (2, Need.AFTER_LAST_WORD)):
        labels = {ATTEMPT_LABEL: "1", CANDIDATE_LABEL: f"1:0:{replicas}"}
        run = a_run(state=RunState.FAILED, state_time=now, labels=labels)
        assert need_of(run, None, now) is need


def test_a_run_that_failed_is_told_what_its_dead_replica_wrote_and_nothing_else(
    stream: Stream, now: datetime
) -> None:
    later = now + 99 * SECOND
    read = stream.started(stream.run, now).after_read(later, later - WINDOW)
    failed = read.failed(stream.run, now, {"workerpool1-0": now + 10 * SECOND})

    assert failed.since == now + 10 * SECOND
    assert failed.takes(now + 10 * SECOND, "workerpool1-0")
    assert not failed.takes(now + 9 * SECOND, "workerpool1-0")
    for other in ("workerpool0-0", "workerpool1-1", "service"):
        assert not failed.takes(now + 20 * SECOND, other)


def test_what_was_read_and_not_needed_while_the_run_lived_is_read_again(
    stream: Stream, now: datetime
) -> None:
    later = now + 99 * SECOND
    read = stream.started(stream.run, now).after_read(later, later - WINDOW)
    crashed = read.crashed(stream.run, now, now + 5 * SECOND)

    assert crashed.since == now
    assert crashed.takes(now, "workerpool1-0")


def test_a_long_life_is_not_read_again(stream: Stream, now: datetime) -> None:
    crashed = stream.crashed(stream.run, now + 10 * SECOND, now + 9999 * SECOND)
    assert crashed.since == now + 9999 * SECOND - OTHERS_BEFORE


def test_reads_overlap_and_go_on_where_one_was_cut_short(stream: Stream, now: datetime) -> None:
    later = now + 300 * SECOND
    assert stream.after_read(later, later - WINDOW).since == later - WINDOW
    assert stream.after_read(now, now - WINDOW).since == stream.since


def test_one_that_was_cut_short_goes_on_where_it_stopped_or_where_lines_may_still_come(
    stream: Stream, now: datetime
) -> None:
    for given, since in ((5, 5), (10, 10), (50, 10)):
        read = stream.after_part(now + given * SECOND, now + 10 * SECOND)
        assert read.since == now + since * SECOND


def test_a_read_that_was_cut_short_never_leads_to_the_same_again(
    stream: Stream, now: datetime
) -> None:
    assert stream.after_part(stream.since, now + SECOND).since > stream.since


def test_whoever_fills_a_query_is_loud() -> None:
    """Where nobody alone does, whoever writes most: others shall not wait for ever."""
    assert loud_jobs(["a"] * 5 + ["b"] * 4 + ["c"], usual=3) == {"a", "b"}
    assert loud_jobs(["a"] * 5 + ["b"] * 4, usual=500) == {"a"}
    assert loud_jobs([], usual=500) == set()


def test_nothing_after_a_start_is_asked_for_until_the_run_crashes(
    stream: Stream, now: datetime
) -> None:
    started = stream.started(stream.run, now)
    assert (stream.asked_until, started.asked_until) == (None, now)
    assert started.crashed(stream.run, now, now).asked_until is None


def test_nothing_is_read_for_ever_of_a_run_that_is_gone(stream: Stream, now: datetime) -> None:
    assert stream.is_over(now + AFTER_END + SECOND)
