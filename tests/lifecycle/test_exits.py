"""The end of a flow's own process, read from Prefect's words, and the advice."""

from __future__ import annotations

import signal

import pytest

from prefect_vertex.lifecycle.exits import own_exit, own_exit_told, signal_of


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("Process exited with status code: -9. Process exited due to a SIGKILL signal.", -9),
        ("Process exited with status code: 3. Process exited with an unexpected status code.", 3),
        ("Replica workerpool0-0 of CustomJob 1 exited with status 3.", None),
        ("The flow said: Process exited with status code: 3.", None),
        ("", None),
    ],
)
def test_only_the_runners_own_words_are_an_end_of_the_process(
    message: str, status: int | None
) -> None:
    assert own_exit(message) == status


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (-9, "machine_type"),
        (137, "machine_type"),
        (-11, "killed by SIGSEGV"),
        (134, "killed by SIGABRT"),
        (-62, "killed by signal 62"),
        (1, "EXTRA_PIP_PACKAGES"),
        (3, "sys.exit()"),
        (255, "sys.exit()"),
    ],
)
def test_the_advice_follows_the_status(status: int, advice: str) -> None:
    text = own_exit_told(status)
    assert advice in text
    assert f"exit status {status}:" in text
    assert "\n" not in text


def test_a_signal_is_known_in_both_its_forms() -> None:
    assert (signal_of(-9), signal_of(137)) == (signal.SIGKILL, signal.SIGKILL)
    assert (signal_of(0), signal_of(128), signal_of(255)) == (0, 0, 0)
