"""`prefect-vertex plan` says what the worker would submit, asks Google nothing and submits nothing.

The Prefect server is real. No test has credentials, and none may leave this machine.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from prefect.settings import (
    PREFECT_LOCAL_STORAGE_PATH,
    PREFECT_LOGGING_LEVEL,
    PREFECT_PROFILES_PATH,
    PREFECT_SERVER_EPHEMERAL_ENABLED,
    PREFECT_WORKER_QUERY_SECONDS,
    temporary_settings,
)
from tests.cli.plan_site import KEY, NEEDED, Site, env_of

from prefect_vertex.delivery.packing import packed_bootstrap

STOCK = Path(__file__).parents[1] / "template" / "fixtures" / "prefect_gcp_0_6_22.json"


def test_what_a_replica_runs_at_once_is_shown_beside_the_request(site: Site) -> None:
    """One line for each pool that shares the work, with what the slots end at; nothing is sent."""
    machines = [{}, {"machine_spec": {"machine_type": "n1-highcpu-16"}}]
    variables = (
        "machine_type=n1-standard-4",
        "worker_count=3",
        f"worker_pools={json.dumps(machines)}",
    )
    (request,) = site.plans(*NEEDED, *variables, pool=site.pool())

    primary, workers = request["resource_plan"]
    assert (primary["machine_type"], primary["slots"]) == ("n1-standard-4", 3)
    assert primary["binding_axis"] == "cores"
    assert (workers["slots"], workers["binding_axis"]) == (7, "memory")
    assert "resource_plan" not in json.dumps(request["custom_job"])


def test_settings_of_this_machine_are_not_in_the_request(site: Site, tmp_path: Path) -> None:
    """Nor what a server or a worker reads; the level of the flow's log is."""
    odd = {
        PREFECT_PROFILES_PATH: tmp_path / "my profiles.toml",
        PREFECT_LOCAL_STORAGE_PATH: tmp_path / "results",
        PREFECT_SERVER_EPHEMERAL_ENABLED: False,
        PREFECT_WORKER_QUERY_SECONDS: 3,
        PREFECT_LOGGING_LEVEL: "WARNING",
    }
    with temporary_settings(odd):
        job = site.job(*NEEDED, pool=site.pool())

    names = {name for name in env_of(job) if not name.startswith(("PREFECT__", "PREFECT_VERTEX_"))}
    assert names == {
        "PREFECT_API_URL",
        "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR",
        "PREFECT_LOGGING_LEVEL",
    }
    assert str(tmp_path) not in json.dumps(job)


def test_a_pool_s_request_is_complete(site: Site) -> None:
    """With the bootstrap, the labels and the environment that the worker sends."""
    pool = site.pool()
    (request,) = site.plans(*NEEDED, pool=pool, full=True)

    job = request["custom_job"]
    (first,) = job["job_spec"]["worker_pool_specs"]
    assert request["parent"] == "projects/forecasts/locations/us-central1"
    assert first["container_spec"]["image_uri"] == "i:1"
    assert first["container_spec"]["command"] == [
        "python3",
        "-c",
        packed_bootstrap(),
        *["prefect", "flow-run", "execute"],
    ]
    assert job["labels"]["prefect-io_work-pool-name"] == pool
    assert job["labels"]["prefect-vertex_attempt"] == "1"
    assert env_of(job)["PREFECT_API_URL"].startswith("http://127.0.0.1:")


def test_the_bootstrap_is_left_out_unless_asked_for(site: Site) -> None:
    """Nothing else is; a script has it all the same, because it is one to be run."""
    pool = site.pool()
    short = site.job(*NEEDED, pool=pool)
    whole = site.job(*NEEDED, pool=pool, full=True)
    script = site.text(*NEEDED, pool=pool, output_format="gcloud")

    (first,) = short["job_spec"]["worker_pool_specs"]
    source = packed_bootstrap()
    line = first["container_spec"]["command"][2]
    assert line.startswith("<the bootstrap of prefect-vertex ")
    assert f"{len(source):,} characters; see --full" in line
    assert json.loads(json.dumps(short).replace(json.dumps(line), json.dumps(source))) == whole
    assert source[:40] in script
    assert source[-9:] in script
    assert "see --full" not in script


def test_each_candidate_has_a_request_in_order(site: Site) -> None:
    requests = site.plans(
        *NEEDED,
        'regions=["us-east1"]',
        'strategy=["spot", "standard"]',
        pool=site.pool(),
    )

    tried = [
        (
            request["parent"].rpartition("/")[2],
            request["custom_job"]["job_spec"]["scheduling"].get("strategy", "STANDARD"),
        )
        for request in requests
    ]
    assert tried == [
        ("us-central1", "SPOT"),
        ("us-east1", "SPOT"),
        ("us-central1", "STANDARD"),
        ("us-east1", "STANDARD"),
    ]


