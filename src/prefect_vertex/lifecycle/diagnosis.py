"""What a terminal job says about itself: state and code first, the text only for the details.

Which kind of end it was follows from the job's state and `error.code`; the words in `error.message`
refine it (which replica, which exit status, quota or stockout) and are shown as they are.  Those of
a stockout or a preemption count under almost any code, because none is documented for them; they
never outweigh a replica's own exit.  A text that no pattern knows changes nothing.  Sources of the
texts: facts on CustomJob errors, section 1.5, as documented or seen in public reports; the samples
are in tests/lifecycle/test_diagnosis.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

from prefect_vertex.lifecycle import wordings
from prefect_vertex.lifecycle.outcomes import Diagnosis, TerminationReason
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.addresses import without_user

_INVALID_ARGUMENT = 3
"""The code of every end that a replica's exit brought about."""
_INCOMPLETE_STATUS = 79
MAX_DETAIL_LENGTH = 4000
"""Characters of Vertex AI's text kept in a state message; its end holds the traceback."""

_REPLICA = re.compile(r"The replica (?P<replica>workerpool\d+-\d+)\b")
_EXIT_STATUS = re.compile(r"non-zero status of (?P<status>\d+)\b")
_OUT_OF_MEMORY = re.compile(r"\bThe replica \S+ ran out[ -]of[ -]memory\b", re.IGNORECASE)
"""In the service's own sentence; the same words further down are the user's stderr."""
_SPEAK_FOR_THEMSELVES = frozenset({1, 4, 6, 7, 11, 12, 16})
"""Codes of an end that no words make a loss of machines: cancelled, out of time, refused."""

_REASON_OF_CODE: dict[int, TerminationReason] = {
    1: TerminationReason.CANCELLED_OUTSIDE,
    3: TerminationReason.CONTAINER_FAILED,
    4: TerminationReason.TIMED_OUT,
    7: TerminationReason.PERMISSION,
    8: TerminationReason.NO_CAPACITY,
    9: TerminationReason.PERMISSION,
    13: TerminationReason.INTERNAL,
    14: TerminationReason.NO_CAPACITY,
}
"""`error.code` of a FAILED job, google.rpc.Code numbers; any other is UNKNOWN."""

_EXPLANATION: dict[int, tuple[TerminationReason, str, str]] = {
    70: (
        TerminationReason.CANNOT_START,
        "the bootstrap that precedes the flow failed by a fault of its own",
        "Report it with the text below.",
    ),
    71: (
        TerminationReason.CANNOT_START,
        "the staged code could not be fetched",
        "With 404 deploy again; with 403 the run-as account needs roles/storage.objectViewer.",
    ),
    72: (
        TerminationReason.CANNOT_START,
        "the staged code is not the one that code_sha256 names, or its archive is unsafe",
        "Stage the code again, and set both code_uri and code_sha256 to what that prints.",
    ),
    73: (
        TerminationReason.CANNOT_START,
        "the container has nowhere to write the staged code, or no space for it",
        "Raise boot_disk_size_gb, or set TMPDIR in env to a directory that can be written.",
    ),
    74: (
        TerminationReason.PREFECT_UNREACHABLE,
        "the Prefect API did not answer in the container, or does not know this flow run",
        "Set PREFECT_API_URL to the worker's own server, at an address that the job can reach.",
    ),
    75: (
        TerminationReason.RESTARTED,
        "the platform started the container a second time and nothing was run again",
        "The first start ended without a word: maintenance, node loss or memory.",
    ),
    76: (
        TerminationReason.CANNOT_START,
        "setup_command or the installation of EXTRA_PIP_PACKAGES failed",
        "Try the same command in the image.",
    ),
    77: (
        TerminationReason.CANNOT_START,
        "the Prefect API key's secret could not be read",
        "The run-as account needs roles/secretmanager.secretAccessor on prefect_api_key_secret.",
    ),
    78: (
        TerminationReason.CANNOT_START,
        "the bootstrap could not read its configuration",
        "Check env for variables that begin with PREFECT_; the text below names the one at fault.",
    ),
    _INCOMPLETE_STATUS: (
        TerminationReason.INCOMPLETE,
        "not all replicas had checked in within provisioning_timeout_seconds, and nothing was run",
        "Try another region or machine_type or a smaller worker_count, or raise that limit.",
    ),
    126: (
        TerminationReason.CANNOT_START,
        "the command is not executable",
        "Check command and python_command against the image.",
    ),
    127: (
        TerminationReason.CANNOT_START,
        "the command was not found in the image",
        "Check command and python_command against the image.",
    ),
    128: (
        TerminationReason.CANNOT_START,
        "the container could not start",
        "Check image, command and python_command.",
    ),
    134: (TerminationReason.CONTAINER_FAILED, "the process aborted (SIGABRT)", ""),
    135: (
        TerminationReason.CONTAINER_FAILED,
        "the process died of a bus error (SIGBUS)",
        "Often /dev/shm is too small: try fewer data loader workers or NCCL_SHM_DISABLE=1.",
    ),
    137: (
        TerminationReason.OUT_OF_MEMORY,
        "the container was killed (SIGKILL), most often for want of memory",
        "Choose a machine_type with more memory or load less at once.",
    ),
    139: (
        TerminationReason.CONTAINER_FAILED,
        "the process crashed (SIGSEGV)",
        "A compiled library is at fault, or the image was built for another CPU.",
    ),
    143: (
        TerminationReason.CONTAINER_FAILED,
        "the container was asked to end (SIGTERM)",
        "",
    ),
}
"""Exit statuses with a meaning of their own; 70 to 79 are this product's bootstrap's."""

