"""Which replica of how many a process is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_vertex.delivery.bootstrap.places import take_place
from prefect_vertex.errors import SetupError
from prefect_vertex.replica.topology import Place, read_place

OURS = ("PREFECT_VERTEX_RANK", "PREFECT_VERTEX_WORLD_SIZE")
KUBERNETES = {"JOB_COMPLETION_INDEX": "2"}


def a_cluster(pool: str, index: Any, **hosts: int) -> dict[str, str]:
    """CLUSTER_SPEC of a replica, with so many hosts in each pool; none of their names resolves."""
    cluster = {
        name: [f"cmle-training-{name}-4c1d6d97d0-{number}:2222" for number in range(count)]
        for name, count in hosts.items()
    }
    spec = {"cluster": cluster, "task": {"type": pool, "index": index}, "environment": "cloud"}
    return {"CLUSTER_SPEC": json.dumps(spec)}


def raw_cluster(index: str) -> dict[str, str]:
    """CLUSTER_SPEC of a replica whose index is written just so."""
    spec = a_cluster("workerpool1", 0, workerpool0=1, workerpool1=2)["CLUSTER_SPEC"]
    return {"CLUSTER_SPEC": spec.replace('"index": 0', f'"index": {index}')}


CLUSTERS: dict[str, tuple[dict[str, str], Place]] = {
    "primary of 1+4": (a_cluster("workerpool0", 0, workerpool0=1, workerpool1=4), Place(0, 5)),
    "last of 1+4": (a_cluster("workerpool1", 3, workerpool0=1, workerpool1=4), Place(4, 5)),
    "second pool skipped": (a_cluster("workerpool0", 0, workerpool0=1, workerpool2=2), Place(0, 1)),
    "servers and an evaluator are not counted": (
        a_cluster("workerpool1", 1, workerpool0=1, workerpool1=2, workerpool2=3, workerpool3=1),
        Place(2, 3),
    ),
    "roles instead of numbers": (a_cluster("worker", 1, chief=1, worker=2, ps=2), Place(2, 3)),
    "master": (a_cluster("worker", 0, master=1, worker=1), Place(1, 2)),
    "alone as chief": (a_cluster("chief", 0, chief=1), Place(0, 1)),
    "alone as workerpool0": (a_cluster("workerpool0", 0, workerpool0=1), Place(0, 1)),
    "alone under a new name": (a_cluster("trainer", 0, trainer=1), Place(0, 1)),
    "fewer than were asked for": (
        a_cluster("workerpool1", 0, workerpool0=1, workerpool1=1),
        Place(1, 2),
    ),
    "two names of the first pool, the second": (
        a_cluster("master", 0, chief=1, master=1, worker=2),
        Place(1, 4),
    ),
    "two names of the first pool, a worker": (
        a_cluster("worker", 1, chief=1, workerpool0=1, worker=2),
        Place(3, 4),
    ),
    "two names of the second pool": (
        a_cluster("workerpool1", 1, chief=1, worker=2, workerpool1=2),
        Place(4, 5),
    ),
    "index as text": (a_cluster("workerpool1", "1", workerpool0=1, workerpool1=2), Place(2, 3)),
}


@pytest.mark.parametrize(("environment", "place"), CLUSTERS.values(), ids=CLUSTERS)
def test_the_cluster_spec_says_rank_and_world_size(
    environment: dict[str, str], place: Place
) -> None:
    assert read_place(environment) == place


@pytest.mark.parametrize(("environment", "place"), CLUSTERS.values(), ids=CLUSTERS)
def test_the_bootstrap_reads_the_same(
    environment: dict[str, str], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is another program, which cannot import this one; what it exports is read here again."""
    exported: dict[str, str] = dict(environment)
    monkeypatch.setattr("prefect_vertex.delivery.bootstrap.places.env", exported)
    assert take_place() == str(place.rank)
    assert read_place(exported) == place


UNRANKED: dict[str, tuple[dict[str, str], str]] = {
    "an evaluator beside a single primary": (
        a_cluster("workerpool3", 0, workerpool0=1),
        "workerpool3-0",
    ),
    "an evaluator that is listed": (
        a_cluster("workerpool3", 0, workerpool0=1, workerpool3=1),
        "workerpool3-0",
    ),
    "a server": (a_cluster("ps", 1, chief=1, worker=2, ps=2), "ps-1"),
}


