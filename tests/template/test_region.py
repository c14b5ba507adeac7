"""`{region}` in a run's job variables, and the region's own text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from prefect_vertex.planning.spec import Candidate
from prefect_vertex.template import VertexJobConfiguration, base_job_template

AWorld = Callable[..., Any]
Resolved = Callable[..., VertexJobConfiguration]

MINIMUM = {"region": "europe-west4", "image": "i:1"}


def candidates_of(configuration: VertexJobConfiguration) -> tuple[Candidate, ...]:
    return configuration.run_spec("p").candidates


def image_of(candidate: Candidate) -> str:
    return str(candidate.job_spec["worker_pool_specs"][0]["container_spec"]["image_uri"])


@dataclass
class Variable:
    """One of Prefect's."""

    value: Any


def test_the_region_is_filled_into_what_a_prefect_variable_holds(a_world: AWorld) -> None:
    world = a_world(
        run={
            **MINIMUM,
            "regions": ["us-east1"],
            "image": "{{ prefect.variables.img }}",
            "worker_pools": ["{{ prefect.variables.pool }}"],
            "env": {"A": "{{ prefect.variables.img }}"},
            "setup_command": ["echo {{ prefect.variables.img }}"],
        },
        variables={
            "img": Variable("{region}-docker.pkg.dev/p/i:1"),
            "pool": Variable({"container_spec": {"args": ["{region}"], "command": ["{region}"]}}),
        },
    )
    found = candidates_of(world.resolve())
    containers = [each.job_spec["worker_pool_specs"][0]["container_spec"] for each in found]
    for region, container in zip(("europe-west4", "us-east1"), containers, strict=True):
        assert container["image_uri"] == f"{region}-docker.pkg.dev/p/i:1"
        assert (container["args"], container["command"]) == ([region], ["{region}"])
    for each in found:
        assert each.env["A"] == "{region}-docker.pkg.dev/p/i:1"
        assert each.setup_command == ("echo {region}-docker.pkg.dev/p/i:1",)


def test_a_single_region_is_filled_into_what_a_prefect_variable_holds(a_world: AWorld) -> None:
    world = a_world(
        run={**MINIMUM, "image": "{{ prefect.variables.img }}"},
        variables={"img": Variable("{region}/i:1")},
    )
    (one,) = candidates_of(world.resolve())
    assert image_of(one) == "europe-west4/i:1"


def test_no_secret_is_changed_by_the_region(a_world: AWorld) -> None:
    """What a block's secret holds is not meant, only what stands around it."""
    bucket = "gs://{region}-b/{{ prefect.blocks.secret.t }}"
    world = a_world(
        run={**MINIMUM, "base_output_directory": "{{ prefect.variables.folder }}"},
        variables={"folder": Variable("gs://{region}-b")},
        blocks={"secret/t": {"value": "x{region}y"}},
    )
    (filled,) = candidates_of(world.resolve())
    world.flow_run.job_variables["base_output_directory"] = bucket
    (composed,) = candidates_of(world.resolve())
    folders = [each.job_spec["base_output_directory"] for each in (filled, composed)]
    assert [each["output_uri_prefix"] for each in folders] == [
        "gs://europe-west4-b",
        "gs://europe-west4-b/x{region}y",
    ]


def test_a_template_s_own_place_gives_way_to_the_candidate_s(a_world: AWorld) -> None:
    template = base_job_template()
    template["job_configuration"]["region"] = "us-west1"
    world = a_world(
        template=template,
        run={"image": "{{ prefect.variables.img }}", "regions": ["us-east1"]},
        variables={"img": Variable("{region}/i:1")},
    )
    images = [image_of(each) for each in candidates_of(world.resolve())]
    assert images == ["us-west1/i:1", "us-east1/i:1"]


def test_a_candidates_region_may_be_a_prefect_variable(a_world: AWorld) -> None:
    entries = [{"region": "{{ prefect.variables.region }}", "image": "{region}/i:1"}, {}]
    world = a_world(
        run={**MINIMUM, "candidates": entries}, variables={"region": Variable("us-east1")}
    )
    first, _ = candidates_of(world.resolve())
    assert (first.location, image_of(first)) == ("us-east1", "us-east1/i:1")


@pytest.mark.parametrize(
    "variables",
    [
        {"region": " us-east1 "},
        {"region": " us-east1 ", "regions": ["us-east1 "]},
        {"candidates": [{"region": " us-east1"}]},
    ],
    ids=str,
)
def test_blanks_around_a_region_count_for_nothing(
    resolved: Resolved, variables: dict[str, Any]
) -> None:
    (plain,) = candidates_of(resolved(**variables))
    (filled,) = candidates_of(resolved(**variables, staging_bucket="b-{region}"))
    assert plain.location == "us-east1"
    assert (filled.location, filled.staging_folder) == ("us-east1", "gs://b-us-east1")
