"""The processes between and beside the services of a chaos run: proxies and workers."""

from __future__ import annotations

import itertools
import json
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from tests.chaos.rules import Rule
from tests.chaos.waiting import wait_for
from tests.forks import NEVER_FORKED

from prefect_vertex.cli.children import Child, Children
from prefect_vertex.cli.local import PROJECT, program

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0
QUICK = {
    "PREFECT_INTEGRATIONS_VERTEX_TICK_SECONDS": "1",
    "PREFECT_INTEGRATIONS_VERTEX_SWEEP_SECONDS": "3",
    "PREFECT_INTEGRATIONS_VERTEX_CREATE_SETTLE_SECONDS": "5",
    "PREFECT_INTEGRATIONS_VERTEX_REQUEUE_GRACE_SECONDS": "1",
    "PREFECT_INTEGRATIONS_VERTEX_UNANNOUNCED_SECONDS": "8",
    "PREFECT_INTEGRATIONS_VERTEX_SUBMISSIONS_PER_MINUTE": "6000",
    "PREFECT_INTEGRATIONS_VERTEX_READS_PER_MINUTE": "60000",
    # A server on SQLite says 503 where two write at once; the client's pauses double each time.
    "PREFECT_CLIENT_MAX_RETRIES": "2",
    # What the server is not asked leaves it time: its one process is what all of this waits for.
    "PREFECT_CLIENT_CSRF_SUPPORT_ENABLED": "false",
    "PREFECT_LOGGING_TO_API_BATCH_INTERVAL": "10",
    "PREFECT_WORKER_QUERY_SECONDS": "2",
    "PREFECT_WORKER_HEARTBEAT_SECONDS": "3",
}
"""Seconds instead of minutes; what is waited for is the same."""


class Proxies:
    """The proxy process and its control."""

    def __init__(
        self, children: Children, env: dict[str, str], prefect_port: int, vertex_address: str
    ) -> None:
        log = (children.logs / "proxies.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.proxies", str(prefect_port), vertex_address],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        log.close()
        assert self._process.stdout is not None
        ports = [int(port) for port in self._process.stdout.readline().split()]
        assert len(ports) == 3, (children.logs / "proxies.log").read_text()
        self.api_url = f"http://127.0.0.1:{ports[0]}/api"
        self.vertex_address = f"127.0.0.1:{ports[1]}"
        self._lines = socket.create_connection(("127.0.0.1", ports[2]), timeout=30)
        self._answers = self._lines.makefile("r")
        self._lock = threading.Lock()

    def call(self, do: str, **arguments: Any) -> Any:
        """Ask the control."""
        with self._lock:
            self._lines.sendall(json.dumps({"do": do, **arguments}).encode() + b"\n")
            return json.loads(self._answers.readline())["result"]

    def add(self, *rules: Rule) -> None:
        """Add rules."""
        self.call("add", rules=[asdict(rule) for rule in rules])

    def stop(self) -> None:
        """End it."""
        self._answers.close()
        self._lines.close()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Worker:
    """One worker process.

    Args:
        name: As Prefect knows it.
        child: As which it was started.
    """

    def __init__(self, name: str, child: Child) -> None:
        self.name = name
        self._child = child
        self.process = psutil.Process(child.process.pid)
        self.is_released = False
        """Nobody minds that it ends."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def status(self) -> int | None:
        """Its exit status; None while it lives."""
        return self._child.process.poll()

    def output(self) -> str:
        """All that it has written."""
        return self._child.output()

    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._child.is_alive()

    def wait_ready(self) -> None:
        """Wait until it says that it runs."""
        wait_for(
            lambda: "started!" in self.output() or not self.is_alive(),
            START_SECONDS,
            f"{self.name} started",
        )
        assert self.is_alive(), self.output()[-3000:]

    def wait_gone(self, seconds: float = 30) -> None:
        """Wait until it has ended, as it was meant to."""
        self.is_released = True
        wait_for(lambda: not self.is_alive(), seconds, f"{self.name} ended")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to it."""
        self.is_released = True
        if self.is_alive():
            self.process.send_signal(number)


class Workers:
    """Starts workers.

    Args:
        children: Ends them; how it starts a command decides whether a worker is forked.
        env: Their environment.
    """

    def __init__(self, children: Children, env: dict[str, str]) -> None:
        self._children = children
        self._env = env
        self._count = itertools.count()

    def start(self, pool: str, name: str) -> Worker:
        """Start a worker."""
        return self._start(program("prefect"), pool, name)

    def spawn(self, pool: str, name: str) -> Worker:
        """Start a worker that does its own imports in memory of its own, as a user's does."""
        python, *rest = program("prefect")
        return self._start([python, NEVER_FORKED, *rest], pool, name)

    def _start(self, begin: list[str], pool: str, name: str) -> Worker:
        command = [*begin, "worker", "start", "--pool", pool, "--name", name]
        child = self._children.start(f"worker {next(self._count)}", command, env=self._env)
        return Worker(name, child)


def worker_env(env: dict[str, str], home: Path, proxies: Proxies) -> dict[str, str]:
    """The environment of every worker: both APIs behind the proxies, and short times."""
    return {
        **env,
        **QUICK,
        "PREFECT_HOME": str(home / "client"),
        "PREFECT_API_URL": proxies.api_url,
        "VERTEX_AI_EMULATOR_HOST": proxies.vertex_address,
        "CLOUD_LOGGING_EMULATOR_HOST": proxies.vertex_address,
        "GOOGLE_CLOUD_PROJECT": PROJECT,
    }
