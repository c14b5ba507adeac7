"""One side in one case: an emulator, a pool, a worker, and what can be seen of them."""

from __future__ import annotations

import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from benchmarks.api import Api, Run
from benchmarks.cloud import COMMAND, Cloud
from benchmarks.meter import Meter
from benchmarks.proxy import CountingProxy
from benchmarks.sides import PROGRAMS, Side
from prefect_vertex.cli.children import Child, Children
from prefect_vertex.cli.local import PROJECT, LocalStack

REGION: Final = "us-central1"
IMAGE: Final = f"us-docker.pkg.dev/{PROJECT}/bench/stub:1"
# On one of two busy cores; Prefect loads every Google module with prefect-gcp.
_START_SECONDS: Final = 120.0
_LOOK_SECONDS: Final = 2.0
_STANDSTILL_SECONDS: Final = 180.0
_WAVE: Final = 10
_WAVE_SECONDS: Final = 10.0


@dataclass
class Stage:
    """What all trials share: one Prefect server behind one proxy."""

    children: Children
    stack: LocalStack
    proxy: CountingProxy
    api: Api
    trials: int = 0


@dataclass(frozen=True, kw_only=True)
class Containers:
    """How the stub containers behave; see programs/stub.py."""

    seconds: float
    spread_seconds: float = 0.0
    vanish_one_in: int = 0

    def vanishes(self, run_id: str) -> bool:
        """Whether this run's container ends without telling Prefect."""
        digits = run_id.replace("-", "")[-12:-8]
        return self.vanish_one_in > 0 and int(digits, 16) % self.vanish_one_in == 0


@dataclass(frozen=True)
class Cost:
    """What a worker did in a stretch of time."""

    seconds: float
    cpu_seconds: float
    reads: int
    by_method: Mapping[str, int]
    prefect_calls: int

    def per_minute(self, amount: float) -> float:
        """An amount of the whole stretch as a rate."""
        return amount * 60 / self.seconds


