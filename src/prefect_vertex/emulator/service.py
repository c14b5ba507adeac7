"""google.cloud.aiplatform.v1.JobService: the five CustomJob methods, and a clear no to the rest.

Each method is a plain function from request to response that changes the store at once, so that a
client which hangs up in the middle leaves nothing half done.  What happens before or after an
effect, to every method alike, is in `front`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import grpc
import grpc.aio
from google.cloud.aiplatform_v1.types import (
    CancelCustomJobRequest,
    CreateCustomJobRequest,
    CustomJob,
    DeleteCustomJobRequest,
    DeleteOperationMetadata,
    GenericOperationMetadata,
    GetCustomJobRequest,
    JobState,
    ListCustomJobsRequest,
    ListCustomJobsResponse,
)
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2

from prefect_vertex.emulator import wordings
from prefect_vertex.emulator.api_error import ApiError
from prefect_vertex.emulator.front import Front
from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.listing import list_page
from prefect_vertex.emulator.names import JobName, parse_job_name, parse_parent
from prefect_vertex.emulator.quotas import demand_of
from prefect_vertex.emulator.record import JobRecord, taken_apart
from prefect_vertex.emulator.store import JobStore
from prefect_vertex.emulator.surroundings import Surroundings
from prefect_vertex.emulator.validation import check_custom_job

SERVICE: Final = "google.cloud.aiplatform.v1.JobService"


@dataclass(frozen=True, slots=True)
class _Method:
    """One RPC: how to read its request, what it does, how to write its response."""

    effect: Callable[[Any], Any]
    deserializer: Callable[[bytes], Any]
    serializer: Callable[[Any], bytes]

    def handler(self, name: str, front: Front) -> grpc.RpcMethodHandler[Any, Any]:
        async def answer(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            return await front.answer(name, self.effect, request, context)

        return grpc.unary_unary_rpc_method_handler(answer, self.deserializer, self.serializer)


class JobService(grpc.GenericRpcHandler):
    """The servicer.

    Args:
        store: Where jobs are kept.
        surroundings: What jobs are given.
        front: What every call goes through.
    """

    def __init__(self, store: JobStore, surroundings: Surroundings, front: Front) -> None:
        self._store = store
        self._surroundings = surroundings
        self._numbers = surroundings.behaviour.project_numbers
        self._handlers: Mapping[str, grpc.RpcMethodHandler[Any, Any]] = {
            f"/{SERVICE}/{name}": method.handler(name, front)
            for name, method in self._methods().items()
        }

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler[Any, Any]:
        """Find the method that was called."""
        method = handler_call_details.method
        return self._handlers.get(method) or _unimplemented(method)

    def _methods(self) -> dict[str, _Method]:
        return {
            "CreateCustomJob": _Method(
                self._create, CreateCustomJobRequest.deserialize, CustomJob.serialize
            ),
            "GetCustomJob": _Method(
                self._get, GetCustomJobRequest.deserialize, CustomJob.serialize
            ),
            "ListCustomJobs": _Method(
                self._list, ListCustomJobsRequest.deserialize, ListCustomJobsResponse.serialize
            ),
            "CancelCustomJob": _Method(
                self._cancel,
                CancelCustomJobRequest.deserialize,
                empty_pb2.Empty.SerializeToString,
            ),
            "DeleteCustomJob": _Method(
                self._delete,
                DeleteCustomJobRequest.deserialize,
                operations_pb2.Operation.SerializeToString,
            ),
        }

    def _create(self, request: CreateCustomJobRequest) -> CustomJob:
        place = parse_parent(request.parent, self._numbers)
        check_custom_job(request.custom_job)
        name = JobName(place, self._surroundings.chance.job_id())
        message, spec = taken_apart(request.custom_job)
        state = self._first_state(name, spec)
        record = JobRecord(message, spec, name, state=state, created=datetime.now(UTC))
        job = EmulatedJob(record, self._surroundings)
        self._store.add(job)
        job.begin()
        return job.resource

    def _first_state(self, name: JobName, spec: Any) -> int:
        quotas = self._surroundings.quotas
        demand = demand_of(spec)
        if quotas.mode == "reject":
            exceeded = quotas.exceeded(name, demand)
            if exceeded:
                raise ApiError(
                    grpc.StatusCode.RESOURCE_EXHAUSTED, wordings.quota_exceeded(exceeded)
                )
            # From here on nobody else can have it.
            quotas.hold(name, demand)
        is_queued = self._surroundings.timings.queued_seconds or not quotas.hold(name, demand)
        return JobState.JOB_STATE_QUEUED if is_queued else JobState.JOB_STATE_PENDING

    def _get(self, request: GetCustomJobRequest) -> CustomJob:
        return self._find(request.name).resource

    def _list(self, request: ListCustomJobsRequest) -> ListCustomJobsResponse:
        place = parse_parent(request.parent, self._numbers)
        return list_page(self._store, place, request, self._surroundings)

    def _cancel(self, request: CancelCustomJobRequest) -> empty_pb2.Empty:
        job = self._find(request.name)
        if job.record.is_terminal:
            raise ApiError(
                grpc.StatusCode.FAILED_PRECONDITION,
                wordings.cannot_cancel(job.name, job.state.name),
            )
        job.cancel()
        return empty_pb2.Empty()

    def _delete(self, request: DeleteCustomJobRequest) -> operations_pb2.Operation:
        job = self._find(request.name)
        if not job.record.is_terminal:
            if self._surroundings.behaviour.delete_live_job == "refuse":
                raise ApiError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    wordings.cannot_delete_inferred(job.name, job.state.name),
                )
            job.cancel()
        self._store.remove(job.record.name)
        return _deleted(job, self._surroundings.chance.job_id())

    def _find(self, name: str) -> EmulatedJob:
        return self._store.get(parse_job_name(name, self._numbers))


def _deleted(job: EmulatedJob, operation_id: str) -> operations_pb2.Operation:
    resource = job.resource
    operation = operations_pb2.Operation(name=f"{job.name}/operations/{operation_id}", done=True)
    metadata = DeleteOperationMetadata(
        generic_metadata=GenericOperationMetadata(
            create_time=resource.update_time, update_time=resource.update_time
        )
    )
    operation.metadata.Pack(DeleteOperationMetadata.pb(metadata))
    operation.response.Pack(empty_pb2.Empty())
    return operation


def _unimplemented(method: str) -> grpc.RpcMethodHandler[Any, Any]:
    async def refuse(_request: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        name = method.lstrip("/").replace("/", ".")
        await context.abort(
            grpc.StatusCode.UNIMPLEMENTED, f"The emulator does not implement {name}."
        )

    return grpc.unary_unary_rpc_method_handler(refuse)