_SUMMARY: dict[TerminationReason, tuple[str, str]] = {
    TerminationReason.NO_CAPACITY: (
        "Vertex AI had no machines for it",
        "Try another region, another machine_type or strategy FLEX_START.",
    ),
    TerminationReason.QUOTA: (
        "the project's quota does not allow its machines",
        "Ask for more of the quota named below, or choose another region.",
    ),
    TerminationReason.PERMISSION: (
        "a permission is missing",
        "Vertex AI's service agent must be able to read the image, the run-as account its data.",
    ),
    TerminationReason.INTERNAL: ("Vertex AI had an internal error", "Run it again."),
    TerminationReason.TIMED_OUT: (
        "it reached its maximum run time",
        "Raise maximum_run_time_hours if it needs longer.",
    ),
    TerminationReason.EXPIRED: ("it expired before it could run", ""),
    TerminationReason.PREEMPTED: ("its Spot machines were taken back", ""),
    TerminationReason.CANCELLED_OUTSIDE: ("it was cancelled in Vertex AI, outside Prefect", ""),
}


def _detail(text: str) -> str:
    # A replica's last words may quote an address with a password, as database drivers do.
    text = without_user(text.strip())
    if len(text) <= MAX_DETAIL_LENGTH:
        return text
    half = MAX_DETAIL_LENGTH // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"


def diagnose(
    job: JobSnapshot, policy: RunPolicy, *, rescheduled: bool = False, started: bool = False
) -> Diagnosis:
    """Explain a terminal job.

    Args:
        job: Described, in a terminal phase, its error read or given up.
        policy: Its maximum run time tells an end by time from a cancellation, its strategy a
            preemption from a stockout.
        rescheduled: The container had put its run back to Scheduled; it exits 0 then, also when it
            was the time limit that asked it to end.
        started: Its container is known to have begun, whatever the job says.
    """
    if job.phase is JobPhase.SUCCEEDED and not (rescheduled and _reached_limit(job, policy)):
        return Diagnosis(
            reason=TerminationReason.COMPLETED,
            summary=f"CustomJob {job.resource_name.job_id} succeeded.",
        )
    reason = _reason(job, policy, started=started or rescheduled)
    if reason is TerminationReason.CONTAINER_FAILED:
        return _diagnose_container(job)
    what, resolution = _SUMMARY.get(reason, ("", ""))
    summary = f"CustomJob {job.resource_name.job_id} in {job.resource_name.location} ended: "
    summary += what or _bare_state(job)
    detail = _detail(job.error.message) if job.error else "Vertex AI gave no reason."
    return Diagnosis(reason=reason, summary=f"{summary}.", detail=detail, resolution=resolution)


