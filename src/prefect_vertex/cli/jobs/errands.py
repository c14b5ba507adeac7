"""Errand: what `jobs` was asked for, said beforehand or done."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.states import Cancelling
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from prefect_vertex.cli.jobs.deeds import cancel_jobs, delete_jobs, named, old_jobs, settle
from prefect_vertex.cli.jobs.looking import Look
from prefect_vertex.cli.jobs.showing import (
    HEADINGS,
    STYLES,
    as_json,
    printable,
    rows_of,
    steps_of,
    title_of,
)
from prefect_vertex.cli.terminal import console, print_table, working
from prefect_vertex.errors import PlanError
from prefect_vertex.lifecycle.run import LEADER_LABEL
from prefect_vertex.reconciler.ports import World

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient
    from prefect.client.schemas.objects import FlowRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What was asked for.

    Attributes:
        act: What to do besides showing; empty: nothing.
        run: The run to cancel, by its name or id.
        age: From which jobs are old; None where nothing is deleted.
        since: How far back ended jobs are shown.
        json: The report is printed, and nothing else.
        yes: Do it, instead of saying what would be done.
    """

    pool: str
    act: Literal["", "settle", "cancel", "delete"] = ""
    run: str = ""
    age: timedelta | None = None
    since: timedelta = timedelta(days=1)
    json: bool = False
    yes: bool = False


