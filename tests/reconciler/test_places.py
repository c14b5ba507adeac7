"""Where a pool's jobs may be, and what each candidate of a run is reached with."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import pytest
from prefect.client.schemas.objects import Flow, FlowRun, WorkPool
from prefect.client.schemas.responses import DeploymentResponse

from prefect_vertex.errors import AccessDeniedError, MachineSpecError, PlanError
from prefect_vertex.reconciler.assignment import Assignment
from prefect_vertex.reconciler.wiring import Surroundings
from prefect_vertex.settings import VertexSettings
from prefect_vertex.template import VertexJobConfiguration, base_job_template

ID = UUID("11111111-1111-4111-8111-111111111111")
RUN = {"image": "i:1", "project": "p", "region": "europe-west4"}


def key(account: str) -> dict[str, Any]:
    return {
        "service_account_info": {
            "type": "service_account",
            "client_email": f"{account}@k.iam.gserviceaccount.com",
            "project_id": f"of-{account}",
            "private_key": "x",
            "token_uri": "https://oauth2.googleapis.com/token",
        }
    }


@dataclass
class FakeEmployer:
    """A worker of a pool with that template."""

    template: dict[str, Any] = field(default_factory=base_job_template)
    name: str = "worker-1"
    work_pool_id: str = str(ID)

    @property
    def work_pool(self) -> WorkPool:
        return WorkPool(
            id=ID,
            name="pool",
            type="vertex-custom-job",
            default_queue_id=ID,
            base_job_template=self.template,
        )

    def take_slot(self, flow_run_id: str) -> bool:
        return bool(flow_run_id)

    def is_submitting(self, flow_run_id: str) -> bool:
        return not flow_run_id

    def free_slot(self, flow_run_id: str) -> None:
        """Nothing is counted."""


@dataclass
class FakeClient:
    """A Prefect API with these deployments."""

    deployments: list[dict[str, Any]] = field(default_factory=list)

    async def read_deployments(self, **_: object) -> list[DeploymentResponse]:
        return [
            DeploymentResponse(id=ID, name="d", flow_id=ID, job_variables=variables, labels={})
            for variables in self.deployments
        ]

    async def read_flow(self, flow_id: UUID) -> Flow:
        return Flow(id=flow_id, name="flow", labels={})


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of Google, nor of anything at that address."""
    monkeypatch.setenv("VERTEX_AI_EMULATOR_HOST", "127.0.0.1:9")


def surroundings(template: dict[str, Any], *deployments: dict[str, Any]) -> Surroundings:
    client: Any = FakeClient(list(deployments))
    employer = FakeEmployer(template)
    return Surroundings(employer, client, VertexSettings(), instance="i")


def with_defaults(**values: Any) -> dict[str, Any]:
    template = base_job_template()
    for name, value in values.items():
        template["variables"]["properties"][name]["default"] = value
    return template


def home_of(template: dict[str, Any], *deployments: dict[str, Any]) -> set[tuple[str, str]]:
    world = surroundings(template, *deployments)
    anyio.run(world.learn_home)
    return {(place.project, place.location) for place in world.world().home()}


def assigned(*, template: dict[str, Any] | None = None, **variables: Any) -> Assignment:
    employer = FakeEmployer(template or base_job_template())
    world = surroundings(employer.template)

    async def resolve() -> Assignment:
        client: Any = FakeClient()
        run = FlowRun(id=ID, name="run", flow_id=ID, job_variables={**RUN, **variables})
        configuration = await VertexJobConfiguration.resolve_for_flow_run(
            run, client=client, work_pool=employer.work_pool, worker_name="w"
        )
        return await world.assignment(str(ID), configuration)

    return anyio.run(resolve)


def test_the_pools_home_has_every_location_that_a_candidate_names() -> None:
    template = with_defaults(project="p", region="a", regions=["b"])
    assert home_of(
        template,
        {"region": "c"},
        {"regions": ["d", "e"]},
        {"regions": [], "strategy": ["SPOT", "STANDARD"]},
    ) == {("p", name) for name in "abcde"}


def test_a_home_that_needs_missing_credentials_is_told_once_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the worker's log when it starts, not only in the first run that crashes."""
    monkeypatch.delenv("VERTEX_AI_EMULATOR_HOST")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    world = surroundings(base_job_template(), {"region": "a"}, {"region": "b"})
    anyio.run(world.learn_home)
    anyio.run(world.learn_home)

    assert world.world().home() == frozenset()
    (unlearned,) = world.unlearned
    assert isinstance(unlearned, AccessDeniedError)
    ours = [each for each in caplog.records if each.name.startswith("prefect_vertex")]
    (line,) = [each.getMessage() for each in ours if each.levelno >= logging.WARNING]
    assert line.startswith("Cannot tell all places of the pool's jobs. Found no Google credentials")
    assert "Emulators need none" in line


