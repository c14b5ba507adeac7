"""A follower's launcher: makes or finds its flow run, executes it, and follows the leader."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import anyio
import anyio.abc
import anyio.to_thread
import httpx
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Cancelled, Cancelling

from prefect_vertex.planning.addresses import told
from prefect_vertex.replica.crew import Crew, Leaving, describe, end_of, is_final
from prefect_vertex.replica.membership import LEADER_RUN_ID, RUN_ID, Membership
from prefect_vertex.replica.seams import (
    executor_context,
    replica_starter,
    tell_engine_to_leave_the_state,
)

WATCH_SECONDS = 5.0
BEGIN_SECONDS = 300.0
"""How long a replica tries to have a run of its own: with many, all ask the server at once, and one
that gives up ends the work of all the others."""
_WATCHES_PER_SECOND = 10
_LOOKS_FOR_OWN = 3  # its own run is looked at less often: Prefect's observer watches it too
_CANCEL_SECONDS = 60.0  # Prefect's own: 30 until the engine is killed, then hooks
_logger = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


async def follow(member: Membership) -> Leaving:
    """Execute this replica's flow run to its end.

    Returns:
        What is to be written as the last word. Code 0 once Prefect knows how the run ended, also
        when it failed: the leader names it, whereas a non-zero exit would end the whole job.
    """
    beginning = Crew(member, patience_seconds=BEGIN_SECONDS)
    leader = await _ask(beginning.leader)
    if leader is None or _has_ended(leader):
        return Leaving(code=0, why="the leader's run had ended before this replica began")
    run = await _ask(beginning.own_run, leader)
    crew, told = Crew(member), False
    if not is_final(run):
        os.environ.update({LEADER_RUN_ID: str(leader.id), RUN_ID: str(run.id)})
        execution = _Execution(member, crew, run)
        await execution.run()
        told = execution.is_ending
        run = await settled(crew, run)
    why = f"its flow run ended {describe(run)}"
    return Leaving(code=0 if is_final(run) else 1, why=why, told=told)


async def settled(crew: Crew, run: FlowRun) -> FlowRun:
    """The run with an end, one way or another, once its process has ended."""
    seen = await _ask(crew.run, run.id)
    if seen is None:
        return run.model_copy(update={"state": Cancelled(message="It was deleted.")})
    if is_final(seen):
        return seen
    # Suspended, or an engine that ended without a word: nobody would ever go on with it.
    await _ask(
        crew.propose, run.id, end_of(seen, f"Its process ended while it was {describe(seen)}")
    )
    return await _ask(crew.run, run.id) or seen


class _Execution:
    """One execution of a follower's run, and the two that watch over it."""

    def __init__(self, member: Membership, crew: Crew, run: FlowRun) -> None:
        self._member = member
        self._crew = crew
        self._run = run
        self._told_at: float | None = None
        self.is_ending = False
        """Whether SIGTERM ends it."""

    async def run(self) -> None:
        """Execute the run with Prefect's own executor."""
        terminating = anyio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, terminating.set)
        with tempfile.TemporaryDirectory(prefix="prefect-vertex-replica-") as root:
            async with executor_context() as context:
                starter = replica_starter()(
                    workspace_root=Path(root), control_channel=context.control_channel
                )
                context.call_after_exit(starter.close)
                executor = context.create_executor(
                    self._run, starter, propose_submitting=False, hook_runner=starter.hook_runner
                )
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._watch_leader, context)
                    tasks.start_soon(self._end_on_signal, context, terminating, tasks)
                    await executor.submit()
                    if not self.is_ending:
                        tasks.cancel_scope.cancel()

    async def _end_on_signal(
        self, context: Any, terminating: anyio.Event, tasks: anyio.abc.TaskGroup
    ) -> None:
        """On SIGTERM the run ends here: rescheduled, nobody would ever take it up."""
        await terminating.wait()
        _logger.info("SIGTERM: ending %s.", self._run.name)
        acknowledged, concluded = await tell_engine_to_leave_the_state(context, self._run.id)
        if concluded:
            return  # its last state is reported, and its process about to end
        self.is_ending = True
        try:
            await _ask(self._report_end)
        except httpx.HTTPError as error:
            _logger.warning("Could not report the end of %s: %s", self._run.name, told(error))
        await context.process_manager.kill(self._run.id, force=not acknowledged)
        # Before the executor sees the exit code and proposes a state of its own for it.
        tasks.cancel_scope.cancel()

    def _report_end(self) -> None:
        leader = self._crew.leader()
        if leader is None or _is_cancelling(leader):
            state: State[None] = Cancelled(message="The leader's run was cancelled.")
        else:
            who = str(self._member).capitalize()
            own = self._crew.run(self._run.id) or self._run
            state = end_of(own, f"{who} was told to end (SIGTERM) before its flow had.")
            # First, for the leader takes an end without it for a fault of this flow's.
            self._crew.say_told(self._run.id)
        self._crew.propose(self._run.id, state)

    async def _watch_leader(self, context: Any) -> None:
        """End this run when the leader's has ended, or when its own was cancelled by the server."""
        # Some ten requests a second from a job of any size, for Prefect Cloud counts them.
        interval = max(WATCH_SECONDS, self._member.world_size / _WATCHES_PER_SECOND)
        for look in itertools.count():
            await anyio.sleep(interval)
            try:
                await self._look(context, also_own=look % _LOOKS_FOR_OWN == 0)
            except httpx.HTTPError as error:
                _logger.warning("Could not look after the leader's run: %s", told(error))

    async def _look(self, context: Any, *, also_own: bool) -> None:
        leader = await _ask(self._crew.leader)
        if not _has_ended(leader) and not also_own:
            return
        own = await _ask(self._crew.run, self._run.id)
        if own is None or (own.state is not None and own.state.is_cancelled()):
            # Prefect cancels the children of a cancelled run without telling their processes.
            await context.process_manager.kill(self._run.id)
            return
        if is_final(own) or not _has_ended(leader):
            return
        if self._told_at is None:
            ended = "was deleted" if leader is None else f"is {describe(leader)}"
            # Prefect's own observer in this process then ends it the way a person's cancel does.
            await _ask(
                self._crew.propose,
                self._run.id,
                Cancelling(message=f"The leader's run {ended}"),
            )
            self._told_at = time.monotonic()
        elif time.monotonic() - self._told_at > _CANCEL_SECONDS:
            await context.process_manager.kill(self._run.id, force=True)


def _has_ended(leader: FlowRun | None) -> bool:
    """Whether the leader's run is over or about to be; a retry in its process is neither."""
    return leader is None or is_final(leader) or _is_cancelling(leader)


def _is_cancelling(run: FlowRun) -> bool:
    return run.state is not None and (run.state.is_cancelling() or run.state.is_cancelled())


async def _ask(ask: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call something that blocks, in a thread."""
    return await anyio.to_thread.run_sync(ask, *args, abandon_on_cancel=True)
