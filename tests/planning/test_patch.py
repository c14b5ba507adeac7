"""job_spec_patch: RFC 6902 on the whole CustomJob."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from prefect_vertex.errors import MachineSpecError, PlanError
from prefect_vertex.planning.naming import FLOW_RUN_LABEL
from prefect_vertex.planning.patch import patched
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.spec import RunIdentity

APlan = Callable[..., JobPlan]

JOB = {"job_spec": {"network": "n", "worker_pool_specs": [{"replica_count": 1}]}, "labels": {}}
FIRST = "/job_spec/worker_pool_specs/0"


def op(kind: str, path: str, value: Any = None) -> dict[str, Any]:
    return {"op": kind, "path": path, "value": value}


def test_operations_are_applied_in_their_order_and_change_no_argument() -> None:
    operations = [
        op("add", "/job_spec/experiment", "a"),
        op("test", "/job_spec/experiment", "a"),
        {"op": "move", "from": "/job_spec/experiment", "path": "/job_spec/tensorboard"},
        {"op": "remove", "path": "/job_spec/network"},
        op("replace", f"{FIRST}/replica_count", 2),
        op("add", "/job_spec/worker_pool_specs/-", {"labels": {}}),
    ]
    before = copy.deepcopy((JOB, operations))
    assert patched(JOB, operations)["job_spec"] == {
        "tensorboard": "a",
        "worker_pool_specs": [{"replica_count": 2}, {"labels": {}}],
    }
    assert (JOB, operations) == before


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (op("replac", "/labels"), r"patch\[0\] has the op 'replac'; the closest is replace"),
        ({"path": "/labels"}, r"patch\[0\] has the op None"),
        (op("add", "labels", {}), r"patch\[0\] \(add\) has the path 'labels', which does not"),
        ({"op": "add"}, r"patch\[0\] \(add\) has the path None"),
        ({"op": "add", "path": "/labels"}, r"\(add /labels\) cannot be applied.*'value'"),
        (op("replace", "/job_spec/netwrk", 1), r"\(replace /job_spec/netwrk\) cannot be applied"),
        (op("add", "/job_spec/scheduling/timeout", 1), "member 'scheduling' not found"),
        (op("add", "/job_spec/worker_pool_specs/7", {}), "cannot be applied: can't insert outside"),
        (op("test", "/job_spec/network", "m"), r"\(test /job_spec/network\) found another value"),
        ({"op": "remove", "path": ""}, "remove the whole job"),
        (op("replace", "", 3), "leaves no CustomJob"),
        (op("add", "/jobSpec/network", "n"), "'jobSpec' the JSON way.*Write 'job_spec'"),
        ("add", r"patch\[0\] is 'add', expected a mapping"),
    ],
)
def test_an_operation_that_fails_is_named_in_one_line(operation: Any, words: str) -> None:
    with pytest.raises(PlanError, match=words) as caught:
        patched(JOB, [operation])
    assert caught.value.variable == "job_spec_patch"
    assert "\n" not in str(caught.value)


def test_the_operation_at_fault_is_named_by_its_place() -> None:
    with pytest.raises(PlanError, match=r"^job_spec_patch\[1\] \(remove /x\)"):
        patched(JOB, [op("add", "/y", 1), {"op": "remove", "path": "/x"}])


@pytest.mark.parametrize(
    "operation",
    [
        op("test", "/env/0/value", "pnu_guess"),
        op("test", "/env/7", "pnu_guess"),
        op("replace", "/env/0/title/x", "pnu_guess"),
        op("add", "/env/x", "pnu_guess"),
        op("replace", "/envs/0", "pnu_guess"),
        {"op": "remove", "path": "/env/0/title"},
    ],
    ids=lambda operation: f"{operation['op']} {operation['path']}",
)
def test_no_value_of_the_job_stands_in_a_message(operation: dict[str, Any]) -> None:
    with pytest.raises(PlanError) as caught:
        patched({"env": [{"name": "PREFECT_API_KEY", "value": "pnu_secret"}]}, [operation])
    assert "pnu_" not in str(caught.value)


# --- in a plan -----------------------------------------------------------------------------------


def test_a_patch_reaches_what_the_variables_made(a_plan: APlan) -> None:
    plan = a_plan(
        worker_count=3,
        env={"A": "1", "B": "2"},
        labels={"team": "x"},
        spec={"scheduling": {"timeout": timedelta(hours=1), "strategy": 4}},
        job_spec_patch=[
            op("test", "/job_spec/scheduling", {"timeout": "3600s", "strategy": "SPOT"}),
            op("replace", "/job_spec/scheduling/timeout", "PT2H"),
            op("replace", "/job_spec/worker_pool_specs/1/replica_count", 5),
            op("replace", f"{FIRST}/machine_spec/machine_type", "n1-standard-8"),
            op("test", f"{FIRST}/container_spec/env/0", {"name": "A", "value": "1"}),
            op("replace", f"{FIRST}/container_spec/env/0/value", "$(B)"),
            op("add", "/labels/cost-centre", "C 7"),
            op("add", "/encryption_spec", {"kms_key_name": KEY}),
        ],
    )
    job = plan.request.custom_job
    pools = job.job_spec.worker_pool_specs
    env = {entry.name: entry.value for entry in pools[0].container_spec.env}
    assert job.job_spec.scheduling.timeout == timedelta(hours=2)
    assert [pool.replica_count for pool in pools] == [1, 5]
    assert pools[0].machine_spec.machine_type == "n1-standard-8"
    assert (env["A"], env["B"]) == ("$(B)", "2")
    assert {entry.name: entry.value for entry in pools[1].container_spec.env}["A"] == "1"
    assert (job.labels["team"], job.labels["cost-centre"]) == ("x", "c-7")
    assert job.encryption_spec.kms_key_name == KEY


KEY = "projects/p/locations/europe-west4/keyRings/r/cryptoKeys/k"


def test_name_identity_and_bootstrap_come_after_the_patch(
    a_plan: APlan, identity: RunIdentity
) -> None:
    plan = a_plan(
        job_spec_patch=[
            op("replace", "/display_name", "mine"),
            op("add", f"/labels/{FLOW_RUN_LABEL}", "mine"),
            op("replace", f"{FIRST}/container_spec/command", ["torchrun"]),
            op("add", f"{FIRST}/container_spec/env/-", {"name": "PREFECT_VERTEX_ATTEMPT"}),
        ],
    )
    job = plan.request.custom_job
    container = job.job_spec.worker_pool_specs[0].container_spec
    assert job.display_name == plan.display_name == "crafty-mongoose-0f1e2d3c-a1"
    assert job.labels[FLOW_RUN_LABEL] == identity.flow_run_id
    assert list(container.command) == ["python3", "-c", "pass", "torchrun"]
    assert "1" in [e.value for e in container.env if e.name == "PREFECT_VERTEX_ATTEMPT"]
    assert any("display_name" in line and "set name" in line for line in plan.warnings)
    assert any(FLOW_RUN_LABEL in line for line in plan.warnings)


def test_a_pool_that_a_patch_adds_runs_as_it_is(a_plan: APlan) -> None:
    server = {"container_spec": {"image_uri": "server:1"}, "replica_count": 2}
    plan = a_plan(
        env={"A": "1"},
        job_spec_patch=[
            op("add", "/job_spec/worker_pool_specs/-", None),
            op("add", "/job_spec/worker_pool_specs/-", server),
        ],
    )
    pools = plan.request.custom_job.job_spec.worker_pool_specs
    assert [pool.replica_count for pool in pools] == [1, 0, 2]
    assert list(pools[2].container_spec.command) == []
    assert pools[2].machine_spec.machine_type == "n1-standard-4"


@pytest.mark.parametrize("changes", [{"image_uri": "own:1"}, {"command": ["reduce"]}])
def test_a_server_that_a_patch_gives_an_image_or_command_runs_as_it_is(
    a_plan: APlan, changes: dict[str, Any]
) -> None:
    pools = [{"container_spec": {"image_uri": "first:1"}}, {}, {"replica_count": 1}]
    target = "/job_spec/worker_pool_specs/2/container_spec"
    operations = [op("add", f"{target}/{key}", value) for key, value in changes.items()]

    def command(**patch: Any) -> list[str]:
        plan = a_plan(spec={"worker_pool_specs": pools}, **patch)
        return list(plan.request.custom_job.job_spec.worker_pool_specs[2].container_spec.command)

    assert command()[:3] == ["python3", "-c", "pass"]
    assert "-c" not in command(job_spec_patch=operations)


@pytest.mark.parametrize(
    ("operation", "words", "kind"),
    [
        (op("add", "/job_spec/netwrk", "x"), "job_spec has no field 'netwrk'", PlanError),
        (op("add", "/encryption", {}), "custom_job has no field 'encryption'", PlanError),
        (op("add", "/state", "JOB_STATE_RUNNING"), "only Vertex AI sets", PlanError),
        ({"op": "remove", "path": "/job_spec"}, "job_spec of the job is gone", PlanError),
        (op("replace", "/job_spec/worker_pool_specs", []), "no first pool left", PlanError),
        (op("replace", "/labels", ["x"]), "labels of the job is not a mapping", PlanError),
        (op("add", f"{FIRST}/replica_count", 4), "always has one replica", PlanError),
        (op("replace", f"{FIRST}/container_spec/env", "A=1"), "not a list of name", PlanError),
        (op("replace", f"{FIRST}/container_spec/image_uri", " "), "image is not set", PlanError),
        (
            op("add", f"{FIRST}/machine_spec/accelerator_type", "NVIDIA_L4"),
            "accelerator_count is not set",
            MachineSpecError,
        ),
    ],
)
def test_what_a_patch_makes_is_judged_like_anything_else(
    a_plan: APlan, operation: dict[str, Any], words: str, kind: type[PlanError]
) -> None:
    with pytest.raises(kind, match=words):
        a_plan(job_spec_patch=[operation])


def test_a_null_that_a_patch_sets_is_unset(a_plan: APlan) -> None:
    spec = {"enable_web_access": True}
    plan = a_plan(spec=spec, job_spec_patch=[op("replace", "/job_spec/enable_web_access", None)])
    assert not plan.request.custom_job.job_spec.enable_web_access
