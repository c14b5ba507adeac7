"""What a launch record is told of a run: its own and its deployment's words, without secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from prefect.settings import PREFECT_API_KEY, temporary_settings

from prefect_vertex._version import __version__
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.launches import LaunchFacts, digest_of
from prefect_vertex.planning.masking import MASK
from prefect_vertex.template import VertexJobConfiguration, base_job_template

if TYPE_CHECKING:
    from tests.template.conftest import World

PLACE = {"region": "europe-west4", "image": "i:1", "project": "p"}
SECRET = "projects/p/secrets/key/versions/1"


def facts_of(world: World) -> LaunchFacts:
    found = world.resolve().launch_facts()
    assert found is not None
    return found


def test_the_variables_are_those_of_deployment_and_run_as_they_were_written(
    a_world: Callable[..., World],
) -> None:
    """References stay references: what they mean by then is another matter."""
    world = a_world(
        deployment={**PLACE, "env": {"A": "1", "B": "{{ prefect.variables.b }}"}},
        run={"image": "i:2", "env": {"A": "2"}, "machine_type": None},
        variables={},
    )
    world.flow_run.parameters = {"horizon": 12}
    facts = facts_of(world)

    assert facts.job_variables == {
        **PLACE,
        "image": "i:2",
        "env": {"A": "2", "B": "{{ prefect.variables.b }}"},
    }
    assert (facts.flow_name, facts.deployment_name) == ("Monthly Forecast", "monthly")
    assert facts.parameters == {"horizon": 12}
    assert facts.template_sha256 == digest_of(base_job_template())
    assert facts.packages["prefect-vertex"] == __version__


def test_a_run_without_a_deployment_has_none(a_world: Callable[..., World]) -> None:
    facts = facts_of(a_world(run=PLACE))

    assert (facts.deployment_id, facts.deployment_name) == ("", "")
    assert facts.job_variables == PLACE


@pytest.mark.parametrize("kept_out", [False, True], ids=["in the job", "in Secret Manager"])
def test_a_key_that_the_worker_uses_is_not_told(
    a_world: Callable[..., World],
    kept_out: bool,  # noqa: FBT001 - a row of a table
) -> None:
    """Wherever somebody copied it to, and whether or not it is sent."""
    variables: dict[str, Any] = {**PLACE, "service_account_name": "a@p.iam.gserviceaccount.com"}
    if kept_out:
        variables["prefect_api_key_secret"] = SECRET
    world = a_world(deployment={**variables, "env": {"PREFECT_API_KEY": "pnu_verysecret"}})
    assert world.deployment is not None
    world.deployment.parameter_openapi_schema = {"properties": {"note": {"type": "string"}}}
    world.flow_run.parameters = {"note": "the key is pnu_verysecret"}
    facts = facts_of(world)
    candidate = world.resolve().run_spec().candidates[0]

    assert facts.parameters == {"note": f"the key is {MASK}"}
    assert facts.job_variables["env"] == {"PREFECT_API_KEY": MASK}
    assert "pnu_verysecret" in candidate.hidden
    assert "pnu_verysecret" not in repr(candidate)


def test_the_worker_s_own_key_is_hidden_too(a_world: Callable[..., World]) -> None:
    """Prefect puts it into every job's environment."""
    world = a_world(deployment={**PLACE, "setup_command": ["echo pnu_worker-secret"]})
    with temporary_settings({PREFECT_API_KEY: "pnu_worker-secret"}):
        facts = facts_of(world)

    assert facts.job_variables["setup_command"] == [f"echo {MASK}"]


def test_a_password_that_the_flow_declares_is_not_told(a_world: Callable[..., World]) -> None:
    world = a_world(deployment=PLACE)
    assert world.deployment is not None
    world.deployment.parameter_openapi_schema = {
        "properties": {
            "password": {"type": "string", "format": "password", "writeOnly": True},
            "user": {"type": "string"},
        }
    }
    world.flow_run.parameters = {"password": "hunter2", "user": "me"}

    assert facts_of(world).parameters == {"password": MASK, "user": "me"}


def test_where_no_flow_run_was_prepared_for_there_are_no_facts() -> None:
    assert VertexJobConfiguration().launch_facts() is None


def test_a_configuration_with_a_fault_has_facts_all_the_same(a_world: Callable[..., World]) -> None:
    """Nothing is launched with it, and nothing breaks on the way."""
    world = a_world(deployment=PLACE, run={"hardware": "quantum"})

    assert isinstance(world.resolve().fault, PlanError)
    assert facts_of(world).job_variables["hardware"] == "quantum"
