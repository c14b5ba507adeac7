"""`prefect-vertex doctor` against a real server and the emulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex.cli.doctor import command
from prefect_vertex.cli.doctor.about_pool import drift_of
from prefect_vertex.cli.usage import WrongUseError
from prefect_vertex.errors import PlanError
from prefect_vertex.template import base_job_template

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Desk = Any

pytestmark = pytest.mark.e2e

FLOWS = "flows@demo-project.iam.gserviceaccount.com"


def by_check(report: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    found: dict[str, list[dict[str, str]]] = {}
    for each in report["findings"]:
        found.setdefault(each["check"], []).append(each)
    return found


def verdicts(report: dict[str, Any]) -> dict[str, str]:
    """The first verdict of each check."""
    return {check: found[0]["verdict"] for check, found in by_check(report).items()}


def test_a_pool_in_the_emulator_is_well_but_for_what_only_google_can_answer(desk: Desk) -> None:
    """What nobody here can tell is said to be unchecked, not to be fine."""
    pool = desk.pool(staging_bucket="desk-bucket", service_account_name=FLOWS)
    report = desk.json("doctor", "--pool", pool)

    assert verdicts(report) == {
        "Prefect API": "ok",
        "work pool": "ok",
        "template": "ok",
        "worker": "warning",
        "job variables": "ok",
        "credentials": "not checked here",
        "PREFECT_API_URL in the job": "ok",
        "Vertex AI in us-central1": "ok",
        "API in demo-project": "not checked here",
        "roles in demo-project": "not checked here",
        "act-as": "not checked here",
        "job's log": "not checked here",
        "image": "not checked here",
        "bucket desk-bucket": "ok",
        "quota in us-central1": "not checked here",
    }
    assert report["counts"]["failed"] == 0
    unchecked = [each for each in report["findings"] if each["verdict"] == "not checked here"]
    assert all(each["text"] for each in unchecked)


def test_what_fails_says_what_mends_it(desk: Desk) -> None:
    """A bucket that is not there is created where the jobs run; the worker's places count too."""
    pool = desk.pool(staging_bucket="gs://no-such-bucket/team", regions=["us-east1"])
    report = desk.json("doctor", "--pool", pool)
    (bucket,) = by_check(report)["bucket no-such-bucket"]

    assert bucket["verdict"] == "failed"
    assert bucket["fix"] == (
        "gcloud storage buckets create gs://no-such-bucket --location us-central1 "
        "--project demo-project"
    )
    assert verdicts(report)["Vertex AI in us-east1"] == "ok"