def is_incomplete(job: JobSnapshot) -> bool:
    """Whether a replica ended the job because others had not checked in.

    None had begun by then, though all machines may have been there and the job called RUNNING.
    """
    if job.phase is not JobPhase.FAILED or job.error is None:
        return False
    match = _EXIT_STATUS.search(job.error.message)
    status = int(match["status"]) if match is not None else 0
    return job.error.code == _INVALID_ARGUMENT and status == _INCOMPLETE_STATUS


def _bare_state(job: JobSnapshot) -> str:
    code = f", code {job.error.code}" if job.error else ""
    return f"{job.state}{code}"


def _reason(job: JobSnapshot, policy: RunPolicy, *, started: bool) -> TerminationReason:
    if _ran_out_of_time(job, policy):
        return TerminationReason.TIMED_OUT
    if job.phase is JobPhase.CANCELLED:
        return TerminationReason.CANCELLED_OUTSIDE
    if job.phase is JobPhase.EXPIRED:
        return TerminationReason.EXPIRED
    if job.error is None:
        return TerminationReason.UNKNOWN
    own_exit = wordings.is_container_end(job.error.message)
    started = started or job.start_time is not None
    reason = _reason_of_code(job.error.code, started=started or own_exit)
    if own_exit and reason is TerminationReason.UNKNOWN:
        return TerminationReason.CONTAINER_FAILED
    words = wordings.words_of(wordings.first_line(job.error.message))
    lost = (
        not own_exit
        and job.error.code not in _SPEAK_FOR_THEMSELVES
        and wordings.is_loss_of_machines(words)
    )
    if reason is TerminationReason.NO_CAPACITY and not lost and wordings.is_quota(words):
        return TerminationReason.QUOTA
    if policy.spot and started and not own_exit:
        if lost or reason is TerminationReason.NO_CAPACITY:
            # Documented: a Spot job that loses its machines "fails with a STOCKOUT error".
            return TerminationReason.PREEMPTED
        return reason
    # Machines that nobody may take back are not preempted, whatever word is used.
    return TerminationReason.NO_CAPACITY if lost else reason


def _reason_of_code(code: int, *, started: bool) -> TerminationReason:
    reason = _REASON_OF_CODE.get(code, TerminationReason.UNKNOWN)
    if reason is TerminationReason.TIMED_OUT and not started:
        # Where no container ever ran, it was the wait for machines that was over.
        return TerminationReason.NO_CAPACITY
    return reason


def _ran_out_of_time(job: JobSnapshot, policy: RunPolicy) -> bool:
    if job.phase is JobPhase.EXPIRED:
        return False
    if job.error is not None and job.error.code == _INVALID_ARGUMENT:
        # A replica that failed in the last minute failed by itself.
        return False
    return _reached_limit(job, policy)


def _reached_limit(job: JobSnapshot, policy: RunPolicy) -> bool:
    limit = policy.timeout_seconds
    if limit is None or job.start_time is None or job.end_time is None:
        return False
    slack = min(60.0, limit / 10)
    return job.end_time - job.start_time >= timedelta(seconds=limit - slack)


def _diagnose_container(job: JobSnapshot) -> Diagnosis:
    text = job.error.message if job.error else ""
    replica = match["replica"] if (match := _REPLICA.search(text)) else ""
    status = int(match["status"]) if (match := _EXIT_STATUS.search(text)) else None
    where = f"Replica {replica}" if replica else "A replica"
    base = Diagnosis(
        reason=TerminationReason.CONTAINER_FAILED,
        summary=f"{where} of CustomJob {job.resource_name.job_id} failed.",
        detail=_detail(text),
        replica=replica,
        exit_status=status,
    )
    if status is None:
        return base
    reason, explanation, resolution = _EXPLANATION.get(
        status,
        (TerminationReason.CONTAINER_FAILED, "", ""),
    )
    if _OUT_OF_MEMORY.search(wordings.first_line(text)):
        reason, explanation = TerminationReason.OUT_OF_MEMORY, "the container ran out of memory"
        resolution = _EXPLANATION[137][2]
    summary = f"{where} of CustomJob {job.resource_name.job_id} exited with status {status}"
    summary += f": {explanation}." if explanation else "."
    return replace(base, reason=reason, summary=summary, resolution=resolution)
