"""What replicas write reaches the flow run's log: real worker, real containers, late entries."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.client.schemas.objects import FlowRun, Log
from prefect.client.schemas.sorting import LogSort
from tests.e2e.walks import IMAGE, STUB, A, until

from prefect_vertex.cli.local import program, share
from prefect_vertex.emulator.control_client import ControlClient
from prefect_vertex.emulator.faults import CallFault

if TYPE_CHECKING:
    # The fixture's class, which stands in a conftest.
    Installation = Any

POOL = "vertex-logs"
MISSING = "libcuda.so.1: cannot open shared object file"
DIES = ["sh", "-c", f"echo loading; echo '{MISSING}' >&2; exit 127"]
"""In the interpreter's place: the container ends before there is any Python."""


@dataclass
class Scene:
    """A cloud whose log is late, and a pool with a worker in it."""

    installation: Installation
    cloud: ControlClient
    deployment: Any
    notes: Path
    env: dict[str, str]

    def start_worker(self) -> None:
        """Start the pool's worker, always under the same name."""
        command = [*program("prefect"), "worker", "start", "--pool", POOL, "--name", "reader"]
        worker = self.installation.children.start("log worker", command, env=self.env)
        self.installation.workers[POOL] = worker
        worker.wait_until(lambda: "started!" in worker.output(), seconds=60, what="it had started")

    def kill_worker(self) -> None:
        """SIGKILL."""
        worker = self.installation.workers[POOL]
        worker.process.kill()
        worker.process.wait()
        self.installation.children.forget(worker)

    def start(self, container: str = "", *, hold: str = "", **job_variables: Any) -> FlowRun:
        """Start a run of the stub container in the replica of rank 0.

        With `hold` it stays Pending until there is a file of that name.
        """
        stub = shlex.join([sys.executable, str(STUB), str(self.notes)])
        rank = "$PREFECT_VERTEX_RANK"
        wait = f"until [ -e {shlex.quote(hold)} ]; do sleep 0.2; done;" if hold else ""
        script = (
            f"echo container {rank}; {wait} if [ {rank} = 0 ]; then exec {stub} {container}; fi"
        )
        variables = {"command": shlex.join(["sh", "-c", script]), **job_variables}
        run: FlowRun = self.installation.start(self.deployment, **variables)
        return run

    def lines(self, run: FlowRun, logger: str = "prefect.vertex.") -> list[Log]:
        """The lines of the run's log that came from elsewhere, in order."""
        found = self.installation.client.read_logs(
            log_filter=LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run.id])),
            sort=LogSort.TIMESTAMP_ASC,
            limit=200,
        )
        return [log for log in found if log.name.startswith(logger)]

    def texts(self, run: FlowRun) -> list[tuple[str, str]]:
        """Replica and text of each."""
        return [(log.name.rpartition(".")[2], log.message) for log in self.lines(run)]

    def wait_for(self, run: FlowRun, *lines: tuple[str, str]) -> None:
        """Wait until these are among its lines; where they do not come, say what the worker did."""
        try:
            until(lambda: set(lines) <= set(self.texts(run)), f"{lines} are there")
        except AssertionError as error:
            worker = self.installation.workers[POOL].output()
            told = "\n".join([*map(str, self.texts(run)), worker[-4000:]])
            raise AssertionError(f"{error}\n{told}") from None

    def reads(self) -> int:
        """How often entries have been read, or were to be."""
        counts = self.cloud.call("calls")["counts"].get("ListLogEntries", {})
        return sum(counts.values())

    def after_another_read(self, run: FlowRun) -> list[tuple[str, str]]:
        """The same, once entries were read again since."""
        before = self.reads()
        until(lambda: self.reads() > before + 1, "entries are read again")
        return self.texts(run)


@pytest.fixture(scope="module")
def scene(installation: Installation) -> Iterator[Scene]:
    """An emulator of its own, so that its faults meet no other test."""
    stack, client = installation.stack, installation.client
    command = [sys.executable, "-m", "prefect_vertex.emulator", "--control-port", "0"]
    emulator = installation.children.start("log emulator", command, env=stack.env)
    printed = re.compile(r"^(127\.0\.0\.1:\d+)\n(http://\S+)\n", re.MULTILINE)
    emulator.wait_until(
        lambda: printed.search(emulator.output()) is not None, seconds=60, what="it served"
    )
    ((address, control),) = printed.findall(emulator.output())
    cloud = ControlClient(control)
    cloud.call("set_log_delay", seconds=2)
    template = json.loads(share("work_pool_templates", "vertex-forecast.json").read_text())
    for variable, value in {"image": IMAGE, "region": A, "cancel_grace_seconds": 2}.items():
        template["variables"]["properties"][variable]["default"] = value
    client.create_work_pool(
        WorkPoolCreate(name=POOL, type="vertex-custom-job", base_job_template=template)
    )
    deployment = client.create_deployment(
        client.create_flow_from_name("logs"), "stub", work_pool_name=POOL, entrypoint="no.py:main"
    )
    env = {
        **stack.env,
        "VERTEX_AI_EMULATOR_HOST": address,
        "CLOUD_LOGGING_EMULATOR_HOST": address,
        "PREFECT_INTEGRATIONS_VERTEX_TICK_SECONDS": "1",
        "PREFECT_INTEGRATIONS_VERTEX_LOG_POLL_SECONDS": "10",
        "PREFECT_INTEGRATIONS_VERTEX_SWEEP_SECONDS": "2",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
    }
    scene = Scene(installation, cloud, deployment, installation.home / "log-notes", env)
    scene.start_worker()
    yield scene
    scene.kill_worker()


