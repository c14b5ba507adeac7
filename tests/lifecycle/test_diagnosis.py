"""Ends of jobs, explained: state and code first, the text for the details."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prefect_vertex.lifecycle.diagnosis import MAX_DETAIL_LENGTH, diagnose
from prefect_vertex.lifecycle.outcomes import TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.snapshot import JobSnapshot

Jobs = Callable[..., JobSnapshot]
R = TerminationReason
LOGS = (
    "\n\nTo find out more about why your job exited please check the logs: "
    "https://console.cloud.google.com/logs/viewer?project=42&resource=ml_job%2Fjob_id%2F101"
)
TRACEBACK = (
    "The replica workerpool1-1 exited with a non-zero status of 1. Termination reason: Error. \n"
    "Traceback (most recent call last):\n  [...]\nValueError: no such column" + LOGS
)
START_ERROR = (
    "The replica workerpool0-0 exited with a non-zero status of 128. Termination reason: "
    "StartError. \n Termination log message: failed to create containerd task: failed to create "
    'shim task: exec: "python": executable file not found in $PATH: unknown'
)
OLDER_OUT_OF_MEMORY = (
    "The replica workerpool2-0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL)"
)
STOCKOUT = (
    "Resources are insufficient in region: us-central1. Try a different region or use a different "
    "accelerator."
)
QUOTA = (
    "The following quota metrics exceed quota limits: "
    "aiplatform.googleapis.com/custom_model_training_nvidia_k80_gpus"
)
IMAGE = (
    "Vertex AI Service Agent 'XXXXX@gcp-sa-aiplatform-cc.iam.gserviceaccount.com' should be "
    "granted access to the image gcr.io/p/i:latest"
)


def exited(status: int, tail: str = "") -> str:
    return f"The replica workerpool0-0 exited with a non-zero status of {status}.{tail}"


# Vertex AI's own words, documented or seen in public reports, with the code that goes with them.
SAMPLES: list[tuple[int, str, TerminationReason, str]] = [
    (3, TRACEBACK, R.CONTAINER_FAILED, "Replica workerpool1-1 of CustomJob 101 exited"),
    (3, START_ERROR, R.CANNOT_START, "could not start"),
    (3, exited(127), R.CANNOT_START, "not found in the image"),
    (3, exited(126), R.CANNOT_START, "not executable"),
    (3, exited(134), R.CONTAINER_FAILED, "SIGABRT"),
    (3, exited(139), R.CONTAINER_FAILED, "SIGSEGV"),
    (3, exited(143), R.CONTAINER_FAILED, "SIGTERM"),
    (3, exited(137), R.OUT_OF_MEMORY, "want of memory"),
    (3, exited(70), R.CANNOT_START, "a fault of its own"),
    (3, exited(71), R.CANNOT_START, "the staged code could not be fetched"),
    (3, exited(72), R.CANNOT_START, "not the one that code_sha256 names"),
    (3, exited(73), R.CANNOT_START, "nowhere to write"),
    (3, exited(74), R.PREFECT_UNREACHABLE, "the Prefect API did not answer"),
    (3, exited(75), R.RESTARTED, "a second time"),
    (3, exited(76), R.CANNOT_START, "setup_command or the installation of EXTRA_PIP_PACKAGES"),
    (3, exited(77), R.CANNOT_START, "the Prefect API key's secret"),
    (3, exited(78), R.CANNOT_START, "could not read its configuration"),
    (3, exited(79), R.INCOMPLETE, "not all replicas had checked in"),
    (3, exited(42), R.CONTAINER_FAILED, "exited with status 42."),
    (
        3,
        "The replica workerpool0-0 ran out of memory and exited with a non-zero status of 137.",
        R.OUT_OF_MEMORY,
        "ran out of memory",
    ),
    (
        3,
        OLDER_OUT_OF_MEMORY,
        R.OUT_OF_MEMORY,
        "exited with status 9: the container ran out of memory",
    ),
    (3, "The job failed in words of next year.", R.CONTAINER_FAILED, "A replica of CustomJob 101"),
    (8, STOCKOUT, R.NO_CAPACITY, "no machines"),
    (14, STOCKOUT, R.NO_CAPACITY, "no machines"),
    (5, STOCKOUT, R.NO_CAPACITY, "no machines"),
    (8, QUOTA, R.QUOTA, "quota does not allow"),
    (13, "Internal error occurred for the current attempt", R.INTERNAL, "internal error"),
    (7, IMAGE, R.PERMISSION, "a permission is missing"),
    (9, IMAGE, R.PERMISSION, "a permission is missing"),
    (4, "", R.TIMED_OUT, "maximum run time"),
    (1, "CANCELED", R.CANCELLED_OUTSIDE, "outside Prefect"),
    (2, "Something that nobody has seen.", R.UNKNOWN, "JOB_STATE_FAILED, code 2"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "reason", "words"), SAMPLES)
def test_samples(code: int, text: str, reason: R, words: str, a_job: Jobs) -> None:
    diagnosis = diagnose(a_job("FAILED", error=(code, text)), RunPolicy())

    assert diagnosis.reason is reason
    assert words in diagnosis.summary
    assert diagnosis.detail == text.strip()
    assert "\n" not in diagnosis.summary
    assert diagnosis.message.startswith(diagnosis.summary)


@pytest.mark.parametrize(
    ("text", "status", "replica"),
    [
        (TRACEBACK, 1, "workerpool1-1"),
        (exited(137), 137, "workerpool0-0"),
        ("exited with a non-zero status of 9(SIGKILL)", 9, ""),
        ("exited", None, ""),
    ],
)
def test_the_replica_and_its_status_are_read_from_the_text(
    text: str, status: int | None, replica: str, a_job: Jobs
) -> None:
    diagnosis = diagnose(a_job("FAILED", error=(3, text)), RunPolicy())

    assert (diagnosis.exit_status, diagnosis.replica) == (status, replica)


@pytest.mark.parametrize("code", [4, 7, 8, 9, 13, 14])
def test_words_never_outweigh_the_code(code: int, a_job: Jobs) -> None:
    """The text holds the tail of the user's stderr, which may say anything."""
    stderr = f"{exited(137)} ran out of memory CANCELED"

    diagnosis = diagnose(a_job("FAILED", error=(code, stderr)), RunPolicy())

    assert diagnosis.reason not in {R.OUT_OF_MEMORY, R.CANCELLED_OUTSIDE}
    assert diagnosis.exit_status is None


