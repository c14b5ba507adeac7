"""The two services of a chaos run: a Prefect server and the emulator."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import grpc
from google.cloud.aiplatform_v1.services.job_service import JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports.grpc import JobServiceGrpcTransport

from prefect_vertex.cli.children import Child, Children
from prefect_vertex.cli.local import free_port, health_check, program
from prefect_vertex.emulator.control_client import ControlClient

START_SECONDS = 120.0
UNUSED_SERVICES = (
    "EVENT_PERSISTER",
    "LATE_RUNS",
    "SCHEDULER",
    "TASK_RUN_RECORDER",
    "TRIGGERS",
)
_PRINTED = re.compile(r"^(127\.0\.0\.1:\d+)\n(http://\S+)\n", re.MULTILINE)


class Server:
    """A Prefect server that can be killed and started again on the same port and database.

    Args:
        children: Ends it.
        home: Where its files go, SQLite's among them.
        env: Its environment.
        database: Another database's address.
    """

    def __init__(
        self, children: Children, home: Path, env: dict[str, str], database: str = ""
    ) -> None:
        self._children = children
        self.port = free_port()
        self.api_url = f"http://127.0.0.1:{self.port}/api"
        self._starts = 0
        self._env = {
            **env,
            "PREFECT_HOME": str(home / "server"),
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
                "prefect.server.concurrency.lease_storage.filesystem"
            ),
            # SQLite takes one writer at a time, and these write much that nobody here reads.
            **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in UNUSED_SERVICES},
            # Seconds that a writer waits for its turn before the server answers 503.
            "PREFECT_SERVER_DATABASE_TIMEOUT": "30",
            # The shortest that Prefect takes.
            "PREFECT_SERVER_CONCURRENCY_INITIAL_DEPLOYMENT_LEASE_DURATION": "30",
        }
        if database:
            self._env["PREFECT_SERVER_DATABASE_CONNECTION_URL"] = database
        self._child = self._start()

    def _start(self) -> Child:
        self._starts += 1
        command = [*program("prefect"), "server", "start", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), "--no-ui"]
        return self._children.start(f"server {self._starts}", command, env=self._env)

    def wait(self) -> None:
        """Wait until it answers."""
        with health_check(self.api_url) as answers:
            self._child.wait_until(answers, seconds=START_SECONDS, what="it answered")

    def restart(self) -> None:
        """SIGKILL, and a new start on the same database."""
        os.kill(self._child.process.pid, signal.SIGKILL)
        self._child.process.wait()
        self._children.forget(self._child)
        self._child = self._start()
        self.wait()


class Cloud:
    """The emulator, with its control."""

    def __init__(self, children: Children, env: dict[str, str]) -> None:
        command = [sys.executable, "-m", "prefect_vertex.emulator", "--control-port", "0"]
        self._child = children.start("emulator", command, env=env)
        self.address = ""

    def wait(self) -> None:
        """Wait until it serves."""

        def ready() -> bool:
            return _PRINTED.search(self._child.output()) is not None

        self._child.wait_until(ready, seconds=START_SECONDS, what="it served")
        ((self.address, control),) = _PRINTED.findall(self._child.output())
        self.control = ControlClient(control)

    def jobs(self) -> list[dict[str, Any]]:
        """Every job that there ever was."""
        return list(self.control.call("jobs"))

    def delete(self, name: str) -> None:
        """Delete a job that has ended, as a person does in the console."""
        with grpc.insecure_channel(self.address) as channel:
            transport = JobServiceGrpcTransport(channel=channel)
            JobServiceClient(transport=transport).delete_custom_job(name=name)

    def freeze(self) -> None:
        """SIGSTOP: connections stay, nothing is answered."""
        os.kill(self._child.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self._child.process.pid, signal.SIGCONT)