def test_a_container_that_dies_before_python_shows_its_last_lines(
    installation: Installation, scene: Scene
) -> None:
    """Once each, under the replica's name, beside what Vertex AI says of it."""
    run = installation.wait(scene.start(python_command=DIES, project="dead-project"))
    # Entries arrive in any order within their delay.
    last = [("workerpool0-0", "loading"), ("workerpool0-0", MISSING), ("service", "Job failed.")]
    scene.wait_for(run, *last)
    texts = scene.after_another_read(run)

    assert run.state.name == "Crashed"
    assert texts.count(("workerpool0-0", MISSING)) == 1
    assert texts.index(("workerpool0-0", "loading")) < texts.index(("workerpool0-0", MISSING))
    levels = {log.message: log.level for log in scene.lines(run)}
    assert levels[MISSING] == 20  # standard error alone is no error
    assert max(levels.values()) == 40  # Vertex AI's own sentence is one


def _of_several(replica: str) -> tuple[str, str]:
    """The first line of a replica that is not alone: it says whose it is."""
    number = int(replica.startswith("workerpool1"))
    return replica, f"[{replica}] container {number}"


def test_two_replicas_lines_appear_once_with_their_names(
    installation: Installation, scene: Scene
) -> None:
    """The bootstrap's too; the run starts before its entries have arrived."""
    run = installation.wait(
        scene.start("--before 5", worker_count=2, replicas="command", project="two-project")
    )
    first = ("service", "Waiting for job to be provisioned.")
    scene.wait_for(run, first, *map(_of_several, ("workerpool0-0", "workerpool1-0")))
    texts = scene.after_another_read(run)

    assert run.state.name == "Completed"
    assert [text for text, count in Counter(texts).items() if count > 1] == []
    assert texts[0] == first
    lines = scene.lines(run)
    assert [log.timestamp for log in lines] == sorted(log.timestamp for log in lines)


def test_a_worker_that_was_killed_is_followed_without_a_double(
    installation: Installation, scene: Scene, tmp_path: Path
) -> None:
    """The next one knows from the run's own log what is there already."""
    run = scene.start(hold=str(tmp_path / "go"), project="killed-project")
    scene.wait_for(run, ("workerpool0-0", "container 0"))
    scene.kill_worker()
    scene.start_worker()
    installation.logs_with(run, "goes on with this run")
    (tmp_path / "go").touch()
    ended = installation.wait(run)
    # Reads are counted over all projects, those of earlier tests too.
    scene.wait_for(run, ("service", "Job is running."))
    texts = scene.after_another_read(run)

    assert ended.state.name == "Completed"
    assert [text for text, count in Counter(texts).items() if count > 1] == []


def test_a_missing_permission_is_one_hint_and_nothing_more(
    installation: Installation, scene: Scene
) -> None:
    """In a project of its own, as every test here: the worker does not ask again for minutes."""
    scene.cloud.add_faults(
        CallFault(
            method="ListLogEntries",
            code="PERMISSION_DENIED",
            reason="IAM_PERMISSION_DENIED",
            message="Permission denied for all log views",
            times=0,
        )
    )
    run = installation.wait(scene.start("--work 1", project="denied-project"))
    logs = installation.logs_with(run, "roles/logging.viewer")
    scene.cloud.call("clear_faults")

    assert run.state.name == "Completed"
    assert logs.count("roles/logging.viewer") == 1
    assert "stream_output" in logs
    assert scene.texts(run) == []


def test_a_log_that_does_not_answer_delays_no_outcome(
    installation: Installation, scene: Scene
) -> None:
    """The run has crashed before any read was answered; its lines follow when the log does."""
    scene.cloud.add_faults(CallFault(method="ListLogEntries", hang=True, times=0))
    before = scene.reads()
    run = installation.wait(scene.start(python_command=DIES, project="slow-project"))
    until(lambda: scene.reads() > before, "a read hangs")
    told = scene.texts(run)
    scene.cloud.call("clear_faults")

    assert run.state.name == "Crashed"
    assert told == []
    scene.wait_for(run, ("workerpool0-0", MISSING))
