"""The whole table: what is done for every run state and every job state, long after all graces.

Each column is a run, each row the state of its one job, described, with its error read: for FAILED
code 3 (a replica exited 1), for CANCELLED code 1.  `none`: no job is known.  The words are:

    wait     nothing to do              crash      propose Crashed
    look     find by label              cancelled  propose Cancelled
    read     describe the job           settle     over; nothing to do
    show     propose a waiting state    back       hand the run back to the workers
    cancel   cancel the job             again      propose AwaitingRetry
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.lifecycle.decisions import Decision
from prefect_vertex.lifecycle.run import RunState
from prefect_vertex.lifecycle.states import PHASE_OF

# Scheduled: never begun, or put there by a worker.  Again: by a person, after an end.  Rescheduled:
# by its container.  Retrying: waits in its container for its next try.
UNDER_WAY = """
                      scheduled  again      rescheduled  retrying   pending    running
none                  settle     settle     settle       look       wait       look
UNSPECIFIED           wait       cancel     wait         wait       wait       wait
QUEUED                wait       cancel     wait         wait       show       wait
PENDING               wait       cancel     wait         wait       show       wait
RUNNING               wait       cancel     wait         wait       wait       wait
UPDATING              wait       cancel     wait         wait       wait       wait
PAUSED                wait       cancel     wait         wait       wait       wait
CANCELLING            wait       wait       wait         wait       wait       wait
SUCCEEDED             settle     settle     settle       back       crash      crash
PARTIALLY_SUCCEEDED   settle     settle     settle       back       crash      crash
FAILED                settle     settle     crash        crash      crash      crash
CANCELLED             settle     settle     cancelled    cancelled  cancelled  cancelled
EXPIRED               settle     settle     crash        crash      crash      crash
"""

# Blocking: paused in a live process.  Stopping, unstarted: Cancelling, after Running or Pending.
ENDING = """
                      blocking   suspended  stopping   unstarted  completed  failed  crashed  cancelled
none                  look       settle     look       look       settle     settle  settle   settle
UNSPECIFIED           wait       wait       cancel     cancel     cancel     cancel  cancel   cancel
QUEUED                wait       wait       cancel     cancel     cancel     cancel  cancel   cancel
PENDING               wait       wait       cancel     cancel     cancel     cancel  cancel   cancel
RUNNING               wait       wait       cancel     cancel     cancel     cancel  cancel   cancel
UPDATING              wait       wait       cancel     cancel     cancel     cancel  cancel   cancel
PAUSED                wait       wait       cancel     cancel     cancel     cancel  cancel   cancel
CANCELLING            wait       wait       wait       wait       wait       wait    wait     wait
SUCCEEDED             crash      settle     cancelled  cancelled  settle     settle  settle   settle
PARTIALLY_SUCCEEDED   crash      settle     cancelled  cancelled  settle     settle  settle   settle
FAILED                crash      settle     cancelled  cancelled  settle     settle  settle   settle
CANCELLED             cancelled  settle     cancelled  cancelled  settle     settle  settle   settle
EXPIRED               crash      settle     cancelled  cancelled  settle     settle  settle   settle
"""  # noqa: E501 - a table

RUNS: dict[str, dict[str, Any]] = {
    "scheduled": {"state": RunState.SCHEDULED},
    "again": {"state": RunState.SCHEDULED, "previous": RunState.CRASHED},
    "rescheduled": {"state": RunState.SCHEDULED, "previous": RunState.RUNNING},
    "retrying": {
        "state": RunState.SCHEDULED,
        "previous": RunState.RUNNING,
        "retries_in_process": True,
    },
    "pending": {"state": RunState.PENDING},
    "running": {"state": RunState.RUNNING},
    "blocking": {"state": RunState.PAUSED},
    "suspended": {"state": RunState.PAUSED, "suspended": True},
    "stopping": {"state": RunState.CANCELLING, "previous": RunState.RUNNING},
    "unstarted": {"state": RunState.CANCELLING, "previous": RunState.PENDING},
    "completed": {"state": RunState.COMPLETED},
    "failed": {"state": RunState.FAILED},
    "crashed": {"state": RunState.CRASHED},
    "cancelled": {"state": RunState.CANCELLED},
}


def cells(*tables: str) -> list[tuple[str, str, str]]:
    """Run, job state and word of every cell."""
    found = []
    for table in tables:
        head, *rows = [line.split() for line in table.strip().splitlines()]
        for job_state, *words in rows:
            assert len(words) == len(head), job_state
            found += [(run, job_state, text) for run, text in zip(head, words, strict=True)]
    return found


CELLS = cells(UNDER_WAY, ENDING)


ERRORS = {"FAILED": (3, "exited with a non-zero status of 1."), "CANCELLED": (1, "CANCELED")}


@pytest.mark.parametrize(("run", "job_state", "expected"), CELLS)
def test_table(
    run: str,
    job_state: str,
    expected: str,
    decided: Callable[..., Decision],
    word: Callable[[Decision], str],
) -> None:
    job = {"state": job_state, "error": ERRORS.get(job_state)}

    assert word(decided(RUNS[run], None if job_state == "none" else job)) == expected


def test_the_table_is_total() -> None:
    """Every job state that Vertex AI knows, and none, meets every run state of Prefect."""
    job_states = {"none", *(state.removeprefix("JOB_STATE_") for state in PHASE_OF)}

    assert {(run, state) for run, state, _ in CELLS} == {
        (run, state) for run in RUNS for state in job_states
    }
    assert {fields["state"] for fields in RUNS.values()} == set(RunState)


@pytest.mark.parametrize("run", RUNS)
def test_a_job_state_newer_than_the_table_is_taken_for_live(
    run: str,
    decided: Callable[..., Decision],
    word: Callable[[Decision], str],
) -> None:
    assert word(decided(RUNS[run], {"state": "REINCARNATING"})) in {"wait", "cancel"}


@pytest.mark.parametrize("job_state", ["SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"])
@pytest.mark.parametrize(
    "run", ["rescheduled", "retrying", "pending", "running", "blocking", "stopping", "unstarted"]
)
def test_nothing_irreversible_is_done_on_the_word_of_a_list_row(
    run: str,
    job_state: str,
    decided: Callable[..., Decision],
    word: Callable[[Decision], str],
) -> None:
    assert word(decided(RUNS[run], {"state": job_state, "described": False})) == "read"
