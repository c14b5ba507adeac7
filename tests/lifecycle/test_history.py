"""A worker's word that reached the server late is told from one that came in time."""

from __future__ import annotations

import pytest

from prefect_vertex.lifecycle.history import REQUEUED, RETRIED, PastState, overtaken
from prefect_vertex.lifecycle.run import RunState

_MESSAGES = {"Requeued": REQUEUED}
_TYPES = {
    "AwaitingRetry": RunState.SCHEDULED,
    "Requeued": RunState.SCHEDULED,
    "Submitting": RunState.PENDING,
    "InfrastructurePending": RunState.PENDING,
    "Provisioning": RunState.PENDING,
}


def _past(name: str) -> PastState:
    kind = _TYPES.get(name) or RunState(name.upper())
    return PastState(kind, name, _MESSAGES.get(name, ""))


IN_TIME = [
    "",
    "Scheduled",
    "Pending",
    "Pending Submitting InfrastructurePending",
    "Scheduled Pending Submitting InfrastructurePending Provisioning",
    "Scheduled Pending Running Completed",
    "Scheduled Pending Running Completed AwaitingRetry Pending Submitting",
    "Scheduled Pending Running Failed AwaitingRetry Pending Submitting InfrastructurePending",
    "Scheduled Pending Requeued Pending Submitting",
    "Scheduled Pending Requeued",
    "Scheduled Pending Running Paused Scheduled Pending",
]
LATE = [
    ("Scheduled Pending Running [Completed] InfrastructurePending", "a waiting state"),
    ("Scheduled Pending Running [Failed] InfrastructurePending Provisioning", "two of them"),
    ("Scheduled Pending Running [Crashed] Provisioning", "over a crash"),
    ("Scheduled Pending Running [Completed] Pending Submitting", "a second worker's Pending"),
    ("Scheduled Pending Running [Completed] Requeued", "put back though it had ended"),
    ("Scheduled Pending Running [Completed] Requeued Pending Submitting", "and taken again"),
    ("Scheduled Pending Running [Paused] InfrastructurePending", "over a pause"),
    ("Scheduled Pending Running [AwaitingRetry] InfrastructurePending", "over a retry's wait"),
    ("Scheduled Pending Running [AwaitingRetry] Submitting", "before the retry was taken"),
]


@pytest.mark.parametrize("names", IN_TIME)
def test_in_time(names: str) -> None:
    """Nothing is given back where every state followed from the one before it."""
    assert overtaken([_past(name) for name in names.split()]) is None


@pytest.mark.parametrize(("names", "because"), LATE)
def test_late(names: str, because: str) -> None:
    """The state in brackets is the run's own last one."""
    words = names.split()
    place = overtaken([_past(word.strip("[]")) for word in words])

    assert place is not None, because
    assert words[place].startswith("["), because


def test_a_retry_of_an_ad_hoc_run_is_no_late_word() -> None:
    """Prefect puts the final run back to Pending by force; what comes after it is the retry's."""
    retried = PastState(RunState.PENDING, "Pending", RETRIED)
    queued = PastState(RunState.PENDING, "InfrastructurePending")

    assert overtaken([_past("Completed"), retried, queued]) is None