def test_a_home_that_is_known_leaves_nothing_unlearned() -> None:
    """A deployment's own mistake is its runs' to tell."""
    world = surroundings(with_defaults(project="p", region="a"), {"regions": "no list"})
    anyio.run(world.learn_home)

    assert world.unlearned == ()
    assert {place.location for place in world.world().home()} == {"a"}


def test_candidates_of_a_deployment_are_places_with_their_own_project() -> None:
    entries = [{"region": "b", "gpu_type": "L4"}, {"region": "c", "project": "q"}, {}]
    home = home_of(with_defaults(project="p", region="a"), {"candidates": entries})
    assert home == {("p", "a"), ("p", "b"), ("q", "c")}


def test_a_mistake_elsewhere_in_a_candidate_hides_no_place() -> None:
    """Jobs that were created before somebody broke the deployment are still there."""
    entries = [{"region": "b", "worker_count": "two"}, {"region": "c", "machine_typ": "x"}]
    home = home_of(with_defaults(project="p", region="a"), {"candidates": entries})
    assert home == {("p", "a"), ("p", "b"), ("p", "c")}


def test_each_candidate_is_reached_with_its_own_credentials() -> None:
    assignment = assigned(
        project=None,
        candidates=[{"credentials": key("one")}, {"credentials": key("two")}],
    )
    targets = [each.target for each in assignment.spec.candidates]
    assert [each.project for each in targets] == ["of-one", "of-two"]
    assert len({each.credentials_key for each in targets}) == 2
    assert all(each.credentials_key for each in targets)


def test_every_candidate_is_planned_before_the_first_is_created() -> None:
    with pytest.raises(MachineSpecError) as caught:
        assigned(
            strategy=["SPOT", "STANDARD"],
            regions=["us-east1"],
            machine_type="n1-standard-4",
            accelerator_type="NVIDIA_L4",
            accelerator_count=1,
        )
    assert caught.value.message.startswith(
        "candidate 1 of 4 (europe-west4, SPOT): accelerator_type NVIDIA_L4 needs a machine"
    )


def test_a_name_in_another_location_is_refused_for_the_candidate_that_it_is_wrong_for() -> None:
    tensorboard = "projects/p/locations/europe-west4/tensorboards/1"
    account: dict[str, Any] = {"service_account_name": "a@p.iam.gserviceaccount.com"}
    with pytest.raises(PlanError) as caught:
        assigned(tensorboard=tensorboard, regions=["us-east1"], **account)
    assert caught.value.message.startswith(
        "candidate 2 of 2 (us-east1): job_spec.tensorboard names a tensorboard in europe-west4"
    )
    filled = tensorboard.replace("europe-west4", "{region}")
    assert len(assigned(tensorboard=filled, regions=["us-east1"], **account).spec.candidates) == 2


def without_use_of(variable: str) -> dict[str, Any]:
    """The usual template, in which somebody has lost one variable's placeholder."""

    def lost(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {name: lost(item) for name, item in value.items()}
            return {name: item for name, item in kept.items() if item != placeholder}
        return [lost(item) for item in value] if isinstance(value, list) else value

    placeholder = f"{{{{ {variable} }}}}"
    template = base_job_template()
    return {**template, "job_configuration": lost(template["job_configuration"])}


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("region", "region is not set."),
        ("project", "project is not set, and the credentials name none."),
        ("image", "image is not set (job_spec.worker_pool_specs[0].container_spec.image_uri)."),
        ("accelerator_type", "accelerator_count is 1, but accelerator_type is not set."),
    ],
)
def test_a_variable_that_the_template_does_not_use_is_not_said_to_be_unset(
    variable: str, words: str
) -> None:
    gpu: dict[str, Any] = {
        "machine_type": "g2-standard-4",
        "accelerator_type": "NVIDIA_L4",
        "accelerator_count": 1,
    }
    with pytest.raises(PlanError) as caught:
        assigned(template=without_use_of(variable), **gpu)
    assert caught.value.variable == variable
    assert str(caught.value) == (
        f"job variable {variable!r} is set, but the job_configuration of this work pool's base job "
        f"template does not use it; without it: {words} Put {{{{ {variable} }}}} back where "
        "`prefect work-pool get-default-base-job-template --type vertex-custom-job` has it."
    )


def test_a_variable_that_is_not_set_is_said_to_be_unset_whatever_the_template_uses() -> None:
    with pytest.raises(PlanError, match=r"^region is not set\. Set region"):
        assigned(template=without_use_of("region"), region=None)


def test_each_candidate_is_told_of_what_its_template_does_not_use() -> None:
    with pytest.raises(
        PlanError, match=r"^candidate 1 of 2 \(a\): job variable 'image' is set, but"
    ):
        assigned(template=without_use_of("image"), candidates=[{"region": "a"}, {"region": "b"}])
