"""What jobs may hold at once: refused, or queued until somebody lets go."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob, CustomJobSpec, JobState

from prefect_vertex.emulator import Emulator, QuotaLimit
from prefect_vertex.emulator.quotas import demand_of

CPUS = "custom_model_training_cpus"
PREFIX = "custom_model_training"


@pytest.fixture
def create(
    emulator: Emulator, client: JobServiceAsyncClient, a_job: Any, parent: str
) -> Callable[..., Any]:
    async def call(*command: str, parent: str = parent, **fields: Any) -> Any:
        job = a_job(*(command or ("sleep", "60")), **fields)
        created = await client.create_custom_job(parent=parent, custom_job=job)
        return emulator.job(created.name)

    return call


def is_running(job: CustomJob) -> bool:
    return job.state == JobState.JOB_STATE_RUNNING


@pytest.mark.anyio
async def test_create_is_refused_with_the_metrics_that_are_exceeded(
    emulator: Emulator, create: Any
) -> None:
    """Another location has its own."""
    emulator.quotas.set([QuotaLimit(metric=CPUS, limit=4)], "reject")
    await create()

    with pytest.raises(exceptions.ResourceExhausted) as refusal:
        await create()
    await create(parent="projects/demo/locations/europe-west4")

    assert refusal.value.message == (
        "The following quota metrics exceed quota limits: "
        "aiplatform.googleapis.com/custom_model_training_cpus"
    )
    assert refusal.value.reason is None
    assert len(emulator.jobs()) == 2


@pytest.mark.anyio
async def test_quota_is_free_again_once_a_job_has_ended(emulator: Emulator, create: Any) -> None:
    emulator.quotas.set([QuotaLimit(metric=CPUS, limit=4)], "reject")
    job = await create("true")
    await job.wait_for_end()

    await create()


@pytest.mark.anyio
async def test_job_waits_in_the_queue_until_another_lets_go(
    emulator: Emulator, create: Any
) -> None:
    """First come, first served; a cancelled one loses its place."""
    emulator.quotas.set([QuotaLimit(metric=CPUS, limit=4)], "queue")
    first, given_up, second, third = [await create() for _ in range(4)]
    await first.wait_until(is_running)
    assert [job.state.name for job in (second, third)] == ["JOB_STATE_QUEUED"] * 2

    given_up.cancel()
    await given_up.wait_for_end()
    first.cancel()
    await second.wait_until(is_running)

    assert third.state == JobState.JOB_STATE_QUEUED
    assert third.starts == given_up.starts == []


@pytest.mark.anyio
async def test_raised_limit_lets_the_queue_in(emulator: Emulator, create: Any) -> None:
    emulator.quotas.set([QuotaLimit(metric=CPUS, limit=0, location="us-central1")], "queue")
    job = await create()

    emulator.quotas.set([])

    await job.wait_until(is_running)


@pytest.mark.anyio
async def test_job_without_a_queue_is_queued_where_quota_lacks(
    start_emulator: Any, connect: Any, a_job: Any, quick: Any, parent: str
) -> None:
    """And is PENDING at once where it does not."""
    emulator = await start_emulator(timings=dataclasses.replace(quick, queued_seconds=0))
    client = connect(emulator.address)
    emulator.quotas.set([QuotaLimit(metric=CPUS, limit=4)])

    states = [
        (await client.create_custom_job(parent=parent, custom_job=a_job("sleep", "60"))).state
        for _ in range(2)
    ]

    assert states == [JobState.JOB_STATE_PENDING, JobState.JOB_STATE_QUEUED]


def a_pool(machine: str, count: int, accelerator: str = "", number: int = 0) -> dict[str, Any]:
    machine_spec: dict[str, Any] = {"machine_type": machine}
    if accelerator:
        machine_spec |= {"accelerator_type": accelerator, "accelerator_count": number}
    return {"machine_spec": machine_spec, "replica_count": count}


@pytest.mark.parametrize(
    ("pools", "strategy", "demand"),
    [
        ([a_pool("n1-standard-4", 1), a_pool("e2-highmem-8", 2)], "STANDARD", {"cpus": 20}),
        ([a_pool("n2-standard-8", 1)], "STRATEGY_UNSPECIFIED", {"n2_cpus": 8}),
        ([a_pool("n1-standard-4", 1)], "SPOT", {"preemptible_cpus": 4}),
        # Seen to be one metric for every family.
        ([a_pool("n2-standard-4", 1)], "FLEX_START", {"preemptible_cpus": 4}),
        (
            [a_pool("n1-standard-4", 2, "NVIDIA_TESLA_T4", 2)],
            "FLEX_START",
            {"preemptible_cpus": 8, "preemptible_nvidia_t4_gpus": 4},
        ),
        (
            [a_pool("a2-ultragpu-1g", 1, "NVIDIA_A100_80GB", 1)],
            "STANDARD",
            {"nvidia_a100_80gb_gpus": 1},
        ),
        (
            [a_pool("a3-highgpu-8g", 1, "NVIDIA_H100_80GB", 8)],
            "STANDARD",
            {"nvidia_h100_gpus": 8},
        ),
        (
            [a_pool("a3-megagpu-8g", 1, "NVIDIA_H100_MEGA_80GB", 8)],
            "STANDARD",
            {"nvidia_h100_mega_gpus": 8},
        ),
        ([a_pool("cloud-tpu", 1, "TPU_V2", 8)], "STANDARD", {"tpu_v2": 8}),
    ],
)
def test_demand_is_counted_by_metric(
    pools: list[Any], strategy: str, demand: dict[str, int]
) -> None:
    spec = CustomJobSpec(worker_pool_specs=pools, scheduling={"strategy": strategy})

    named = {f"{PREFIX}_{metric}": count for metric, count in demand.items()}
    assert demand_of(CustomJobSpec.pb(spec)) == named
