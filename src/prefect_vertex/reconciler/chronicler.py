"""Chronicler: keeps a run's artifacts in step with what became of its attempts.

It is a task of its own, which no outcome waits for: a step only notes that something has changed,
and whatever fails here leaves an artifact as it was.  It draws one run after the other, so that
many changes of many runs become few requests.  What it draws is read anew each time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import anyio

from prefect_vertex.capacity.ledger import parse_names
from prefect_vertex.capacity.trail import parse_trail
from prefect_vertex.chronicle.chronicle import Sources, build_chronicle, own_death
from prefect_vertex.chronicle.page import as_markdown, headline, write_page
from prefect_vertex.chronicle.prices import PriceList
from prefect_vertex.chronicle.svg import as_picture, draw
from prefect_vertex.chronicle.timeline import lay_out
from prefect_vertex.errors import ServiceError
from prefect_vertex.lifecycle.lines import WARNING, WORKER_LOGGER, Line
from prefect_vertex.lifecycle.run import DRAWN_LABEL, NAMES_LABEL, WALK_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.addresses import told, trace_of
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.observe import is_ours
from prefect_vertex.reconciler.ports import World
from prefect_vertex.reconciler.story import Key, digest_of
from prefect_vertex.runs.journal import key_of
from prefect_vertex.runs.pages import Page, Pages
from prefect_vertex.runs.port import PrefectUnavailableError

logger = logging.getLogger(__name__)

PAGE_KEY = "vertex-job"
TIMELINE_KEY = "vertex-timeline"

PAUSE_SECONDS = 30.0
"""How long nothing is drawn once the Prefect API has failed."""

LAST_SECONDS = 3.0
"""How long a process that ends may take for what it has still to draw."""

MAX_DESCRIBED = 20
"""Jobs of one run that are read one by one to learn their machines."""

MAX_NOTED = 10_000
"""Runs of which it is remembered how far their story was drawn."""

DOUBT = timedelta(minutes=5)
"""How long an ended run is kept in mind whose holder may be gone; Prefect knows after 90 s."""


class Chronicler:
    """Draws runs whose attempts have changed.

    Args:
        world: Its adapters.
        pages: Where the artifacts go.
        prices: For the estimates; None: there are none.
        is_gone: Whether a process is certainly gone, by its signature.
    """

    def __init__(
        self,
        world: World,
        pages: Pages,
        prices: PriceList | None,
        *,
        is_gone: Callable[[str], bool],
    ) -> None:
        self._world = world
        self._pages = pages
        self._prices = prices
        self._is_gone = is_gone
        self._queue: dict[str, Care] = {}
        self._noted: dict[str, str] = {}
        self._jobs: dict[str, dict[Key, JobSnapshot]] = {}
        self._doubtful: dict[str, RunView] = {}
        self._trouble = ""
        self._wanted = anyio.Event()

    # --- what has changed -------------------------------------------------------------------------

    def note(self, care: Care) -> None:
        """Draw the run if its story has gone on since it was last drawn; asks nobody."""
        view = care.seen
        if view is None or _is_drawn(view) or not self._is_ours(care, view):
            return
        serial = care.trail.serial if care.trail.tries or care.trail.ruled_out else 0
        if not (care.jobs or serial):
            return
        is_over = care.done and not care.has_live_job
        story = digest_of(care.jobs, serial=serial, state=view.state, is_over=is_over)
        if self._noted.get(view.id) == story:
            return
        if view.labels.get(DRAWN_LABEL) == story:
            # By the process that held it before.
            self._note(view.id, story)
            return
        self._put(care, story)

    def look(self, ended: Iterable[RunView]) -> None:
        """Draw the ended runs of processes that are gone, unless their last artifact is drawn.

        An end is seen once, and a process is known to be gone a good minute later: until then the
        run is kept in mind.
        """
        now = self._world.clock.now()
        doubtful = {view.id: view for view in ended if view.attempt} | self._doubtful
        self._doubtful = {}
        for run_id, view in doubtful.items():
            if _is_drawn(view) or run_id in self._noted:
                continue
            if view.holder == self._world.signature or self._is_gone(view.holder):
                self._put(Care(run_id=run_id, seen=view), "")
            elif now - view.observed_at < DOUBT and len(self._doubtful) < MAX_NOTED:
                self._doubtful[run_id] = view

    def _is_ours(self, care: Care, view: RunView) -> bool:
        """One worker draws a run: the one that holds it, or has taken it over."""
        if care.tickets or care.adopted or view.holder == self._world.signature:
            return True
        return care.holder_gone or (view.is_final and self._is_gone(view.holder))

    def _note(self, run_id: str, story: str) -> None:
        while len(self._noted) >= MAX_NOTED:
            self._forget(next(iter(self._noted)))
        self._noted[run_id] = story

    def _put(self, care: Care, story: str) -> None:
        self._note(care.run_id, story)
        self._queue[care.run_id] = care
        self._wanted.set()

    # --- drawing ----------------------------------------------------------------------------------

    async def run_forever(self) -> None:
        """Draw until cancelled."""
        while True:
            await self._wanted.wait()
            if not await self.drain():
                await anyio.sleep(PAUSE_SECONDS)

    async def finish(self) -> None:
        """Draw what is left before the process ends, for a few seconds."""
        if self._queue:
            with anyio.move_on_after(LAST_SECONDS, shield=True):
                await self.drain()

    async def drain(self) -> bool:
        """Draw every run that has changed; False if the Prefect API failed meanwhile."""
        while self._queue:
            run_id = next(iter(self._queue))
            care = self._queue.pop(run_id)
            try:
                await self._draw(care)
            except PrefectUnavailableError as error:
                self._queue.setdefault(run_id, care)
                self._say(str(error))
                return False
            except Exception as error:  # noqa: BLE001 - a picture must not end anything
                self._say(f"{type(error).__name__}: {told(error)}", error)
        self._wanted = anyio.Event()
        return True

    async def _draw(self, care: Care) -> None:
        # What changes from here on is noted, and drawn, again.
        story = self._noted.get(care.run_id, "")
        view = await self._world.runs.read(care.run_id)
        if view is None:
            self._forget(care.run_id)
            return
        sources = await self._sources(care, view)
        chronicle = build_chronicle(sources)
        await self._tell_own_death(view, sources)
        if not chronicle.attempts:
            return
        about = headline(chronicle)
        text = write_page(chronicle, self._prices, has_console=self._world.has_console)
        name = f"Timeline of flow run {view.name}"
        svg = draw(lay_out(chronicle), title=name, description=about)
        picture, about = as_picture(svg), as_markdown(about)
        await self._pages.show(view, Page(key=PAGE_KEY, data=text, description=about))
        await self._pages.show(view, Page(key=TIMELINE_KEY, data=picture, description=about))
        self._trouble = ""
        if view.is_final and not chronicle.is_live:
            # Another process need not draw it again, nor this one remember it.
            await self._world.runs.label(view.id, {DRAWN_LABEL: view.state_id})
            if view.id not in self._queue:
                self._forget(view.id)
        elif story and view.state is RunState.RUNNING:
            # It may be long until something changes; what comes before is soon over.
            await self._world.runs.label(view.id, {DRAWN_LABEL: story})

    async def _tell_own_death(self, view: RunView, sources: Sources) -> None:
        """Say once in the run's log what Vertex AI can't know: that the flow's process died.

        Of the crash's own time, so that the log itself says whether it was said.
        """
        death, journal = own_death(sources), self._world.journal
        if death is None or journal is None:
            return
        line = Line(logger=WORKER_LOGGER, timestamp=death[0], level=WARNING, text=death[1])
        if key_of(line) not in await journal.known(view, line.timestamp, line.timestamp):
            await journal.write(view, [line])

    async def _sources(self, care: Care, view: RunView) -> Sources:
        jobs = await self._all_jobs(care, view)
        return Sources(
            run=view,
            jobs=tuple(jobs.values()),
            trail=parse_trail(view.labels.get(WALK_LABEL, "")),
            names=parse_names(view.labels.get(NAMES_LABEL, "")),
            states=await self._pages.states(view.id),
            starts=await self._pages.starts(view.id),
            now=self._world.clock.now(),
        )

    async def _all_jobs(self, care: Care, view: RunView) -> dict[Key, JobSnapshot]:
        """Every job of the run: those under care, and those that ended before it was taken."""
        known = self._jobs.get(view.id)
        if known is None:
            known = {}
            if view.attempt > 1 or len(care.jobs) < view.attempt:
                known = await self._find(care, view)
            self._jobs[view.id] = known
        for key, job in care.jobs.items():
            known[key] = job.with_shape_of(known.get(key))
        bare = [job for job in known.values() if not job.machines]
        for job in bare[-MAX_DESCRIBED:]:
            target = care.targets.get(job.resource_name.key) or self._target(job)
            try:
                seen = await self._world.gateways.for_target(target).describe(job.resource_name)
            except ServiceError as error:
                self._say(str(error))
                continue
            known[job.resource_name.key] = replace(seen, observed_at=job.observed_at)
        return known

    async def _find(self, care: Care, view: RunView) -> dict[Key, JobSnapshot]:
        """The run's jobs by label, wherever they may be."""
        places = set(care.targets.values()) | set(self._world.home())
        if care.assignment is not None:
            places |= {candidate.target for candidate in care.assignment.spec.candidates}
        found: dict[Key, JobSnapshot] = {}
        for target in sorted(places, key=str):
            try:
                jobs = await self._world.gateways.for_target(target).find(view.id)
            except ServiceError as error:
                self._say(str(error))
                continue
            found |= {job.resource_name.key: job for job in jobs if is_ours(job)}
        return found

    def _target(self, job: JobSnapshot) -> Target:
        name = job.resource_name
        home = sorted(self._world.home(), key=str)
        usual = home[0].credentials_key if home else ""
        near = [target for target in home if target.location == name.location]
        return near[0] if near else Target(name.project, name.location, usual)

    def _forget(self, run_id: str) -> None:
        self._noted.pop(run_id, None)
        self._jobs.pop(run_id, None)

    def _say(self, trouble: str, fault: Exception | None = None) -> None:
        """Say once why artifacts stay as they are."""
        if trouble != self._trouble:
            self._trouble = trouble
            trace = f"\n{trace_of(fault)}" if fault is not None else ""
            text = "A flow run's artifacts were not written, or not in full. %s"
            logger.warning(text, f"{trouble}{trace}")


def _is_drawn(view: RunView) -> bool:
    """Whether the run has ended, and its artifacts tell all of it."""
    return view.is_final and view.labels.get(DRAWN_LABEL) == view.state_id
