"""A JobService on a real socket whose answers a test chooses, and gateways that speak to it."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.cloud.aiplatform_v1 import types
from google.longrunning import operations_pb2
from google.protobuf import any_pb2, empty_pb2
from google.rpc import error_details_pb2, status_pb2

from prefect_vertex.planning.spec import Target
from prefect_vertex.testing import ManualClock
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.gateways import Gateways
from prefect_vertex.vertex.service import Deadlines, VertexJobGateway

Behaviour = Callable[[Any, Any], Awaitable[Any]]

SERVICE = "google.cloud.aiplatform.v1.JobService"
METHODS: dict[str, tuple[Any, Any]] = {
    "CreateCustomJob": (types.CreateCustomJobRequest.deserialize, types.CustomJob.serialize),
    "GetCustomJob": (types.GetCustomJobRequest.deserialize, types.CustomJob.serialize),
    "ListCustomJobs": (
        types.ListCustomJobsRequest.deserialize,
        types.ListCustomJobsResponse.serialize,
    ),
    "CancelCustomJob": (
        types.CancelCustomJobRequest.deserialize,
        empty_pb2.Empty.SerializeToString,
    ),
    "DeleteCustomJob": (
        types.DeleteCustomJobRequest.deserialize,
        operations_pb2.Operation.SerializeToString,
    ),
}


class ScriptedJobService:
    """Answers as told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.address = ""
        self.behaviours: dict[str, Behaviour] = {}
        self.requests: dict[str, list[Any]] = defaultdict(list)
        self.metadata: list[dict[str, str]] = []
        self.seconds_left: list[float] = []

    def answer(self, method: str, *values: Any) -> None:
        """Answer with each value once, then with the last for ever."""
        left = itertools.chain(values, itertools.repeat(values[-1]))

        async def behave(request: Any, context: Any) -> Any:
            return next(left)

        self.behaviours[method] = behave

    def refuse(
        self,
        method: str,
        code: grpc.StatusCode,
        text: str = "no",
        *details: Any,
        times: int | None = None,
    ) -> None:
        """Refuse with a status and its details, so many times, before whatever was set before."""
        before = self.behaviours.get(method)
        count = itertools.count()

        async def behave(request: Any, context: Any) -> Any:
            if before is not None and times is not None and next(count) >= times:
                return await before(request, context)
            return await context.abort(code, text, _details(code, text, details))

        self.behaviours[method] = behave

    def hang(self, method: str) -> asyncio.Event:
        """Never answer; the event says that a request has arrived."""
        arrived = asyncio.Event()

        async def behave(request: Any, context: Any) -> Any:
            arrived.set()
            await asyncio.Event().wait()

        self.behaviours[method] = behave
        return arrived

    async def handle(self, method: str, request: Any, context: Any) -> Any:
        """Keep what arrived, then behave."""
        self.requests[method].append(request)
        self.metadata.append({key: str(value) for key, value in context.invocation_metadata()})
        self.seconds_left.append(context.time_remaining())
        behaviour = self.behaviours.get(method)
        if behaviour is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{method} has no behaviour")
            return None
        return await behaviour(request, context)

    def handlers(self) -> grpc.GenericRpcHandler:
        """What makes a server of it."""

        def handler(method: str, deserialize: Any, serialize: Any) -> Any:
            async def serve(request: Any, context: Any) -> Any:
                return await self.handle(method, request, context)

            return grpc.unary_unary_rpc_method_handler(serve, deserialize, serialize)

        return grpc.method_handlers_generic_handler(
            SERVICE,
            {method: handler(method, *codecs) for method, codecs in METHODS.items()},
        )


def _details(code: grpc.StatusCode, text: str, details: tuple[Any, ...]) -> Any:
    if not details:
        return ()
    status = status_pb2.Status(code=code.value[0], message=text)
    for detail in details:
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return (("grpc-status-details-bin", status.SerializeToString()),)


@pytest.fixture
async def job_service() -> AsyncIterator[ScriptedJobService]:
    """A scripted JobService on a free port of the loopback address."""
    service = ScriptedJobService()
    before = asyncio.all_tasks()
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((service.handlers(),))
    port = server.add_insecure_port("127.0.0.1:0")
    service.address = f"127.0.0.1:{port}"
    await server.start()
    yield service
    await server.stop(0)
    # A call that has been answered may still be closing on the server's side. gRPC has one
    # completion queue for the process: what it has to say to this loop once the loop is closed
    # would be raised in the test that comes next.
    closing = {task for task in asyncio.all_tasks() - before if task.get_name() == "rpc_task"}
    if closing:
        await asyncio.wait(closing, timeout=5)