def test_a_traceback_about_memory_or_quota_is_no_memory_or_quota_trouble(a_job: Jobs) -> None:
    tail = "\nRuntimeError: CUDA ran out of memory; Resources are insufficient in region: x"

    diagnosis = diagnose(a_job("FAILED", error=(3, exited(1, tail))), RunPolicy())

    assert diagnosis.reason is R.CONTAINER_FAILED
    assert "exited with status 1." in diagnosis.summary


def test_the_first_replica_that_the_service_names_is_the_one_that_failed(a_job: Jobs) -> None:
    tail = "\nThe replica workerpool9-9 exited with a non-zero status of 3."

    diagnosis = diagnose(a_job("FAILED", error=(3, exited(1, tail))), RunPolicy())

    assert (diagnosis.replica, diagnosis.exit_status) == ("workerpool0-0", 1)


@pytest.mark.parametrize(
    ("state", "reason", "words"),
    [
        ("SUCCEEDED", R.COMPLETED, "succeeded"),
        ("PARTIALLY_SUCCEEDED", R.COMPLETED, "succeeded"),
        ("CANCELLED", R.CANCELLED_OUTSIDE, "cancelled in Vertex AI, outside Prefect"),
        ("EXPIRED", R.EXPIRED, "expired before it could run"),
        ("FAILED", R.UNKNOWN, "JOB_STATE_FAILED"),
    ],
)
def test_states_without_an_error(state: str, reason: R, words: str, a_job: Jobs) -> None:
    diagnosis = diagnose(a_job(state), RunPolicy())

    assert diagnosis.reason is reason
    assert words in diagnosis.summary


@pytest.mark.parametrize(
    ("strategy", "started", "reason"),
    [(True, 300, R.PREEMPTED), (True, -1, R.NO_CAPACITY), (False, 300, R.NO_CAPACITY)],
)
def test_a_stockout_after_the_start_of_a_spot_job_is_a_preemption(
    *, strategy: bool, started: float, reason: R, a_job: Jobs
) -> None:
    job = a_job("FAILED", started=started, error=(8, STOCKOUT))

    assert diagnose(job, RunPolicy(spot=strategy)).reason is reason


