"""Audience: which runs need their replicas' log lines, and of which jobs. It asks nobody."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from prefect_vertex.lifecycle.absence import identifier_of
from prefect_vertex.lifecycle.policy import parse_policy
from prefect_vertex.lifecycle.run import POLICY_LABEL, RunState, RunView
from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.lifecycle.streaming import (
    Need,
    Stream,
    may_have_dead,
    need_of,
    stream_of,
    stream_of_name,
)
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target
from prefect_vertex.reconciler.care import Care
from prefect_vertex.reconciler.ports import World


class Audience:
    """The runs that lines are for.

    Args:
        world: Who this process is, and where home is.
        is_gone: Whether a process is certainly gone, by its signature.
    """

    def __init__(self, world: World, *, is_gone: Callable[[str], bool]) -> None:
        self._world = world
        self.is_gone = is_gone

    def includes(self, care: Care | None, view: RunView) -> bool:
        """Whether this process brings the lines of a run at all."""
        text = view.labels.get(POLICY_LABEL, "")
        policy = care.policy if care is not None and not text else parse_policy(text)
        if not policy.stream_output:
            return False
        if care is not None and (care.tickets or care.adopted):
            return True
        if may_have_dead(view):
            return view.holder == self._world.signature or self.is_gone(view.holder)
        return view.holder == self._world.signature and view.holder_is_current

    def needless(self, care: Care | None, view: RunView, now: datetime) -> list[tuple[str, str]]:
        """The jobs of a run that starts, of which no line is wanted any more."""
        if care is None or view.state is not RunState.PENDING:
            return []
        return [key for key, job in care.jobs.items() if self._need(view, job, now) is Need.NOTHING]

    def streams(self, care: Care | None, view: RunView, now: datetime) -> list[Stream]:
        """A stream for each job whose lines the run needs."""
        if may_have_dead(view):
            stream = self._last_of(care, view)
            wanted = stream is not None and self._need(view, None, now) is Need.AFTER_LAST_WORD
            return [stream] if stream is not None and wanted else []
        if care is None or (job := care.newest) is None:
            return []
        if view.state is RunState.PENDING:
            jobs = [each for each in care.jobs.values() if self._need(view, each, now) is Need.ALL]
        else:
            # It may have started while nobody was there.
            jobs = [job] if self._need(view, job, now) is Need.BEFORE_START else []
        return [stream_of(view, each, care.targets[each.resource_name.key]) for each in jobs]

    def _need(self, view: RunView, job: JobSnapshot | None, now: datetime) -> Need:
        leads = self._world.leads
        return need_of(leads.run(view), None if job is None else leads.job(job), now)

    def _last_of(self, care: Care | None, view: RunView) -> Stream | None:
        """The stream of an ended run's last job."""
        if care is not None and care.newest is not None:
            return stream_of(view, care.newest, care.targets[care.newest.resource_name.key])
        name = identifier_of(view)
        return None if name is None else stream_of_name(view, name, self._target_of(view, name))

    def _target_of(self, view: RunView, name: ResourceName) -> Target:
        project = view.place[0] or name.project
        home = sorted(self._world.home(), key=str)
        keys = [target.credentials_key for target in home if target.project == project]
        keys += [target.credentials_key for target in home]
        return Target(project, name.location, next(iter(keys), ""))
