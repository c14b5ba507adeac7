"""A job counts in the quotas of its machine family, its accelerator and its strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.capacity.meters import (
    Demand,
    Kind,
    PoolDemand,
    accelerator_metric,
    cores_of,
    cpu_metric,
    demand_of,
    meters_of,
)
from prefect_vertex.planning.machines import ACCELERATORS, MACHINES
from prefect_vertex.planning.plan import build_plan
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec

PREFIX = "aiplatform.googleapis.com/custom_model_training_"


@pytest.mark.parametrize(
    ("machine", "strategy", "metric"),
    [
        ("n1-standard-8", "STANDARD", "cpus"),
        ("e2-standard-4", "STANDARD", "cpus"),
        ("n2-highmem-8", "STANDARD", "n2_cpus"),
        ("c2-standard-4", "STANDARD", "c2_cpus"),
        ("g2-standard-8", "STANDARD", "g2_cpus"),
        ("a2-highgpu-1g", "STANDARD", "a2_cpus"),
        ("z9-weird-1", "STANDARD", "z9_cpus"),
        # One metric for all: seen to refuse N1 and A2 alike
        ("n1-standard-8", "SPOT", "preemptible_cpus"),
        ("a2-highgpu-1g", "SPOT", "preemptible_cpus"),
        ("g2-standard-8", "FLEX_START", "preemptible_cpus"),
    ],
)
def test_vcpus_are_metered_by_family_unless_they_are_preemptible(
    machine: str, strategy: str, metric: str
) -> None:
    assert cpu_metric(machine, strategy) == PREFIX + metric


@pytest.mark.parametrize(
    ("accelerator", "strategy", "metric"),
    [
        ("NVIDIA_TESLA_T4", "STANDARD", "nvidia_t4_gpus"),
        ("NVIDIA_TESLA_T4", "SPOT", "preemptible_nvidia_t4_gpus"),
        ("NVIDIA_L4", "FLEX_START", "preemptible_nvidia_l4_gpus"),
        ("NVIDIA_TESLA_A100", "STANDARD", "nvidia_a100_gpus"),
        ("NVIDIA_A100_80GB", "STANDARD", "nvidia_a100_80gb_gpus"),
        ("NVIDIA_H100_80GB", "SPOT", "preemptible_nvidia_h100_gpus"),
        ("NVIDIA_H100_MEGA_80GB", "STANDARD", "nvidia_h100_mega_gpus"),
        ("NVIDIA_H200_141GB", "STANDARD", "nvidia_h200_gpus"),
        ("TPU_V2", "STANDARD", "tpu_v2"),
    ],
)
def test_accelerators_are_metered_by_type_and_strategy(
    accelerator: str, strategy: str, metric: str
) -> None:
    assert accelerator_metric(accelerator, strategy) == PREFIX + metric


@pytest.mark.parametrize(
    ("machine", "cores"),
    [
        ("n1-standard-4", 4),
        ("g2-standard-96", 96),
        ("m1-megamem-96", 96),
        ("a2-highgpu-8g", 96),
        ("a2-megagpu-16g", 96),
        ("a3-highgpu-1g", 26),
        ("a3-highgpu-8g", 208),
        ("a3-ultragpu-8g", 224),
        ("a4x-highgpu-4g", 140),
        ("ct5lp-hightpu-4t", 0),
        ("cloud-tpu", 0),
        ("tomorrow", 0),
    ],
)
def test_a_machine_s_vcpus_are_read_off_its_name(machine: str, cores: int) -> None:
    assert cores_of(machine) == cores


def test_every_machine_of_the_table_has_vcpus() -> None:
    assert [machine for machine in MACHINES if not cores_of(machine)] == []


def a_demand(*pools: PoolDemand, **fields: Any) -> Demand:
    return Demand(index=0, project="p", location="us-central1", pools=pools, **fields)


def t4(replicas: int) -> PoolDemand:
    return PoolDemand(
        machine_type="n1-standard-8",
        replicas=replicas,
        accelerator_type="NVIDIA_TESLA_T4",
        accelerator_count=2,
    )


def figures(demand: Demand) -> dict[str, tuple[int, int, int]]:
    """Fixed part, each worker's part and the whole, by metric."""
    return {
        meter.metric.removeprefix(PREFIX): (meter.fixed, meter.per_worker, meter.asked)
        for meter in meters_of(demand)
    }


