"""How jobs end: what their containers are told and how long they are given, and what is said."""

from __future__ import annotations

from collections.abc import Sequence

from google.api_core import exceptions as api_errors
from tests.cloud.lab import CALL_SECONDS, Lab, Note, Orders, SmokeJob
from tests.cloud.table import Finding, listed, seconds

from prefect_vertex.lifecycle.snapshot import JobSnapshot

CANCEL_TERM = "SIGTERM and grace on cancel"
CANCEL_END = "state and error of a cancelled job"
CANCEL_AGAIN = "cancel of an ended job"
SINGLE_SPEC = "CLUSTER_SPEC of a container job with one replica"
BEFORE_RUNNING = "user code before RUNNING"
FINISH_TERM = "SIGTERM and grace of the others when the primary exits 0"
FINISH_END = "state and error when the primary exits 0"
FAIL_TERM = "SIGTERM and grace of the primary when another replica fails"
FAIL_END = "state and error when a replica exits 3"
FAIL_STARTS = "starts of a replica that exits 3, `disable_retries: true`"
TIMEOUT_TERM = "SIGTERM and grace at the maximum run time"
TIMEOUT_END = "state and error at the maximum run time"
CRASH_STARTS = "starts after SIGSEGV, `disable_retries: true`"
CRASH_RETRIED = "starts after SIGSEGV, `disable_retries: false`"

LEADER = "workerpool0-0"
FOLLOWER = "workerpool1-0"


def how_it_ended(job: SmokeJob, seen: JobSnapshot) -> str:
    """State, code and text of an ended job, and when the error was there."""
    if seen.error is None:
        return f"{seen.state}, no error"
    late = "" if job.error_after is None else f", {seconds(job.error_after)} after the end"
    return f"{seen.state}, code {seen.error.code}{late}: {seen.error.message}"


def term_and_grace(notes: Sequence[Note], since: float | None = None) -> str:
    """Whether SIGTERM came to a container that ignores it, and how long it lived on.

    Args:
        notes: Of one replica.
        since: The moment at which its end was asked for; None: not known to a second.
    """
    first = next((note.at for note in notes if note.kind == "sigterm"), None)
    last = max((note.at for note in notes), default=0.0)
    if first is None:
        return f"no SIGTERM among its {len(notes)} notes; it was killed without"
    count = sum(note.kind == "sigterm" for note in notes)
    came = "" if since is None else f" {seconds(first - since)} after the request"
    more = "" if count == 1 else f", {count} times"
    return f"SIGTERM{came}{more}; alive for {seconds(last - first)} after it"


def starts_of(notes: Sequence[Note], replica: str) -> int:
    """How often a replica's container was started."""
    return len({note.start for note in notes if note.replica == replica})


def of(notes: Sequence[Note], replica: str) -> list[Note]:
    """One replica's notes."""
    return [note for note in notes if note.replica == replica]


async def ask_cancel(lab: Lab) -> list[Finding]:
    """One replica that beats, cancelled while it does."""
    job = await lab.submit("cancelled", Orders("beat"))
    started = await lab.note(job, "started")
    await lab.note(job, "ready")
    running = await lab.until(
        job, lambda seen: seen.start_time or seen.is_terminal, lab.pace.begin, "RUNNING"
    )
    begun = "it never was RUNNING"
    if running.start_time is not None:
        lead = running.start_time.timestamp() - started.at
        begun = f"user code began {seconds(lead)} before `start_time`"
        begun += f", {seconds(started.at - running.create_time.timestamp())} after the create"
    await lab.cancel(job)
    asked = max(note.at for note in await lab.notes(job))
    ended = await lab.end(job)
    client = await lab.client()
    try:
        await client.cancel_custom_job(
            name=str(job.created.resource_name), timeout=CALL_SECONDS, retry=None
        )
        again = "accepted: OK"
    except api_errors.GoogleAPICallError as error:
        again = f"{type(error).__name__}: {error.message}"
    spec = started.data["cluster_spec"]
    return [
        Finding(CANCEL_TERM, term_and_grace(await lab.notes(job), asked)),
        Finding(CANCEL_END, how_it_ended(job, ended)),
        Finding(CANCEL_AGAIN, again),
        Finding(SINGLE_SPEC, f"`{spec}`" if spec else "not set"),
        Finding(BEFORE_RUNNING, begun),
    ]


async def ask_finish(lab: Lab) -> list[Finding]:
    """The primary exits 0 once the other replica has begun, which beats."""
    job = await lab.submit("finished", Orders("exit", after=FOLLOWER), Orders("beat"))
    await lab.note(job, "started")
    ended = await lab.end(job, lab.pace.begin)
    return [
        Finding(FINISH_TERM, term_and_grace(of(await lab.notes(job), FOLLOWER))),
        Finding(FINISH_END, how_it_ended(job, ended)),
    ]


async def ask_fail(lab: Lab) -> list[Finding]:
    """Another replica exits 3 once the primary has begun, which beats."""
    job = await lab.submit("failed", Orders("beat"), Orders("exit", after=LEADER, status=3))
    await lab.note(job, "started")
    ended = await lab.end(job, lab.pace.begin)
    notes = await lab.notes(job)
    return [
        Finding(FAIL_TERM, term_and_grace(of(notes, LEADER))),
        Finding(FAIL_END, how_it_ended(job, ended)),
        Finding(FAIL_STARTS, str(starts_of(notes, FOLLOWER))),
    ]


async def ask_timeout(lab: Lab) -> list[Finding]:
    """One replica that beats for longer than its job may run."""
    scheduling = {"timeout": f"{lab.pace.timeout:g}s"}
    job = await lab.submit("timed-out", Orders("beat"), scheduling=scheduling)
    await lab.note(job, "ready")
    ended = await lab.end(job, lab.pace.timeout + lab.pace.end)
    ran = ""
    if ended.start_time and ended.end_time:
        lasted = (ended.end_time - ended.start_time).total_seconds()
        ran = f", after {seconds(lasted)} of {lab.pace.timeout:g} s"
    return [
        Finding(TIMEOUT_TERM, term_and_grace(await lab.notes(job))),
        Finding(TIMEOUT_END, how_it_ended(job, ended) + ran),
    ]


async def ask_crash(lab: Lab) -> list[Finding]:
    """One replica that dies by SIGSEGV, which Vertex AI counts as passing; not to be retried."""
    return [await _crashed(lab, "crashed", CRASH_STARTS, disable_retries=True)]


async def ask_retried_crash(lab: Lab) -> list[Finding]:
    """The same, to be retried."""
    return [await _crashed(lab, "crashed-retried", CRASH_RETRIED, disable_retries=False)]


async def _crashed(lab: Lab, what: str, point: str, *, disable_retries: bool) -> Finding:
    scheduling = {"disable_retries": disable_retries}
    job = await lab.submit(what, Orders("crash"), scheduling=scheduling)
    await lab.note(job, "started")
    ended = await lab.end(job, lab.pace.begin)
    notes = await lab.notes(job)
    begun = [f"{seconds(note.at - notes[0].at)}" for note in notes if note.kind == "started"]
    return Finding(point, f"{len(begun)}, at {listed(begun)}; {how_it_ended(job, ended)}")
