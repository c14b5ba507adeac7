"""`plan --quota` shows each candidate beside its quotas, for people and for programs."""

from __future__ import annotations

import json

import pytest

from prefect_vertex.capacity.meters import Demand, PoolDemand
from prefect_vertex.capacity.quota import (
    LIMITS_ARE_NOT_USAGE,
    Preflight,
    ProjectQuotas,
    preflight,
)
from prefect_vertex.cli.quota import quota_json, quota_table

PREFIX = "aiplatform.googleapis.com/custom_model_training_"


def a_demand(index: int, location: str, **fields: str) -> Demand:
    """Three replicas with one T4 each."""
    machine = ("n1-standard-4", "NVIDIA_TESLA_T4", 1)
    pools = tuple(
        PoolDemand(
            machine_type=machine[0],
            replicas=replicas,
            accelerator_type=machine[1],
            accelerator_count=machine[2],
        )
        for replicas in (1, 2)
    )
    return Demand(
        index=index, project="p", location=location, pools=pools, worker_count=3, **fields
    )


@pytest.fixture
def found() -> Preflight:
    """One candidate of each kind."""
    limits = {
        (f"{PREFIX}nvidia_t4_gpus", "us-central1"): 2,
        (f"{PREFIX}cpus", "us-central1"): -1,
        (f"{PREFIX}nvidia_t4_gpus", "us-east1"): 0,
    }
    demands = [
        a_demand(0, "us-central1"),
        a_demand(1, "us-east1"),
        a_demand(2, "us-west1", exempt="it runs on persistent resource mine"),
    ]
    return preflight(demands, {"p": ProjectQuotas(limits=limits)})


def test_the_table_has_a_line_for_each_candidate_and_quota(found: Preflight) -> None:
    lines = [" ".join(line.split()) for line in quota_table(found).splitlines()]

    assert lines[:6] == [
        "candidate region strategy quota limit asked says",
        "1 us-central1 STANDARD custom_model_training_nvidia_t4_gpus 2 3 clamped",
        "1 us-central1 STANDARD custom_model_training_cpus unlimited 12 fits",
        "2 us-east1 STANDARD custom_model_training_nvidia_t4_gpus 0 3 blocked",
        "2 us-east1 STANDARD custom_model_training_cpus - 12 unknown",
        "3 us-west1 STANDARD - - - it runs on persistent resource mine",
    ]


def test_below_the_table_stands_what_follows_and_the_caution_once(found: Preflight) -> None:
    text = quota_table(found)

    assert "candidate 1 (us-central1, STANDARD) has 2 of 3 replicas" in text
    assert "candidate 2 (us-east1, STANDARD) cannot be created" in text
    assert text.count(LIMITS_ARE_NOT_USAGE) == 1


def test_the_caution_stands_there_too_where_all_fits_or_nothing_is_known() -> None:
    found = preflight([a_demand(0, "us-central1")], {"p": ProjectQuotas(problem="no answer.")})

    text = quota_table(found)

    assert text.count(LIMITS_ARE_NOT_USAGE) == 1
    assert "The quotas of project p are unknown: no answer." in text


def test_the_json_says_the_same(found: Preflight) -> None:
    content = json.loads(json.dumps(quota_json(found)))

    assert content["note"] == LIMITS_ARE_NOT_USAGE
    first, second, third = content["candidates"]
    assert (first["says"], first["worker_count"], first["asked_worker_count"]) == ("clamped", 2, 3)
    assert second["quotas"][1] == {
        "metric": f"{PREFIX}cpus",
        "limit": None,
        "asked": 12,
        "says": "unknown",
    }
    assert (third["says"], third["quotas"]) == ("fits", [])
