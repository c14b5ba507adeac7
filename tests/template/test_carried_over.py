"""Pools made for prefect-gcp's worker give the same job here, unchanged.

The fixtures have the shape and the names of two of its templates: that of release 0.6.22, and the
older one that Prefect's own server brings along.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
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
    "machine_type": "n1-standard-8",
    "accelerator_type": "NVIDIA_TESLA_T4",
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
    assert [line.split("'")[1] for line in configuration.warnings] == sorted(NEWER)
    assert planned(configuration).request.custom_job.job_spec.enable_web_access is False


def test_another_command_runs_behind_the_bootstrap_too(a_world: AWorld) -> None:
    world = a_world(
        template=template("prefect_gcp_0_6_22"),
        run={**FULL, "command": "python 'my flow.py'"},
    )
    (pool,) = planned(world.resolve()).request.custom_job.job_spec.worker_pool_specs
    assert list(pool.container_spec.command)[2:] == ["pass", "python", "my flow.py"]
