"""Worker pools: replicas, and what a pool takes from the first."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_vertex.errors import MachineSpecError, PlanError
from prefect_vertex.planning.pools import check_tpu_replicas, lay_out_pools

FIRST: dict[str, Any] = {
    "container_spec": {
        "image_uri": "first",
        "command": ["python", "a.py"],
        "args": ["--x"],
        "env": [{"name": "A", "value": "1"}],
    },
    "machine_spec": {"machine_type": "n1-standard-8"},
    "disk_spec": {"boot_disk_size_gb": 200},
    "nfs_mounts": [{"server": "s"}],
}


def test_one_worker_leaves_the_pools_as_they_are_written() -> None:
    (only,) = lay_out_pools([FIRST], 1)
    assert only.spec == {**FIRST, "replica_count": 1}
    assert only.runs_command


def test_several_workers_are_one_in_the_first_pool_and_the_rest_in_the_second() -> None:
    first, second = lay_out_pools([FIRST], 5)
    assert (first.replicas, second.replicas) == (1, 4)
    assert second.spec == {**FIRST, "replica_count": 4}


def test_workers_fill_a_second_pool_that_the_user_wrote() -> None:
    own = {
        "container_spec": {"image_uri": "own"},
        "machine_spec": {"machine_type": "e2-standard-4"},
    }
    _, second, third = lay_out_pools([FIRST, own, {}], 3)
    assert second.replicas == 2
    assert second.spec["container_spec"]["image_uri"] == "own"
    assert second.spec["container_spec"]["command"] == ["python", "a.py"]
    assert second.spec["machine_spec"] == {"machine_type": "e2-standard-4"}
    assert second.spec["disk_spec"] == {"boot_disk_size_gb": 200}
    assert third.spec == {}


def test_a_second_pool_of_the_users_keeps_its_count_beside_one_worker() -> None:
    assert lay_out_pools([FIRST, {"replica_count": "3"}], 1)[1].replicas == 3


def test_a_second_pool_that_says_no_number_has_what_one_worker_leaves_for_it() -> None:
    """That is none: how many there are in all is the variable's to say."""
    own = {"machine_spec": {"machine_type": "e2-standard-4"}}
    server = {"container_spec": {"image_uri": "server"}}
    assert [pool.replicas for pool in lay_out_pools([FIRST, own], 1)] == [1]
    assert [pool.replicas for pool in lay_out_pools([FIRST, own, server], 1)] == [1, 0, 1]


def test_counts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(PlanError, match=r"pool 1 has 4 replicas, but .* is 2") as caught:
        lay_out_pools([FIRST, {"replica_count": 2}], 5)
    assert caught.value.variable == "worker_count"
    assert lay_out_pools([FIRST, {"replica_count": 4}], 5)[1].replicas == 4


def test_a_command_of_its_own_does_not_take_the_first_pools_args() -> None:
    pool = {"container_spec": {"command": ["sh"]}}
    assert "args" not in lay_out_pools([FIRST, pool], 2)[1].spec["container_spec"]


def test_a_part_of_a_machine_changes_only_that_part() -> None:
    pool = {"machine_spec": {"tpu_topology": "2x2"}}
    assert lay_out_pools([FIRST, pool], 2)[1].spec["machine_spec"] == {
        "machine_type": "n1-standard-8",
        "tpu_topology": "2x2",
    }


@pytest.mark.parametrize("index", [2, 3])
@pytest.mark.parametrize(
    ("container", "runs_command"),
    [
        ({"image_uri": "own"}, False),
        ({"command": ["reducer"]}, False),
        ({"env": [{"name": "B", "value": "2"}]}, True),
    ],
)
def test_servers_with_an_image_or_command_of_their_own_run_as_they_are(
    index: int,
    container: dict[str, Any],
    runs_command: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    pools = lay_out_pools([FIRST, *[{}] * (index - 1), {"container_spec": container}], 1)
    assert pools[index].runs_command is runs_command
    written = {**container, "image_uri": container.get("image_uri", "first")}
    assert pools[index].spec["container_spec"] == written
    assert pools[index].spec["machine_spec"] == FIRST["machine_spec"]


def test_empty_pools_keep_their_place() -> None:
    evaluator = {"container_spec": {"image_uri": "eval"}}
    pools = lay_out_pools([FIRST, {}, {}, evaluator], 1)
    assert [bool(pool.spec) for pool in pools] == [True, False, False, True]


def test_a_python_package_runs_by_itself_and_is_shared_with_the_workers() -> None:
    package = {"python_package_spec": {"python_module": "m"}}
    first, second = lay_out_pools([package], 2)
    assert not first.runs_command
    assert second.spec["python_package_spec"] == {"python_module": "m"}
    assert "container_spec" not in second.spec


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "expected a list with at least one pool"),
        ([], "expected a list with at least one pool"),
        ("pools", "expected a list"),
        ([{}], r"worker_pool_specs\[0\] is empty"),
        (["x"], r"\[0\] is 'x', expected a mapping"),
        ([{"container_spec": "x"}], r"\[0\]\.container_spec is not a mapping"),
        ([FIRST, {"replica_count": 0}], r"\[1\]\.replica_count is 0, expected 1 or more"),
        ([{**FIRST, "replica_count": "two"}], "expected a whole number"),
    ],
)
def test_pools_that_are_none_are_refused(given: object, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        lay_out_pools(given, 1)


def test_several_replicas_in_the_first_pool_are_said_to_be_workers() -> None:
    with pytest.raises(PlanError, match="Set worker_count to 3") as caught:
        lay_out_pools([{**FIRST, "replica_count": 3}], 1)
    assert caught.value.variable == "worker_count"


def test_less_than_one_worker_is_refused() -> None:
    with pytest.raises(PlanError, match="worker_count is 0"):
        lay_out_pools([FIRST], 0)


def test_a_tpu_job_has_one_replica() -> None:
    tpu = {"machine_spec": {"machine_type": "ct5lp-hightpu-4t"}, "container_spec": {}}
    check_tpu_replicas(lay_out_pools([tpu], 1))
    with pytest.raises(MachineSpecError, match="Set worker_count to 1"):
        check_tpu_replicas(lay_out_pools([tpu], 2))
