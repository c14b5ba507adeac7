"""Places: the projects and locations to look at, known again after any restart.

The template's and the deployments' are home; others come from what runs say of themselves: their
labels, their identifiers, and the candidates of those that this process submits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from prefect_vertex.lifecycle.absence import identifier_of
from prefect_vertex.lifecycle.run import RunView
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.ports import World


class Places:
    """What is listed on each tick.

    Args:
        world: Where home is.
        book: The runs under care; places of their live jobs are looked at too.
    """

    def __init__(self, world: World, book: Mapping[str, Care]) -> None:
        self._world = world
        self._book = book
        self._learned: set[Target] = set()

    def targets(self) -> set[Target]:
        """All places where a job of this pool may live."""
        targets = set(self._world.home()) | self._learned
        for care in self._book.values():
            targets |= {
                target
                for key, target in care.targets.items()
                if key in care.jobs and not care.jobs[key].is_terminal
            }
        return targets

    def add(self, targets: Iterable[Target]) -> None:
        """Look at these from now on."""
        self._learned.update(targets)

    def learn(self, views: Collection[RunView]) -> None:
        """List the places that runs name from now on, though no template mentions them."""
        if not views:
            return
        targets = self.targets()
        known = {(target.project, target.location) for target in targets}
        locations = {target.location for target in targets}
        key = min((target.credentials_key for target in self._world.home()), default="")
        for view in views:
            project, location = view.place
            if not location and (name := identifier_of(view)) is not None:
                if name.location in locations:
                    # It holds the project's number, so only the location can be compared.
                    continue
                project, location = name.project, name.location
            if location and (project, location) not in known:
                self._learned.add(Target(project, location, key))
                known.add((project, location))
                locations.add(location)
