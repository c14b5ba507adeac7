"""With `preflight_quota`, a run is cut to its projects' quotas before anything is created."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun

from prefect_vertex.capacity.quota import LIMITS_ARE_NOT_USAGE
from prefect_vertex.capacity.refusals import RefusalReason
from prefect_vertex.errors import PrefectVertexError
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.wiring import Surroundings
from prefect_vertex.settings import VertexSettings
from prefect_vertex.template import VertexJobConfiguration, base_job_template
from prefect_vertex.testing import ManualClock
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.quotas import QuotaReader

pytestmark = pytest.mark.anyio

NOBODY: Any = object()
PREFIX = "aiplatform.googleapis.com/custom_model_training_"
T4 = f"{PREFIX}nvidia_t4_gpus"
GPU = {"region": "us-central1", "project": "p-12345", "image": "i:1", "hardware": "gpu"}
A, B = "us-central1", "us-east1"


class Source:
    """T4s that a project may have, by location; no figures: nobody may know."""

    def __init__(self, **limits: int) -> None:
        self.found = {(T4, place.replace("_", "-")): limit for place, limit in limits.items()}
        self.asked = 0

    async def limits(self, project: str, credentials_key: str) -> dict[tuple[str, str], int]:
        self.asked += 1
        if not self.found:
            raise PrefectVertexError("not you.")
        return self.found


@pytest.fixture
def surroundings(monkeypatch: pytest.MonkeyPatch) -> Surroundings:
    """A worker's adapters, which nothing here makes connect."""
    monkeypatch.setenv(EMULATOR_VARIABLE, "127.0.0.1:1")
    return Surroundings(NOBODY, NOBODY, VertexSettings(), instance="x")


async def assigned(surroundings: Surroundings, source: Source, **variables: Any) -> Assignment:
    surroundings.gateways.quotas = QuotaReader(source, ManualClock())
    configuration = await VertexJobConfiguration.from_template_and_values(
        base_job_template(), {**GPU, "preflight_quota": True, **variables}, NOBODY
    )
    run = FlowRun(id=uuid.uuid4(), name="crafty-mongoose", flow_id=uuid.uuid4())
    configuration.prepare_for_flow_run(run)
    return await surroundings.assignment(str(run.id), configuration)


def replicas(assignment: Assignment) -> list[int]:
    """How many replicas each candidate's request has."""
    requests = [assignment.plan(each, 1).request for each in assignment.spec.candidates]
    return [
        sum(pool.replica_count for pool in each.custom_job.job_spec.worker_pool_specs)
        for each in requests
    ]


async def test_what_cannot_fit_is_skipped_and_keeps_its_place(surroundings: Surroundings) -> None:
    """Its place in the list stays: attempts and adopted jobs are told by it."""
    found = await assigned(surroundings, Source(us_central1=0, us_east1=1), regions=[B])

    assert [each.location for each in found.spec.candidates] == [A, B]
    assert {place: each.reason for place, each in found.skipped.items()} == {0: RefusalReason.QUOTA}
    assert any(LIMITS_ARE_NOT_USAGE in line for line in found.warnings)


async def test_replicas_are_left_out_down_to_the_device_quota(surroundings: Surroundings) -> None:
    source = Source(us_central1=2, us_east1=1)

    found = await assigned(surroundings, source, regions=[B], worker_count=4)

    assert replicas(found) == [2, 1]
    assert found.skipped == {}


async def test_workers_with_a_machine_of_their_own_are_left_out_to_the_last(
    surroundings: Surroundings,
) -> None:
    pools = [{}, {"disk_spec": {"boot_disk_size_gb": 200}}]

    found = await assigned(surroundings, Source(us_central1=1), worker_count=4, worker_pools=pools)

    assert replicas(found) == [1]


async def test_where_all_are_blocked_all_are_tried_as_they_are(surroundings: Surroundings) -> None:
    found = await assigned(surroundings, Source(us_central1=0), worker_count=4)

    assert (found.skipped, replicas(found)) == ({}, [4])


@pytest.mark.parametrize(
    "written",
    [
        {"worker_pools": [{}, {"replica_count": 3}]},
        {
            "job_spec_patch": [
                {
                    "op": "add",
                    "path": "/job_spec/worker_pool_specs/1/disk_spec",
                    "value": {"boot_disk_size_gb": 200},
                }
            ]
        },
    ],
    ids=["numbers of its own", "a patch on the workers' pool"],
)
async def test_a_job_that_cannot_be_smaller_stays_as_it_is(
    surroundings: Surroundings, written: dict[str, Any]
) -> None:
    found = await assigned(surroundings, Source(us_central1=1), worker_count=4, **written)

    assert replicas(found) == [4]
    assert any("Candidate 1 keeps its 4 replicas" in line for line in found.warnings)


async def test_without_the_variable_nothing_is_read(surroundings: Surroundings) -> None:
    source = Source(us_central1=0)

    found = await assigned(surroundings, source, worker_count=4, preflight_quota=None)

    assert (source.asked, found.skipped, replicas(found)) == (0, {}, [4])


async def test_a_candidate_can_do_without(surroundings: Surroundings) -> None:
    """Each has the variable as it has any other."""
    entries = [{"region": A, "preflight_quota": False}, {"region": B}]
    source = Source(us_central1=0, us_east1=0)

    found = await assigned(surroundings, source, region=None, candidates=entries)

    assert set(found.skipped) == {1}


async def test_quotas_that_cannot_be_read_change_nothing(surroundings: Surroundings) -> None:
    found = await assigned(surroundings, Source(), worker_count=4)

    assert (found.skipped, replicas(found)) == ({}, [4])
    assert "The quotas of project p-12345 are unknown: not you." in found.warnings