def test_the_first_replica_is_fixed_and_the_others_can_be_fewer() -> None:
    demand = a_demand(t4(1), t4(3), worker_count=4)

    assert figures(demand) == {"nvidia_t4_gpus": (2, 2, 8), "cpus": (8, 8, 32)}


def test_pools_that_say_their_own_numbers_are_fixed_as_a_whole() -> None:
    demand = a_demand(t4(1), t4(3))

    assert figures(demand) == {"nvidia_t4_gpus": (8, 0, 8), "cpus": (32, 0, 32)}


def test_servers_and_evaluators_are_fixed_beside_the_workers() -> None:
    servers = PoolDemand(machine_type="e2-standard-4", replicas=2)
    demand = a_demand(t4(1), t4(1), servers, worker_count=2)

    assert figures(demand) == {"nvidia_t4_gpus": (2, 2, 4), "cpus": (16, 8, 24)}


def test_a_pool_that_is_skipped_holds_nothing() -> None:
    demand = a_demand(t4(1), PoolDemand(machine_type="", replicas=0), t4(0))

    assert figures(demand) == {"nvidia_t4_gpus": (2, 0, 2), "cpus": (8, 0, 8)}


def test_devices_come_before_vcpus() -> None:
    assert [meter.kind for meter in meters_of(a_demand(t4(1)))] == [Kind.DEVICE, Kind.CPU]


@pytest.fixture
def demand_of_job() -> Callable[..., Demand]:
    """The demand of a candidate, by way of its plan."""

    def build(machine_spec: dict[str, Any], **fields: Any) -> Demand:
        pool = {
            "machine_spec": machine_spec,
            "replica_count": 1,
            "container_spec": {"image_uri": "i"},
        }
        job_spec = {"worker_pool_specs": [pool], **fields.pop("job_spec", {})}
        candidate = Candidate(
            project="p-12345",
            location="us-central1",
            job_spec=job_spec,
            command=("run",),
            **fields,
        )
        identity = RunIdentity(flow_run_id="f", flow_run_name="n", work_pool_id="w")
        spec = RunSpec(identity=identity, candidates=(candidate,))
        return demand_of(build_plan(spec, candidate, attempt=1, bootstrap="pass"))

    return build


def test_a_demand_is_read_off_the_request_itself(demand_of_job: Callable[..., Demand]) -> None:
    machine = {
        "machine_type": "g2-standard-4",
        "accelerator_type": "NVIDIA_L4",
        "accelerator_count": 1,
    }
    spot = {"scheduling": {"strategy": "SPOT"}}

    demand = demand_of_job(machine, worker_count=3, replicas="command", job_spec=spot)

    assert (demand.project, demand.location, demand.strategy) == ("p-12345", "us-central1", "SPOT")
    assert figures(demand) == {
        "preemptible_nvidia_l4_gpus": (1, 1, 3),
        "preemptible_cpus": (4, 4, 12),
    }


def test_a_patch_counts_as_it_is_sent(demand_of_job: Callable[..., Demand]) -> None:
    path = "/job_spec/worker_pool_specs/0/machine_spec/machine_type"
    patch = [{"op": "replace", "path": path, "value": "n2-standard-16"}]

    demand = demand_of_job({"machine_type": "n1-standard-4"}, job_spec_patch=patch)

    assert figures(demand) == {"n2_cpus": (16, 0, 16)}


def test_a_job_on_a_persistent_resource_is_exempt(demand_of_job: Callable[..., Demand]) -> None:
    machine = {"machine_type": "n1-standard-4"}

    demand = demand_of_job(machine, job_spec={"persistent_resource_id": "mine"})

    assert demand.exempt == "it runs on persistent resource mine"


def test_every_accelerator_of_the_table_has_a_metric() -> None:
    assert all(accelerator_metric(kind, "STANDARD").endswith("_gpus") for kind in ACCELERATORS)
