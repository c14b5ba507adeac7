"""Rank and world size of a replica, from what the platform says about the cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

SHOW = ("sh", "-c", "echo ${PREFECT_VERTEX_RANK-none} of ${PREFECT_VERTEX_WORLD_SIZE-none}")


def cluster_spec(task: str, index: int, **sizes: int) -> dict[str, str]:
    """CLUSTER_SPEC as the platform writes it, with so many replicas in each pool."""
    spec = {
        "cluster": {
            pool: [f"cmle-training-{pool}-4c1d6d97d0-{number}:2222" for number in range(size)]
            for pool, size in sizes.items()
        },
        "environment": "cloud",
        "task": {"type": task, "index": index},
        "job": '{"python_module":"","package_uris":[],"job_args":[]}',
        "open_ports": [3333],
    }
    return {"CLUSTER_SPEC": json.dumps(spec)}


ONE = {"workerpool0": 1}
FIVE = {"workerpool0": 1, "workerpool1": 4}
WITH_SERVERS = {**FIVE, "workerpool2": 2, "workerpool3": 1}


@pytest.mark.parametrize(
    ("env", "shown"),
    [
        pytest.param({}, "0 of 1", id="no variable"),
        pytest.param({"CLUSTER_SPEC": ""}, "0 of 1", id="empty"),
        pytest.param(cluster_spec("workerpool0", 0, **ONE), "0 of 1", id="one replica"),
        pytest.param(cluster_spec("chief", 0, chief=1), "0 of 1", id="one, called chief"),
        pytest.param(cluster_spec("master", 0, master=1), "0 of 1", id="one, called master"),
        pytest.param(cluster_spec("other", 0, other=1), "0 of 1", id="one, called anything"),
        pytest.param(cluster_spec("workerpool0", 0, **FIVE), "0 of 5", id="primary of five"),
        pytest.param(cluster_spec("workerpool1", 0, **FIVE), "1 of 5", id="first worker"),
        pytest.param(cluster_spec("workerpool1", 3, **FIVE), "4 of 5", id="last worker"),
        pytest.param(cluster_spec("worker", 1, chief=1, worker=2), "2 of 3", id="worker"),
        pytest.param(cluster_spec("workerpool0", 0, **WITH_SERVERS), "0 of 5", id="servers"),
        pytest.param(
            cluster_spec("worker", 0, chief=1, master=1, worker=2), "2 of 4", id="chief and master"
        ),
        pytest.param(
            cluster_spec("workerpool1", 0, chief=1, worker=2, workerpool1=1),
            "3 of 4",
            id="two names of the second pool",
        ),
        pytest.param(cluster_spec("workerpool2", 1, **WITH_SERVERS), "none of none", id="server"),
        pytest.param(cluster_spec("workerpool3", 0, **FIVE), "none of none", id="evaluator"),
        pytest.param(
            cluster_spec("workerpool3", 0, **ONE), "none of none", id="evaluator of one replica"
        ),
    ],
)
def test_the_first_pool_has_rank_0_its_workers_follow_and_servers_have_none(
    bootstrap: Callable[..., Any], env: dict[str, str], shown: str
) -> None:
    ended = bootstrap(*SHOW, env=env)

    assert (ended.code, ended.stdout, ended.stderr) == (0, f"{shown}\n", "")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"PREFECT_VERTEX_RANK": "2", "PREFECT_VERTEX_WORLD_SIZE": "8"}, "2 of 8"),
        ({"PREFECT_VERTEX_RANK": "2"}, "2 of 5"),
        ({"PREFECT_VERTEX_WORLD_SIZE": "8"}, "4 of 8"),
    ],
)
def test_what_is_given_beforehand_wins(
    bootstrap: Callable[..., Any], given: dict[str, str], shown: str
) -> None:
    env = {**cluster_spec("workerpool1", 3, **FIVE), **given}

    assert bootstrap(*SHOW, env=env).stdout == f"{shown}\n"


@pytest.mark.parametrize(
    "spec",
    [
        "{",
        "[]",
        "null",
        '{"cluster": {}}',
        '{"cluster": {"workerpool0": ["a:1"]}, "task": {"type": "workerpool0"}}',
        '{"cluster": ["a:1"], "task": {"type": "workerpool0", "index": 0}}',
        '{"cluster": {"workerpool0": 1}, "task": {"type": "workerpool0", "index": 0}}',
        '{"cluster": {"workerpool0": "a:1"}, "task": {"type": "workerpool0", "index": 0}}',
        '{"cluster": {"workerpool0": {"0": "a"}}, "task": {"type": "workerpool0", "index": 0}}',
        "[" * 100_000,
        *(
            f'{{"cluster": {{"chief": ["a", "b"]}}, "task": {{"type": "chief", "index": {index}}}}}'
            for index in ("1e400", "Infinity", "NaN", "1.9", "true", "null", "-1", "2", "9" * 5000)
        ),
    ],
    ids=lambda spec: spec[-30:],
)
def test_a_cluster_that_cannot_be_read_is_never_taken_for_one_replica(
    bootstrap: Callable[..., Any], spec: str
) -> None:
    ended = bootstrap("echo", "ran", env={"CLUSTER_SPEC": spec})

    assert (ended.code, ended.stdout) == (78, "")
    assert ended.stderr.startswith("prefect-vertex: CLUSTER_SPEC cannot be read")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "given",
    [
        {"PREFECT_VERTEX_RANK": "1"},
        {"PREFECT_VERTEX_RANK": "first"},
        {"PREFECT_VERTEX_RANK": "-1"},
        {"PREFECT_VERTEX_RANK": "0", "PREFECT_VERTEX_WORLD_SIZE": "many"},
    ],
)
def test_a_rank_outside_its_world_is_refused(
    bootstrap: Callable[..., Any], given: dict[str, str]
) -> None:
    ended = bootstrap("echo", "ran", env=given)

    assert (ended.code, ended.stdout) == (78, "")
    assert "set PREFECT_VERTEX_RANK and PREFECT_VERTEX_WORLD_SIZE" in ended.stderr
