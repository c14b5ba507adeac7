"""The control port, from another process as a chaos test uses it."""

from __future__ import annotations

import itertools
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import httpx
import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport
from google.cloud.aiplatform_v1.types import CustomJob, JobState

from prefect_vertex.emulator import (
    CallFault,
    ControlClient,
    ControlError,
    Restart,
    Seed,
    Stockout,
)
from prefect_vertex.emulator.__main__ import main
from prefect_vertex.emulator.control import ACTIONS
from prefect_vertex.emulator.names import project_number

_NUMBERS = itertools.count()
MODULE = ("-m", "prefect_vertex.emulator", "--control-port", "0")


class Server:
    """An emulator in a process of its own, and both ways to it."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        assert program.stdout is not None
        self.program = program
        self.address = program.stdout.readline().strip()
        self.control_address = program.stdout.readline().strip()
        self.control = ControlClient(self.control_address)
        self.channel = grpc.insecure_channel(self.address)
        self.client = JobServiceClient(transport=JobServiceGrpcTransport(channel=self.channel))


@pytest.fixture(scope="module")
def program() -> Iterator[Server]:
    """One process for all tests here: it takes seconds to start."""
    process = subprocess.Popen(
        [sys.executable, *MODULE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        started = Server(process)
        yield started
        started.channel.close()
        process.terminate()
        _, errors = process.communicate(timeout=15)
        assert (errors, process.returncode) == ("", 0)
    finally:
        with process:
            process.kill()


@pytest.fixture
def server(program: Server) -> Iterator[Server]:
    """The process as it began, but for its jobs."""
    program.control.call("reset_calls")
    yield program
    for action in ("clear_faults", "set_rates", "set_lag"):
        program.control.call(action)
    program.control.call("set_quotas", limits=[])


@pytest.fixture
def parent() -> str:
    """A project that no other test has."""
    return f"projects/p{next(_NUMBERS)}/locations/us-central1"


@pytest.fixture
def create(server: Server, a_job: Callable[..., CustomJob], parent: str) -> Callable[..., str]:
    def call(*command: str, **options: Any) -> str:
        job = a_job(*command, labels={"run": "1"})
        created = server.client.create_custom_job(parent=parent, custom_job=job, **options)
        name: str = created.name
        return name

    return call


@pytest.fixture
def dump(server: Server, parent: str) -> Callable[[], list[Any]]:
    """The jobs of this test."""
    number = project_number(parent.split("/")[1], {})

    def read() -> list[Any]:
        prefix = f"projects/{number}/"
        return [job for job in server.control.call("jobs") if job["name"].startswith(prefix)]

    return read


def test_faults_are_scripted_and_reported_over_the_wire(
    server: Server, create: Callable[..., str], parent: str
) -> None:
    server.control.add_faults(
        CallFault(method="CreateCustomJob", when="after", code="UNAVAILABLE"),
        CallFault(method="GetCustomJob", drop=True),
        Stockout(location="europe-west4", labels={"a": "b"}, times=2),
    )

    with pytest.raises(exceptions.ServiceUnavailable):
        create("true")
    [job] = server.client.list_custom_jobs(parent=parent)
    with pytest.raises(exceptions.ServiceUnavailable):
        server.client.get_custom_job(name=job.name)

    [left] = server.control.call("remaining_faults")
    assert (left["kind"], left["times"], left["labels"]) == ("stockout", 2, {"a": "b"})
    with pytest.raises(AssertionError, match="europe-west4"):
        server.control.assert_all_faults_used()
    server.control.call("clear_faults")
    server.control.assert_all_faults_used()


def test_jobs_are_dumped_with_every_start_of_their_containers(
    server: Server,
    create: Callable[..., str],
    dump: Callable[[], list[Any]],
    eventually_sync: Callable[..., Any],
) -> None:
    """That is how a test knows whether user code ran once."""
    server.control.add_faults(Restart(on_exit_status=9))
    name = create("sh", "-c", "echo ran; exit 9")

    def ended() -> Any:
        [job] = dump()
        return job if job["error"] else None

    job = eventually_sync(ended)
    assert (job["name"], job["state"], job["labels"]) == (name, "JOB_STATE_FAILED", {"run": "1"})
    assert [(start["replica"], start["status"]) for start in job["starts"]] == [
        ("workerpool0-0", 9),
        ("workerpool0-0", 9),
    ]
    assert job["create_time"] <= job["start_time"] <= job["end_time"]
    assert server.control.call("output", name=name) == {"stdout": "ran\nran\n", "stderr": ""}
    server.client.delete_custom_job(name=name)
    [gone] = dump()
    assert (gone["name"], gone["deleted"]) == (name, True)


def test_calls_are_counted_with_their_moments(server: Server, parent: str) -> None:
    before = time.time()
    server.control.call("set_rates", calls_per_minute=2)
    for expected in (None, None, exceptions.ResourceExhausted):
        if expected:
            with pytest.raises(expected):
                server.client.list_custom_jobs(parent=parent)
        else:
            server.client.list_custom_jobs(parent=parent)

    log = server.control.call("calls")

    assert log["counts"] == {"ListCustomJobs": {"OK": 2, "RESOURCE_EXHAUSTED": 1}}
    assert sum(log["per_minute"]["ListCustomJobs"]) == 3
    assert [call["location"] for call in log["calls"]] == ["us-central1"] * 3
    moments = [call["at"] for call in log["calls"]]
    assert before <= moments[0] <= moments[1] <= moments[2] <= time.time()
    server.control.call("reset_calls")
    server.control.call("set_rates")
    server.client.list_custom_jobs(parent=parent)
    assert server.control.call("calls")["counts"] == {"ListCustomJobs": {"OK": 1}}


def test_seeds_are_planted_and_ended(
    server: Server,
    parent: str,
    dump: Callable[[], list[Any]],
    eventually_sync: Callable[..., Any],
) -> None:
    names = server.control.seed_jobs(Seed(parent=parent, count=3, labels={"run": "{n}"}))

    server.control.call("end_job", name=names[1], state="JOB_STATE_FAILED", code=3, message="why")

    def error_of(name: str) -> Any:
        return server.client.get_custom_job(name=name).error.message

    eventually_sync(lambda: error_of(names[1]) == "why")
    states = [job["state"] for job in dump()]
    assert states == ["JOB_STATE_RUNNING", "JOB_STATE_FAILED", "JOB_STATE_RUNNING"]


@pytest.mark.parametrize("state", ["JOB_STATE_SUCCEEDED", "JOB_STATE_EXPIRED"])
def test_an_end_without_an_error_has_none(
    server: Server, parent: str, eventually_sync: Callable[..., Any], state: str
) -> None:
    """As the service documents it: only a failed and a cancelled job say why."""
    (name,) = server.control.seed_jobs(Seed(parent=parent))

    server.control.call("end_job", name=name, state=state, code=3, message="why")
    eventually_sync(lambda: server.client.get_custom_job(name=name).state.name == state)

    assert "error" not in server.client.get_custom_job(name=name)


def test_quotas_and_lag_are_set(server: Server, create: Callable[..., str], parent: str) -> None:
    limit = {"metric": "custom_model_training_cpus", "limit": 4}
    server.control.call("set_quotas", limits=[limit], mode="reject")
    create("sleep", "60")
    with pytest.raises(exceptions.ResourceExhausted):
        create("sleep", "60")

    server.control.call("set_lag", created_seconds=600)

    assert list(server.client.list_custom_jobs(parent=parent)) == []


@pytest.mark.parametrize(
    ("action", "arguments", "message"),
    [
        ("plant", {}, "no action 'plant'; there are add_faults, "),
        ("add_faults", {}, "add_faults: faults: Missing required argument"),
        ("add_faults", {"faults": [{"kind": "flood"}]}, "flood"),
        ("add_faults", {"faults": [{"kind": "call", "cod": "INTERNAL"}]}, "cod"),
        ("add_faults", {"faults": [{"kind": "call", "code": "TEAPOT"}]}, "is no gRPC status"),
        ("set_rates", {"calls": 1}, "set_rates: calls: Unexpected keyword argument"),
        ("set_quotas", {"limits": [], "mode": "beg"}, "mode"),
        ("seed_jobs", {"seeds": [{"parent": "projects/p"}]}, "Invalid parent"),
        ("end_job", {"name": "x", "state": "GONE"}, "is no JobState"),
        ("end_job", {"name": "x", "state": "JOB_STATE_RUNNING"}, "is no end"),
        ("output", {"name": "projects/p/locations/us-central1/customJobs/1"}, "no job projects/"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    server: Server, action: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ControlError) as refusal:
        server.control.call(action, **arguments)

    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("content_type", "body"),
    [("text/plain", b"{}"), ("application/json", b"{"), ("application/json", b"[]")],
)
def test_body_must_be_a_json_object_and_say_so(
    server: Server, content_type: str, body: bytes
) -> None:
    """A page in a browser cannot send that type to another site by itself."""
    headers = {"Content-Type": content_type}
    answer = httpx.post(f"{server.control_address}/clear_faults", content=body, headers=headers)

    assert answer.status_code == 400
    assert answer.json()["error"]


def test_actions_without_arguments_are_readable_in_a_browser(server: Server) -> None:
    assert httpx.get(f"{server.control_address}/calls").json()["result"]["counts"] == {}


def test_every_public_method_is_an_action() -> None:
    assert set(ACTIONS) == {
        "add_faults", "remaining_faults", "clear_faults", "set_rates", "set_quotas", "set_lag",
        "seed_jobs", "end_job", "jobs", "output", "calls", "reset_calls", "add_secret_version",
        "set_log_delay",
    }  # fmt: skip


def test_job_service_knows_nothing_of_the_control(server: Server) -> None:
    """Two sockets; what is asked of one is not answered by the other."""
    with pytest.raises(ControlError, match="is no control port"):
        ControlClient(f"http://{server.address}").call("jobs")


def test_frozen_emulator_goes_on_when_it_is_thawed(
    server: Server, create: Callable[..., str], eventually_sync: Callable[..., Any]
) -> None:
    """Calls meanwhile are answered afterwards, if somebody still waits."""
    name = create("sh", "-c", "sleep 0.3; echo done")
    server.program.send_signal(signal.SIGSTOP)

    with pytest.raises(exceptions.DeadlineExceeded):
        server.client.get_custom_job(name=name, timeout=0.5)
    server.program.send_signal(signal.SIGCONT)

    ended = JobState.JOB_STATE_SUCCEEDED
    eventually_sync(lambda: server.client.get_custom_job(name=name).state == ended)
    assert server.control.call("output", name=name)["stdout"] == "done\n"
    assert create("true") != name


def test_control_port_in_use_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--control-port", str(taken.getsockname()[1])]) == 1

    output, errors = capfd.readouterr()
    assert output == ""
    assert "could not serve on port 0 or " in errors
    assert len(errors.splitlines()) == 1
