"""Calls over a real socket: deadlines, every status on every method, tries, details, cancelling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import grpc
import pytest
from google.cloud.aiplatform_v1 import types
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.rpc import status_pb2

from prefect_vertex.errors import (
    QuotaExceededError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
    ServiceUnavailableError,
)
from prefect_vertex.lifecycle.states import JobPhase
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.testing import ManualClock
from prefect_vertex.vertex.budget import SPACING
from prefect_vertex.vertex.service import VertexJobGateway
from prefect_vertex.vertex.translate import ERROR_OF

pytestmark = pytest.mark.anyio

NAME = ResourceName("p", "us-central1", "7")
TRIES = 4

GatewayCall = Callable[[VertexJobGateway], Any]
# Ours, the service's, and how to make it.
CALLS: dict[str, tuple[str, GatewayCall]] = {
    "create": (
        "CreateCustomJob",
        lambda g: g.create(types.CreateCustomJobRequest(parent=g.target.parent)),
    ),
    "describe": ("GetCustomJob", lambda g: g.describe(NAME)),
    "find": ("ListCustomJobs", lambda g: g.find("run")),
    "list_live": ("ListCustomJobs", lambda g: g.list_live("pool")),
    "list_ended": ("ListCustomJobs", lambda g: g.list_ended("pool")),
    "cancel": ("CancelCustomJob", lambda g: g.cancel(NAME)),
    "delete": ("DeleteCustomJob", lambda g: g.delete(NAME)),
}
NO_ERRORS = {
    ("cancel", "NOT_FOUND"),
    ("cancel", "FAILED_PRECONDITION"),
    ("delete", "NOT_FOUND"),
}
ERROR_CODES = [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK]
each_call = pytest.mark.parametrize("call", CALLS)


@pytest.mark.parametrize("code", ERROR_CODES, ids=lambda code: code.name)
@each_call
async def test_every_status_on_every_method_is_ours(
    call: str, code: grpc.StatusCode, job_service: Any, gateway: VertexJobGateway
) -> None:
    """Each becomes its error, but what cancel and delete take for done."""
    method, make = CALLS[call]
    job_service.refuse(method, code, "words of the service")

    if (call, code.name) in NO_ERRORS:
        await make(gateway)
        return
    with pytest.raises(ServiceError) as caught:
        await make(gateway)

    assert type(caught.value) is ERROR_OF[code.name]
    assert caught.value.code == code.name


@pytest.mark.parametrize("code", ERROR_CODES, ids=lambda code: code.name)
async def test_a_create_is_sent_once_whatever_is_answered(
    code: grpc.StatusCode, job_service: Any, gateway: VertexJobGateway
) -> None:
    job_service.refuse("CreateCustomJob", code)

    with pytest.raises(ServiceError):
        await CALLS["create"][1](gateway)

    assert len(job_service.requests["CreateCustomJob"]) == 1


@pytest.mark.parametrize("code", ERROR_CODES, ids=lambda code: code.name)
async def test_a_read_is_tried_again_only_where_the_answer_may_change(
    code: grpc.StatusCode, job_service: Any, gateway: VertexJobGateway
) -> None:
    job_service.refuse("GetCustomJob", code)

    with pytest.raises(ServiceError) as caught:
        await gateway.describe(NAME)

    tries = TRIES if caught.value.retryable else 1
    assert len(job_service.requests["GetCustomJob"]) == tries


@pytest.mark.parametrize("call", [name for name in CALLS if name != "create"])
async def test_a_call_that_may_be_repeated_survives_a_short_outage(
    call: str, job_service: Any, gateway: VertexJobGateway, a_job: Any, a_page: Any
) -> None:
    method, make = CALLS[call]
    answers = {
        "GetCustomJob": a_job(7),
        "ListCustomJobs": a_page(),
        "CancelCustomJob": empty_pb2.Empty(),
        "DeleteCustomJob": operations_pb2.Operation(name="operations/1"),
    }
    job_service.answer(method, answers[method])
    job_service.refuse(method, grpc.StatusCode.UNAVAILABLE, times=2)

    await make(gateway)

    assert len(job_service.requests[method]) == 3


@each_call
async def test_a_hung_service_is_unavailable_when_the_deadline_has_passed(
    call: str, job_service: Any, hasty_gateway: VertexJobGateway
) -> None:
    method, make = CALLS[call]
    job_service.hang(method)

    with pytest.raises(ServiceUnavailableError) as caught:
        await make(hasty_gateway)

    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert job_service.address in str(caught.value)


@each_call
async def test_every_call_carries_a_deadline(
    call: str, job_service: Any, gateway: VertexJobGateway
) -> None:
    method, make = CALLS[call]
    job_service.refuse(method, grpc.StatusCode.PERMISSION_DENIED)

    with pytest.raises(ServiceError):
        await make(gateway)

    limit = 60 if call == "create" else 20
    # gRPC rounds a deadline up as it writes it on the wire.
    assert 0 < job_service.seconds_left[0] < limit + 1


async def test_tries_stop_when_the_time_for_the_call_is_over(
    job_service: Any, gateway: VertexJobGateway, clock: ManualClock
) -> None:
    """The pauses are short of the deadline here, but the service takes its time to refuse."""

    async def refuse_slowly(request: Any, context: Any) -> None:
        await clock.sleep(12)
        await context.abort(grpc.StatusCode.INTERNAL, "no")

    job_service.behaviours["GetCustomJob"] = refuse_slowly

    with pytest.raises(ServiceUnavailableError):
        await gateway.describe(NAME)

    assert len(job_service.requests["GetCustomJob"]) == 2


async def test_cancelling_a_call_passes_through_untouched(
    job_service: Any, gateway: VertexJobGateway
) -> None:
    arrived = job_service.hang("CreateCustomJob")

    async with anyio.create_task_group() as group:
        group.start_soon(CALLS["create"][1], gateway)
        await arrived.wait()
        group.cancel_scope.cancel()

    assert group.cancel_scope.cancelled_caught


async def test_an_address_where_nobody_listens_is_named_with_the_variable(
    make_gateways: Any, target: Any
) -> None:
    gateway = make_gateways("127.0.0.1:1").for_target(target)

    with pytest.raises(ServiceUnavailableError) as caught:
        await gateway.describe(NAME)

    assert "127.0.0.1:1" in str(caught.value)
    assert "VERTEX_AI_EMULATOR_HOST" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_created_job_is_shown_as_the_service_answered(
    job_service: Any, gateway: VertexJobGateway, a_job: Any, a_request: Any
) -> None:
    job_service.answer("CreateCustomJob", a_job(7, state="JOB_STATE_PENDING"))

    snapshot = await gateway.create(a_request(labels={"a": "b"}))

    assert snapshot.resource_name.key == NAME.key
    assert snapshot.phase is JobPhase.PROVISIONING
    assert job_service.requests["CreateCustomJob"] == [a_request(labels={"a": "b"})]


async def test_reads_go_to_the_job_by_its_name(
    job_service: Any, gateway: VertexJobGateway, a_job: Any
) -> None:
    job_service.answer("GetCustomJob", a_job(7))

    snapshot = await gateway.describe(NAME)

    assert job_service.requests["GetCustomJob"][0].name == str(NAME)
    assert snapshot.described


async def test_an_observation_is_dated_when_it_was_asked_for(
    job_service: Any, make_gateways: Any, target: Any, clock: ManualClock, a_job: Any
) -> None:
    """An answer may be under way for long; what it shows is no newer than the question."""

    async def answer_late(request: Any, context: Any) -> types.CustomJob:
        await clock.sleep(15)
        return a_job(7)  # type: ignore[no-any-return]

    job_service.behaviours["GetCustomJob"] = answer_late
    gateways = make_gateways(job_service.address)
    asking = gateways.for_target(target)
    dated = VertexJobGateway(
        target,
        connect=asking._caller.connect,
        budgets=asking.budgets,
        clock=clock,
        utc=clock.utc,
    )
    before = clock.utc()

    snapshot = await dated.describe(NAME)

    assert snapshot.observed_at == before


@each_call
async def test_a_rate_denial_slows_the_budget_that_the_call_is_paid_from(
    call: str, job_service: Any, gateway: VertexJobGateway, rate_denial: Any
) -> None:
    method, make = CALLS[call]
    job_service.refuse(method, grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded", *rate_denial)

    with pytest.raises(RateLimitedError) as caught:
        await make(gateway)

    submission = call in {"create", "delete"}
    slowed = gateway.budgets.submissions if submission else gateway.budgets.reads
    other = gateway.budgets.reads if submission else gateway.budgets.submissions
    assert caught.value.verdict.metadata["quota_limit_value"] == "600"
    assert slowed.rate_per_minute < 60_000
    assert other.rate_per_minute == 60_000


async def test_a_read_told_that_quota_is_exhausted_without_details_came_too_often(
    job_service: Any, gateway: VertexJobGateway
) -> None:
    job_service.refuse("GetCustomJob", grpc.StatusCode.RESOURCE_EXHAUSTED)

    with pytest.raises(QuotaExceededError):
        await gateway.describe(NAME)

    assert gateway.budgets.reads.rate_per_minute < 60_000


async def test_a_create_is_paid_for_by_the_turn_that_precedes_it(
    job_service: Any, make_gateways: Any, target: Any, clock: ManualClock, a_job: Any
) -> None:
    """Otherwise each would be paid for twice, and half of the quota would lie idle."""
    gateway = make_gateways(job_service.address, submissions_per_minute=60).for_target(target)
    job_service.answer("CreateCustomJob", a_job(7))

    for _ in range(3):
        await gateway.submission_turn()
        await CALLS["create"][1](gateway)

    assert clock.now() == pytest.approx(2 * SPACING)


async def test_a_quota_of_machines_slows_nothing(
    job_service: Any, gateway: VertexJobGateway
) -> None:
    job_service.refuse("CreateCustomJob", grpc.StatusCode.RESOURCE_EXHAUSTED, "quota metrics")

    with pytest.raises(QuotaExceededError):
        await CALLS["create"][1](gateway)

    assert gateway.budgets.submissions.rate_per_minute == 60_000


async def test_the_service_says_when_to_come_back_and_the_next_try_waits(
    job_service: Any,
    gateway: VertexJobGateway,
    clock: ManualClock,
    rate_denial: Any,
    retry_after: Any,
    a_job: Any,
) -> None:
    job_service.answer("GetCustomJob", a_job(7))
    details = (*rate_denial, retry_after(9))
    job_service.refuse(
        "GetCustomJob", grpc.StatusCode.RESOURCE_EXHAUSTED, "slower", *details, times=1
    )

    await gateway.describe(NAME)

    assert clock.now() >= 9


async def test_a_denied_read_gives_up_where_the_advice_outlasts_the_call(
    job_service: Any, gateway: VertexJobGateway, rate_denial: Any, retry_after: Any
) -> None:
    details = (*rate_denial, retry_after(90))
    job_service.refuse("GetCustomJob", grpc.StatusCode.RESOURCE_EXHAUSTED, "slower", *details)

    with pytest.raises(RateLimitedError):
        await gateway.describe(NAME)

    assert len(job_service.requests["GetCustomJob"]) == 1


async def test_a_deletion_that_is_refused_in_its_operation_is_an_error(
    job_service: Any, gateway: VertexJobGateway
) -> None:
    refusal = status_pb2.Status(code=9, message="The job is still running.")
    operation = operations_pb2.Operation(name="operations/1", done=True, error=refusal)
    job_service.answer("DeleteCustomJob", operation)

    with pytest.raises(RequestRejectedError, match="still running"):
        await gateway.delete(NAME)


async def test_a_deletion_that_is_done_at_once_is_none(
    job_service: Any, gateway: VertexJobGateway
) -> None:
    operation = operations_pb2.Operation(name="operations/1", done=True)
    operation.response.Pack(empty_pb2.Empty())
    job_service.answer("DeleteCustomJob", operation)

    await gateway.delete(NAME)

    assert job_service.requests["DeleteCustomJob"][0].name == str(NAME)