@pytest.mark.parametrize(("environment", "name"), UNRANKED.values(), ids=UNRANKED)
def test_the_bootstrap_gives_no_rank_to_who_has_none_here(
    environment: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported: dict[str, str] = dict(environment)
    monkeypatch.setattr("prefect_vertex.delivery.bootstrap.places.env", exported)
    assert take_place() == name
    assert exported == environment
    with pytest.raises(SetupError, match="share no work, and have no rank"):
        read_place(environment)


@pytest.mark.parametrize("pool", ["chief", "worker"])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_bootstrap_refuses_too_what_has_no_place_in_its_cluster(
    pool: str, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = a_cluster(pool, 0, workerpool0=1, workerpool1=workers)
    monkeypatch.setattr("prefect_vertex.delivery.bootstrap.places.env", environment)
    with pytest.raises(SystemExit, match="78"):
        take_place()
    with pytest.raises(SetupError, match="cannot be read"):
        read_place(environment)


@pytest.mark.parametrize("job", ['{"python_module": ""}', None, {"a": 1}])
def test_what_else_stands_in_a_cluster_spec_is_not_read(job: Any) -> None:
    spec = json.loads(a_cluster("workerpool1", 0, workerpool0=1, workerpool1=1)["CLUSTER_SPEC"])
    spec |= {"job": job, "open_ports": [3333]}
    assert read_place({"CLUSTER_SPEC": json.dumps(spec)}) == Place(1, 2)


OTHERS: dict[str, tuple[dict[str, str], Place]] = {
    "nothing": ({}, Place(0, 1)),
    "empty variables": (dict.fromkeys((*OURS, "CLUSTER_SPEC"), ""), Place(0, 1)),
    "ours": ({OURS[0]: "3", OURS[1]: "4"}, Place(3, 4)),
    "ours win over a cluster spec": (
        {OURS[0]: "3", OURS[1]: "4", "CLUSTER_SPEC": "not JSON"},
        Place(3, 4),
    ),
    "ours win over an indexed job": (
        {OURS[0]: "0", OURS[1]: "4", **KUBERNETES, "JOB_COMPLETION_TOTAL": "9"},
        Place(0, 4),
    ),
    "our rank, the cluster's size": (
        {OURS[0]: "2", **a_cluster("workerpool1", 0, workerpool0=1, workerpool1=3)},
        Place(2, 4),
    ),
    "a cluster spec before an indexed job": (
        {**KUBERNETES, **a_cluster("workerpool1", 0, workerpool0=1, workerpool1=1)},
        Place(1, 2),
    ),
    "alone by its size": ({OURS[1]: "1"}, Place(0, 1)),
    "indexed job, total": ({**KUBERNETES, "JOB_COMPLETION_TOTAL": "3"}, Place(2, 3)),
    "indexed job, count": ({**KUBERNETES, "JOB_COMPLETION_COUNT": "3"}, Place(2, 3)),
    "indexed job, our size": ({**KUBERNETES, OURS[1]: "5"}, Place(2, 5)),
}


@pytest.mark.parametrize(("environment", "place"), OTHERS.values(), ids=OTHERS)
def test_the_first_that_speaks_decides(environment: dict[str, str], place: Place) -> None:
    assert read_place(environment) == place


WRONG: dict[str, tuple[Mapping[str, str], str]] = {
    "no JSON": ({"CLUSTER_SPEC": "{"}, "CLUSTER_SPEC cannot be read"),
    "no mapping": ({"CLUSTER_SPEC": "[]"}, "CLUSTER_SPEC cannot be read"),
    "no task": ({"CLUSTER_SPEC": '{"cluster": {}}'}, "CLUSTER_SPEC cannot be read"),
    "hosts that are none": (
        {"CLUSTER_SPEC": '{"cluster": {"chief": "a:1"}, "task": {"type": "chief", "index": 0}}'},
        "expected a list",
    ),
    "an index beyond the pool": (
        a_cluster("workerpool1", 4, workerpool0=1, workerpool1=4),
        "no number 4 of workerpool1",
    ),
    "a pool that is not there": (a_cluster("worker", 0, chief=1, ps=1), "no number 0 of worker"),
    "a parameter server": (a_cluster("workerpool2", 0, workerpool0=1, workerpool2=1), "no rank"),
    "an evaluator that no cluster lists": (a_cluster("evaluator", 0, chief=1), "no rank"),
    "an index without end": (raw_cluster("1e400"), "index is inf"),
    "an index that is Infinity": (raw_cluster("Infinity"), "index is inf"),
    "an index that is NaN": (raw_cluster("NaN"), "index is nan"),
    "half an index": (raw_cluster("1.9"), "index is 1.9, expected a number"),
    "an index that is true": (raw_cluster("true"), "index is True, expected a number"),
    "an index that is null": (raw_cluster("null"), "index is None, expected a number"),
    "an index of many digits": (raw_cluster("9" * 4000), "no number 9999"),
    "an index of more digits than Python reads": (raw_cluster("9" * 5000), "cannot be read"),
    "an index below 0": (raw_cluster("-1"), "no number -1 of workerpool1"),
    "an index of letters": (raw_cluster('"one"'), "index is 'one', expected a number"),
    "a bottomless list": ({"CLUSTER_SPEC": "[" * 100_000}, "CLUSTER_SPEC cannot be read"),
    "bottomless hosts": (
        {"CLUSTER_SPEC": f'{{"cluster": {{"chief": {"[" * 100_000}'},
        "CLUSTER_SPEC cannot be read",
    ),
    "a size without end": ({OURS[0]: "0", OURS[1]: "9" * 5000}, "WORLD_SIZE is '9999"),
    "a rank without end": ({OURS[0]: "9" * 5000, OURS[1]: "2"}, "RANK is '9999"),
    "a total without end": (
        {**KUBERNETES, "JOB_COMPLETION_TOTAL": "9" * 5000},
        "JOB_COMPLETION_TOTAL is '9999",
    ),
    "a rank without a size": ({OURS[0]: "1"}, "PREFECT_VERTEX_WORLD_SIZE is not"),
    "a size without a rank": ({OURS[1]: "2"}, "PREFECT_VERTEX_RANK is not"),
    "an index without a total": (KUBERNETES, "nothing says how many"),
    "a rank beyond the size": ({OURS[0]: "4", OURS[1]: "4"}, "rank is 4"),
    "a rank that is no number": ({OURS[0]: "-1", OURS[1]: "4"}, "'-1', expected a number of 0"),
    "a size of none": ({OURS[0]: "0", OURS[1]: "0"}, "'0', expected a number of 1"),
}


@pytest.mark.parametrize(("environment", "said"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_read_is_an_error_and_never_alone(
    environment: Mapping[str, str], said: str
) -> None:
    with pytest.raises(SetupError, match=said) as refused:
        read_place(environment)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000


NAMES = ("chief", "master", "workerpool0", "worker", "workerpool1", "ps", "workerpool2")


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 6), min_size=2))
def test_whatever_names_the_pools_have_no_rank_occurs_twice(hosts: dict[str, int]) -> None:
    ranks = [
        read_place(a_cluster(pool, index, **hosts)).rank
        for pool in NAMES[:5]
        for index in range(hosts.get(pool, 0))
    ]
    assert sorted(ranks) == list(range(len(ranks)))


@given(st.integers(0, 40), st.integers(0, 5), st.integers(0, 2))
def test_the_ranks_of_a_job_are_all_different_and_leave_none_out(
    workers: int, servers: int, evaluators: int
) -> None:
    pools = {"workerpool0": 1, "workerpool1": workers, "workerpool2": servers}
    hosts = {name: n for name, n in {**pools, "workerpool3": evaluators}.items() if n}
    places = [
        read_place(a_cluster(pool, index, **hosts))
        for pool in ("workerpool0", "workerpool1")
        for index in range(hosts.get(pool, 0))
    ]
    assert [place.rank for place in places] == list(range(1 + workers))
    assert {place.world_size for place in places} == {1 + workers}
