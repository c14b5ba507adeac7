"""A pool of a chaos run: its deployments, workers and runs, and the account of how they ended."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate
from prefect.client.schemas.objects import State, StateType
from prefect.states import Scheduled
from tests.chaos.ledger import Expected, Problem, judge
from tests.chaos.processes import Worker
from tests.chaos.rules import Rule
from tests.chaos.story import story_of
from tests.chaos.waiting import ASK_SECONDS, patiently, wait_for

from prefect_vertex.cli.local import share

if TYPE_CHECKING:
    from tests.chaos.site import Site

REGION = "us-central1"
IMAGE = "us-docker.pkg.dev/demo-project/chaos/image:1"
STUB = Path(__file__).with_name("stub.py")
LOG_TAIL = 3000
SETTLE_SECONDS = 1.0
"""Between two accounts of all of a pool's runs, which are read whole."""


@dataclass
class Pool:
    """One work pool with one deployment, its workers and its runs."""

    site: Site
    name: str
    variables: dict[str, Any]
    runs: dict[UUID, Expected] = field(default_factory=dict)
    workers: list[Worker] = field(default_factory=list)
    region: str = REGION

    def __post_init__(self) -> None:
        asked = WorkPoolCreate(
            name=self.name,
            type="vertex-custom-job",
            base_job_template=self._template(),
        )
        patiently(lambda: self.site.client.create_work_pool(asked))
        self.flow_id = patiently(lambda: self.site.client.create_flow_from_name(self.name))
        self.deployment = self.deploy("stub")

    def _template(self) -> dict[str, Any]:
        template: dict[str, Any] = json.loads(
            share("work_pool_templates", "vertex-forecast.json").read_text()
        )
        usual = {
            "region": self.region,
            "image": IMAGE,
            "command": self.command(),
            "cancel_grace_seconds": 2,
            "maximum_run_time_hours": 1,
            # A cut connection fails every create on it: twice, and a run comes back after this.
            "capacity": {"backoff_seconds": 2},
        }
        for variable, value in {**usual, **self.variables}.items():
            template["variables"]["properties"][variable]["default"] = value
        return template

    def command(self, *options: str) -> str:
        """The stub container's command."""
        return " ".join([sys.executable, str(STUB), str(self.site.notes), *options])

    def move(self, region: str) -> None:
        """Change the template's region."""
        self.region = region
        update = WorkPoolUpdate(base_job_template=self._template())
        self.site.client.update_work_pool(self.name, update)

    def deploy(self, name: str, *, entrypoint: str = "nowhere.py:main", **options: Any) -> UUID:
        """One more deployment; the stub container never reads its entrypoint."""
        return patiently(
            lambda: self.site.client.create_deployment(
                self.flow_id,
                name,
                work_pool_name=self.name,
                entrypoint=entrypoint,
                **options,
            )
        )

    def worker(self, name: str = "") -> Worker:
        """Start a worker; by default under a name of its own, as Prefect does."""
        worker = self.site.workers.start(self.name, name or f"worker-{uuid4().hex[:8]}")
        self.workers.append(worker)
        return worker

    def spawn(self) -> Worker:
        """Start a worker that does its own imports in memory of its own, as a user's does."""
        worker = self.site.workers.spawn(self.name, f"spawned-{uuid4().hex[:8]}")
        self.workers.append(worker)
        return worker

    def mark(self, kind: str) -> str:
        """What stands in a call of this pool's worker that names no run; empty if nothing does."""
        if kind.startswith("ListCustomJobs pool"):
            return str(self.site.client.read_work_pool(self.name).id)
        by_pool = kind.startswith("POST /flow_runs/filter") and not kind.endswith("ids")
        return self.name if by_pool else ""

    def start(
        self,
        *options: str,
        expected: Expected | None = None,
        deployment: UUID | None = None,
        rules: Sequence[Rule] = (),
        **variables: Any,
    ) -> UUID:
        """Start a run.

        Args:
            options: For its container.
            expected: How it is to end.
            deployment: Which; by default the pool's first.
            rules: Faults for its calls, in force before anybody can take it.
            variables: Job variables.
        """
        if options:
            variables["command"] = self.command(*options)
        later: State[None] = Scheduled(scheduled_time=datetime.now(UTC) + timedelta(days=1))
        key = uuid4().hex
        run = patiently(
            lambda: self.site.client.create_flow_run_from_deployment(
                deployment or self.deployment,
                job_variables=variables or None,
                state=later if rules else None,
                idempotency_key=key,
            )
        )
        self.runs[run.id] = expected or Expected()
        if rules:
            self.arm(*(replace(rule, about=str(run.id)) for rule in rules))
            now: State[None] = Scheduled()
            patiently(lambda: self.site.client.set_flow_run_state(run.id, now, force=True))
        return run.id

    def arm(self, *rules: Rule) -> None:
        """Add rules for whatever calls come."""
        self.site.proxies.add(*(replace(rule, owner=self.name) for rule in rules))

    def disarm(self) -> None:
        """Drop the rules that still wait."""
        self.site.proxies.call("clear", owner=self.name)

    def wait_fired(self, seconds: float = 90) -> bool:
        """Wait until every rule has found its call; whether they did."""
        try:
            wait_for(
                lambda: not self.site.proxies.call("left", owner=self.name), seconds, "rules fire"
            )
        except AssertionError:
            return False
        return True

    def wait_arrived(self, kind: str, seconds: float = 60) -> None:
        """Wait until no call of a kind is on its way to the server."""
        wait_for(
            lambda: not self.site.proxies.call("pending", kind=kind), seconds, f"{kind} arrives"
        )

    @contextmanager
    def frozen_cloud(self) -> Iterator[None]:
        """Vertex AI keeps its connections and answers nothing."""
        self.site.ledger.faults["emulator frozen"] += 1
        self.site.cloud.freeze()
        try:
            yield
        finally:
            self.site.cloud.thaw()

    @staticmethod
    def cancelled(ran: tuple[int, ...] = (0,)) -> Expected:
        """How a run ends that is cancelled; by default before user code ran."""
        return Expected(states=("CANCELLED",), ran=ran)

    def cancel(self, run: UUID) -> None:
        """Cancel a run as a user does."""
        state: State[None] = State(type=StateType.CANCELLING)
        patiently(lambda: self.site.client.set_flow_run_state(run, state))

    def state(self, run: UUID) -> str:
        """The run's state type and name, empty for a deleted run."""
        found = self.site.read([run]).get(run)
        return f"{found.state.type.value}/{found.state.name}" if found and found.state else ""

    def wait_state(self, run: UUID, *wanted: str, seconds: float = 90) -> str:
        """Wait until a run's state type or name is one of those."""

        def reached() -> str:
            state = self.state(run)
            return state if set(state.split("/")) & set(wanted) else ""

        with self._told(run):
            what = f"{run} is {' or '.join(wanted)}"
            found: str = wait_for(reached, seconds, what, pause=ASK_SECONDS)
        return found

    def jobs(self, run: UUID | None = None) -> list[dict[str, Any]]:
        """The emulator's jobs of one run, or of all of this pool's."""
        wanted = {str(each) for each in ([run] if run else self.runs)}
        return [
            job
            for job in self.site.cloud.jobs()
            if job["labels"].get("prefect-io_flow-run-id") in wanted
        ]

    def wait_job(self, run: UUID, *states: str, seconds: float = 90) -> dict[str, Any]:
        """Wait until a run has a job in one of those states; any state if none is named."""

        def found() -> Any:
            for job in self.jobs(run):
                if not states or job["state"].removeprefix("JOB_STATE_") in states:
                    return job
            return None

        with self._told(run):
            what = f"a job of {run} in {states}"
            job: dict[str, Any] = wait_for(found, seconds, what, pause=ASK_SECONDS)
        return job

    @contextmanager
    def _told(self, run: UUID) -> Iterator[None]:
        """Add the run's story to a wait that was in vain."""
        try:
            yield
        except AssertionError as error:
            raise AssertionError(
                "\n".join([str(error), *story_of(run, self.site, self.jobs(run)), *self._logs()])
            ) from None

    def _logs(self) -> list[str]:
        """The last lines of its last workers."""
        lines: list[str] = []
        for worker in self.workers[-2:]:
            lines.append(f"--- {worker.name} {'lives' if worker.is_alive() else 'has ended'}")
            lines.append(worker.output()[-LOG_TAIL:])
        return lines

    def problems(self) -> list[Problem]:
        """What is not as it should be at this moment."""
        return judge(
            self.runs,
            states={
                run: found.state.type.value if found.state else ""
                for run, found in self.site.read(list(self.runs)).items()
            },
            jobs=self.jobs(),
            ran=self.site.ran(),
        )

    def settle(self, seconds: float) -> None:
        """Wait until every run has ended well; the pool's account goes into the ledger.

        Raises:
            AssertionError: Naming what is wrong, with the tail of the workers' logs.
        """
        died: list[Worker] = []
        deadline = time.monotonic() + seconds
        while (problems := self.problems()) and time.monotonic() < deadline:
            died = [each for each in self.workers if not each.is_released and not each.is_alive()]
            if died or any(problem.is_lasting for problem in problems):
                break
            time.sleep(SETTLE_SECONDS)
        self.site.ledger.close(len(self.runs), problems)
        if problems:
            lines = [f"{problem.kind}: {problem.text}" for problem in problems]
            for run in {problem.run for problem in problems}:
                lines += story_of(run, self.site, self.jobs(run))
            raise AssertionError("\n".join([*lines, *self._logs()]))

    def close(self) -> None:
        """Drop its rules and end its workers."""
        self.disarm()
        for worker in self.workers:
            worker.kill()
