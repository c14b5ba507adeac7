"""Pools made for prefect-gcp's worker give the same job here, unchanged.

The fixtures have the shape and the names of two of its templates: that of release 0.6.22, and the
older one that Prefect's own server brings along.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.template import VertexJobConfiguration

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "planning" / "golden" / "carried_over.json"
TEMPLATES = ["prefect_gcp_0_6_22", "prefect_bundled"]

AWorld = Callable[..., Any]


def template(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((HERE / "fixtures" / f"{name}.json").read_text())
    return loaded


def planned(configuration: VertexJobConfiguration) -> JobPlan:
    spec = configuration.run_spec(default_project="forecasts")
    # Prefect's settings differ from one machine to the next.
    candidate = replace(spec.candidates[0], env={"SEASON": "12"})
    return build_plan(spec, candidate, attempt=1, bootstrap="pass")


FULL: dict[str, Any] = {
    "region": "us-central1",
    "image": "us-docker.pkg.dev/p/flows/forecast:1",
    "credentials": {"project": "of-block", "service_account_info": {"client_email": "key@p"}},
    "machine_type": "g2-standard-12",
    "accelerator_type": "NVIDIA_L4",
    "accelerator_count": 1,
    "boot_disk_size_gb": 150,
    "maximum_run_time_hours": 2,
    "network": "projects/12345/global/networks/net",
    "reserved_ip_ranges": ["range"],
    "service_account_name": "runner@p",
    "command": "prefect flow-run execute",
    "labels": {"team": "Demand"},
    "job_watch_poll_interval": 3,
}
NEWER = {
    "scheduling": {"strategy": "FLEX_START", "max_wait_duration": "1800s"},
    "enable_web_access": True,
    "enable_dashboard_access": True,
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_its_minimum_is_enough(a_world: AWorld, name: str) -> None:
    world = a_world(template=template(name), run={"region": "us-central1", "image": "i:1"})
    plan = planned(world.resolve())
    (pool,) = plan.request.custom_job.job_spec.worker_pool_specs
    assert plan.request.parent == "projects/forecasts/locations/us-central1"
    assert pool.machine_spec.machine_type == "n1-standard-4"
    assert pool.disk_spec.boot_disk_type == "pd-ssd"
    assert plan.request.custom_job.job_spec.scheduling.timeout == timedelta(hours=1)
    assert list(pool.container_spec.command) == [
        "python3",
        "-c",
        "pass",
        "prefect",
        "flow-run",
        "execute",
    ]
    assert plan.warnings == ()


def test_all_it_can_say_reaches_the_request(a_world: AWorld, update_golden: bool) -> None:  # noqa: FBT001
    world = a_world(template=template("prefect_gcp_0_6_22"), run={**FULL, **NEWER})
    plan = planned(world.resolve())
    if update_golden:
        GOLDEN.write_text(plan.as_json() + "\n", encoding="utf-8")
    assert json.loads(plan.as_json()) == json.loads(GOLDEN.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_null_is_unset_for_each_of_its_variables(a_world: AWorld, name: str) -> None:
    pool = template(name)
    needed = {"region": "us-central1", "image": "i:1"}
    unset = planned(a_world(template=pool, run=needed).resolve())
    for variable in set(pool["variables"]["properties"]) - set(needed):
        world = a_world(template=pool, run={**needed, variable: None})
        assert planned(world.resolve()) == unset


def test_its_run_policy_has_its_own_hours_and_poll_interval(a_world: AWorld) -> None:
    world = a_world(template=template("prefect_gcp_0_6_22"), run=FULL)
    policy = world.resolve().run_policy()
    assert (policy.timeout_seconds, policy.poll_interval_seconds) == (7200, 3)


def test_what_the_older_one_lacks_is_named(a_world: AWorld) -> None:
    world = a_world(template=template("prefect_bundled"), run={**FULL, **NEWER})
    configuration = world.resolve()
    named = [line.split("'")[1] for line in configuration.warnings if "is not one of" in line]
    assert named == sorted(NEWER)
    assert planned(configuration).request.custom_job.job_spec.enable_web_access is False


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_user_s_label_never_takes_the_identity_s_place(a_world: AWorld, name: str) -> None:
    """Its worker sets the user's labels last; a job is found again by these."""
    theirs = {
        "prefect.io/flow-run-id": "mine",
        "prefect-io_flow-run-id": "mine",
        "prefect-vertex_attempt": "7",
        "prefect.io/work-pool-name": "another",
    }
    world = a_world(template=template(name), run={**FULL, "labels": {**theirs, "team": "Demand"}})
    labels = planned(world.resolve()).labels
    assert labels["prefect-io_flow-run-id"] == str(world.flow_run.id)
    assert labels["prefect-vertex_attempt"] == "1"
    assert labels["prefect-io_work-pool-name"] == world.work_pool.name
    assert labels["team"] == "demand"


def test_a_variable_of_ours_that_its_template_lacks_is_said_to_be_newer(a_world: AWorld) -> None:
    """It is not misspelt, so no other name is proposed; one that nobody knows gets the closest."""
    run = {**FULL, "worker_count": 4, "machine_typ": "n1-standard-8"}
    configuration = a_world(template=template("prefect_gcp_0_6_22"), run=run).resolve()
    misspelt, newer = configuration.warnings[:2]
    assert "'machine_typ'" in misspelt
    assert "the closest is 'machine_type'" in misspelt
    assert "'worker_count'" in newer
    assert "closest" not in newer
    assert newer.endswith("It has no effect.")


def test_the_bundled_template_is_that_of_the_installed_server() -> None:
    """Prefect's own copy, without the parts of it that only describe."""
    views = files("prefect.server.api") / "collections_data" / "views"
    bundled = json.loads((views / "aggregate-worker-metadata.json").read_text(encoding="utf-8"))
    theirs = bundled["prefect-gcp"]["vertex-ai"]["default_base_job_configuration"]
    ours = template("prefect_bundled")
    assert ours["job_configuration"] == theirs["job_configuration"]
    assert set(ours["variables"]["properties"]) == set(theirs["variables"]["properties"])
    assert ours["variables"]["required"] == theirs["variables"]["required"]


def test_another_command_runs_behind_the_bootstrap_too(a_world: AWorld) -> None:
    world = a_world(
        template=template("prefect_gcp_0_6_22"),
        run={**FULL, "command": "python 'my flow.py'"},
    )
    (pool,) = planned(world.resolve()).request.custom_job.job_spec.worker_pool_specs
    assert list(pool.container_spec.command)[2:] == ["pass", "python", "my flow.py"]
