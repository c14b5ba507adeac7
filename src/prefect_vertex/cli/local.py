"""A whole installation on this machine: Prefect server, emulator, storage and worker."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from prefect_vertex.cli.children import Child, Children
from prefect_vertex.errors import SetupError

START_SECONDS = 90.0
"""A first start migrates the server's database, which takes some ten seconds on two cores."""

PROJECT = "demo-project"


def free_port() -> int:
    """A port of the loopback interface that nobody listens on, for a program that will."""
    # Late: it brings Google's client, which help need not wait for.
    from prefect_vertex.emulator.ports import free_ports

    (port,) = free_ports(1)
    return port


def here(url: str, *, seconds: float = 10) -> httpx.Client:
    """Speaks to a server on this machine, for which no proxy of the environment is meant."""
    return httpx.Client(base_url=url, timeout=seconds, trust_env=False)


def unproxied(env: Mapping[str, str]) -> dict[str, str]:
    """The same for the programs that an environment is given to, in both spellings of theirs."""
    known = env.get("no_proxy") or env.get("NO_PROXY", "")
    value = ",".join(filter(None, [known, "127.0.0.1", "localhost"]))
    return {"no_proxy": value, "NO_PROXY": value}


def share(*parts: str) -> Path:
    """A file that travels in the wheel, from the wheel or from the checkout.

    Raises:
        SetupError: It is in neither.
    """
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_share", package.parent.parent):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise SetupError(f"{'/'.join(parts)} is missing from this installation of prefect-vertex.")


def program(name: str) -> list[str]:
    """A console script of this environment, whatever PATH says."""
    module = {"prefect": "prefect", "prefect-vertex": "prefect_vertex"}[name]
    return [sys.executable, "-m", module]


