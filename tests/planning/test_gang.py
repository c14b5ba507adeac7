"""What the replicas of a job are told: what each runs, when they begin, how much at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.plan import JobPlan

APlan = Callable[..., JobPlan]

IMAGE = {"image_uri": "europe-docker.pkg.dev/p/flows/forecast:1"}
PACKAGE = {"executor_image_uri": "e", "package_uris": ["gs://b/p"], "python_module": "m"}
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
GANG = ("PREFECT_VERTEX_REPLICAS", "PREFECT_VERTEX_GANG", "PREFECT_VERTEX_GANG_SECONDS")
SLOTS = ("PREFECT_VERTEX_SLOTS", "PREFECT_VERTEX_SLOT_CORES", "PREFECT_VERTEX_SLOT_MEMORY_MB")
N2 = {"machine_spec": {"machine_type": "n2-standard-8"}}


def environment(plan: JobPlan, pool: int = 0) -> dict[str, str]:
    spec = plan.request.custom_job.job_spec.worker_pool_specs[pool]
    task = spec.container_spec if spec.container_spec.image_uri else spec.python_package_spec
    return {entry.name: entry.value for entry in task.env}


def chosen(plan: JobPlan, names: tuple[str, ...], pool: int = 0) -> list[str | None]:
    found = environment(plan, pool)
    return [found.get(name) for name in names]


# --- the gang -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, ["flow", "1", None]),
        ({"gang_seconds": 600.0}, ["flow", "1", "600"]),
        ({"gang_seconds": 0.5}, ["flow", "1", "0.5"]),
        ({"gang_start": False, "gang_seconds": 600.0}, ["flow", None, None]),
        ({"replicas": "command"}, ["command", "1", None]),
        ({"replicas": "command", "gang_start": False}, ["command", None, None]),
    ],
)
def test_every_counted_replica_is_told_the_same(
    a_plan: APlan, variables: dict[str, Any], told: list[str | None]
) -> None:
    plan = a_plan(worker_count=3, **variables)
    assert chosen(plan, GANG) == chosen(plan, GANG, 1) == told


def test_one_replica_waits_for_nobody(a_plan: APlan) -> None:
    assert chosen(a_plan(gang_seconds=600.0), GANG) == [None, None, None]


def test_parameter_servers_and_evaluators_take_no_part(a_plan: APlan) -> None:
    """Nor do they make a job of one replica one of several."""
    pools = [{"container_spec": IMAGE}, {}, {"container_spec": {}}, {"container_spec": {}}]
    alone = a_plan(spec={"worker_pool_specs": pools}, staging_folder="gs://b")
    assert chosen(alone, GANG) == [None, None, None]

    pools[1] = {"container_spec": IMAGE, "replica_count": 2}
    plan = a_plan(spec={"worker_pool_specs": pools}, staging_folder="gs://b")
    assert chosen(plan, GANG) == ["flow", "1", None]
    for server in (2, 3):
        names = (*GANG, *SLOTS, *THREADS, "PREFECT_VERTEX_STAGING")
        assert chosen(plan, names, server) == [None] * len(names)


def test_a_pool_without_the_bootstrap_leaves_nobody_to_wait_for(a_plan: APlan) -> None:
    """It could not check in, so the others would wait for it for ever."""
    pools = [{"container_spec": IMAGE}, {"python_package_spec": PACKAGE, "replica_count": 2}]
    plan = a_plan(spec={"worker_pool_specs": pools})
    assert chosen(plan, GANG) == [None, None, None]


def test_a_patch_that_adds_replicas_makes_a_gang(a_plan: APlan) -> None:
    pool = {"container_spec": IMAGE, "replica_count": 2}
    patch = [{"op": "add", "path": "/job_spec/worker_pool_specs/1", "value": pool}]
    assert chosen(a_plan(job_spec_patch=patch), GANG, 1) == ["flow", "1", None]


def test_what_replicas_are_told_cannot_be_overridden(a_plan: APlan) -> None:
    plan = a_plan(worker_count=2, env={"PREFECT_VERTEX_REPLICAS": "command"})
    assert chosen(plan, GANG) == ["flow", "1", None]
    assert any("PREFECT_VERTEX_REPLICAS is set by the worker" in line for line in plan.warnings)


def test_the_staging_folder_is_told_to_one_replica_too(a_plan: APlan) -> None:
    name = ("PREFECT_VERTEX_STAGING",)
    assert chosen(a_plan(staging_folder="gs://b/x"), name) == ["gs://b/x"]
    assert chosen(a_plan(staging_folder="gs://b", worker_count=2), name, 1) == ["gs://b"]
    assert chosen(a_plan(), name) == [None]


PLACES = {
    "PREFECT_VERTEX_RANK": "0",
    "PREFECT_VERTEX_WORLD_SIZE": "2",
    "CLUSTER_SPEC": '{"cluster": {}}',
}


@pytest.mark.parametrize(("name", "value"), PLACES.items(), ids=PLACES)
def test_a_place_for_every_replica_is_refused(a_plan: APlan, name: str, value: str) -> None:
    assert environment(a_plan(env={name: value}))[name] == value
    with pytest.raises(PlanError, match=f"env sets {name} to .* the same for several") as refused:
        a_plan(env={name: value}, worker_count=2)
    assert refused.value.variable == "env"


@pytest.mark.parametrize(("name", "value"), PLACES.items(), ids=PLACES)
def test_a_pool_s_own_env_gives_its_replicas_no_place_either(
    a_plan: APlan, name: str, value: str
) -> None:
    own = {"container_spec": {**IMAGE, "env": [{"name": name, "value": value}]}}
    pools = [{"container_spec": IMAGE}, {**own, "replica_count": 2}]
    with pytest.raises(PlanError, match=r"worker_pool_specs\[1\].container_spec.env sets"):
        a_plan(spec={"worker_pool_specs": pools})


def test_a_server_may_be_told_its_place(a_plan: APlan) -> None:
    """It is not counted, and what it reads there is its own affair."""
    env = [{"name": name, "value": value} for name, value in PLACES.items()]
    pools = [{"container_spec": IMAGE}, {"replica_count": 1}, {"container_spec": {"env": env}}]
    plan = a_plan(spec={"worker_pool_specs": pools})
    assert chosen(plan, tuple(PLACES), 2) == list(PLACES.values())


# --- what they run --------------------------------------------------------------------------------

OTHER_COMMANDS = (
    ("torchrun", "train.py"),
    ("prefect", "flow-run", "execute", "0f1e2d3c-1111-4222-8333-444455556666"),
    ("execute",),
    ("sh", "-c", "prefect flow-run execute"),
)


@pytest.mark.parametrize("command", OTHER_COMMANDS)
def test_replicas_that_run_the_flow_need_the_command_that_does(
    a_plan: APlan, command: tuple[str, ...]
) -> None:
    with pytest.raises(PlanError, match="Set replicas: command") as refused:
        a_plan(command=command, worker_count=2)
    assert refused.value.variable == "replicas"
    assert a_plan(command=command).warnings == ()
    assert chosen(a_plan(command=command, worker_count=2, replicas="command"), GANG)[0] == "command"


@pytest.mark.parametrize(
    "command",
    [
        ("prefect", "flow-run", "execute"),
        ("/opt/venv/bin/python", "-m", "prefect", "flow-run", "execute"),
        ("nice", "prefect", "flow-run", "execute"),
    ],
)
def test_any_way_to_execute_the_flow_run_will_do(a_plan: APlan, command: tuple[str, ...]) -> None:
    assert chosen(a_plan(command=command, worker_count=2), GANG)[0] == "flow"


def test_the_workers_own_command_and_args_are_judged_too(a_plan: APlan) -> None:
    for container in ({"command": ["ray", "start"]}, {"args": ["--extra"]}):
        pools = [
            {"container_spec": IMAGE},
            {"container_spec": {**IMAGE, **container}, "replica_count": 1},
        ]
        with pytest.raises(PlanError, match=r"worker_pool_specs\[1\].container_spec runs"):
            a_plan(spec={"worker_pool_specs": pools})


def test_a_server_s_command_is_its_own(a_plan: APlan) -> None:
    server = {"container_spec": {"image_uri": "server", "command": ["serve"]}}
    pools = [{"container_spec": IMAGE}, {"replica_count": 1}, server]
    assert chosen(a_plan(spec={"worker_pool_specs": pools}), GANG)[0] == "flow"


def test_a_refused_command_does_not_tell_a_secret(a_plan: APlan) -> None:
    with pytest.raises(PlanError) as refused:
        a_plan(
            command=("run", "--key=pnu_verysecret"),
            worker_count=2,
            env={"PREFECT_API_KEY": "pnu_verysecret"},
            secret_env=frozenset({"PREFECT_API_KEY"}),
        )
    assert "pnu_verysecret" not in str(refused.value)


# --- slots and threads ----------------------------------------------------------------------------


def test_one_replica_is_told_its_slots_and_keeps_its_threads(a_plan: APlan) -> None:
    plan = a_plan(pool=N2)
    assert chosen(plan, SLOTS) == ["7", "1", "3042"]
    assert chosen(plan, THREADS) == [None] * len(THREADS)


def test_several_that_run_the_flow_are_pinned_to_the_cores_of_a_slot(a_plan: APlan) -> None:
    gpu = {"machine_spec": {"machine_type": "g2-standard-8", "accelerator_type": "NVIDIA_L4"}}
    gpu["machine_spec"]["accelerator_count"] = "1"
    plan = a_plan(pool=gpu, worker_count=2)
    assert chosen(plan, THREADS) == chosen(plan, THREADS, 1) == ["7"] * len(THREADS)


def test_several_that_run_a_command_are_not_pinned(a_plan: APlan) -> None:
    plan = a_plan(pool=N2, worker_count=2, replicas="command")
    assert chosen(plan, THREADS) == [None] * len(THREADS)
    assert chosen(plan, SLOTS) == ["7", "1", "3042"]


def test_the_users_own_threads_and_slots_win(a_plan: APlan) -> None:
    env = {"OMP_NUM_THREADS": "5", "PREFECT_VERTEX_SLOTS": "2"}
    own = {"container_spec": {**IMAGE, "env": [{"name": "MKL_NUM_THREADS", "value": "3"}]}}
    plan = a_plan(pool={**N2, **own}, worker_count=2, env=env)
    found = environment(plan)
    assert (found["OMP_NUM_THREADS"], found["MKL_NUM_THREADS"]) == ("5", "3")
    assert (found["OPENBLAS_NUM_THREADS"], found["PREFECT_VERTEX_SLOTS"]) == ("1", "2")
    assert not any("THREADS" in line or "SLOTS" in line for line in plan.warnings)


NO_NUMBERS = ("two", "$(SLOTS)", "0", "-1", "1.5", "²", "9" * 30)


@pytest.mark.parametrize("name", SLOTS)
@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("count", [1, 2])
def test_slots_that_no_replica_could_read_are_refused(
    a_plan: APlan, name: str, value: str, count: int
) -> None:
    with pytest.raises(PlanError, match=f"env sets {name} to .* a number of 1 or more") as refused:
        a_plan(env={name: value}, worker_count=count)
    assert refused.value.variable == "env"


@pytest.mark.parametrize("value", ["abc", "0", "-1", "nan", "inf", "0.5", "10.5", "600", "1e400"])
def test_a_heartbeat_is_from_one_to_ten_seconds(a_plan: APlan, value: str) -> None:
    """More seldom, and a dead replica would not be missed within a minute."""
    name = "PREFECT_VERTEX_HEARTBEAT_SECONDS"
    with pytest.raises(PlanError, match="expected seconds from 1 to 10") as refused:
        a_plan(env={name: value}, worker_count=2)
    assert refused.value.variable == "env"
    for right in ("1", "2.5", "10", " 3 ", ""):
        assert environment(a_plan(env={name: right}, worker_count=2))[name] == right


def test_a_wait_after_a_loss_is_at_most_an_hour(a_plan: APlan) -> None:
    """And may be left out, for a run that is rather to fail at once."""
    name = "PREFECT_VERTEX_LOSS_SECONDS"
    with pytest.raises(PlanError, match="expected seconds from 0 to 3600") as refused:
        a_plan(env={name: "2h"}, worker_count=2)
    assert refused.value.variable == "env"
    assert environment(a_plan(env={name: "0"}, worker_count=2))[name] == "0"


def test_a_pool_s_own_slots_are_judged_and_those_that_the_platform_fills_in_are_not(
    a_plan: APlan,
) -> None:
    own = {"container_spec": {**IMAGE, "env": {"PREFECT_VERTEX_SLOTS": "many"}}}
    with pytest.raises(PlanError, match=r"worker_pool_specs\[0\].container_spec.env sets"):
        a_plan(pool=own)
    own["container_spec"]["env"] = {"MANY": "3", "PREFECT_VERTEX_SLOTS": "$(MANY)"}
    assert environment(a_plan(pool=own))["PREFECT_VERTEX_SLOTS"] == "$(MANY)"


def test_each_pool_s_slots_are_those_of_its_machine(a_plan: APlan) -> None:
    pools = [
        {"container_spec": IMAGE, "machine_spec": {"machine_type": "n1-standard-4"}},
        {"machine_spec": {"machine_type": "n2-standard-16"}, "replica_count": 2},
    ]
    plan = a_plan(spec={"worker_pool_specs": pools})
    assert [chosen(plan, SLOTS[:1], pool) for pool in (0, 1)] == [["3"], ["15"]]
    assert [each.slots for each in plan.resources] == [3, 15]
    assert [each.binding_axis for each in plan.resources] == ["cores", "cores"]


def test_a_machine_of_which_nothing_is_known_leaves_the_slots_to_the_container(
    a_plan: APlan,
) -> None:
    plan = a_plan(pool={"machine_spec": {"machine_type": "c9-weird-8"}}, worker_count=2)
    assert chosen(plan, (*SLOTS, *THREADS)) == [None] * (len(SLOTS) + len(THREADS))
    assert plan.resources[0].binding_axis == "unknown"


def test_a_full_environment_still_fits(a_plan: APlan) -> None:
    """What the replicas are told is no more than the 100 entries have room for: the rest packs."""
    env = {f"VALUE_{number}": "x" for number in range(99)}
    plan = a_plan(worker_count=2, env=env, gang_seconds=600.0, staging_folder="gs://b")
    assert len(environment(plan)) <= 100
    assert chosen(plan, GANG) == ["flow", "1", "600"]
