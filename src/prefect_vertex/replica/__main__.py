"""`python -m prefect_vertex.replica`: the launcher, one for each replica, parent of its engine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from prefect_vertex.errors import PrefectVertexError
from prefect_vertex.planning.addresses import told, without_user
from prefect_vertex.replica.heartbeat import Heartbeat
from prefect_vertex.replica.membership import PROGRESS_FILE, Membership

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_UNREACHABLE = 74
_MISCONFIGURED = 78


def main() -> int:
    """Run this replica's flow run to its end; the container's exit code."""
    try:
        member = Membership.read()
    except PrefectVertexError as error:
        return _fail(_MISCONFIGURED, str(error))
    if not member.leader_id:
        return _fail(_MISCONFIGURED, "there is no flow run to execute: set PREFECT__FLOW_RUN_ID")
    with tempfile.TemporaryDirectory(prefix="prefect-vertex-progress-") as folder:
        if member.staging and member.world_size > 1:
            os.environ[PROGRESS_FILE] = str(Path(folder) / "progress.json")
        return _lead(member) if member.is_leader else _follow(member)


def _follow(member: Membership) -> int:
    # Begun before Prefect is imported: others may wait for the first sign already.
    heartbeat = Heartbeat(member)
    heartbeat.start()
    import httpx
    from prefect.logging.configuration import setup_logging

    from prefect_vertex.replica.crew import Crew
    from prefect_vertex.replica.follower import follow

    setup_logging()
    try:
        leaving = run(follow, member)
        heartbeat.leave(leaving.why, told=leaving.told)
        _flush()
        Crew(member).say_left(leaving)
    except httpx.HTTPError as error:
        heartbeat.leave(f"the Prefect API did not answer it: {told(error)}")
        return _fail(_UNREACHABLE, f"the Prefect API did not answer {member}: {told(error)}")
    except Exception as error:
        # Else the others would wait until its heartbeat is missed.
        heartbeat.leave(f"its launcher failed: {type(error).__name__}: {without_user(str(error))}")
        raise
    return leaving.code


def _lead(member: Membership) -> int:
    import httpx
    from prefect.logging.configuration import setup_logging

    from prefect_vertex.replica.leader import lead
    from prefect_vertex.replica.progress import ProgressBoard

    setup_logging()
    heartbeat = Heartbeat(member)
    heartbeat.start()
    board = ProgressBoard(member)
    board.start()
    try:
        return run(lead, member, heartbeat, board)
    except httpx.HTTPError as error:
        return _fail(_UNREACHABLE, f"the Prefect API did not answer {member}: {told(error)}")
    finally:
        _flush()


def run(work: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Run it on an event loop; an error alone in a group, as task groups raise it, is raised."""
    import anyio

    try:
        return anyio.run(work, *args)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            (error,) = error.exceptions
        if error is group:
            raise
        raise error from group


def _flush() -> None:
    import anyio
    from prefect.logging.handlers import APILogHandler

    anyio.run(APILogHandler.aflush)


def _fail(code: int, message: str) -> int:
    print("prefect-vertex:", " ".join(message.split()), file=sys.stderr, flush=True)  # noqa: T201 - the container's log
    return code


if __name__ == "__main__":
    sys.exit(main())