class LocalStack:
    """Starts what a laptop needs, one by one, each ready before the next begins.

    Args:
        children: Ends it all.
        home: A directory of its own for the server's and the worker's files.
    """

    def __init__(self, children: Children, home: Path) -> None:
        self._children = children
        self.home = home
        self.api_url = ""
        self.ui_url = ""
        self.vertex_address = ""
        self.storage_url = ""

    @property
    def env(self) -> dict[str, str]:
        """The environment of commands that speak to this installation, and to nothing else."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PREFECT_", "GOOGLE_", "VERTEX_", "STORAGE_EMULATOR", "CLOUD_"))
        }
        env = {
            **kept,
            **unproxied(kept),
            "PREFECT_HOME": str(self.home / "client"),
            "PREFECT_LOGGING_COLORS": "false",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
            "NO_COLOR": "1",
            "PYTHONUNBUFFERED": "1",
        }
        if self.api_url:
            env["PREFECT_API_URL"] = self.api_url
        if self.vertex_address:
            env["VERTEX_AI_EMULATOR_HOST"] = self.vertex_address
            env["STORAGE_EMULATOR_HOST"] = self.storage_url
            env["CLOUD_LOGGING_EMULATOR_HOST"] = self.vertex_address
            env["CLOUD_QUOTAS_EMULATOR_HOST"] = self.vertex_address
            env["GOOGLE_CLOUD_PROJECT"] = PROJECT
        return env

    def start_server(self) -> None:
        """Start a Prefect server on a free port, with its own home.

        Raises:
            SetupError: It did not come up.
        """
        port = free_port()
        env = {
            **self.env,
            "PREFECT_HOME": str(self.home / "server"),
            # Else its pages ask for an API on the usual port.
            "PREFECT_SERVER_UI_API_URL": f"http://127.0.0.1:{port}/api",
            # A restarted server keeps the slots of waiting runs.
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
                "prefect.server.concurrency.lease_storage.filesystem"
            ),
        }
        command = [*program("prefect"), "server", "start", "--host", "127.0.0.1"]
        child = self._children.start("Prefect server", [*command, "--port", str(port)], env=env)
        url = f"http://127.0.0.1:{port}"
        with health_check(f"{url}/api") as answers:
            child.wait_until(answers, seconds=START_SECONDS, what="it answered")
        self.ui_url, self.api_url = url, f"{url}/api"

    def start_cloud(self, *, data: Path | None = None, control_port: int | None = None) -> None:
        """Start the emulator and Cloud Storage, as `prefect-vertex emulator start` does.

        Args:
            data: Where they keep what they are given; None: nowhere.
            control_port: For scripted faults and seeded jobs; None: not served.

        Raises:
            SetupError: The extra is missing, or one of them did not come up.
        """
        command = [*program("prefect-vertex"), "emulator", "start"]
        command += ["--port", "0", "--storage-port", "0"]
        if data is not None:
            command += ["--data", str(data)]
        if control_port is not None:
            command += ["--control-port", str(control_port)]
        child = self._children.start("emulator", command, env=self.env)
        exported: dict[str, str] = {}

        def ready() -> bool:
            exported.update(re.findall(r"^export (\w+)=(\S+)$", child.output(), re.MULTILINE))
            return len(exported) > 1

        child.wait_until(ready, seconds=START_SECONDS, what="it printed its addresses")
        self.vertex_address = exported["VERTEX_AI_EMULATOR_HOST"]
        self.storage_url = exported["STORAGE_EMULATOR_HOST"]

    def create_bucket(self, name: str) -> None:
        """Create a bucket in the local Cloud Storage."""
        with here(self.storage_url) as storage:
            answer = storage.post("/storage/v1/b", params={"project": PROJECT}, json={"name": name})
        answer.raise_for_status()

    def list_objects(self, bucket: str, prefix: str = "") -> list[str]:
        """Names of a bucket's objects."""
        with here(self.storage_url) as storage:
            answer = storage.get(f"/storage/v1/b/{bucket}/o", params={"prefix": prefix})
        answer.raise_for_status()
        return [item["name"] for item in answer.json().get("items", [])]

    def read_object(self, bucket: str, name: str) -> bytes:
        """One object's bytes."""
        path = f"/download/storage/v1/b/{bucket}/o/{name.replace('/', '%2F')}"
        with here(self.storage_url, seconds=30) as storage:
            answer = storage.get(path, params={"alt": "media"})
        answer.raise_for_status()
        return answer.content

    def prefect(self, *arguments: str, cwd: Path | None = None, **env: str) -> str:
        """Run a Prefect command to its end; returns what it printed.

        Raises:
            SetupError: It failed; the message holds its last lines.
        """
        name = f"prefect {arguments[0]} {len(list(self._children.logs.iterdir()))}"
        command = [*program("prefect"), "--no-prompt", *arguments]
        child = self._children.start(name, command, env={**self.env, **env}, cwd=cwd)
        status = child.process.wait()
        self._children.forget(child)
        if status != 0:
            tail = " | ".join(child.output().strip().splitlines()[-5:])
            raise SetupError(f"`prefect {' '.join(arguments)}` failed: {tail}")
        return child.output()

    def create_pool(self, name: str, **variables: Any) -> None:
        """Create a work pool from the shipped template, with defaults of its own.

        Raises:
            SetupError: Prefect refused it.
        """
        template = json.loads(share("work_pool_templates", "vertex-forecast.json").read_text())
        for variable, value in variables.items():
            template["variables"]["properties"][variable]["default"] = value
        path = self.home / f"{name}.json"
        path.write_text(json.dumps(template))
        self.prefect(
            "work-pool",
            "create",
            name,
            "--type",
            "vertex-custom-job",
            "--base-job-template",
            str(path),
        )

    def start_worker(self, pool: str, *, env: Mapping[str, str] | None = None) -> Child:
        """Start a worker on a pool; returns once it has said that it runs.

        Raises:
            SetupError: It did not come up.
        """
        command = [*program("prefect"), "worker", "start", "--pool", pool]
        child = self._children.start("worker", command, env={**self.env, **(env or {})})
        child.wait_until(
            lambda: "started!" in child.output(),
            seconds=START_SECONDS,
            what="it had started",
        )
        return child


@contextmanager
def health_check(api_url: str) -> Iterator[Callable[[], bool]]:
    """A question to a Prefect server: whether it serves by now.

    One client for all of them: a new one reads the certificates of the machine each time, which
    takes longer than the answer.
    """
    with here(api_url, seconds=2) as client:

        def answers() -> bool:
            try:
                return client.get("/health").is_success
            except httpx.HTTPError:
                return False

        yield answers