@dataclass(kw_only=True)
class Errand:
    """One call of the command, after the look.

    Attributes:
        report: What is printed as JSON.
    """

    options: Options
    client: PrefectClient
    world: World
    seen: Look
    report: dict[str, Any] = field(default_factory=dict)

    async def run(self) -> bool:
        """Do it, or say what would be done; whether nothing is left of it.

        Raises:
            PlanError: The run to cancel cannot be told.
            ServiceError: Vertex AI refused.
            PrefectUnavailableError: The Prefect API failed.
        """
        match self.options.act:
            case "settle":
                return await self._settle()
            case "cancel":
                return await self._cancel()
            case "delete" if self.options.age is not None:
                return await self._delete(self.options.age)
            case _:
                self._show()
                return True

    def _show(self) -> None:
        seen, pool = self.seen, self.options.pool
        self.report.update(as_json(seen))
        if not seen.pairs:
            self._print(_about_none(pool, seen))
            return
        self._print_pairs()
        if steps := steps_of(seen):
            self._print_steps(steps)
            self._print(f"  prefect-vertex jobs --pool {shlex.quote(pool)} --settle --yes")

    async def _settle(self) -> bool:
        steps = steps_of(self.seen)
        self.report["would"] = steps
        if not self._goes_on(len(steps), "run"):
            self._print_steps(steps)
            return True
        with working(f"Settling {len(steps)} runs"):
            left = await settle(self.world, self.seen, steps.keys(), tell=self._tell)
        self.report["left"] = sorted(left)
        self._print(f"{len(steps) - len(left)} settled.")
        for run_id in sorted(left):
            name = title_of(self.seen, run_id)
            self._print(f"  {name} is not in step yet: repeat it, or start a worker.")
        self._tell_troubles(left)
        return not left

    async def _cancel(self) -> bool:
        run_id = await self._run_id(self.options.run)
        await self._check_pool(run_id)
        run = self.seen.runs.get(run_id) or await self.world.runs.read(run_id)
        jobs = [job for job in self.seen.jobs_of(run_id) if not job.is_terminal]
        would = [f"cancel {job.resource_name}" for job in jobs]
        goes = run is not None and not run.is_final
        if run is not None and goes:
            would = [f"cancel flow run {run.name}, which is {run.state_name}, and its jobs", *would]
        self.report["would"] = would
        if not self._goes_on(len(would), "step"):
            for line in would:
                self._print(f"  {printable(line)}")
            return True
        name = named(self.seen, run_id)
        if not goes:
            self._print(f"Cancelling the jobs of {printable(name)}:")
            await cancel_jobs(self.world, self.seen, run_id, tell=self._tell)
            return True
        self._print(f"Cancelling {printable(name)}, which takes as long as its job does to end:")
        answer: Any = await self.client.set_flow_run_state(uuid.UUID(run_id), Cancelling())
        state = answer.state.name if answer.state is not None else answer.status
        self._tell(f"{name} is {state}")
        with working("Waiting for the flow run and its jobs to end"):
            left = await settle(self.world, self.seen, [run_id], tell=self._tell, to_the_end=True)
        # Somebody else may have said it meanwhile: its worker, or its own container.
        run = await self.world.runs.read(run_id)
        self.report["state"] = run.state_name if run is not None else None
        self._print(f"It is {run.state_name if run is not None else 'deleted'}.")
        if left:
            self._print("It has not ended yet: its worker, or a repetition, sees to it.")
        self._tell_troubles(left)
        return not left

    async def _delete(self, age: timedelta) -> bool:
        old = old_jobs(self.seen, age, self.seen.now)
        self.report["would"] = [str(job.resource_name) for job in old]
        if not self._goes_on(len(old), "job"):
            self._print_pairs({job.resource_name.key for job in old})
            return True
        progress = Progress(
            TextColumn("Deleting"), BarColumn(), MofNCompleteColumn(), console=console(stderr=True)
        )
        bar = progress.add_task("", total=len(old))

        def tell(text: str) -> None:
            self._tell(text)
            progress.advance(bar)

        with progress if progress.console.is_terminal else nullcontext():
            count = await delete_jobs(self.world, self.seen, old, tell=tell)
        self._print(f"{count} deleted.")
        return True

    async def _run_id(self, text: str) -> str:
        """The run that a name or an id means."""
        try:
            run_id = uuid.UUID(text)
        except ValueError:
            return await self._named(text)
        return str(run_id)

    async def _check_pool(self, run_id: str) -> None:
        """Only the pool's own runs are cancelled: of others the jobs were not looked for."""
        jobs, pool = self.seen.jobs_of(run_id), self.options.pool
        try:
            run = await self.client.read_flow_run(uuid.UUID(run_id))
        except ObjectNotFound as error:
            if jobs:
                return
            raise PlanError(f"There is no flow run {run_id}, and no job of it.") from error
        if LEADER_LABEL in run.labels:
            raise await self._about_follower(run)
        # A run loses its pool when its work queue is deleted; its jobs still name the pool.
        if run.work_pool_name == pool or (run.work_pool_name is None and jobs):
            return
        its = f"work pool {run.work_pool_name}" if run.work_pool_name else "no work pool"
        raise PlanError(
            f"Flow run {run_id} is in {its}, not in {pool}: nothing was cancelled.",
            hint=f"Name its own pool, or: prefect flow-run cancel {run_id}",
        )

    async def _named(self, text: str) -> str:
        named = sorted(run.id for run in self.seen.runs.values() if run.name == text)
        if len(named) == 1:
            return named[0]
        if named:
            raise PlanError(
                f"{len(named)} flow runs among the pool's jobs are named {text!r}.",
                hint=f"Give the id: {', '.join(named)}.",
            )
        alike = await self.client.read_flow_runs(
            flow_run_filter=FlowRunFilter(name=FlowRunFilterName(any_=[text])),
            sort=FlowRunSort.ID_DESC,
        )
        for run in alike:
            if LEADER_LABEL in run.labels:
                raise await self._about_follower(run)
        raise PlanError(
            f"No flow run among the pool's jobs is named {text!r}.",
            hint="Give its id, or --since to look further back.",
        )

    async def _about_follower(self, run: FlowRun) -> PlanError:
        """A follower has no job of its own: it ends with its leader."""
        leader_id = str(run.labels[LEADER_LABEL])
        leader = self.seen.runs.get(leader_id) or await self.world.runs.read(leader_id)
        name = printable(leader.name) if leader is not None else leader_id
        return PlanError(
            f"Flow run {printable(run.name)} is a follower of {name}: nothing was cancelled.",
            hint=f"Cancel that one: prefect-vertex jobs --pool {shlex.quote(self.options.pool)} "
            f"--cancel {leader_id}",
        )

    # --- what is printed --------------------------------------------------------------------------

    def _goes_on(self, count: int, what: str) -> bool:
        """Whether there is something to do and it is to be done; else says so."""
        if count and self.options.yes:
            return True
        things = f"{count} {what}{'' if count == 1 else 's'}"
        self._print(f"Nothing was done; with --yes, {things}:" if count else "Nothing to do.")
        return False

    def _print_steps(self, steps: Mapping[str, str]) -> None:
        if steps and self.options.act != "settle":
            self._print(f"\n{len(steps)} to settle:")
        for run_id, step in steps.items():
            self._print(f"  {title_of(self.seen, run_id)}: {printable(step)}")

    def _print_pairs(self, keys: set[tuple[str, str]] | None = None) -> None:
        pairs = [
            pair
            for pair in self.seen.pairs
            if keys is None or (pair.job is not None and pair.job.resource_name.key in keys)
        ]
        if pairs and not self.options.json:
            print_table(console(), HEADINGS, rows_of(pairs, self.seen.now), styles=STYLES)

    def _tell_troubles(self, left: Mapping[str, str]) -> None:
        """Why Vertex AI did not say how the jobs of some runs are."""
        told = list(dict.fromkeys(filter(None, left.values())))
        if told:
            self.report["troubles"] = told
        for line in told:
            self._print(f"  {printable(line)}")

    def _tell(self, text: str) -> None:
        self.report.setdefault("done", []).append(text)
        self._print(f"  {printable(text)}")

    def _print(self, text: str) -> None:
        if not self.options.json:
            console().print(text)


def _about_none(pool: str, seen: Look) -> str:
    """What is said where no pair was seen."""
    where = ", ".join(sorted({target.location for target in seen.places}))
    if not where:
        return f"No jobs of {pool} were looked for."
    if seen.troubles:
        return f"No jobs of {pool} were seen, but not all of {where} could be read."
    return f"No jobs of {pool} in {where}."
