"""build_plan: a run and a candidate become one complete request."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prefect_vertex.errors import MachineSpecError, NamingError, PlanError, SchedulingError
from prefect_vertex.planning.naming import ATTEMPT_LABEL, FLOW_RUN_LABEL, WORK_POOL_LABEL
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.spec import Candidate, RunIdentity, Target

APlan = Callable[..., JobPlan]
ACandidate = Callable[..., Candidate]
Golden = Callable[[JobPlan, str], None]

GPU = {
    "machine_spec": {
        "machine_type": "g2-standard-24",
        "accelerator_type": "nvidia-l4",
        "accelerator_count": 2,
    },
    "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 300},
}
IMAGE = "europe-docker.pkg.dev/p/flows/forecast:1"


def environment(plan: JobPlan, pool: int = 0) -> dict[str, str]:
    container = plan.request.custom_job.job_spec.worker_pool_specs[pool].container_spec
    return {entry.name: entry.value for entry in container.env}


def test_the_job_is_created_where_the_candidate_says(a_plan: APlan) -> None:
    plan = a_plan(credentials_key="abc")
    assert plan.target == Target("forecasts", "europe-west4", "abc")
    assert plan.request.parent == "projects/forecasts/locations/europe-west4"


def test_env_and_command_land_in_every_container_pool(a_plan: APlan) -> None:
    plan = a_plan(worker_count=4, env={"A": "1"}, bootstrap="import os")
    pools = plan.request.custom_job.job_spec.worker_pool_specs
    assert [pool.replica_count for pool in pools] == [1, 3]
    for index, pool in enumerate(pools):
        assert environment(plan, index)["A"] == "1"
        assert list(pool.container_spec.command) == [
            "python3",
            "-c",
            "import os",
            "prefect",
            "flow-run",
            "execute",
        ]


def test_a_command_of_the_templates_own_runs_behind_the_bootstrap(a_plan: APlan) -> None:
    container = {"image_uri": IMAGE, "command": ["torchrun"], "args": ["a.py"]}
    plan = a_plan(pool={"container_spec": container})
    sent = plan.request.custom_job.job_spec.worker_pool_specs[0].container_spec
    assert list(sent.command) == ["python3", "-c", "pass", "torchrun"]
    assert list(sent.args) == ["a.py"]


def test_servers_of_their_own_get_the_env_and_no_bootstrap(a_plan: APlan) -> None:
    server = {"container_spec": {"image_uri": "server"}}
    plan = a_plan(
        env={"A": "1"},
        spec={"worker_pool_specs": [{"container_spec": {"image_uri": IMAGE}}, {}, server]},
    )
    pools = plan.request.custom_job.job_spec.worker_pool_specs
    assert list(pools[2].container_spec.command) == []
    assert environment(plan, 2)["A"] == "1"
    assert pools[1] == type(pools[1])()


def test_a_python_package_gets_the_env_and_the_user_a_warning(a_plan: APlan) -> None:
    package = {"executor_image_uri": "e", "package_uris": ["gs://b/p"], "python_module": "m"}
    pool = {"python_package_spec": package}
    plan = a_plan(env={"A": "1"}, spec={"worker_pool_specs": [pool]})
    sent = plan.request.custom_job.job_spec.worker_pool_specs[0].python_package_spec
    assert {entry.name for entry in sent.env} >= {"A", "PREFECT_VERTEX_ATTEMPT"}
    assert "not the bootstrap" in plan.warnings[0]


def test_the_platforms_variables_cannot_be_overridden(a_plan: APlan) -> None:
    plan = a_plan(
        attempt=3,
        env={"PREFECT_VERTEX_ATTEMPT": "9", "PREFECT__FLOW_RUN_ID": "other", "EXTRA": "own"},
        platform_env={"EXTRA": "ours"},
    )
    values = environment(plan)
    assert values["PREFECT_VERTEX_ATTEMPT"] == "3"
    assert values["PREFECT__FLOW_RUN_ID"] == "0f1e2d3c-1111-4222-8333-444455556666"
    assert values["EXTRA"] == "ours"
    assert len(plan.warnings) == 3


def test_the_identity_is_on_the_job_whatever_the_user_sets(
    a_plan: APlan,
    identity: RunIdentity,
) -> None:
    mine = {f"label-{number}": "x" for number in range(100)}
    plan = a_plan(attempt=7, labels={**mine, "prefect-vertex_attempt": "1"})
    labels = dict(plan.request.custom_job.labels)
    assert len(labels) == 64
    assert labels[FLOW_RUN_LABEL] == identity.flow_run_id
    assert labels[WORK_POOL_LABEL] == identity.work_pool_id
    assert labels[ATTEMPT_LABEL] == "7"
    assert labels["prefect-io_flow-name"] == "monthly-forecast"
    assert labels == plan.labels
    assert "prefect-vertex_attempt" in plan.dropped_labels
    assert len(plan.warnings) == len(plan.dropped_labels)


def test_the_display_name_is_the_runs_where_none_is_set(a_plan: APlan) -> None:
    assert a_plan().display_name == "crafty-mongoose-0f1e2d3c-a1"
    assert a_plan(name=" \n").display_name == "crafty-mongoose-0f1e2d3c-a1"
    assert a_plan(name="mine", attempt=4).request.custom_job.display_name == "mine-0f1e2d3c-a4"


def test_a_region_that_is_not_known_is_a_warning(a_plan: APlan) -> None:
    assert "mars-north1" in a_plan(location="mars-north1").warnings[0]


def test_secret_values_are_sent_and_never_shown(a_plan: APlan) -> None:
    plan = a_plan(
        env={"PREFECT_API_KEY": "pnu_secret"},
        secret_env=frozenset({"PREFECT_API_KEY"}),
        worker_count=2,
    )
    assert environment(plan, 1)["PREFECT_API_KEY"] == "pnu_secret"
    assert "pnu_secret" not in plan.as_json()
    assert "pnu_secret" not in repr(plan)


def test_the_json_is_in_the_templates_own_spelling(a_plan: APlan) -> None:
    shown = json.loads(a_plan(pool=GPU).as_json())
    machine = shown["custom_job"]["job_spec"]["worker_pool_specs"][0]["machine_spec"]
    assert machine == {
        "machine_type": "g2-standard-24",
        "accelerator_type": "NVIDIA_L4",
        "accelerator_count": 2,
    }


@pytest.mark.parametrize(
    ("changes", "kind", "variable"),
    [
        ({"pool": {"container_spec": {}, "replica_count": 1}}, PlanError, "image"),
        ({"pool": {"container_spec": {"imageUri": "x"}}}, PlanError, "job_spec"),
        ({"spec": {"netwrk": "x"}}, PlanError, "job_spec"),
        ({"spec": {"worker_pool_specs": []}}, PlanError, "job_spec"),
        ({"spec": {"tensorboard": "projects/p"}}, PlanError, "service_account_name"),
        ({"spec": {"scheduling": {"strategy": "x"}}}, SchedulingError, "strategy"),
        ({"spec": {"scheduling": {"max_wait_duration": 5}}}, SchedulingError, "scheduling"),
        ({"spec": {"scheduling": {"timeout": "long"}}}, SchedulingError, "timeout"),
        (
            {"pool": {"machine_spec": {"accelerator_type": "X"}}},
            MachineSpecError,
            "accelerator_type",
        ),
        ({"location": "global"}, NamingError, "region"),
        ({"project": "projects/p"}, NamingError, "project"),
        ({"env": {"A B": "1"}}, PlanError, "env"),
        ({"worker_count": 0}, PlanError, "worker_count"),
        ({"attempt": 0}, PlanError, ""),
    ],
)
def test_what_vertex_would_refuse_is_refused_here_in_one_line(
    a_plan: APlan,
    changes: dict[str, Any],
    kind: type[PlanError],
    variable: str,
) -> None:
    with pytest.raises(kind) as caught:
        a_plan(**changes)
    assert caught.value.variable == variable
    assert "\n" not in str(caught.value)


def test_hardware_may_be_sent_unjudged(a_plan: APlan) -> None:
    pool = {"machine_spec": {"accelerator_type": "NVIDIA_L4", "accelerator_count": 1}}
    with pytest.raises(MachineSpecError):
        a_plan(pool=pool)
    assert "validate_hardware" in a_plan(pool=pool, validate_hardware="warn").warnings[0]


TEXTS = st.text(min_size=1, max_size=20)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30)
NAMES = st.from_regex(r"[A-Z][A-Z0-9_]{0,10}", fullmatch=True)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    changes=st.fixed_dictionaries(
        {
            "env": st.dictionaries(NAMES, VALUES, max_size=120),
            "labels": st.dictionaries(TEXTS, st.text(max_size=80), max_size=80),
            "name": st.text(max_size=200),
            "worker_count": st.integers(min_value=1, max_value=40),
        },
    ),
    attempt=st.integers(min_value=1, max_value=99),
)
def test_equal_inputs_give_equal_plans_and_stay_as_they_were(
    a_candidate: ACandidate,
    a_plan: APlan,
    changes: dict[str, Any],
    attempt: int,
) -> None:
    candidate = a_candidate(**changes)
    before = copy.deepcopy(candidate)
    first = a_plan(candidate=candidate, attempt=attempt)
    second = a_plan(candidate=copy.deepcopy(candidate), attempt=attempt)
    assert first == second
    assert first.as_json() == second.as_json()
    assert candidate == before
    pools = first.request.custom_job.job_spec.worker_pool_specs
    assert sum(pool.replica_count for pool in pools) == candidate.worker_count


def test_attempts_of_one_run_differ_only_in_their_number(a_plan: APlan) -> None:
    first, second = a_plan(attempt=1).as_json(), a_plan(attempt=2).as_json()
    assert first.replace("-a1", "-a2").replace('"1"', '"2"') == second.replace('"1"', '"2"')


def test_a_candidate_can_be_changed_for_another_place(
    a_candidate: ACandidate,
    a_plan: APlan,
) -> None:
    moved = replace(a_candidate(), location="us-central1")
    assert a_plan(candidate=moved).request.parent.endswith("/locations/us-central1")


def test_the_pure_modules_load_without_google() -> None:
    program = (
        "import sys\n"
        "from prefect_vertex.planning import command, fields, machines, pools, scheduling, spec\n"
        "heavy = ('google.protobuf', 'google.api_core', 'google.cloud.aiplatform', 'grpc')\n"
        "found = [name for name in sys.modules if name.startswith(heavy)]\n"
        "sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
