"""`prefect-vertex jobs` against a real server and the emulator: what it shows, says and does."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Completed, Pending, Running

from prefect_vertex.cli.jobs.command import jobs, parse_span
from prefect_vertex.cli.usage import WrongUseError
from prefect_vertex.emulator.faults import CallFault
from prefect_vertex.emulator.seeds import Seed
from prefect_vertex.errors import AccessDeniedError, PlanError
from prefect_vertex.lifecycle.run import LEADER_LABEL
from prefect_vertex.template import base_job_template

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Desk = Any

pytestmark = pytest.mark.e2e

PLACE = "projects/demo-project/locations/us-central1"
DAY = 86_400.0
OTHERS = {"variables": {"properties": {"a": {}}}, "job_configuration": {"a": "{{ a }}"}}
"""The template of a pool that is none of ours."""


@dataclass
class Scene:
    """A pool of its own, with runs and jobs that somebody left there."""

    desk: Desk
    pool: str
    jobs: list[str] = field(default_factory=list)

    def run(self, *states: State[Any]) -> FlowRun:
        """A flow run that went through these states."""
        client = self.desk.client
        flow = client.create_flow_from_name("scene")
        deployment = client.create_deployment(flow, uuid4().hex[:8], work_pool_name=self.pool)
        run: FlowRun = client.create_flow_run_from_deployment(deployment)
        for state in states:
            client.set_flow_run_state(run.id, state, force=True)
        return run

    def job(self, run: UUID, state: str, *, age: float = 600.0, message: str = "") -> str:
        """A job of that run, attempt 1; its name."""
        pool_id = str(self.desk.read_pool(self.pool).id)
        (name,) = self.desk.emulator.seed_jobs(
            Seed(
                parent=PLACE,
                state=f"JOB_STATE_{state}",
                age_seconds=age,
                error_message=message,
                labels={
                    "prefect-io_flow-run-id": str(run),
                    "prefect-io_work-pool-id": pool_id,
                    "prefect-vertex_attempt": "1",
                },
            )
        )
        return str(name)

    def seen(self, *words: str) -> dict[str, Any]:
        """What the command says, its jobs by name."""
        found = self.desk.json("jobs", "--pool", self.pool, *words)
        return {each["resource_name"]: each for each in found["jobs"]}

    def done(self, *words: str) -> Any:
        """What the command did."""
        return self.desk.json("jobs", "--pool", self.pool, *words)

    def state(self, run: FlowRun) -> str:
        """The run's state, as the server has it."""
        return str(self.desk.client.read_flow_run(run.id).state_name)


@pytest.fixture
def scene(desk: Desk) -> Scene:
    return Scene(desk, desk.pool())


def test_disagreements_are_told_then_settled_and_settled_again_is_nothing(scene: Scene) -> None:
    """A preview changes nothing; a second settling finds nothing left."""
    fine = scene.run(Pending(), Running())
    fine_job = scene.job(fine.id, "RUNNING")
    crashed = scene.run(Pending(), Running())
    status = "The replica workerpool0-0 exited with a non-zero status of 7."
    ended_job = scene.job(crashed.id, "FAILED", message=status)
    twice = scene.run(Pending(), Running())
    older = scene.job(twice.id, "RUNNING", age=700)
    younger = scene.job(twice.id, "RUNNING", age=650)

    before = scene.seen()
    assert before[fine_job]["says"] == "in step"
    assert before[ended_job]["says"] == "ended job, live run"
    assert before[older]["says"] == before[younger]["says"] == "two live jobs"

    preview = scene.done("--settle")
    assert set(preview["would"]) == {str(crashed.id), str(twice.id)}
    assert "done" not in preview
    assert scene.seen() == before

    settled = scene.done("--settle", "--yes")
    after = scene.seen()
    assert settled["left"] == []
    assert f"cancel was sent to {younger}" in settled["done"]
    assert f"{younger} is cancelled" in settled["done"]
    name = f"flow run {crashed.name} ({crashed.id})"
    assert any(line.startswith(f"{name} is Crashed: ") for line in settled["done"])
    assert scene.state(crashed) == "Crashed"
    assert after[younger]["state"] == "JOB_STATE_CANCELLED"
    assert after[older]["state"] == after[fine_job]["state"] == "JOB_STATE_RUNNING"
    assert scene.state(fine) == scene.state(twice) == "Running"
    assert scene.done("--settle", "--yes")["would"] == {}