def test_an_emulator_that_is_not_there_is_a_failure(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERTEX_AI_EMULATOR_HOST", "127.0.0.1:9")
    report = desk.json("doctor", "--pool", desk.pool())

    (place,) = by_check(report)["Vertex AI in us-central1"]
    assert place["verdict"] in {"failed", "not checked here"}
    assert "127.0.0.1:9" in place["text"] or "no answer" in place["text"]


def test_a_pool_that_leaves_the_image_to_its_deployments_is_checked_all_the_same(
    desk: Desk,
) -> None:
    pool = desk.pool(base_job_template({"region": "us-central1"}))
    report = desk.json("doctor", "--pool", pool)
    (found,) = by_check(report)["job variables"]

    assert found["verdict"] == "warning"
    assert "names no image" in found["text"]
    assert verdicts(report)["Vertex AI in us-central1"] == "ok"


@pytest.mark.parametrize("exists", [True, False])
def test_a_pool_that_leaves_the_region_to_its_deployments_is_no_failure(
    desk: Desk, *, exists: bool
) -> None:
    """What depends on it is skipped in one line, and a deployment that can be checked is named."""
    pool = desk.pool(base_job_template())
    flow = f"flow-{uuid4().hex[:8]}"
    variables = {"region": "europe-west4", "image": "i:1"}
    if exists:
        flow_id = desk.client.create_flow_from_name(flow)
        desk.client.create_deployment(
            flow_id, "my nightly", work_pool_name=pool, job_variables=variables
        )
    report = desk.json("doctor", "--pool", pool)
    (found,) = by_check(report)["job variables"]

    assert found["verdict"] == "warning"
    assert "names no region and no image" in found["text"]
    named = f"prefect-vertex doctor --deployment '{flow}/my nightly'"
    assert found["fix"] == (named if exists else "")
    (skipped,) = [each for each in report["findings"] if "Skipped" in each["text"]]
    assert all(name in skipped["text"] for name in ("roles", "image", "bucket", "quotas"))
    assert report["counts"]["failed"] == 0
    # Jobs may be where a deployment says, and nowhere that merely stood in for it.
    places = {check for check in verdicts(report) if check.startswith("Vertex AI in")}
    assert places == ({"Vertex AI in europe-west4"} if exists else set())


@pytest.mark.parametrize(
    "variables",
    [{"region": "us_central1"}, {"machine_type": "n1-standard-4", "gpu_type": "H100"}],
    ids=str,
)
def test_what_no_deployment_left_out_is_a_failure_all_the_same(
    desk: Desk, variables: dict[str, Any]
) -> None:
    """A region that is wrong is not one that is missing, and a gap hides no other mistake."""
    report = desk.json("doctor", "--pool", desk.pool(base_job_template(variables)))

    assert by_check(report)["job variables"][0]["verdict"] == "failed"


@pytest.mark.parametrize(
    ("regions", "says"),
    [([], "They lead to a job."), (["us-east1"], "They lead to a job at each of 2 candidates.")],
)
def test_a_job_is_counted_only_among_several(desk: Desk, regions: list[str], says: str) -> None:
    (found,) = by_check(desk.json("doctor", "--pool", desk.pool(regions=regions)))["job variables"]

    assert (found["verdict"], found["text"]) == ("ok", says)


def test_job_variables_that_lead_to_no_job_are_a_failure(desk: Desk) -> None:
    report = desk.json("doctor", "--pool", desk.pool(machine_type="n1-standard-4", gpu_type="H100"))
    found = by_check(report)["job variables"]

    assert found[0]["verdict"] == "failed"
    assert report["counts"]["failed"] == 1
    (skipped,) = [each for each in report["findings"] if "without a job" in each["text"]]
    assert all(name in skipped["text"] for name in ("roles", "image", "bucket", "quotas"))


def test_without_credentials_every_check_that_needs_them_is_listed_as_skipped(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The same checks as with them, so that a report of fewer lines does not look like less."""
    pool = desk.pool(staging_bucket="desk-bucket", service_account_name=FLOWS)
    asked = verdicts(desk.json("doctor", "--pool", pool))
    monkeypatch.delenv("VERTEX_AI_EMULATOR_HOST")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    report = desk.json("doctor", "--pool", pool)
    skipped = [each["check"] for each in report["findings"] if "Skipped: " in each["text"]]

    assert verdicts(report)["credentials"] == "failed"
    renamed = {"quota in us-central1": "quotas"}
    assert {renamed.get(check, check) for check in asked} == set(verdicts(report))
    assert {"API in demo-project", "act-as", "image", "bucket desk-bucket", "quotas"} <= set(
        skipped
    )


def test_a_deployment_is_checked_with_its_own_job_variables(desk: Desk) -> None:
    pool, flow = desk.pool(), f"flow-{uuid4().hex[:8]}"
    flow_id = desk.client.create_flow_from_name(flow)
    desk.client.create_deployment(
        flow_id, "nightly", work_pool_name=pool, job_variables={"staging_bucket": "nowhere-at-all"}
    )

    of_deployment = verdicts(desk.json("doctor", "--deployment", f"{flow}/nightly"))
    assert of_deployment["bucket nowhere-at-all"] == "failed"
    assert "bucket nowhere-at-all" not in verdicts(desk.json("doctor", "--pool", pool))


@pytest.mark.parametrize(
    ("words", "check", "fix"),
    [
        (
            ["--pool", "no such"],
            "work pool",
            "prefect work-pool create 'no such' --type vertex-custom-job",
        ),
        (["--deployment", "no/such"], "deployment", "prefect deployment ls"),
    ],
)
def test_what_is_not_there_is_a_failure_with_a_command(
    desk: Desk, words: list[str], check: str, fix: str
) -> None:
    (found,) = by_check(desk.json("doctor", *words))[check]

    assert (found["verdict"], found["fix"]) == ("failed", fix)


def test_another_worker_s_pool_goes_no_further(desk: Desk) -> None:
    """Nothing is offered that would overwrite its template or put our worker on it."""
    template = {"variables": {"properties": {"a": {}}}, "job_configuration": {"a": "{{ a }}"}}
    pool = desk.pool(template, kind="process")
    report = desk.json("doctor", "--pool", pool)

    assert verdicts(report) == {"Prefect API": "ok", "work pool": "failed"}
    with pytest.raises(PlanError, match="is of type process"):
        command.doctor(pool=pool, template=True)


def test_a_drifted_pool_is_brought_up_by_the_template_that_is_printed(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that is shown works: what it prints is accepted and drifts no more."""
    template = base_job_template({"region": "us-central1", "image": "i:1"})
    del template["variables"]["properties"]["stall_timeout_seconds"]
    del template["job_configuration"]["stall_timeout_seconds"]
    pool = desk.pool(template)
    assert verdicts(desk.json("doctor", "--pool", pool))["template"] == "warning"

    capsys.readouterr()
    assert command.doctor(pool=pool, template=True) == 0
    file = tmp_path / "template.json"
    file.write_text(capsys.readouterr().out)
    desk.stack.prefect("work-pool", "update", pool, "--base-job-template", str(file))

    renewed = desk.read_pool(pool).base_job_template
    assert json.loads(file.read_text()) == renewed
    assert not drift_of(renewed, base_job_template()).lines
    assert renewed["variables"]["properties"]["region"]["default"] == "us-central1"


def test_a_person_reads_plain_lines_and_no_secret(desk: Desk) -> None:
    """The exit code tells failures; the key that this machine has stands nowhere."""
    pool = desk.pool(env={"SECRET_TOKEN": "hunter2-hunter2"}, staging_bucket="nowhere-at-all")
    done = desk.run("doctor", "--pool", pool, PREFECT_API_KEY="hunter2-hunter2")

    assert (done.returncode, done.stderr) == (1, "")
    assert "hunter2" not in done.stdout
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    (place,) = [n for n, line in enumerate(lines) if line.startswith("failed")]
    assert lines[place + 1].strip().startswith("gcloud storage buckets create gs://nowhere-at-all")
    assert "1 failed" in lines[-1]


def test_a_server_that_does_not_answer_is_one_failure(desk: Desk) -> None:
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        report = desk.json("doctor", "--pool", "any")

    assert verdicts(report) == {"Prefect API": "failed"}
    assert "http://127.0.0.1:9/api" in report["findings"][0]["text"]


@pytest.mark.parametrize("password", ["hunter2", "hunter2/x"])
def test_no_failure_shows_a_password_in_the_server_s_address(desk: Desk, password: str) -> None:
    """Whether nobody answers there, or it is no address at all."""
    with temporary_settings({PREFECT_API_URL: f"http://me:{password}@127.0.0.1:9/api"}):
        report = desk.json("doctor", "--pool", "any")

    assert verdicts(report) == {"Prefect API": "failed"}
    assert "http://…@127.0.0.1:9/api" in report["findings"][0]["text"]
    assert "hunter2" not in json.dumps(report)


def test_an_address_with_a_password_is_checked_as_any_other(desk: Desk) -> None:
    url = desk.stack.api_url.replace("://", "://me:hunter2@")
    with temporary_settings({PREFECT_API_URL: url}):
        report = desk.json("doctor", "--pool", desk.pool())

    assert verdicts(report)["Prefect API"] == "ok"
    assert "hunter2" not in json.dumps(report)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"pool": "a", "deployment": "b/c"},
        {"deployment": "b/c", "template": True},
        {"pool": "a", "template": True, "json": True},
    ],
)
def test_options_that_mean_nothing_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(WrongUseError):
        command.doctor(**options)
