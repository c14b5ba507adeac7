"""A run with several candidates: each rendered for itself, judged for itself, named in mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.capacity.ledger import names_of
from prefect_vertex.capacity.policy import CapacityPolicy
from prefect_vertex.errors import MachineSpecError, PlanError, SchedulingError
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.planning.plan import build_plan
from prefect_vertex.planning.scheduling import STRATEGIES
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.template import VertexJobConfiguration, base_job_template

AWorld = Callable[..., Any]
Resolved = Callable[..., VertexJobConfiguration]

MINIMUM = {"region": "europe-west4", "image": "i:1"}
SPOT_FIRST = {"regions": ["us-east1"], "strategy": ["SPOT", "STANDARD"]}
KEY = {"client_email": "key@k.iam.gserviceaccount.com", "project_id": "of-key", "private_key": "x"}


def candidates_of(configuration: VertexJobConfiguration) -> tuple[Candidate, ...]:
    return configuration.run_spec("p").candidates


def places_of(configuration: VertexJobConfiguration) -> list[tuple[str, object]]:
    return [
        (each.location, each.job_spec["scheduling"].get("strategy"))
        for each in candidates_of(configuration)
    ]


def machine_of(candidate: Candidate) -> dict[str, Any]:
    return dict(candidate.job_spec["worker_pool_specs"][0].get("machine_spec", {}))


def fault_of(configuration: VertexJobConfiguration) -> PlanError:
    with pytest.raises(PlanError) as caught:
        configuration.run_spec("p")
    assert "\n" not in str(caught.value)
    return caught.value


# --- what is tried, in which order ----------------------------------------------------------------


def test_each_strategy_is_tried_in_each_region(resolved: Resolved) -> None:
    configuration = resolved(**SPOT_FIRST)
    spot, standard = STRATEGIES["SPOT"], STRATEGIES["STANDARD"]
    assert places_of(configuration) == [
        ("europe-west4", spot),
        ("us-east1", spot),
        ("europe-west4", standard),
        ("us-east1", standard),
    ]
    assert [each.index for each in candidates_of(configuration)] == [0, 1, 2, 3]
    assert configuration.titles[1] == "candidate 2 of 4 (us-east1, SPOT)"


def test_candidates_are_named_as_a_user_writes_them(resolved: Resolved) -> None:
    strategies = candidates_of(resolved(**MINIMUM, strategy=["spot", "STANDARD"]))
    entries = [{"hardware": "gpu", "gpu_type": kind} for kind in ("T4", "L4")]
    gpus = candidates_of(resolved(**MINIMUM, candidates=entries))

    assert names_of(strategies) == ("europe-west4 (SPOT)", "europe-west4 (STANDARD)")
    for name, kind in zip(names_of(gpus), ("NVIDIA_TESLA_T4", "NVIDIA_L4"), strict=True):
        assert f"1 {kind}" in name


def test_an_empty_list_of_strategies_is_none(resolved: Resolved) -> None:
    assert places_of(resolved(strategy=[], regions=[])) == [("europe-west4", None)]


def test_each_candidate_overrides_any_variable(resolved: Resolved) -> None:
    first, second = candidates_of(
        resolved(
            machine_type="n1-standard-16",
            accelerator_type="NVIDIA_TESLA_T4",
            accelerator_count=1,
            env={"A": "1", "B": "1"},
            candidates=[
                {"region": "us-east1", "env.B": "2", "worker_count": 3, "image": "other:1"},
                {"machine_type": "n2-standard-8", "accelerator_type": None, "project": "q"},
            ],
        )
    )
    assert (first.location, first.project, first.worker_count) == ("us-east1", "p", 3)
    assert first.job_spec["worker_pool_specs"][0]["container_spec"]["image_uri"] == "other:1"
    assert (first.env["A"], first.env["B"], second.env["B"]) == ("1", "2", "1")
    assert (second.location, second.project, second.worker_count) == ("europe-west4", "q", 1)
    assert "accelerator_type" not in machine_of(second)


def test_a_null_in_a_candidate_unsets_the_pools_default_too(a_world: AWorld) -> None:
    template = base_job_template()
    template["variables"]["properties"]["network"]["default"] = "projects/1/global/networks/n"
    world = a_world(template=template, run={**MINIMUM, "candidates": [{}, {"network": None}]})
    first, second = candidates_of(world.resolve())
    assert (first.job_spec.get("network"), second.job_spec.get("network")) == (
        "projects/1/global/networks/n",
        None,
    )


def test_the_pools_defaults_and_the_deployments_walk_are_used_together(a_world: AWorld) -> None:
    template = base_job_template()
    properties = template["variables"]["properties"]
    properties["regions"]["default"] = ["us-east1"]
    properties["image"]["default"] = "{region}-docker.pkg.dev/p/r/i:1"
    world = a_world(
        template=template, deployment={"region": "us-west1"}, run={"strategy": ["SPOT"]}
    )
    found = candidates_of(world.resolve())
    images = [
        each.job_spec["worker_pool_specs"][0]["container_spec"]["image_uri"] for each in found
    ]
    assert images == [f"{name}-docker.pkg.dev/p/r/i:1" for name in ("us-west1", "us-east1")]


def test_a_template_with_a_place_of_its_own_still_goes_on_to_the_regions(a_world: AWorld) -> None:
    template = base_job_template()
    template["job_configuration"] |= {"region": "us-west1", "strategy": ["SPOT", "STANDARD"]}
    world = a_world(template=template, run={"image": "i:1", "regions": ["us-east1"]})
    assert [place for place, _ in places_of(world.resolve())] == ["us-west1", "us-east1"] * 2


def test_the_region_is_filled_in_for_one_candidate_too(a_world: AWorld) -> None:
    class Variable:
        value = "us-east1"

    world = a_world(
        run={
            **MINIMUM,
            "region": "{{ prefect.variables.region }}",
            "image": "{region}/i:1",
            "env": {"A": "{region}"},
        },
        variables={"region": Variable()},
    )
    (one,) = candidates_of(world.resolve())
    assert one.location == "us-east1"
    assert one.job_spec["worker_pool_specs"][0]["container_spec"]["image_uri"] == "us-east1/i:1"
    assert one.env["A"] == "{region}"


def test_each_candidate_may_have_its_own_credentials(a_world: AWorld) -> None:
    world = a_world(
        run={
            **MINIMUM,
            "candidates": [
                {"credentials": "{{ prefect.blocks.gcp-credentials.mine }}"},
                {"region": "us-east1"},
            ],
        },
        blocks={"gcp-credentials/mine": {"service_account_info": KEY}},
    )
    configuration = world.resolve()
    keys = [each.credential_values().key for each in configuration.rendered]
    spec = configuration.run_spec("p", "worker@p", identities={"": ("own", "own@p")})
    assert [each.credentials_key for each in spec.candidates] == keys
    assert [each.project for each in spec.candidates] == ["of-key", "own"]
    accounts = [each.job_spec["service_account"] for each in spec.candidates]
    assert accounts == [KEY["client_email"], "own@p"]


def test_no_key_of_a_candidate_is_shown(resolved: Resolved) -> None:
    configuration = resolved(
        candidates=[{"credentials": {"service_account_info": KEY}}, {"region": "us-east1"}]
    )
    assert configuration.rendered[0].credential_values().service_account_info == KEY
    for each in configuration.rendered:
        assert "private_key" not in repr(each)


def test_a_candidate_that_is_there_twice_is_left_out_with_a_warning(resolved: Resolved) -> None:
    configuration = resolved(regions=["us-east1", "europe-west4"])
    assert [each.location for each in candidates_of(configuration)] == ["europe-west4", "us-east1"]
    assert configuration.warnings == (
        "The candidate (europe-west4) is there twice; it is tried once in a pass.",
    )


def test_all_attempts_share_one_checkpoint_folder(resolved: Resolved) -> None:
    """An attempt in another region must find what the one before it has kept."""
    found = candidates_of(resolved(regions=["us-east1"], staging_bucket="b-{region}"))
    folders = {each.checkpoint_dir for each in found}
    assert len(folders) == 1
    assert folders.pop().startswith("gs://b-europe-west4/checkpoints/")


def test_resolving_again_gives_the_same_candidates(a_world: AWorld) -> None:
    world = a_world(deployment={**MINIMUM, **SPOT_FIRST}, run={"env": {"A": "1"}})
    first, second = world.resolve(), world.resolve()
    assert first == second
    assert first.run_spec("p") == second.run_spec("p")
    assert len(first.run_spec("p").candidates) == 4


def test_every_candidate_is_prepared_for_the_flow_run(resolved: Resolved) -> None:
    spec = resolved(labels={"team": "x"}, **SPOT_FIRST).run_spec("p")
    for candidate in spec.candidates:
        plan = build_plan(spec, candidate, attempt=1, bootstrap="pass")
        assert plan.labels["team"] == "x"
        assert plan.labels["prefect-io_flow-run-id"] == spec.identity.flow_run_id
        assert candidate.command == ("prefect", "flow-run", "execute")


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "variable", "words"),
    [
        (
            {"candidates": [{"region": "us-east1", "worker_count": "two"}, {}]},
            "worker_count",
            "candidate 1 of 2 (us-east1): worker_count is 'two', expected a valid integer",
        ),
        (
            {"candidates": [{}, {"machine_typ": "x"}]},
            "machine_typ",
            "candidates[1]: job variable 'machine_typ' is not one of this work pool's",
        ),
        (
            {"candidates": [{}, {"credentials": "{{ prefect.blocks.gcp-credentials.gone }}"}]},
            "",
            "candidate 2 of 2 (europe-west4): A job variable or the work pool's template refers",
        ),
        (
            {"candidates": [{}], "regions": ["us-east1"]},
            "candidates",
            "candidates is set, and regions beside it. Write region and strategy into each",
        ),
        (
            {"candidates": [{}], "strategy": ["SPOT"]},
            "candidates",
            "candidates is set, and a list in strategy beside it",
        ),
        ({"candidates": [{"regions": ["a"]}]}, "candidates", "candidates[0] has regions"),
        ({"candidates": "us-east1"}, "candidates", "candidates is 'us-east1', expected a valid l"),
        (
            {"candidates": ["us-east1"]},
            "candidates",
            "candidates[0] is 'us-east1', expected a map",
        ),
        ({"regions": "us-east1"}, "regions", "regions is 'us-east1', expected a valid list"),
        ({"capacity": {"max_atempts": 1}}, "capacity", "the closest is 'max_attempts'"),
        ({"capacity": {"max_attempts": -1}}, "capacity", "capacity.max_attempts is -1"),
        ({"hardware": "tpu"}, "hardware", "hardware is 'tpu', expected 'cpu' or 'gpu'"),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_what_cannot_be_rendered_is_the_fault_and_names_the_candidate(
    resolved: Resolved, variables: dict[str, Any], variable: str, words: str
) -> None:
    configuration = resolved(**variables)
    assert configuration.fault is fault_of(configuration)
    assert configuration.fault.variable == variable
    assert words in str(configuration.fault)
    assert configuration.run_policy() == RunPolicy()
    assert configuration.capacity_policy() == CapacityPolicy()


@pytest.mark.parametrize(
    ("variables", "kind", "words"),
    [
        (
            {"strategy": ["SPOT", "SPOTT"]},
            SchedulingError,
            "candidate 2 of 2 (europe-west4, SPOTT): strategy is 'SPOTT'",
        ),
        (
            {"candidates": [{}, {"gpu_type": "T4", "accelerator_count": 3}]},
            MachineSpecError,
            "candidate 2 of 2 (europe-west4): NVIDIA_TESLA_T4 comes in counts of 1, 2 or 4",
        ),
        (
            {"strategy": ["SPOT", "STANDARD"], "scheduling": {"strategy": "SPOT"}},
            SchedulingError,
            "candidate 2 of 2 (europe-west4, STANDARD): strategy is STANDARD and scheduling",
        ),
        (
            {"candidates": [{"region": None}, {}]},
            PlanError,
            "candidate 1 of 2 (no region): region is not set",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_for_its_candidate(
    resolved: Resolved, variables: dict[str, Any], kind: type[PlanError], words: str
) -> None:
    configuration = resolved(**variables)
    assert configuration.fault is None
    error = fault_of(configuration)
    assert isinstance(error, kind)
    assert words in str(error)


PATCH = {"op": "add", "path": "/job_spec/scheduling/strategy"}


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ({"strategy": ["SPOT", "FLEX_START"]}, 1),
        ({"job_spec_patch": [{**PATCH, "value": "FLEX_START"}]}, 0),
        ({"strategy": "FLEX_START", "job_spec_patch": [{**PATCH, "value": "SPOT"}]}, None),
    ],
)
def test_a_timeout_within_the_wait_for_machines_is_refused_as_the_job_is_sent(
    resolved: Resolved, variables: dict[str, Any], refused: int | None
) -> None:
    configuration = resolved(gpu_type="L4", provisioning_timeout_seconds=600, **variables)
    spec = configuration.run_spec("p")
    found = {}
    for each in spec.candidates:
        try:
            build_plan(spec, each, attempt=1, bootstrap="pass")
        except SchedulingError as error:
            found[each.index] = error.variable
    assert found == ({} if refused is None else {refused: "provisioning_timeout_seconds"})


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({}, "may wait for 1 day, 0:00:00"),
        ({"max_wait_duration": "3600s"}, "may wait for 1:00:00"),
        ({"max_wait_duration": 0}, "may wait for ever"),
        ({"max_wait_duration": "1800s"}, None),
        ({"capacity": {"max_wall_seconds": 90_000}}, None),
        ({"capacity": {"max_wall_seconds": 0}}, None),
        ({"strategy": ["SPOT", "FLEX_START"]}, None),
        ({"strategy": "FLEX_START"}, None),
    ],
)
def test_a_wait_that_leaves_the_candidates_after_it_no_time_is_told(
    resolved: Resolved, variables: dict[str, Any], words: str | None
) -> None:
    asked = {"strategy": ["FLEX_START", "STANDARD"], "gpu_type": "L4", **variables}
    found = [line for line in resolved(**asked).warnings if "max_wall_seconds" in line]
    assert len(found) == (words is not None)
    for line in found:
        assert line.startswith(f"candidate 1 of 2 (europe-west4, FLEX_START) {words}")


def test_a_persistent_resource_is_not_looked_for_in_a_second_region(a_world: AWorld) -> None:
    template = base_job_template()
    template["job_configuration"]["job_spec"]["persistent_resource_id"] = "mine"
    error = fault_of(a_world(template=template, run={**MINIMUM, "regions": ["us-east1"]}).resolve())
    assert error.message.startswith("persistent_resource_id is mine in europe-west4 and us-east1")


# --- hardware -------------------------------------------------------------------------------------


def test_hardware_and_gpu_type_become_the_machine_of_the_first_pool(resolved: Resolved) -> None:
    (candidate,) = candidates_of(resolved(hardware="gpu", gpu_type="l4", accelerator_count=2))
    assert machine_of(candidate) == {
        "machine_type": "g2-standard-24",
        "accelerator_type": "NVIDIA_L4",
        "accelerator_count": 2,
    }


def test_each_candidate_resolves_its_own_hardware(resolved: Resolved) -> None:
    found = candidates_of(
        resolved(candidates=[{"gpu_type": "L4"}, {"gpu_type": "T4"}, {"hardware": "cpu"}, {}])
    )
    machines = [machine_of(each).get("machine_type") for each in found]
    assert machines == ["g2-standard-8", "n1-standard-8", "n2-standard-8", None]


def test_an_explicit_machine_type_wins_over_hardware(resolved: Resolved) -> None:
    (candidate,) = candidates_of(resolved(gpu_type="T4", machine_type="n1-highmem-8"))
    assert machine_of(candidate)["machine_type"] == "n1-highmem-8"


def test_what_is_sent_in_spite_of_a_contradiction_is_a_warning(resolved: Resolved) -> None:
    configuration = resolved(hardware="cpu", gpu_type="T4", validate_hardware="warn")
    assert machine_of(candidates_of(configuration)[0]) == {"machine_type": "n2-standard-8"}
    assert configuration.warnings == (
        "hardware is cpu, but gpu_type is T4. It is sent because validate_hardware is warn.",
    )


# --- policies -------------------------------------------------------------------------------------


def test_the_policy_is_that_of_the_candidate(resolved: Resolved) -> None:
    configuration = resolved(
        strategy=["SPOT", "STANDARD"],
        capacity={"max_restarts": 2, "max_attempts": 3},
        maximum_run_time_hours=2,
    )
    first, second = configuration.run_policy(), configuration.run_policy(1)
    assert (first.spot, second.spot) == (True, False)
    assert (first.timeout_seconds, first.max_restarts) == (7200.0, 2)
    assert configuration.capacity_policy() == CapacityPolicy(max_attempts=3, max_restarts=2)


def test_the_policy_of_a_candidate_has_its_own_limits(resolved: Resolved) -> None:
    configuration = resolved(
        candidates=[{"maximum_run_time_hours": 1}, {"provisioning_timeout_seconds": 300}]
    )
    assert configuration.run_policy().timeout_seconds == 3600.0
    assert configuration.run_policy(1).timeout_seconds == 86_400.0
    assert configuration.run_policy(1).provisioning_timeout_seconds == 300


def test_a_list_that_nobody_expanded_is_still_read_for_the_policy() -> None:
    assert VertexJobConfiguration(strategy=["SPOT", "STANDARD"]).run_policy().spot