LOSSES = [
    *((code, STOCKOUT) for code in (0, 2, 3, 5, 8, 9, 10, 13, 14, 15)),
    (13, "The machine was preempted."),
    (2, "Spot VM instance was preempted"),
    (0, "The zone 'projects/p/zones/z' does not have enough resources available."),
    (8, "gone"),
    (14, "gone"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text"), LOSSES)
def test_a_spot_job_loses_its_machines_by_words_under_any_number(
    code: int, text: str, a_job: Jobs
) -> None:
    """Documented is the word STOCKOUT; no public report has the number."""
    job = a_job("FAILED", error=(code, text))

    assert diagnose(job, RunPolicy(spot=True)).reason is R.PREEMPTED
    assert diagnose(job, RunPolicy()).reason is R.NO_CAPACITY


@pytest.mark.parametrize("code", range(17))
@pytest.mark.parametrize(
    "text",
    [
        exited(1, " Termination reason: Error. \n" + STOCKOUT),
        exited(137, f"\nThe machine was preempted. {STOCKOUT}"),
        f"AiPlatformException: code=INVALID_ARGUMENT, message={exited(1)} {STOCKOUT}",
        f"A container left with a non-zero exit code. {STOCKOUT}",
    ],
)
def test_a_replica_s_own_exit_is_never_a_preemption(code: int, text: str, a_job: Jobs) -> None:
    """Its stderr may say anything."""
    job = a_job("FAILED", error=(code, text))

    assert diagnose(job, RunPolicy(spot=True)).reason is not R.PREEMPTED


@pytest.mark.parametrize("code", [0, 2, 3, 5, 9, 10, 13])
def test_what_stands_below_the_service_s_sentence_is_not_the_service_s(
    code: int, a_job: Jobs
) -> None:
    job = a_job("FAILED", error=(code, f"It failed.\n{STOCKOUT}"))

    assert diagnose(job, RunPolicy(spot=True)).reason is not R.PREEMPTED


@pytest.mark.parametrize("code", [1, 4, 6, 7, 11, 12, 16])
def test_numbers_that_speak_for_themselves_are_no_loss_of_machines(code: int, a_job: Jobs) -> None:
    job = a_job("FAILED", error=(code, STOCKOUT))

    assert diagnose(job, RunPolicy(spot=True)).reason not in {R.PREEMPTED, R.NO_CAPACITY}


@pytest.mark.parametrize("code", [0, 2])
def test_a_wrapped_sentence_about_a_replica_is_its_exit(code: int, a_job: Jobs) -> None:
    text = f"AiPlatformException: code=INVALID_ARGUMENT, message={exited(137)}\nquota exceeded"

    diagnosis = diagnose(a_job("FAILED", error=(code, text)), RunPolicy())

    assert (diagnosis.reason, diagnosis.exit_status) == (R.OUT_OF_MEMORY, 137)


@pytest.mark.parametrize(
    "text",
    [
        QUOTA,
        f"{QUOTA}. Try a different region.",
        "The following quotas are exceeded: CustomModelTrainingT4GPUsPerProjectPerRegion",
    ],
)
def test_any_wording_of_a_quota_is_one(text: str, a_job: Jobs) -> None:
    for policy in (RunPolicy(), RunPolicy(spot=True)):
        assert diagnose(a_job("FAILED", error=(8, text)), policy).reason is R.QUOTA


def test_quota_is_no_preemption(a_job: Jobs) -> None:
    assert diagnose(a_job("FAILED", error=(8, QUOTA)), RunPolicy(spot=True)).reason is R.QUOTA


def test_a_replica_that_failed_in_the_last_minute_failed_by_itself(a_job: Jobs) -> None:
    job = a_job("FAILED", created=9000, started=3800, ended=200, error=(3, exited(1)))

    assert diagnose(job, RunPolicy(timeout_seconds=3600)).reason is R.CONTAINER_FAILED


def test_a_long_text_keeps_its_head_and_the_tail_that_holds_the_traceback(a_job: Jobs) -> None:
    text = exited(1) + "x" * 10_000 + "\nValueError: the end"

    detail = diagnose(a_job("FAILED", error=(3, text)), RunPolicy()).detail

    assert detail.startswith(exited(1))
    assert detail.endswith("ValueError: the end")
    assert len(detail) <= MAX_DETAIL_LENGTH + 10


def test_a_password_in_an_address_that_a_replica_quoted_is_not_told(a_job: Jobs) -> None:
    text = exited(1) + "\nOperationalError: postgres://scott:hun/ter2@db:5432/x refused it"

    detail = diagnose(a_job("FAILED", error=(3, text)), RunPolicy()).detail

    assert detail.endswith("OperationalError: postgres://…@db:5432/x refused it")
