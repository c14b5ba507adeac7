"""Where a run's jobs may be, and the look for them by label."""

from __future__ import annotations

import logging
from datetime import timedelta

from prefect_vertex.errors import ServiceError
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.answers import crash_for
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.observe import is_ours
from prefect_vertex.reconciler.ports import World

Place = tuple[str, str]
"""Project and location."""


class Search:
    """Looks for jobs that a run may have."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def look(self, care: Care, view: RunView) -> bool:
        """Look for the run's jobs by label, wherever they may be.

        Every attempt's place is announced before its create, so where the run names one, what
        cannot be seen elsewhere settles nothing and holds nothing up.

        Raises:
            ServiceError: A place that may hold a job of the attempt could not be seen.
        """
        named = _named(care, view)
        for target in sorted(self._places(care, view), key=str):
            try:
                found = await self._world.gateways.for_target(target).find(care.run_id)
            except ServiceError as error:
                matters = not named or (target.project, target.location) in named
                self._say(care, view, target, error, matters=matters)
                if not matters:
                    continue
                if named or not self._is_hopeless(care):
                    raise
                text = f"Whether it has a CustomJob cannot be found out. {error}"
                care.failed, care.to_find = crash_for(text), False
                return True
            for job in found:
                if is_ours(job):
                    care.see(job, target)
        care.unseeable_since = None
        if care.newest_attempt < max(view.attempt, care.contested_attempt, 1):
            # The first ones and the last: however long it goes on, no more is to be known.
            kept = care.looks[: max(1, care.policy.create_settle_looks - 1)]
            care.looks = (*kept, self._world.clock.now())
        else:
            care.looks = ()
        return True

    def _is_hopeless(self, care: Care) -> bool:
        """Whether this process, which is to submit the run, has failed to look for too long."""
        now = self._world.clock.now()
        care.unseeable_since = care.unseeable_since or now
        budget = timedelta(seconds=care.policy.create_budget_seconds)
        return care.to_find and now - care.unseeable_since >= budget

    def _say(
        self, care: Care, view: RunView, target: Target, error: ServiceError, *, matters: bool
    ) -> None:
        """Tell a person once why a run stands still, or what was not looked into."""
        place = target.location
        text = (
            f"Cannot look for its CustomJob in {place}; it is tried again. {error.message}"
            if matters
            else f"Cannot look for its CustomJob in {place}; its last attempt was elsewhere, "
            f"so it goes on. {error.message}"
        )
        key = f"{place} {error.code} {matters}"
        if key not in care.said:
            care.said.add(key)
            self._world.runs.log(view, logging.WARNING, text)

    def _places(self, care: Care, view: RunView) -> set[Target]:
        """Where it was tried, is to be tried or was announced; anywhere only if nothing says."""
        places = set(care.targets.values())
        if care.assignment is not None:
            places |= {candidate.target for candidate in care.assignment.spec.candidates}
        project, location = view.place
        known = {(place.project, place.location) for place in places}
        if project and (project, location) not in known:
            places.add(self._known_target(project, location))
        return places or set(self._world.home())

    def _known_target(self, project: str, location: str) -> Target:
        for target in sorted(self._world.home(), key=str):
            if (target.project, target.location) == (project, location):
                return target
        return Target(project, location, self._usual_credentials())

    def _usual_credentials(self) -> str:
        """Those of the pool's own place: a run's labels name a place, never a secret."""
        return min((target.credentials_key for target in self._world.home()), default="")

    def target_for(self, care: Care, name: ResourceName) -> Target:
        """Where to ask for a job that is known by its name alone: its own location, always."""
        if (seen := care.targets.get(name.key)) is not None:
            return seen
        project, location = care.seen.place if care.seen is not None else ("", "")
        if project and location == name.location:
            # A name has the project's number, so home would do as well, with the wrong project.
            return self._known_target(project, location)
        known = [*care.targets.values(), *sorted(self._world.home(), key=str)]
        if care.candidate is not None:
            known.insert(0, care.candidate.target)
        for target in known:
            if target.location == name.location:
                return target
        return Target(name.project, name.location, self._usual_credentials())


def _named(care: Care, view: RunView) -> set[Place]:
    """The places that may hold a live job of the run, if the run names them; else none.

    An attempt that somebody has claimed and not yet announced may be about to begin anywhere.
    """
    project, location = view.place
    if not project or view.attempt < care.contested_attempt:
        return set()
    live = {
        (care.targets[key].project, care.targets[key].location)
        for key, job in care.jobs.items()
        if not job.is_terminal
    }
    return {(project, location)} | live