def test_a_cancelled_run_s_job_is_gone_and_its_run_cancelled(scene: Scene) -> None:
    """Though no worker is there; a second time there is nothing to do."""
    run = scene.run(Pending(name="InfrastructurePending"))
    other = scene.run(Pending(name="InfrastructurePending"))
    job, others = scene.job(run.id, "PENDING", age=5), scene.job(other.id, "PENDING", age=5)

    assert len(scene.done("--cancel", run.name)["would"]) == 2
    assert scene.state(run) == "InfrastructurePending"

    report = scene.done("--cancel", run.name, "--yes")
    done = report["done"]
    assert done[0] == f"flow run {run.name} ({run.id}) is Cancelling"
    assert f"cancel was sent to {job}" in done
    assert f"{job} is cancelled" in done
    assert any(line.startswith(f"flow run {run.name} ({run.id}) is Cancelled: ") for line in done)
    assert report["state"] == "Cancelled"
    seen = scene.seen()
    assert seen[job]["state"] == "JOB_STATE_CANCELLED"
    assert seen[others]["state"] == "JOB_STATE_PENDING"
    assert (scene.state(run), scene.state(other)) == ("Cancelled", "InfrastructurePending")
    assert scene.done("--cancel", str(run.id), "--yes")["would"] == []


def test_a_live_job_of_a_run_that_is_gone_is_cancelled_at_once(scene: Scene) -> None:
    gone, ended = uuid4(), scene.run(Pending(), Running(), Completed())
    jobs = [scene.job(gone, "RUNNING"), scene.job(ended.id, "RUNNING")]
    assert scene.seen()[jobs[0]]["says"] == "live job, run deleted"

    scene.done("--cancel", str(gone), "--yes")
    scene.done("--cancel", ended.name, "--yes")

    seen = scene.seen()
    assert {seen[job]["state"] for job in jobs} == {"JOB_STATE_CANCELLED"}
    assert scene.state(ended) == "Completed"


def test_a_person_reads_what_is_cancelled_and_how_that_ended(scene: Scene) -> None:
    """First what goes on, last the state that the run has then; what was done stands between."""
    run = scene.run(Pending(name="InfrastructurePending"))
    scene.job(run.id, "PENDING", age=5)
    done = scene.desk.run("jobs", "--pool", scene.pool, "--cancel", run.name, "--yes")
    first, *lines, last = done.stdout.splitlines()

    assert (done.returncode, done.stderr) == (0, "")
    assert first.startswith(f"Cancelling flow run {run.name} ({run.id})")
    assert all(line.startswith("  ") for line in lines)
    assert last == f"It is {scene.state(run)}." == "It is Cancelled."


@pytest.mark.parametrize("by", ["name", "id"])
def test_a_follower_is_not_cancelled_and_its_leader_is_named(scene: Scene, by: str) -> None:
    """It belongs to no pool and has no job: what can be cancelled is the leader."""
    leader = scene.run(Pending(), Running())
    flow_id = scene.desk.client.create_flow_from_name("scene")
    name = f"follower-{uuid4().hex[:8]}"
    body = {
        "flow_id": str(flow_id),
        "name": name,
        "state": None,
        "labels": {LEADER_LABEL: str(leader.id)},
    }
    follower = scene.desk.client.request("POST", "/flow_runs/", json=body).json()["id"]
    text = name if by == "name" else follower
    for words in ([], ["--yes"]):
        with pytest.raises(PlanError) as raised:
            scene.done("--cancel", text, *words)
        assert f"{name} is a follower of {leader.name}" in raised.value.message
        assert raised.value.hint.endswith(f"jobs --pool {scene.pool} --cancel {leader.id}")

    assert scene.state(leader) == "Running"


