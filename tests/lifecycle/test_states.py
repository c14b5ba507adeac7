"""Vertex AI's words for a job's state."""

from __future__ import annotations

from google.cloud.aiplatform_v1.types import JobState

from prefect_vertex.lifecycle.states import PHASE_OF, TERMINAL_STATES, JobPhase, phase_of
from prefect_vertex.vertex.filters import ENDED_STATES


def test_every_state_of_the_installed_client_has_a_phase() -> None:
    assert set(PHASE_OF) == set(JobState.__members__)


def test_every_phase_is_some_states() -> None:
    assert set(PHASE_OF.values()) == set(JobPhase)


def test_a_state_of_the_future_is_unknown_and_live() -> None:
    phase = phase_of("JOB_STATE_OF_2030")

    assert phase is JobPhase.UNKNOWN
    assert not phase.is_terminal
    assert not phase.is_waiting


def test_terminal_states_are_those_that_a_list_of_live_jobs_leaves_out() -> None:
    assert (
        set(TERMINAL_STATES)
        == set(ENDED_STATES)
        == {
            "JOB_STATE_SUCCEEDED",
            "JOB_STATE_FAILED",
            "JOB_STATE_CANCELLED",
            "JOB_STATE_EXPIRED",
            "JOB_STATE_PARTIALLY_SUCCEEDED",
        }
    )
