"""What a walk says: names, sentences, rows."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prefect_vertex.capacity.ledger import (
    MAX_NAMED,
    digest_of,
    exhausted_message,
    names_of,
    table,
    waiting_message,
)
from prefect_vertex.capacity.refusals import RefusalReason
from prefect_vertex.capacity.walk import Exhausted, Next, Trail, Try, with_try
from prefect_vertex.planning.spec import Candidate

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def a_candidate(location: str, machine: str = "", strategy: str = "") -> Candidate:
    spec: dict[str, Any] = {"worker_pool_specs": [{"machine_spec": {"machine_type": machine}}]}
    if strategy:
        spec["scheduling"] = {"strategy": strategy}
    return Candidate(project="p", location=location, job_spec=spec)


def a_trail(*answers: tuple[int, RefusalReason, str]) -> Trail:
    trail = Trail()
    for attempt, (candidate, reason, message) in enumerate(answers, start=1):
        tried = Try(
            attempt=attempt,
            candidate=candidate,
            begun_at=NOON,
            ended_at=NOON + timedelta(seconds=90),
            reason=reason,
            message=message,
        )
        trail = with_try(trail, tried, 99)
    return trail


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([("a", "n1", "SPOT")], ("a",)),
        ([("a", "n1", "SPOT"), ("b", "n1", "SPOT")], ("a", "b")),
        ([("a", "n1", "SPOT"), ("a", "n1", "STANDARD")], ("a (SPOT)", "a (STANDARD)")),
        ([("a", "n1", ""), ("b", "g2", "SPOT")], ("a (n1)", "b (g2, SPOT)")),
        ([("a", "n1", ""), ("a", "n1", "")], ("a [1]", "a [2]")),
        ([("a", "", "")], ("a",)),
    ],
)
def test_a_name_says_what_tells_candidates_apart(
    candidates: list[tuple[str, str, str]], expected: tuple[str, ...]
) -> None:
    assert names_of([a_candidate(*each) for each in candidates]) == expected


def test_projects_tell_candidates_apart() -> None:
    ours, theirs = (
        replace(a_candidate("a", "n1", "SPOT"), project=project) for project in ("ours", "theirs")
    )

    assert names_of([ours, theirs]) == ("a (ours)", "a (theirs)")


def test_a_strategy_is_named_however_it_is_written() -> None:
    candidates = [a_candidate("a", "n1"), a_candidate("a", "n1")]
    for candidate, strategy in zip(candidates, (4, "standard"), strict=True):
        candidate.job_spec["scheduling"] = {"strategy": strategy}  # type: ignore[index]  # a dict

    assert names_of(candidates) == ("a (SPOT)", "a (STANDARD)")


def test_accelerators_tell_candidates_apart() -> None:
    def with_gpu(count: int | None, kind: str) -> Candidate:
        machine = {"machine_type": "n1", "accelerator_type": kind, "accelerator_count": count}
        return Candidate(
            project="p",
            location="a",
            job_spec={"worker_pool_specs": [{"machine_spec": machine}]},
        )

    several = [
        with_gpu(1, "NVIDIA_L4"),
        with_gpu(2, "NVIDIA_L4"),
        with_gpu(None, "NVIDIA_TESLA_T4"),
    ]

    assert names_of(several) == ("a (1 NVIDIA_L4)", "a (2 NVIDIA_L4)", "a (1 NVIDIA_TESLA_T4)")
    assert len({digest_of([each]) for each in several}) == 3


def test_a_spec_of_any_form_has_a_name() -> None:
    """The template is the user's; what it lacks is said where the job is planned."""
    odd = [Candidate(project="p", location="a", job_spec=spec) for spec in ({}, {"scheduling": 7})]

    assert names_of(odd) == ("a [1]", "a [2]")


def test_another_list_has_another_digest() -> None:
    one, other = a_candidate("a", "n1"), a_candidate("a", "g2")

    assert digest_of([one]) == digest_of([a_candidate("a", "n1")])
    assert len({digest_of(each) for each in ([one], [other], [one, other], [other, one])}) == 4


def test_waiting_says_what_was_tried_and_when_the_next_try_is() -> None:
    trail = a_trail((0, RefusalReason.NO_ROOM, "x"), (1, RefusalReason.QUOTA, "y"))

    assert waiting_message(trail, Next(0, NOON), ("a", "b"), waits=True) == (
        "Tried a (no machines free now), b (the quota does not allow that much here). "
        "Next: a, at 12:00:00 UTC."
    )
    assert waiting_message(trail, Next(0, NOON), ("a", "b"), waits=False).endswith("Next: a, now.")


def test_waiting_names_not_too_many() -> None:
    count = MAX_NAMED + 3
    trail = a_trail(*((place, RefusalReason.NO_ROOM, "") for place in range(count)))
    names = [f"r{place}" for place in range(count)]

    message = waiting_message(trail, Next(0, NOON), names, waits=False)

    assert message.startswith("Tried 3 others and r3 (")


def test_the_end_names_every_candidate_and_its_last_answer() -> None:
    trail = a_trail(
        (0, RefusalReason.NO_ROOM, "first words"),
        (1, RefusalReason.QUOTA, "quota words"),
        (0, RefusalReason.NO_ROOM, "last\nwords"),
    )

    lines = exhausted_message(trail, Exhausted("it is late"), ("a", "b", "c")).splitlines()

    assert lines[0].startswith("There is no capacity in a, b, c after 3 attempts: it is late. ")
    assert lines[1:] == [
        "a: no machines free now. last words",
        "b: the quota does not allow that much here. quota words",
        "c: not tried.",
    ]


@pytest.mark.parametrize("other", [RefusalReason.NOT_HERE, RefusalReason.NETWORK])
def test_an_end_for_other_wants_than_machines_asks_for_no_more_machines(
    other: RefusalReason,
) -> None:
    trail = a_trail((0, RefusalReason.IMAGE, "no image"), (1, other, "no"))

    head = exhausted_message(trail, Exhausted("it is late"), ("a", "b")).splitlines()[0]

    assert head == (
        "The job could not begin in a, b after 2 attempts: it is late. "
        "Mend what the answers below name, or add other regions."
    )
    partly = exhausted_message(trail, Exhausted("it is late"), ("a", "b", "c"))
    assert partly.startswith("There is no capacity in a, b, c ")


def test_the_table_has_a_row_for_each_try_with_the_services_words() -> None:
    trail = a_trail((1, RefusalReason.NO_ROOM, "Resources are\tinsufficient in region: b."))

    assert table(trail, ("a", "b")) == [
        {
            "attempt": "1",
            "candidate": "b",
            "reason": "no machines free now",
            "message": "Resources are\tinsufficient in region: b.",
            "seconds": "90",
        }
    ]
    assert table(trail, ())[0]["candidate"] == "candidate 2"
