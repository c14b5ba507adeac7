"""The replicas of one attempt of a job, started one by one and ended together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from prefect_vertex.emulator.environment import ReplicaPlan
from prefect_vertex.emulator.names import JobName
from prefect_vertex.emulator.replica import Replica
from prefect_vertex.emulator.surroundings import Surroundings
from prefect_vertex.emulator.verdicts import SUCCEEDED, Verdict, replica_failed

PRIMARY: Final = "workerpool0-0"


class Crew:
    """What runs, and what its ends mean for the job.

    Args:
        plans: All replicas, the primary first.
        job: The job's name.
        directory: Where each replica gets a directory of its own.
        surroundings: The emulator's.
        on_end: Called when a replica has ended.
    """

    def __init__(
        self,
        plans: Sequence[ReplicaPlan],
        *,
        job: JobName,
        directory: Path,
        surroundings: Surroundings,
        on_end: Callable[[], None],
    ) -> None:
        self._plans = plans
        self._job = job
        self._directory = directory
        self._surroundings = surroundings
        self._on_end = on_end
        self._ends: list[Replica] = []
        self.replicas = [self._replica(plan) for plan in plans]

    def alive(self, name: str) -> Replica | None:
        """The replica of that name, while it runs."""
        for replica in self.replicas:
            if replica.name == name and replica.up_since is not None and not replica.ended.done():
                return replica
        return None

    def has_ended(self, name: str, status: int) -> bool:
        """Whether the replica of that name has run and ended with that status."""
        return any(
            replica.name == name
            and replica.up_since is not None
            and replica.ended.result().status == status
            for replica in self._ends
        )

    async def end(self, grace_seconds: float) -> None:
        """End all; returns when nothing of them is left."""
        await asyncio.gather(*(replica.end(grace_seconds) for replica in self.replicas))

    def kill(self) -> None:
        """SIGKILL to all; does not wait."""
        for replica in self.replicas:
            replica.kill()

    async def renew(self, name: str, grace_seconds: float) -> list[int]:
        """End one replica, or every one for an empty name, and put new ones in their place.

        Returns:
            The positions of those that are to be started again.
        """
        old = {
            position: replica
            for position, replica in enumerate(self.replicas)
            if replica.up_since is not None and name in {"", replica.name}
        }
        await asyncio.gather(*(replica.end(grace_seconds) for replica in old.values()))
        for position, replica in old.items():
            # Its end was no end: the replica goes on with another container.
            self._ends.remove(replica)
            self.replicas[position] = self._replica(self._plans[position])
        return list(old)

    def success_or_failure(self) -> Verdict | None:
        """The end of the primary, or the first bad end of any."""
        for replica in self._ends:
            if replica.ended.result().status:
                return replica_failed(replica, self._job)
            if replica.name == PRIMARY:
                return SUCCEEDED
        return None

    def failure(self) -> Verdict | None:
        """The first bad end."""
        failed = (replica for replica in self._ends if replica.ended.result().status)
        return next((replica_failed(replica, self._job) for replica in failed), None)

    def start_failure(self) -> Verdict | None:
        """The first that could not be started."""
        failed = (replica for replica in self._ends if replica.ended.result().start_error)
        return next((replica_failed(replica, self._job) for replica in failed), None)

    def _replica(self, plan: ReplicaPlan) -> Replica:
        return Replica(
            plan,
            job=self._job,
            directory=self._directory / plan.name,
            surroundings=self._surroundings,
            on_end=self._note_end,
        )

    def _note_end(self, replica: Replica) -> None:
        self._ends.append(replica)
        self._on_end()