@pytest.fixture
def clock() -> ManualClock:
    """A clock on which pauses take no time."""
    return ManualClock(auto_advance=True)


MakeGateways = Callable[..., Gateways]


@pytest.fixture
async def make_gateways(clock: ManualClock) -> AsyncIterator[MakeGateways]:
    """Make Gateways whose emulator is at an address; closed when the test ends."""
    made: list[Gateways] = []

    def make(address: str, **overrides: Any) -> Gateways:
        settings: dict[str, Any] = {
            "submissions_per_minute": 60_000,
            "reads_per_minute": 60_000,
            "clock": clock,
            "environ": {EMULATOR_VARIABLE: address},
            **overrides,
        }
        made.append(Gateways(**settings))
        return made[-1]

    yield make
    for gateways in made:
        await gateways.aclose()


@pytest.fixture
def target() -> Target:
    """Where the tests' jobs live."""
    return Target("p", "us-central1")


@pytest.fixture
async def gateway(
    job_service: ScriptedJobService, make_gateways: MakeGateways, target: Target
) -> VertexJobGateway:
    """A gateway to the scripted JobService."""
    return make_gateways(job_service.address).for_target(target)


@pytest.fixture
async def hasty_gateway(
    job_service: ScriptedJobService, make_gateways: MakeGateways, target: Target
) -> VertexJobGateway:
    """The same, with deadlines that a test can wait for."""
    hasty = Deadlines(create_seconds=0.2, call_seconds=0.2)
    return make_gateways(job_service.address, deadlines=hasty).for_target(target)


@pytest.fixture
def a_job() -> Callable[..., types.CustomJob]:
    """Build a CustomJob as the service would show it."""

    def build(job_id: int = 1, **fields: Any) -> types.CustomJob:
        return types.CustomJob(
            **{
                "name": f"projects/42/locations/us-central1/customJobs/{job_id}",
                "display_name": f"job-{job_id}",
                "state": "JOB_STATE_RUNNING",
                "create_time": {"seconds": 1_700_000_000 + job_id},
                **fields,
            }
        )

    return build


@pytest.fixture
def a_page() -> Callable[..., types.ListCustomJobsResponse]:
    """Build one page of a list."""

    def build(*jobs: types.CustomJob, token: str = "") -> types.ListCustomJobsResponse:
        return types.ListCustomJobsResponse(custom_jobs=jobs, next_page_token=token)

    return build


@pytest.fixture
def a_request() -> Callable[..., types.CreateCustomJobRequest]:
    """Build a request to create a job."""

    def build(**fields: Any) -> types.CreateCustomJobRequest:
        return types.CreateCustomJobRequest(
            parent="projects/p/locations/us-central1",
            custom_job={"display_name": "a job", **fields},
        )

    return build


@pytest.fixture
def rate_denial() -> tuple[Any, ...]:
    """The details that Google sends with a denial for too many requests a minute."""
    info = error_details_pb2.ErrorInfo(
        reason="RATE_LIMIT_EXCEEDED",
        domain="googleapis.com",
        metadata={"quota_limit": "ReadRequestsPerMinutePerProject", "quota_limit_value": "600"},
    )
    return (info,)


@pytest.fixture
def retry_after() -> Callable[[int], Any]:
    """Build the detail that says when to come back."""

    def build(seconds: int) -> Any:
        info = error_details_pb2.RetryInfo()
        info.retry_delay.seconds = seconds
        return info

    return build


@pytest.fixture(scope="session")
def private_key() -> str:
    """A real key, because google-auth parses it."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


@pytest.fixture
def info(private_key: str) -> dict[str, Any]:
    """A service account key's content."""
    return {
        "type": "service_account",
        "project_id": "key-project",
        "private_key_id": "abc",
        "private_key": private_key,
        "client_email": "flows@key-project.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.googleapis.com/token",
    }


@pytest.fixture
def no_adc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Google credentials."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    for variable in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT"):
        monkeypatch.delenv(variable, raising=False)