class Trial:
    """A context manager; leaving it ends its worker and its emulator.

    Args:
        stage: Where.
        side: Whose worker.
        containers: What the jobs do.
        settings: Environment variables of this worker alone.
    """

    def __init__(
        self,
        stage: Stage,
        side: Side,
        containers: Containers,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        stage.trials += 1
        self.side = side
        self.containers = containers
        self._stage = stage
        self._settings = dict(settings or {})
        self._label = f"bench-{stage.trials}-{side.name}"  # "prefect-" is reserved
        self._scratch = stage.stack.home / self._label
        self._stack = ExitStack()
        self._scheduled = 0
        self._since = 0.0
        self._cpu_before = 0.0

    def __enter__(self) -> Self:
        self._scratch.mkdir()
        self._notes.touch()
        emulator = self._stage.children.start(
            f"emulator {self._label}", COMMAND, env=self._stage.stack.env
        )
        self._stack.callback(self._stage.children.forget, emulator)
        try:
            self.cloud = Cloud(emulator)
            self.pool_id = self._create_pool()
            self.deployment = self._stage.api.create_deployment(self._label)
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    # --- the worker -------------------------------------------------------------------------------

    def start_worker(self) -> None:
        """Start it, and begin to count."""
        self.begin_counting(cpu_before=0.0)
        command = self.side.worker_command(self._label, self._report)
        child = self._stage.children.start(f"worker {self._label}", command, env=self._worker_env())
        self._stack.callback(self._stage.children.forget, child)
        self.meter = Meter(child.process.pid)
        self._stack.callback(self.meter.stop)
        self._worker = child
        child.wait_until(
            lambda: "started!" in child.output(), seconds=_START_SECONDS, what="it had started"
        )

    def begin_counting(self, *, cpu_before: float | None = None) -> None:
        """Count calls and CPU time from now on."""
        self.cloud.reset()
        self._stage.proxy.reset()
        self._cpu_before = self.meter.cpu_seconds if cpu_before is None else cpu_before
        self._since = time.monotonic()

    def cost(self) -> Cost:
        """What the worker did since it was begun to count."""
        calls = self.cloud.calls()
        paths = self._stage.proxy.counts()
        detail = {"JobService": calls.by_method, "Prefect": paths}
        log = self._stage.children.logs / f"calls-{self._label}.json"
        log.write_text(json.dumps(detail, indent=2))
        return Cost(
            seconds=time.monotonic() - self._since,
            cpu_seconds=self.meter.cpu_seconds - self._cpu_before,
            reads=calls.reads,
            by_method=calls.by_method,
            prefect_calls=sum(paths.values()),
        )

    def empty_seconds(self) -> float | None:
        """How long in all runs have waited for the submission budget; None: it has none."""
        if not self._report.exists():
            return None
        return float(json.loads(self._report.read_text())["empty_seconds"])

    # --- the runs ---------------------------------------------------------------------------------

    def schedule(self, count: int) -> None:
        """Create runs that are due now."""
        self._scheduled += count
        self._stage.api.create_runs(
            self.deployment, count, "SCHEDULED", first=self._scheduled - count
        )

    def schedule_gently(self, count: int) -> None:
        """The same in waves, for cases that are not about the server under a rush of runs."""
        for start in range(0, count, _WAVE):
            self.schedule(min(_WAVE, count - start))
            time.sleep(_WAVE_SECONDS)

    def create_running(self, count: int, labels: Mapping[str, str]) -> list[str]:
        """Create runs that run already; their ids."""
        return self._stage.api.create_runs(self.deployment, count, "RUNNING", labels=labels)

    def name_infrastructure(self, identifiers: Mapping[str, str]) -> None:
        """Write the jobs' names into the runs."""
        self._stage.api.name_infrastructure(identifiers)

    def label(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Add labels to runs."""
        self._stage.api.label(labels)

    def runs(self) -> list[Run]:
        """All of this trial's runs."""
        return self._stage.api.runs(self.deployment)

    def starts(self) -> Counter[str]:
        """How often the container of which run has started."""
        return Counter(self._notes.read_text().split())

    def wait_for(self, holds: Callable[[], bool], *, seconds: float, what: str) -> None:
        """Wait; raises TimeoutError naming what did not come."""
        deadline = time.monotonic() + seconds
        while not holds():
            self._check_worker()
            if time.monotonic() > deadline:
                states = dict(self._stage.api.states(self.deployment))
                raise TimeoutError(f"{self._label}: no {what} in {seconds:g} s; runs: {states}")
            time.sleep(_LOOK_SECONDS)

    def wait_for_ends(self) -> list[Run]:
        """Wait until every run has ended, or nothing has happened for minutes and none lives."""
        before: object = None
        still_since = time.monotonic()
        while True:
            self._check_worker()
            runs = self.runs()
            live = self.cloud.live()
            seen = (Counter(run.state for run in runs), live)
            if seen != before:
                before, still_since = seen, time.monotonic()
            if not live and all(run.is_final for run in runs):
                return runs
            if not live and time.monotonic() - still_since > _STANDSTILL_SECONDS:
                return runs
            time.sleep(_LOOK_SECONDS)

    def wait_until_settled(
        self, quiet_seconds: float, *, seconds: float, begun: float | None = None
    ) -> float:
        """Wait until the worker has changed runs, and then none for so long; how long it took.

        Args:
            quiet_seconds: How long it is to change nothing.
            seconds: How long to wait for that.
            begun: A moment after which it has changed some, by the monotonic clock; None: now.
        """
        begun = time.monotonic() if begun is None else begun
        self.wait_for(
            lambda: (
                quiet_seconds
                < self._stage.proxy.seconds_since_write()
                # With thousands of jobs its first change comes late.
                < time.monotonic() - begun
            ),
            seconds=seconds,
            what="rest",
        )
        return max(0.0, time.monotonic() - begun - self._stage.proxy.seconds_since_write())

    # --- details ----------------------------------------------------------------------------------

    @property
    def _notes(self) -> Path:
        return self._scratch / "notes"

    @property
    def _report(self) -> Path:
        return self._scratch / "report.json"

    def _create_pool(self) -> str:
        template = self.side.template()
        properties: dict[str, dict[str, Any]] = template["variables"]["properties"]
        command = ["python3", "-I", "-S", str(PROGRAMS / "stub.py")]
        defaults = {
            "region": REGION,
            "image": IMAGE,
            "command": shlex.join(command),
            "env": {
                "BENCH_NOTES": str(self._notes),
                "BENCH_SECONDS": str(self.containers.seconds),
                "BENCH_SPREAD_SECONDS": str(self.containers.spread_seconds),
                "BENCH_VANISH_ONE_IN": str(self.containers.vanish_one_in),
            },
        }
        for variable, value in defaults.items():
            properties[variable]["default"] = value
        return self._stage.api.create_pool(self._label, self.side.pool_type, template)

    def _worker_env(self) -> dict[str, str]:
        return {
            **self._stage.stack.env,
            **self.side.worker_env(),
            **self._settings,
            "PREFECT_HOME": str(self._scratch / "home"),
            "PREFECT_API_URL": f"{self._stage.proxy.url}/api",
            "VERTEX_AI_EMULATOR_HOST": self.cloud.address,
            "CLOUD_LOGGING_EMULATOR_HOST": self.cloud.address,
            "GOOGLE_CLOUD_PROJECT": PROJECT,
        }

    def _check_worker(self) -> None:
        worker: Child = self._worker
        if not worker.is_alive():
            tail = "\n".join(worker.output().splitlines()[-20:])
            raise RuntimeError(f"the worker of {self._label} ended by itself:\n{tail}")
