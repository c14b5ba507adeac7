"""JobGateway: what the reconciler asks of Vertex AI, for one project and location."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from google.cloud.aiplatform_v1 import types

from prefect_vertex.lifecycle.snapshot import JobSnapshot
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target


class JobGateway(Protocol):
    """The JobService, as small as the reconciler needs it.

    Every call has a deadline; every error is one of `ServiceError`'s tree.  No method decides
    whether something is a failure.
    """

    @property
    def target(self) -> Target:
        """The project, location and credentials that it speaks for."""
        ...

    async def submission_turn(self) -> None:
        """Wait for this caller's turn to create: the submission budget is spent here.

        It is apart from `create` because it may take minutes, after which the run may not want its
        job any more.
        """
        ...

    async def create(self, request: types.CreateCustomJobRequest) -> JobSnapshot:
        """Send the request once, in the turn that `submission_turn` gave.

        It is never repeated here: the service has no idempotency token, so after any error but a
        refusal the caller has to `find` before it asks again.

        Raises:
            ServiceError: Refused, or unanswered (`ServiceUnavailableError`: it may have happened).
        """
        ...

    async def describe(self, name: ResourceName) -> JobSnapshot:
        """Read one job, strongly consistent.

        Raises:
            JobNotFoundError: There is none.
        """
        ...

    async def find(self, flow_run_id: str) -> tuple[JobSnapshot, ...]:
        """Jobs of any state labelled with this flow run, oldest first.

        Empty says nothing for a while: the list may lag, and a create may still be under way.
        """
        ...

    async def list_live(self, work_pool_id: str) -> tuple[JobSnapshot, ...]:
        """Jobs of the pool that are not known to have ended, every page.

        Absence says nothing; only `describe` does.
        """
        ...

    async def list_ended(
        self, work_pool_id: str, since: datetime | None = None
    ) -> tuple[JobSnapshot, ...]:
        """Jobs of the pool in a terminal state, every page; cheaper than describing many.

        Args:
            work_pool_id: The pool's id.
            since: Only jobs created then or later.
        """
        ...

    async def cancel(self, name: ResourceName) -> None:
        """Ask for the end; does not wait.

        A job that has ended, or is gone, is no error: its state is read by `describe`.
        """
        ...

    async def delete(self, name: ResourceName) -> None:
        """Delete the resource of an ended job; a job that is gone is no error."""
        ...