@pytest.mark.parametrize("by_id", [True, False], ids=["id", "name"])
def test_a_deployment_s_variables_are_laid_over_the_pool_s(site: Site, by_id: bool) -> None:  # noqa: FBT001
    deployment_id, name = site.deployment(
        site.pool(),
        region="europe-west4",
        image="i:1",
        project="p",
        service_account_name="a@b.iam.gserviceaccount.com",
        env={"A": "1", "B": "2"},
    )

    job = site.job(
        "service_account_name=null",
        "env.B=3",
        "machine_type=n1-standard-8",
        deployment=str(deployment_id) if by_id else name,
    )

    (pool,) = job["job_spec"]["worker_pool_specs"]
    assert "service_account" not in job["job_spec"]
    assert pool["machine_spec"]["machine_type"] == "n1-standard-8"
    assert (env_of(job)["A"], env_of(job)["B"]) == ("1", "3")
    assert job["labels"]["prefect-io_flow-name"] == name.partition("/")[0]


def test_a_flow_run_s_request_is_for_that_run(site: Site) -> None:
    deployment_id, _ = site.deployment(site.pool(), region="us-central1", image="i:1", project="p")
    run = site.client.create_flow_run_from_deployment(
        deployment_id, job_variables={"machine_type": "n1-standard-16"}
    )

    job = site.job("worker_count=1", flow_run=str(run.id))

    (pool,) = job["job_spec"]["worker_pool_specs"]
    assert job["labels"]["prefect-io_flow-run-id"] == str(run.id)
    assert env_of(job)["PREFECT__FLOW_RUN_ID"] == str(run.id)
    assert pool["machine_spec"]["machine_type"] == "n1-standard-16"


def test_nothing_is_submitted_and_no_run_is_made(site: Site) -> None:
    """The deployment has as many runs as before: none."""
    deployment_id, name = site.deployment(
        site.pool(), region="us-central1", image="i:1", project="p"
    )

    site.job(deployment=name)

    runs = site.client.read_flow_runs()
    assert [run for run in runs if run.deployment_id == deployment_id] == []


def test_the_gcloud_script_names_what_it_is_for(site: Site) -> None:
    pool = site.pool()
    script = site.text(*NEEDED, pool=pool, output_format="gcloud")

    assert script.startswith("#!/bin/sh\n")
    assert f"work pool {pool}" in script.splitlines()[1]
    assert "--region=us-central1" in script
    assert packed_bootstrap()[:40] in script


def test_the_script_says_what_gcloud_does_in_another_way(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its own account, knows no emulator, and sends one candidate."""
    monkeypatch.setenv("VERTEX_AI_EMULATOR_HOST", "127.0.0.1:1")
    key = tmp_path / "key.json"
    key.write_text(json.dumps(KEY))
    script = site.text(
        *NEEDED,
        'regions=["us-east1"]',
        f'credentials={{"service_account_file": "{key}"}}',
        pool=site.pool(),
        output_format="gcloud",
    )

    notes = "\n".join(line for line in script.splitlines()[:9] if line.startswith("# "))
    for words in ("its own account", "knows no emulator", "2 candidates", "No flow run"):
        assert words in notes


def test_the_printed_script_is_one_that_a_shell_can_read(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(
        site.text(*NEEDED, 'regions=["us-east1"]', pool=site.pool(), output_format="gcloud")
    )

    assert subprocess.run(["/bin/sh", "-n", str(path)], check=False).returncode == 0


def test_what_a_user_should_know_stands_on_stderr(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what stands on stdout can be piped; here from a pool of prefect-gcp's worker."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-the-machine")
    pool = site.pool("vertex-ai", json.loads(STOCK.read_text()))

    (request,) = site.plans(*NEEDED[:2], "machine_typ=n1-standard-8", pool=pool)

    assert request["parent"] == "projects/of-the-machine/locations/us-central1"
    assert "warning: job variable 'machine_typ' is not one of this work pool's" in site.said
    assert "the closest is 'machine_type'" in site.said


def test_a_pool_of_another_type_is_warned_of(site: Site) -> None:
    """A worker takes it, with a warning of Prefect's, if started with this type."""
    site.job(*NEEDED, pool=site.pool("process"))
    assert "is of type 'process': this worker takes its runs only if started with" in site.said
    site.job(*NEEDED, pool=site.pool("vertex-ai"))
    assert "is of type" not in site.said


def test_a_text_that_json_changes_is_warned_of(site: Site) -> None:
    """It is what a run would get, which Prefect's own command reads in the same way."""
    pool = site.pool()
    job = site.job(*NEEDED, "env.V=1.10", "env.W=2", "labels.on=true", pool=pool)
    assert (env_of(job)["V"], env_of(job)["W"], job["labels"]["on"]) == ("1.1", "2", "true")
    assert [line.split()[2] for line in site.said.splitlines()] == ["env.V", "labels.on"]

    job = site.job(*NEEDED, 'env.V="1.10"', pool=pool)
    assert env_of(job)["V"] == "1.10"
    assert site.said == ""


def test_a_region_may_stand_first_in_a_value(site: Site) -> None:
    image = "{region}-docker.pkg.dev/p/i:1"
    (pool,) = site.job(NEEDED[0], NEEDED[2], f"image={image}", pool=site.pool())["job_spec"][
        "worker_pool_specs"
    ]
    assert pool["container_spec"]["image_uri"] == "us-central1-docker.pkg.dev/p/i:1"