@pytest.fixture
def _without_credentials(desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("VERTEX_AI_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


@pytest.mark.usefixtures("_without_credentials")
@pytest.mark.parametrize("words", [[], ["--settle"], ["--cancel", "some"]], ids=str)
def test_without_credentials_that_is_what_is_said(
    desk: Desk, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not that there is no job, nor that nobody says where: no location could be seen."""
    pool = desk.pool()
    with pytest.raises(AccessDeniedError, match="Found no Google credentials") as raised:
        desk.json("jobs", "--pool", pool, *words)

    assert "Emulators need none: export all variables" in raised.value.hint
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_without_credentials")
def test_a_location_that_needs_missing_credentials_is_one_that_could_not_be_seen(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here the pool names it, and the exit code tells."""
    code = jobs(pool=desk.pool(project="demo-project"))
    out, said = capsys.readouterr()

    assert code == 1
    (line,) = said.splitlines()
    assert line.startswith("warning: Found no Google credentials")
    assert "not all of us-central1 could be read" in out


def test_a_pool_that_names_no_place_has_none_that_could_not_be_seen(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    code = jobs(pool=desk.pool(base_job_template()))
    out, said = capsys.readouterr()

    assert code == 0
    assert "neither the pool, its deployments nor its runs name" in said
    assert out.endswith(" were looked for.\n")


@pytest.mark.parametrize("kind", ["vertex-custom-job", "process"])
def test_a_run_of_another_pool_is_not_cancelled(scene: Scene, kind: str) -> None:
    """Its jobs were not looked for, so neither it nor they are touched; its pool is named."""
    template = None if kind == "vertex-custom-job" else OTHERS
    other = Scene(scene.desk, scene.desk.pool(template, kind=kind))
    run = other.run(Pending(), Running())
    other.job(run.id, "RUNNING")

    for words in ([], ["--yes"]):
        with pytest.raises(PlanError) as raised:
            scene.done("--cancel", str(run.id), *words)
        assert f"is in work pool {other.pool}, not in {scene.pool}" in str(raised.value)

    assert other.state(run) == "Running"


def test_a_run_without_a_pool_is_cancelled_only_with_a_job_of_the_pool(scene: Scene) -> None:
    """A run may have lost its pool with its work queue; its job still names it."""
    flow = scene.desk.client.create_flow_from_name("scene")
    path = "/flow_runs/"
    answer = scene.desk.client.request("POST", path, json={"flow_id": str(flow), "state": None})
    run_id = UUID(answer.json()["id"])
    with pytest.raises(PlanError, match="is in no work pool"):
        scene.done("--cancel", str(run_id), "--yes")

    job = scene.job(run_id, "RUNNING")
    assert job in str(scene.done("--cancel", str(run_id))["would"])


def test_only_old_ended_jobs_of_ended_runs_are_deleted(scene: Scene) -> None:
    """Twice is as good as once."""
    ended, lives = scene.run(Pending(), Running(), Completed()), scene.run(Pending(), Running())
    old = scene.job(ended.id, "SUCCEEDED", age=80 * DAY)
    kept = {
        scene.job(ended.id, "SUCCEEDED", age=20 * DAY),
        scene.job(ended.id, "RUNNING", age=80 * DAY),
        scene.job(lives.id, "FAILED", age=80 * DAY, message="Internal error."),
    }

    assert scene.done("--delete-older-than", "30d")["would"] == [old]
    assert old in scene.seen("--since", "100d")

    (done,) = scene.done("--delete-older-than", "30d", "--yes")["done"]
    told = f"attempt 1 of flow run {ended.name} ({ended.id}), succeeded, ended "
    assert done.startswith(f"deleted {old}: {told}")
    assert scene.seen("--since", "100d").keys() == kept
    assert scene.done("--delete-older-than", "30d", "--yes")["would"] == []


def test_a_person_reads_of_each_job_what_was_done(scene: Scene) -> None:
    """As many lines as the preview has."""
    ended = scene.run(Pending(), Running(), Completed())
    jobs = [scene.job(ended.id, "SUCCEEDED", age=age * DAY) for age in (90, 80)]
    done = scene.desk.run("jobs", "--pool", scene.pool, "--delete-older-than", "30d", "--yes")

    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert [line.split()[1].rstrip(":") for line in lines] == jobs
    assert last == "2 deleted."


def test_a_refused_deletion_is_reported_with_those_before_it(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program learns what is gone, and a repetition goes on with the rest."""
    ended = scene.run(Pending(), Running(), Completed())
    older, newer = (scene.job(ended.id, "SUCCEEDED", age=age * DAY) for age in (90, 80))
    scene.desk.emulator.add_faults(
        CallFault(method="DeleteCustomJob", delay_seconds=0.01),
        CallFault(method="DeleteCustomJob", code="PERMISSION_DENIED", message="Not that one."),
    )
    capsys.readouterr()
    with pytest.raises(AccessDeniedError):
        jobs(pool=scene.pool, delete_older_than="30d", yes=True, json=True)
    report = json.loads(capsys.readouterr().out)

    assert report["would"] == [older, newer]
    assert [line.split()[1].rstrip(":") for line in report["done"]] == [older]
    assert "Not that one." in report["error"]
    assert [newer] == scene.done("--delete-older-than", "30d", "--yes")["would"]


def test_a_job_that_cannot_be_seen_for_a_moment_ends_no_cancelling(scene: Scene) -> None:
    """Vertex AI is asked again until it says what became of the job."""
    run = scene.run(Pending(name="InfrastructurePending"))
    job = scene.job(run.id, "PENDING", age=5)
    denied = CallFault(method="GetCustomJob", code="PERMISSION_DENIED", times=2)
    scene.desk.emulator.add_faults(denied)
    report = scene.done("--cancel", run.name, "--yes")
    scene.desk.emulator.assert_all_faults_used()

    assert report["state"] == "Cancelled"
    assert f"{job} is cancelled" in report["done"]
    assert "troubles" not in report


def test_another_worker_s_pool_is_refused(scene: Scene) -> None:
    pool = scene.desk.pool(OTHERS, kind="process")
    with pytest.raises(PlanError) as raised:
        scene.desk.json("jobs", "--pool", pool)

    assert f"{pool} is of type process" in raised.value.message
    assert raised.value.hint == (f"prefect work-pool create {pool}-vertex --type vertex-custom-job")


def test_a_person_reads_plain_columns_and_the_command_that_settles(scene: Scene) -> None:
    """No colour, no box and no log line where the output is no terminal."""
    run = scene.run(Pending(), Running())
    scene.job(run.id, "FAILED", message="The replica workerpool0-0 exited with a non-zero status")
    done = scene.desk.run("jobs", "--pool", scene.pool)

    assert (done.returncode, done.stderr) == (0, "")
    heading, row, *rest = done.stdout.splitlines()
    assert heading.split()[:3] == ["job", "location", "attempt"]
    assert run.name in row
    assert row.endswith("ended job, live run")
    assert f"prefect-vertex jobs --pool {scene.pool} --settle --yes" in rest[-1]
    assert done.stdout.isascii()


@pytest.mark.parametrize(
    ("text", "seconds"), [("0d", 0), ("00090s", 90), (" 12H ", 43_200), ("36500d", 36_500 * DAY)]
)
def test_a_time_span_is_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_span("--since", text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["6M", "6mo", "6 months", "1Month"])
def test_months_are_not_taken_for_minutes(text: str) -> None:
    """Six minutes instead of six months would delete almost all of a pool's jobs."""
    with pytest.raises(WrongUseError, match="Write months in d, such as 180d; m is minutes"):
        parse_span("--delete-older-than", text)


@pytest.mark.parametrize("span", ["0d", "100w"])
def test_any_span_looks_back(scene: Scene, span: str) -> None:
    """Nought takes every ended job, and of those nothing is left."""
    ended = scene.run(Pending(), Running(), Completed())
    job = scene.job(ended.id, "SUCCEEDED", age=2 * DAY)

    assert (job in scene.seen("--since", span)) == (span != "0d")
    assert (job in scene.done("--delete-older-than", span)["would"]) == (span == "0d")


def test_a_run_s_name_cannot_steer_the_terminal(scene: Scene) -> None:
    """Control characters and line breaks are spelled out, in rows, steps and previews."""
    run = scene.run(Pending(), Running())
    scene.desk.client.request("PATCH", f"/flow_runs/{run.id}", json={"name": "a\x1b[2J\nb\u202e"})
    scene.job(run.id, "FAILED", message="The replica workerpool0-0 exited with a non-zero status")
    listed = scene.desk.run("jobs", "--pool", scene.pool)
    preview = scene.desk.run("jobs", "--pool", scene.pool, "--cancel", str(run.id))

    for done in (listed, preview):
        assert done.returncode == 0
        assert "a\\x1b[2J\\nb\\u202e" in done.stdout
        assert not {"\x1b", "\u202e"} & set(done.stdout)


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        (["--pool", "no-such-pool"], PlanError, "prefect work-pool create no-such-pool"),
        (["--cancel", "nobody"], PlanError, "No flow run among the pool's jobs is named 'nobody'."),
        (["--cancel", str(UUID(int=7))], PlanError, "and no job of it"),
        (["--settle", "--cancel", "x"], WrongUseError, "Name one of"),
        (["--yes"], WrongUseError, "--yes goes with"),
        (["--since", "soon"], WrongUseError, "not a time span"),
        (["--delete-older-than", "99999999999w"], WrongUseError, "longer than any job is old"),
        (["--delete-older-than", "800000d"], WrongUseError, "longer than any job is old"),
        (["--since", "800000d"], WrongUseError, "longer than any job is old"),
        (["--since", "9" * 5000 + "s"], WrongUseError, "longer than any job is old"),
        (["--since", "x" * 5000], WrongUseError, "not a time span"),
        (["--delete-older-than", ""], WrongUseError, "--delete-older-than is '', not a time span"),
        (["--cancel", ""], WrongUseError, "--cancel names no flow run"),
        (["--pool", ""], WrongUseError, "--pool names no work pool"),
    ],
)
def test_a_mistake_is_an_error_of_one_line(
    scene: Scene, words: list[str], error: type[PlanError], says: str
) -> None:
    """`main` prints it; one of use has an exit code of its own."""
    pool = [] if "--pool" in words else ["--pool", scene.pool]
    with pytest.raises(error) as raised:
        scene.desk.json("jobs", *pool, *words)

    assert says in str(raised.value)
    assert isinstance(raised.value, WrongUseError) == (error is WrongUseError)
    assert len(str(raised.value)) < 200
    assert "\n" not in str(raised.value)
