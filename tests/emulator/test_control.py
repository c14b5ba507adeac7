"""The control port, from another process as a chaos test uses it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport
from google.cloud.aiplatform_v1.types import CustomJob

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


@pytest.fixture
def server(start_program: Callable[..., subprocess.Popen[str]]) -> Iterator[Server]:
    started = Server(start_program(*MODULE))
    yield started
    started.channel.close()
    started.program.terminate()
    _, errors = started.program.communicate(timeout=15)
    assert errors == ""


@pytest.fixture
def create(server: Server, a_job: Callable[..., CustomJob], parent: str) -> Callable[..., str]:
    def call(*command: str, **options: Any) -> str:
        job = a_job(*command, labels={"run": "1"})
        return server.client.create_custom_job(parent=parent, custom_job=job, **options).name

    return call


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
    server: Server, create: Callable[..., str], eventually_sync: Callable[..., Any]
) -> None:
    """That is how a test knows whether user code ran once."""
    server.control.add_faults(Restart(on_exit_status=9))
    name = create("sh", "-c", "echo ran; exit 9")

    def ended() -> Any:
        [job] = server.control.call("jobs")
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
    [gone] = server.control.call("jobs")
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
    server: Server, parent: str, eventually_sync: Callable[..., Any]
) -> None:
    names = server.control.seed_jobs(Seed(parent=parent, count=3, labels={"run": "{n}"}))

    server.control.call("end_job", name=names[1], state="JOB_STATE_FAILED", code=3, message="why")

    def error_of(name: str) -> str:
        return server.client.get_custom_job(name=name).error.message

    eventually_sync(lambda: error_of(names[1]) == "why")
    states = [job["state"] for job in server.control.call("jobs")]
    assert states == ["JOB_STATE_RUNNING", "JOB_STATE_FAILED", "JOB_STATE_RUNNING"]


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
    request = urllib.request.Request(
        f"{server.control_address}/clear_faults", body, {"Content-Type": content_type}
    )

    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, timeout=15)

    with refusal.value as answer:
        assert answer.status == 400
        assert json.load(answer)["error"]


def test_actions_without_arguments_are_readable_in_a_browser(server: Server) -> None:
    with urllib.request.urlopen(f"{server.control_address}/jobs", timeout=15) as answer:
        assert json.load(answer) == {"result": []}


def test_every_public_method_is_an_action() -> None:
    assert set(ACTIONS) == {
        "add_faults", "remaining_faults", "clear_faults", "set_rates", "set_quotas", "set_lag",
        "seed_jobs", "end_job", "jobs", "output", "calls", "reset_calls",
    }  # fmt: skip


def test_job_service_knows_nothing_of_the_control(server: Server) -> None:
    """Two sockets; what is asked of one is not answered by the other."""
    with pytest.raises(OSError, match=".+"):
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

    eventually_sync(lambda: server.client.get_custom_job(name=name).state.name.endswith("EEDED"))
    assert server.control.call("output", name=name)["stdout"] == "done\n"
    assert create("true") != name


def test_control_port_in_use_is_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--control-port", str(taken.getsockname()[1])]) == 1

    output, errors = capfd.readouterr()
    assert output == ""
    assert "could not serve on port 0 or " in errors
    assert len(errors.splitlines()) == 1


def test_lifelike_clock_brings_the_documented_rates(
    start_program: Callable[..., subprocess.Popen[str]], parent: str
) -> None:
    server = Server(start_program(*MODULE, "--clock", "lifelike"))
    request = {"parent": f"{parent}/customJobs", "custom_job": {}}

    outcomes = []
    for _ in range(61):
        with pytest.raises(exceptions.GoogleAPICallError) as refusal:
            server.client.create_custom_job(request=request)
        outcomes.append(refusal.value.grpc_status_code)
    server.channel.close()

    assert set(outcomes[:60]) == {grpc.StatusCode.INVALID_ARGUMENT}
    assert outcomes[60] == grpc.StatusCode.RESOURCE_EXHAUSTED
