"""worker_pools, the scheduling variables, and what they may contradict."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.template import VertexJobConfiguration, base_job_template

AWorld = Callable[..., Any]
Resolved = Callable[..., VertexJobConfiguration]

KEY = "projects/p/locations/europe-west4/keyRings/r/cryptoKeys/k"


def plans(configuration: VertexJobConfiguration) -> list[JobPlan]:
    spec = configuration.run_spec(default_project="p")
    return [build_plan(spec, each, attempt=1, bootstrap="pass") for each in spec.candidates]


def job_spec(configuration: VertexJobConfiguration) -> types.CustomJobSpec:
    return plans(configuration)[0].request.custom_job.job_spec


# --- worker_pools --------------------------------------------------------------------------------


def test_an_entry_changes_only_what_it_says(resolved: Resolved) -> None:
    own = {"machine_spec": {"machine_type": "n1-highmem-8"}, "disk_spec": {"boot_disk_type": "x"}}
    first, second = job_spec(
        resolved(worker_count=3, boot_disk_size_gb=200, worker_pools=[{}, own]),
    ).worker_pool_specs
    assert first.machine_spec.machine_type == "n1-standard-4"
    assert second.machine_spec.machine_type == "n1-highmem-8"
    assert second.replica_count == 2
    assert second.container_spec.image_uri == first.container_spec.image_uri
    assert list(second.container_spec.command) == list(first.container_spec.command)


def test_an_entry_over_the_first_pool_leaves_the_rest_of_it(resolved: Resolved) -> None:
    entry = {"disk_spec": {"boot_disk_type": "pd-standard"}}
    (pool,) = job_spec(resolved(boot_disk_size_gb=200, worker_pools=[entry])).worker_pool_specs
    assert (pool.disk_spec.boot_disk_type, pool.disk_spec.boot_disk_size_gb) == ("pd-standard", 200)


def test_a_pool_of_another_machine_keeps_what_it_does_not_say_of_the_disk(
    resolved: Resolved,
) -> None:
    own = {
        "machine_spec": {"machine_type": "n1-highmem-8"},
        "disk_spec": {"boot_disk_size_gb": 500},
    }
    disk = {"boot_disk_type": "pd-standard", "boot_disk_size_gb": 300}
    pools = job_spec(resolved(**disk, worker_count=2, worker_pools=[{}, own])).worker_pool_specs
    disks = [(pool.disk_spec.boot_disk_type, pool.disk_spec.boot_disk_size_gb) for pool in pools]
    assert disks == [("pd-standard", 300), ("pd-standard", 500)]
    assert pools[1].machine_spec.machine_type == "n1-highmem-8"


@pytest.mark.parametrize("empty", [{}, None])
def test_an_empty_entry_keeps_an_unused_pools_place(resolved: Resolved, empty: Any) -> None:
    server = {"container_spec": {"image_uri": "server:1"}, "replica_count": 2}
    pools = job_spec(resolved(worker_pools=[empty, empty, server, empty])).worker_pool_specs
    assert [pool.replica_count for pool in pools] == [1, 0, 2]
    assert list(pools[2].container_spec.command) == []


def test_empty_entries_change_nothing(resolved: Resolved) -> None:
    assert plans(resolved(worker_pools=[{}, {}])) == plans(resolved())


def test_env_is_merged_by_name_and_a_null_unsets(a_world: AWorld) -> None:
    template = base_job_template()
    pool = template["job_configuration"]["job_spec"]["worker_pool_specs"][0]
    pool["container_spec"]["env"] = [{"name": name, "value": "template"} for name in "ABC"]
    entry = {"container_spec": {"env": {"A": "entry", "B": None, "D": "$(A)"}}}
    run = {"region": "europe-west4", "image": "i:1", "worker_count": 2, "env": {"B": "job"}}
    configuration = a_world(template=template, run={**run, "worker_pools": [entry]}).resolve()
    for made in job_spec(configuration).worker_pool_specs:
        values = {item.name: item.value for item in made.container_spec.env}
        assert [values.get(name) for name in "ABCD"] == ["entry", None, "template", "$(A)"]
        assert len(values) == len(made.container_spec.env)


NO_FOO: list[Any] = [{"FOO": None}, [{"name": "FOO", "value": None}], [{"name": "FOO"}]]


@pytest.mark.parametrize("env", NO_FOO, ids=str)
@pytest.mark.parametrize("task", ["container_spec", "python_package_spec"])
def test_a_null_in_a_pools_env_unsets_the_variable_s(
    resolved: Resolved, task: str, env: Any
) -> None:
    """However the env is written; other pools keep theirs."""
    package = {"executor_image_uri": "e", "package_uris": ["gs://b/p"], "python_module": "m"}
    own = {**(package if task == "python_package_spec" else {}), "env": env}
    spec = job_spec(
        resolved(
            env={"FOO": "1", "BAR": "2"},
            worker_count=2,
            replicas="command",
            worker_pools=[{}, {task: own}],
        )
    )
    names = [
        {entry.name for entry in getattr(pool, chosen).env}
        for pool, chosen in zip(spec.worker_pool_specs, ("container_spec", task), strict=True)
    ]
    assert {"FOO", "BAR"} <= names[0]
    assert (names[1] & {"FOO", "BAR"}) == {"BAR"}


@pytest.mark.parametrize("env", NO_FOO, ids=str)
def test_a_null_in_a_patched_env_unsets_the_variable_s(resolved: Resolved, env: Any) -> None:
    path = "/job_spec/worker_pool_specs/0/container_spec/env"
    patch = [{"op": "add", "path": path, "value": env}]
    (pool,) = job_spec(resolved(env={"FOO": "1"}, job_spec_patch=patch)).worker_pool_specs
    assert "FOO" not in {entry.name for entry in pool.container_spec.env}


def test_a_null_in_an_entry_unsets_what_the_template_says(resolved: Resolved) -> None:
    entry = {"machine_spec": {"machine_type": "n2-standard-8", "accelerator_type": None}}
    gpu = {"accelerator_type": "NVIDIA_TESLA_T4", "accelerator_count": 1}
    entry["machine_spec"]["accelerator_count"] = None
    (pool,) = job_spec(resolved(**gpu, worker_pools=[entry])).worker_pool_specs
    assert pool.machine_spec.accelerator_count == 0


def test_a_package_takes_the_place_of_the_container(resolved: Resolved) -> None:
    package = {"executor_image_uri": "e", "package_uris": ["gs://b/p"], "python_module": "m"}
    (pool,) = job_spec(resolved(worker_pools=[{"python_package_spec": package}])).worker_pool_specs
    assert pool.python_package_spec.python_module == "m"
    assert "container_spec" not in pool


@pytest.mark.parametrize(
    ("pools", "words"),
    [
        ([{"machine": {"type": 1}}], r"worker_pool_specs\[0\] has no field 'machine'"),
        (["x"], "worker_pools.0 is 'x', expected a valid dictionary"),
        ({"machine_spec": {}}, "expected a valid list"),
        ([{"container_spec": "x"}], r"\[0\]\.container_spec is not a mapping"),
        ([{"replica_count": 2}], "the first pool always has one replica"),
    ],
)
def test_pools_that_are_none_are_refused(resolved: Resolved, pools: Any, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        plans(resolved(worker_pools=pools))


# --- scheduling ----------------------------------------------------------------------------------


def test_what_the_scheduling_options_say_wins_over_the_variables(resolved: Resolved) -> None:
    own = {"max_wait_duration": 60, "restart_job_on_worker_restart": False}
    variables = {"max_wait_duration": "1h", "restart_job_on_worker_restart": True}
    scheduling = job_spec(
        resolved(**variables, scheduling=own, strategy="FLEX_START", **L4),
    ).scheduling
    assert scheduling.max_wait_duration == timedelta(seconds=60)
    assert not scheduling.restart_job_on_worker_restart


L4 = {"machine_type": "g2-standard-8", "accelerator_type": "NVIDIA_L4", "accelerator_count": 1}


@pytest.mark.parametrize("where", ["variable", "options"])
def test_only_the_candidate_that_can_wait_is_told_how_long(resolved: Resolved, where: str) -> None:
    wait = {"max_wait_duration": "1800s"}
    variables = wait if where == "variable" else {"scheduling": wait}
    found = plans(resolved(**L4, strategy=["FLEX_START", "STANDARD"], **variables))
    waits = [plan.request.custom_job.job_spec.scheduling.max_wait_duration for plan in found]
    assert waits == [timedelta(minutes=30), timedelta(0)]


def waits_of(configuration: VertexJobConfiguration) -> list[Any]:
    return [
        plan.request.custom_job.job_spec.scheduling.max_wait_duration
        for plan in plans(configuration)
    ]


@pytest.mark.parametrize("emptied", [None, "", " "])
def test_an_emptied_field_of_the_options_is_as_good_as_none(
    resolved: Resolved, emptied: str | None
) -> None:
    wait = {**L4, "max_wait_duration": "1800s"}
    single = resolved(**wait, strategy="FLEX_START", scheduling={"max_wait_duration": emptied})
    several = resolved(
        **wait, strategy=["FLEX_START", "STANDARD"], scheduling={"strategy": emptied}
    )
    assert waits_of(single) == [timedelta(minutes=30)]
    assert waits_of(several) == [timedelta(minutes=30), timedelta(0)]


def test_an_entry_may_leave_the_waiting_to_another(resolved: Resolved) -> None:
    entries = [{"strategy": "FLEX_START", "max_wait_duration": "60s"}, {"strategy": "STANDARD"}]
    configuration = resolved(**L4, max_wait_duration="1800s", candidates=entries)
    assert waits_of(configuration) == [timedelta(minutes=1), timedelta(0)]


@pytest.mark.parametrize(
    "variables",
    [
        {"max_wait_duration": "1800s", "regions": ["us-east1"]},
        {"scheduling": {"max_wait_duration": "1800s"}, "regions": ["us-east1"]},
        {"max_wait_duration": "1800s", "strategy": ["SPOT", "STANDARD"]},
        *(
            {"candidates": [{"strategy": "FLEX_START"}, {"strategy": "SPOT", **named}]}
            for named in (
                {"max_wait_duration": "600s"},
                {"scheduling.max_wait_duration": "600s"},
                {"scheduling": {"max_wait_duration": "600s"}},
            )
        ),
    ],
    ids=str,
)
def test_a_wait_that_no_candidate_or_not_this_one_can_do_is_refused(
    resolved: Resolved, variables: dict[str, Any]
) -> None:
    """As it is for one candidate alone."""
    with pytest.raises(PlanError, match=r"candidate \d of 2 .* only taken with FLEX_START"):
        plans(resolved(**L4, **variables))


def test_a_single_strategy_that_cannot_wait_is_refused(resolved: Resolved) -> None:
    with pytest.raises(PlanError, match="only taken with FLEX_START"):
        plans(resolved(max_wait_duration="1800s"))


def test_a_restart_needs_retries(resolved: Resolved) -> None:
    with pytest.raises(PlanError, match="Set disable_retries to false"):
        plans(resolved(restart_job_on_worker_restart=True))


# --- twice, and null -----------------------------------------------------------------------------

EVERYTHING: dict[str, Any] = {
    "worker_count": 3,
    "env": {"A": "$(B)", "BIG": "x" * 50_000},
    "labels": {"team": "Ä"},
    "worker_pools": [{}, {"disk_spec": {"boot_disk_size_gb": 300}}, {"replica_count": 1}],
    "psc_interface_config": {"dns_peering_configs": [{"domain": "a.", "target_project": "p"}]},
    "encryption_spec_key": KEY,
    "scheduling": {"timeout": "PT3H"},
    "setup_command": ['export A="$HOME"'],
    "job_spec_patch": [{"op": "add", "path": "/job_spec/models", "value": ["m"]}],
}


def test_rendering_twice_gives_equal_requests_and_changes_nothing(resolved: Resolved) -> None:
    configuration = resolved(**EVERYTHING)
    before = copy.deepcopy(configuration.model_dump())
    first, second = plans(configuration), plans(configuration)
    assert first == second
    assert first[0].request == second[0].request
    assert configuration.model_dump() == before


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every key of the template's job configuration."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += paths(item, (*path, key))
    return found


CONFIGURATION = base_job_template()["job_configuration"]
NEEDED = [("job_spec",), ("job_spec", "worker_pool_specs"), ("region",)]
NULLABLE = [
    path
    for path in paths(CONFIGURATION)
    if path not in NEEDED and path[:3] != ("job_spec", "worker_pool_specs", 0)
]


@pytest.mark.parametrize("path", NULLABLE, ids=lambda path: ".".join(map(str, path)))
def test_a_null_anywhere_in_the_template_is_the_same_as_nothing(
    a_world: AWorld, path: tuple[Any, ...]
) -> None:
    template = base_job_template()
    parent = template["job_configuration"]
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = None
    run = {"region": "europe-west4", "image": "i:1"}
    with_null = plans(a_world(template=template, run=run).resolve())
    del parent[path[-1]]
    assert with_null == plans(a_world(template=template, run=run).resolve())


def test_contradicting_encryption_keys_are_refused(a_world: AWorld) -> None:
    template = base_job_template()
    template["job_configuration"]["job_spec"]["encryption_spec"] = {"kms_key_name": KEY}
    run = {"region": "europe-west4", "image": "i:1", "encryption_spec_key": f"{KEY}2"}
    with pytest.raises(PlanError, match="the two differ") as caught:
        plans(a_world(template=template, run=run).resolve())
    assert caught.value.variable == "encryption_spec_key"
