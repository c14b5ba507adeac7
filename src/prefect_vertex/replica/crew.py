"""The leader's run and its followers' runs, as the Prefect API knows them."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar
from uuid import UUID

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import FlowRunCreate, TaskRunCreate
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.sorting import FlowRunSort
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.states import Cancelled, Crashed, Pending, to_state_create

from prefect_vertex.lifecycle.run import (
    ATTEMPT_LABEL,
    LEADER_LABEL,
    RANK_LABEL,
    START_LABEL,
    TOLD_LABEL,
)
from prefect_vertex.replica.membership import Membership

TASK_KEY = "prefect_vertex.replica"

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_PAGE = 200
_SERVER_ERROR = 500
_PASSING = (408, 429)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """What a follower wrote last of all.

    Attributes:
        code: Its launcher's exit code.
        why: How its flow run ended.
        told: SIGTERM has ended it, which is no fault of its flow's.
    """

    code: int
    why: str
    told: bool = False


class Crew:
    """One attempt's runs. Blocking; requests that fail for a passing reason are repeated.

    Args:
        member: Whose launcher or engine asks.
        patience_seconds: How long they are repeated.
    """

    def __init__(self, member: Membership, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._member = member
        self._patience_seconds = patience_seconds
        self._client: SyncPrefectClient = get_client(sync_client=True)

    def run(self, run_id: UUID | str) -> FlowRun | None:
        """A run as it is now; None where it was deleted."""
        try:
            return self._patiently(lambda: self._client.read_flow_run(UUID(str(run_id))))
        except ObjectNotFound:
            return None

    def leader(self) -> FlowRun | None:
        """The leader's run; None where it was deleted."""
        return self.run(self._member.leader_id)

    def own_run(self, leader: FlowRun) -> FlowRun:
        """The run for this start of a follower.

        Where Vertex AI starts replicas again by itself, one whose run has crashed gets another:
        nobody else would do its share of the attempt.
        """
        run = self.follower_run(leader)
        if not self._member.restarts:
            return run
        starts = itertools.count(2)
        while run.state is not None and run.state.is_crashed():
            run = self.follower_run(leader, next(starts))
        self._take_back_left()
        return run

    def follower_run(self, leader: FlowRun, start: int = 1) -> FlowRun:
        """This follower's run of a start, made at the first call and found at every other.

        It has no deployment: with one it would count in the pool's limits, and its end would give
        the leader's place in the deployment's limit away.  It is Pending from the beginning, so
        that no worker ever takes it, and a child of a task run of the leader's.
        """
        member = self._member
        which = f"-s{start}" if start > 1 else ""
        task = TaskRunCreate(
            flow_run_id=leader.id,
            task_key=TASK_KEY,
            dynamic_key=f"a{member.attempt}-r{member.rank}{which}",
            name=f"replica-{member.rank}",
            state=_pending(),
        )
        parent = self._post("/task_runs/", task)
        run = FlowRunCreate(
            flow_id=leader.flow_id,
            name=f"{leader.name}-r{member.rank}",
            parameters=leader.parameters,
            tags=leader.tags,
            parent_task_run_id=parent["id"],
            state=_pending(),
            idempotency_key=f"prefect-vertex:{leader.id}:a{member.attempt}:r{member.rank}{which}",
            labels={
                LEADER_LABEL: str(leader.id),
                ATTEMPT_LABEL: str(member.attempt),
                RANK_LABEL: str(member.rank),
                **({START_LABEL: str(start)} if start > 1 else {}),
            },
        )
        return FlowRun.model_validate(self._post("/flow_runs/", run))

    def followers(self) -> dict[int, FlowRun]:
        """This attempt's follower runs so far, by rank; of several starts the last one's."""
        children = FlowRunFilter(
            parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[UUID(self._member.leader_id)])
        )
        found: list[FlowRun] = []
        offset = 0
        while True:
            page = self._patiently(
                lambda at=offset: self._client.read_flow_runs(  # type: ignore[misc]  # a default
                    flow_run_filter=children, sort=FlowRunSort.ID_DESC, limit=_PAGE, offset=at
                )
            )
            found += [
                run
                for run in page
                if run.labels.get(ATTEMPT_LABEL) == str(self._member.attempt)
                and RANK_LABEL in run.labels
            ]
            if len(page) < _PAGE:
                return {int(str(run.labels[RANK_LABEL])): run for run in sorted(found, key=_start)}
            offset += _PAGE

    def propose(self, run_id: UUID, state: State[Any]) -> None:
        """Ask for a state, without force; the server may refuse it, or the run be deleted."""
        with contextlib.suppress(ObjectNotFound):
            self._patiently(lambda: self._client.set_flow_run_state(run_id, state))

    def say_told(self, run_id: UUID) -> None:
        """Mark a follower's run as one that SIGTERM has ended, before it gets its end."""
        with contextlib.suppress(httpx.HTTPStatusError):
            self._patiently(
                lambda: self._client.update_flow_run_labels(run_id, {TOLD_LABEL: "yes"})
            )

    def say_left(self, leaving: Leaving) -> None:
        """Write, last of all, that this follower has left; safe to repeat."""
        key = f"{self._left_prefix()}{self._member.rank}"
        value = json.dumps({**asdict(leaving), "why": leaving.why[:2000]})
        leader = UUID(self._member.leader_id)
        try:
            self._patiently(lambda: self._client.create_flow_run_input(leader, key, value))
        except ObjectAlreadyExists:
            return
        except httpx.HTTPStatusError as error:
            # The leader's run was deleted, or an earlier start of this replica has said it.
            if error.response.status_code not in {httpx.codes.CONFLICT, httpx.codes.NOT_FOUND}:
                raise

    def left(self) -> dict[int, Leaving]:
        """The followers that have left, by rank."""
        leader, prefix = UUID(self._member.leader_id), self._left_prefix()
        inputs = self._patiently(
            lambda: self._client.filter_flow_run_input(
                leader, prefix, limit=self._member.world_size, exclude_keys=set()
            )
        )
        return {
            int(each.key.removeprefix(prefix)): Leaving(**json.loads(each.value)) for each in inputs
        }

    def _take_back_left(self) -> None:
        leader, key = UUID(self._member.leader_id), f"{self._left_prefix()}{self._member.rank}"
        try:
            self._patiently(lambda: self._client.delete_flow_run_input(leader, key))
        except httpx.HTTPStatusError as error:
            if error.response.status_code != httpx.codes.NOT_FOUND:
                raise

    def _left_prefix(self) -> str:
        return f"prefect-vertex-left-a{self._member.attempt}-r"

    def _post(self, path: Any, body: FlowRunCreate | TaskRunCreate) -> Any:
        # The client's own methods know neither idempotency keys nor labels.
        content = body.model_dump(mode="json", exclude_unset=True)
        answer = self._patiently(lambda: self._client.request("POST", path, json=content))
        return answer.json()

    def _patiently(self, ask: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience_seconds
        while True:
            try:
                return ask()
            except httpx.HTTPError as error:
                if not _is_passing(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)


def describe(run: FlowRun) -> str:
    """Say in one line how a run ended, or how it stands."""
    if run.state is None:
        return "it has no state"
    message = " ".join((run.state.message or "").split())
    return f"{run.state.name}: {message}" if message else str(run.state.name)


def is_final(run: FlowRun) -> bool:
    """Whether a run has ended."""
    return run.state is not None and run.state.is_final()


def was_told(run: FlowRun) -> bool:
    """Whether SIGTERM has ended a follower's run."""
    return TOLD_LABEL in run.labels


def end_of(run: FlowRun, why: str) -> State[None]:
    """The state for a run whose process ended before it; Prefect cancels what it was cancelling."""
    if run.state is not None and run.state.is_cancelling():
        return Cancelled(message=why)
    return Crashed(message=why)


def _start(run: FlowRun) -> int:
    return int(str(run.labels.get(START_LABEL, 1)))


def _pending() -> Any:
    return to_state_create(Pending(message="The replica's machine has started."))


def _is_passing(error: httpx.HTTPError) -> bool:
    if isinstance(error, httpx.HTTPStatusError):
        status = error.response.status_code
        return status >= _SERVER_ERROR or status in _PASSING
    return True
