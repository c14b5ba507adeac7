"""The walk: which candidate is next, and when, from what was tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.capacity.refusals import RefusalReason
from prefect_vertex.capacity.trail import ROOM_FOR_WORDS, format_trail, parse_trail
from prefect_vertex.capacity.walk import (
    MAX_MESSAGE_LENGTH,
    MAX_PAST,
    MAX_TRIES,
    Exhausted,
    Next,
    Trail,
    Try,
    backoff_seconds,
    begun_anew,
    next_try,
    restarted,
    with_try,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
USUAL = CapacityPolicy()
ENDLESS = CapacityPolicy(max_attempts=0, max_wall_seconds=0)
REASONS = {
    "room": RefusalReason.NO_ROOM,
    "unknown": RefusalReason.UNKNOWN,
    "quota": RefusalReason.QUOTA,
    "absent": RefusalReason.NOT_HERE,
    "internal": RefusalReason.INTERNAL,
    "image": RefusalReason.IMAGE,
    "network": RefusalReason.NETWORK,
    "rate": RefusalReason.RATE,
}


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def walked(steps: str, *, count: int = 2, seconds: float = 10, trail: Trail | None = None) -> Trail:
    """A trail such as `0:room 1:quota`; each step takes so many seconds and follows the last."""
    trail = trail or Trail()
    begun = NOON
    for place, step in enumerate(steps.split(), start=trail.answered + 1):
        candidate, _, word = step.partition(":")
        ended = begun + timedelta(seconds=seconds)
        tried = Try(
            attempt=place,
            candidate=int(candidate),
            begun_at=begun,
            ended_at=ended,
            reason=REASONS[word],
            message=f"{word} in {candidate}",
        )
        trail, begun = with_try(trail, tried, count), ended
    return trail


# --- where next -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "count", "expected"),
    [
        ("", 1, "0 now"),
        ("", 3, "0 now"),
        ("0:room", 3, "1 now"),
        ("0:unknown 1:room", 3, "2 now"),
        # The end of a pass: from the top, after a pause.
        ("0:room", 1, "0 +60"),
        ("0:room 1:room 2:room", 3, "0 +60"),
        ("0:room 1:room 2:room 0:room", 3, "1 now"),
        ("0:room 1:room 0:room 1:room", 2, "0 +120"),
        ("0:room 0:room 0:room 0:room 0:room", 1, "0 +600"),
        # What is not allowed here is never asked again.
        ("0:quota", 2, "1 now"),
        ("0:quota 1:room", 2, "1 +60"),
        ("0:room 1:absent", 2, "0 +60"),
        ("0:room 1:quota 2:room", 3, "0 +60"),
        ("0:room 1:quota 2:room 0:room", 3, "2 now"),
        ("0:quota 1:quota 2:room 2:room", 3, "2 +120"),
        # An internal error is tried again at once, and then left for this pass.
        ("0:internal", 2, "0 now"),
        ("0:internal 0:internal", 2, "1 now"),
        ("0:internal 0:room", 2, "1 now"),
        ("0:internal 0:internal 1:internal", 2, "1 now"),
        ("0:internal 0:internal 1:internal 1:internal", 2, "0 +60"),
        ("0:internal 0:quota", 2, "1 now"),
        # A network that is busy is free again by itself.
        ("0:network", 1, "0 +60"),
        ("0:image 1:network", 2, "0 +60"),
        # An image may be mended by the time of a later pass, if there is one.
        ("0:image", 2, "1 now"),
        ("0:image 1:room", 2, "0 +60"),
        ("0:network 1:quota 2:rate", 3, "0 +60"),
    ],
)
def test_where_and_when_the_next_try_is(steps: str, count: int, expected: str) -> None:
    trail = walked(steps, count=count)
    now = trail.tries[-1].ended_at if trail.tries else NOON

    following = next_try(trail, count, ENDLESS, now)

    assert isinstance(following, Next)
    pause = (following.at - now).total_seconds()
    assert f"{following.candidate} {f'+{pause:.0f}' if pause else 'now'}" == expected


@pytest.mark.parametrize(
    ("steps", "count", "capacity", "because"),
    [
        ("0:quota", 1, ENDLESS, "none of them is worth another try"),
        ("0:quota 1:absent", 2, ENDLESS, "none of them is worth another try"),
        ("0:image 1:image", 2, ENDLESS, "waiting would change none of the answers"),
        ("0:image 1:quota", 2, ENDLESS, "waiting would change none of the answers"),
        ("0:room 1:room", 3, CapacityPolicy(max_attempts=2), "max_attempts allows 2 attempts"),
        ("0:internal", 3, CapacityPolicy(max_attempts=1), "max_attempts allows 1 attempt"),
        ("0:room 1:room", 2, CapacityPolicy(max_passes=1), "max_passes allows 1 pass"),
        ("0:room " * 3, 1, CapacityPolicy(max_passes=3), "max_passes allows 3 passes"),
        # The next pass would begin at 70 s.
        ("0:room", 1, CapacityPolicy(max_wall_seconds=70), "max_wall_seconds allows 70 s"),
        ("0:room", 2, CapacityPolicy(max_wall_seconds=10), "max_wall_seconds allows 10 s"),
        # Whichever comes first.
        ("0:room 1:room", 2, CapacityPolicy(max_attempts=2, max_passes=1), "max_attempts"),
    ],
)
def test_what_ends_a_walk(steps: str, count: int, capacity: CapacityPolicy, because: str) -> None:
    trail = walked(steps, count=count)

    following = next_try(trail, count, capacity, trail.tries[-1].ended_at)

    assert isinstance(following, Exhausted)
    assert because in following.because


def test_a_try_that_still_fits_into_the_time_is_made() -> None:
    capacity = CapacityPolicy(max_wall_seconds=71)

    assert next_try(walked("0:room"), 1, capacity, at(10)) == Next(0, at(70))


def test_three_tries_of_forty_seconds_fit_into_a_hundred() -> None:
    capacity = CapacityPolicy(max_wall_seconds=100)
    trail = walked("0:room 1:room", count=9, seconds=40)
    assert isinstance(next_try(trail, 9, capacity, at(80)), Next)

    assert isinstance(
        next_try(walked("0:room 1:room 2:room", count=9, seconds=40), 9, capacity, at(120)),
        Exhausted,
    )


def test_a_worker_that_comes_late_tries_at_once() -> None:
    assert next_try(walked("0:room"), 1, ENDLESS, at(500)) == Next(0, at(500))


def test_the_pause_doubles_up_to_its_limit() -> None:
    pauses = [backoff_seconds(USUAL, passes) for passes in (1, 2, 3, 4, 5, 6, 5000)]

    assert pauses == [60, 120, 240, 480, 600, 600, 600]


def test_a_try_is_recorded_once() -> None:
    trail = walked("0:room")

    assert with_try(trail, trail.tries[0], 2) == trail


def test_a_refused_create_leaves_its_number_to_the_next() -> None:
    tried = walked("0:room").tries[0]
    trail = Trail()
    for _ in range(2):
        trail = with_try(trail, tried, 2, had_job=False)

    assert (trail.attempts, trail.answered, trail.serial) == (2, 0, 2)


def test_words_are_kept_up_to_their_limit() -> None:
    tried = replace(walked("0:room").tries[0], message="x" * 5000)

    assert len(with_try(Trail(), tried, 1).tries[0].message) == MAX_MESSAGE_LENGTH


# --- walks that follow each other -----------------------------------------------------------------


def test_a_restarted_run_begins_at_the_candidate_that_it_is_told() -> None:
    trail = restarted(walked("0:room", count=3), "", first=2)

    assert next_try(trail, 3, USUAL, at(10)) == Next(2, at(10))
    assert trail.restarts == 1
    seen = walked("2:room 0:room", count=3, trail=trail)
    following = next_try(seen, 3, USUAL, at(20))
    assert following == Next(1, at(20))


def test_what_is_not_allowed_stays_so_after_a_restart() -> None:
    trail = restarted(walked("0:quota"), "", first=0)

    assert next_try(trail, 2, USUAL, at(10)) == Next(1, at(10))
    assert trail.attempts == 0


def test_a_run_that_is_submitted_again_may_ask_everywhere_again() -> None:
    trail = begun_anew(restarted(walked("0:quota 1:room"), "", first=0), "others")

    assert next_try(trail, 2, USUAL, at(10)) == Next(0, at(10))
    assert (trail.restarts, trail.answered) == (1, 2)


# --- many candidates, and many tries --------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "reason", "each"),
    [
        (60, RefusalReason.NO_ROOM, 1),
        (61, RefusalReason.NO_ROOM, 1),
        (31, RefusalReason.INTERNAL, 2),
        (150, RefusalReason.NO_ROOM, 1),
    ],
)
@pytest.mark.parametrize("passes", [1, 2])
def test_a_pass_of_any_length_ends(
    count: int, reason: RefusalReason, each: int, passes: int
) -> None:
    capacity = CapacityPolicy(max_attempts=0, max_wall_seconds=0, max_passes=passes)
    length = count * each * passes

    trail, steps, ended = course([(reason, 1)] * (length + 1), count, capacity)

    assert ended
    assert len(steps) == length
    assert set(trail.last_answers) == set(range(count))


def test_there_is_a_pause_after_a_long_pass() -> None:
    _, steps, _ = course([(RefusalReason.NO_ROOM, 1)] * 124, 61, ENDLESS)

    pauses = [(later.at - earlier.at).total_seconds() - 1 for earlier, later in pairwise(steps)]
    assert [place for place, pause in enumerate(pauses, start=1) if pause] == [61, 122]
    assert [pause for pause in pauses if pause] == [60, 120]


def test_what_was_tried_before_a_restart_is_still_told() -> None:
    lost = Try(
        attempt=3,
        candidate=2,
        begun_at=at(20),
        ended_at=at(90),
        reason=RefusalReason.PREEMPTED,
        message="gone",
    )
    trail = restarted(walked("0:room 1:quota", count=3), "", first=0, lost=lost)
    again = parse_trail(format_trail(trail))

    assert [each.reason.name for each in again.told] == ["NO_ROOM", "QUOTA", "PREEMPTED"]
    assert again == trail
    assert again.attempts == 0
    assert restarted(trail, "others", first=0).told == ()


def test_of_many_restarts_each_candidates_last_is_told() -> None:
    trail = Trail()
    for number in range(200):
        lost = Try(
            attempt=number,
            candidate=number % 3 if number else 7,
            begun_at=at(number),
            ended_at=at(number),
            reason=RefusalReason.PREEMPTED,
        )
        trail = restarted(trail, "", first=0, lost=lost)

    assert len(trail.told) == MAX_PAST + 1
    assert trail.told[0].candidate == 7
    assert trail.told[-1].attempt == 199


def test_faults_of_an_earlier_walk_end_no_later_one() -> None:
    trail = restarted(walked("0:image"), "", first=0)
    later = walked("1:image", trail=trail)

    assert isinstance(next_try(later, 2, ENDLESS, at(20)), Next)


# --- on its way in a label ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[]", "7", '{"t":[[1]]}', '{"t":[[1,0,0,0,"X",9]]}'),
        # The last second of the year 9999, to which nothing can be added.
        '{"b":253402300799}',
        '{"t":[[1,0,0,253402300799,"NO_ROOM",0]],"m":["x"]}',
        '{"b":-1}',
    ],
)
def test_a_trail_that_cannot_be_read_is_an_empty_one(text: str) -> None:
    assert parse_trail(text) == Trail()


def test_a_reason_of_a_version_to_come_is_no_room() -> None:
    text = format_trail(walked("0:room")).replace("NO_ROOM", "BAD_WEATHER")

    assert parse_trail(text).tries[0].reason is RefusalReason.UNKNOWN


def test_an_empty_trail_is_short() -> None:
    assert format_trail(Trail(of="0a1b2c3d")) == '{"of":"0a1b2c3d"}'


def test_equal_words_are_written_once() -> None:
    assert format_trail(walked("0:room 0:room 0:room", count=1)).count("room in 0") == 1


def test_the_words_of_a_usual_walk_survive_a_change_of_worker() -> None:
    tried = walked("0:room").tries[0]
    trail = Trail()
    for attempt in range(1, 7):
        words = str(attempt) * MAX_MESSAGE_LENGTH
        trail = with_try(trail, replace(tried, attempt=attempt, message=words), 1)

    assert parse_trail(format_trail(trail)) == trail


def test_a_label_has_room_for_so_many_words() -> None:
    trail = Trail()
    for attempt in range(1, 31):
        tried = walked("0:room").tries[0]
        words = f"{attempt} " + "x" * 1500
        trail = with_try(trail, replace(tried, attempt=attempt, message=words), 1)

    text = format_trail(trail)

    assert len(text) < 2 * ROOM_FOR_WORDS
    assert parse_trail(text).tries[-1].message == trail.tries[-1].message


TRIES = st.lists(
    st.tuples(st.sampled_from([*REASONS.values()]), st.integers(0, 900)), min_size=0, max_size=150
)
EXAMPLES = settings(max_examples=40, deadline=None)


def course(
    answers: Sequence[tuple[RefusalReason, int]], count: int, capacity: CapacityPolicy
) -> tuple[Trail, list[Next], bool]:
    """Walk with these answers until they or the walk end, through a label at every step."""
    trail, now = Trail(of="x"), NOON
    steps: list[Next] = []
    for attempt, (reason, seconds) in enumerate(answers, start=1):
        following = next_try(trail, count, capacity, now)
        if isinstance(following, Exhausted):
            return trail, steps, True
        steps.append(following)
        begun, now = following.at, following.at + timedelta(seconds=seconds)
        tried = Try(
            attempt=attempt,
            candidate=following.candidate,
            begun_at=begun,
            ended_at=now,
            reason=reason,
            message=reason.value,
        )
        trail = parse_trail(format_trail(with_try(trail, tried, count)))
        assert trail.answered == attempt
    return trail, steps, False


@EXAMPLES
@given(
    TRIES, st.integers(1, 5), st.integers(0, 9), st.integers(0, 4), st.sampled_from([0, 90, 3600])
)
def test_a_walk_keeps_its_limits_whatever_is_answered(
    answers: list[tuple[RefusalReason, int]], count: int, attempts: int, passes: int, wall: float
) -> None:
    capacity = CapacityPolicy(max_attempts=attempts, max_passes=passes, max_wall_seconds=wall)

    trail, steps, ended = course(answers, count, capacity)

    assert not attempts or len(steps) <= attempts
    assert not wall or all(step.at < NOON + timedelta(seconds=wall) for step in steps)
    assert not passes or len(steps) <= passes * count * 2
    assert len(trail.tries) <= MAX_TRIES + 2 * count
    assert trail.attempts == len(steps)
    assert ended or len(steps) == len(answers)
    out = [
        step.candidate
        for step, (reason, _) in zip(steps, answers, strict=False)
        if reason in {RefusalReason.QUOTA, RefusalReason.NOT_HERE}
    ]
    assert len(out) == len(set(out))
    assert all(later.at >= earlier.at for earlier, later in pairwise(steps))


@EXAMPLES
@given(st.integers(1, 4), st.integers(61, 300))
def test_a_long_walk_goes_on_as_if_it_remembered_every_try(count: int, length: int) -> None:
    answers = [(RefusalReason.NO_ROOM, 1)] * length

    trail, steps, _ = course(answers, count, ENDLESS)

    assert [step.candidate for step in steps] == [place % count for place in range(length)]
    assert len(trail.tries) <= MAX_TRIES + count
    assert trail.attempts == length
