"""Resolving: levels of job variables, what depends on the run, and what comes out of it."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from prefect.settings import PREFECT_LOGGING_LEVEL, temporary_settings

from prefect_vertex.planning.plan import build_plan
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.template import VertexJobConfiguration, base_job_template

MINIMUM = {"region": "europe-west4", "image": "i:1", "project": "forecasts"}

AWorld = Callable[..., Any]
Resolved = Callable[..., VertexJobConfiguration]


def candidate_of(configuration: VertexJobConfiguration, **arguments: Any) -> Candidate:
    (candidate,) = configuration.run_spec(**{"default_project": "default", **arguments}).candidates
    return candidate


def env_of(configuration: VertexJobConfiguration) -> dict[str, str]:
    return dict(candidate_of(configuration).env)


# --- levels --------------------------------------------------------------------------------------


def template_with(env: object = None, default_env: object = None) -> dict[str, Any]:
    template = base_job_template()
    if env is not None:
        template["job_configuration"]["env"] = env
    if default_env is not None:
        template["variables"]["properties"]["env"]["default"] = default_env
    return template


def test_each_level_of_env_covers_the_one_below(a_world: AWorld) -> None:
    names = ["PREFECT_LOGGING_LEVEL", "B", "C", "D", "E"]
    levels = [dict.fromkeys(names[index:], str(index)) for index in range(5)]
    world = a_world(
        template=template_with(env=levels[1], default_env=levels[2]),
        deployment={**MINIMUM, "env": levels[3]},
        run={"env": levels[4]},
    )
    with temporary_settings({PREFECT_LOGGING_LEVEL: "WARNING"}):
        values = env_of(world.resolve())
    assert values["PREFECT_LOGGING_LEVEL"] == "WARNING"
    assert [values[name] for name in names[1:]] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(
    "run",
    [{"env": {"A": None}}, {"env.A": None}, {"env": None}],
    ids=["value", "dotted", "whole"],
)
def test_a_null_at_a_level_unsets_what_the_lower_ones_say(a_world: AWorld, run: Any) -> None:
    world = a_world(deployment={**MINIMUM, "env": {"A": "1"}}, run=run)
    assert "A" not in env_of(world.resolve())


def test_a_null_unsets_a_setting_of_the_workers(resolved: Resolved) -> None:
    name = "PREFECT_LOGGING_LEVEL"
    with temporary_settings({PREFECT_LOGGING_LEVEL: "WARNING"}):
        assert env_of(resolved())[name] == "WARNING"
        assert name not in env_of(resolved(env={name: None}))


def test_a_null_run_variable_over_the_deployments_is_the_templates_default(a_world: AWorld) -> None:
    world = a_world(
        deployment={**MINIMUM, "worker_count": 4, "labels": {"a": "1"}},
        run={"worker_count": None, "labels": None},
    )
    candidate = candidate_of(world.resolve())
    assert (candidate.worker_count, candidate.labels) == (1, {})


def test_dotted_keys_of_the_run_reach_into_the_deployments_mappings(a_world: AWorld) -> None:
    world = a_world(
        deployment={**MINIMUM, "env": {"A": "1", "B": "1"}, "labels": {"a": "1"}},
        run={"env.B": "2", "labels.b": "2"},
    )
    candidate = candidate_of(world.resolve())
    assert (candidate.env["A"], candidate.env["B"]) == ("1", "2")
    assert candidate.labels == {"a": "1", "b": "2"}


def test_within_one_level_a_whole_mapping_wins_over_dotted_keys(a_world: AWorld) -> None:
    world = a_world(run={**MINIMUM, "env.A": "dotted", "env.B": "dotted", "env": {"A": "whole"}})
    values = env_of(world.resolve())
    assert (values["A"], values["B"]) == ("whole", "dotted")


def test_resolving_changes_nothing_it_is_given_and_can_be_repeated(a_world: AWorld) -> None:
    world = a_world(
        deployment={**MINIMUM, "env": {"A": "1"}, "scheduling": {"strategy": "SPOT"}},
        run={"env": {"B": "2"}, "env.C": "3", "labels": {"a": "1"}, "name": "{{ ctx.flow.name }}"},
    )
    before = copy.deepcopy(world)
    first = world.resolve()
    assert world == before
    second = world.resolve()
    assert first.run_spec() == second.run_spec()
    assert first == second
    assert env_of(first)["B"] == "2"


def test_deployments_are_read_where_none_is_given(a_world: AWorld) -> None:
    world = a_world(deployment={**MINIMUM, "worker_count": 2}, run={})
    world.client.deployments = {world.deployment.id: world.deployment}
    world.deployment = None
    assert world.resolve().worker_count == 2


# --- what depends on the run ---------------------------------------------------------------------


def test_preparing_again_gives_the_same(a_world: AWorld) -> None:
    world = a_world(
        run={**MINIMUM, "env": {"PREFECT_LOGGING_LEVEL": None}, "labels": {"a": "1"}},
    )
    with temporary_settings({PREFECT_LOGGING_LEVEL: "WARNING"}):
        configuration = world.resolve()
        before = configuration.run_spec()
        configuration.prepare_for_flow_run(
            world.flow_run,
            deployment=None,
            flow=asyncio.run(world.client.read_flow(world.flow_run.flow_id)),
            work_pool=world.work_pool,
            worker_name="worker-1",
        )
    assert configuration.run_spec() == before
    assert "PREFECT_LOGGING_LEVEL" not in env_of(configuration)


def test_the_identity_is_prefects_and_the_candidates_labels_are_the_users(a_world: AWorld) -> None:
    world = a_world(
        deployment={},
        run={**MINIMUM, "labels": {"team": 7, "prefect.io/flow-run-id": "x", "empty": None}},
    )
    spec = world.resolve().run_spec()
    identity = spec.identity
    assert identity.flow_run_id == str(world.flow_run.id)
    assert identity.work_pool_id == str(world.work_pool.id)
    assert identity.labels["prefect.io/flow-run-id"] == str(world.flow_run.id)
    assert identity.labels["prefect.io/deployment-name"] == "monthly"
    assert identity.labels["prefect.io/worker-name"] == "worker-1"
    assert spec.candidates[0].labels == {"team": "7", "prefect.io/flow-run-id": "x"}
    assert world.resolve().labels["prefect.io/flow-run-id"] == str(world.flow_run.id)


def test_the_name_may_be_a_template(resolved: Resolved) -> None:
    named = resolved(name="{{ ctx.flow.name }} {{ ctx.flow_run.name }}")
    assert candidate_of(named).name == "Monthly Forecast crafty-mongoose"
    assert candidate_of(resolved()).name == "crafty-mongoose"


def test_the_command_is_prefects_unless_one_is_set(resolved: Resolved) -> None:
    assert candidate_of(resolved()).command == ("prefect", "flow-run", "execute")
    assert candidate_of(resolved(command="python -m 'my flow'")).command == (
        "python",
        "-m",
        "my flow",
    )


def test_events_can_name_what_the_run_belongs_to(a_world: AWorld) -> None:
    related = a_world(deployment=MINIMUM, run={}).resolve()._related_resources()
    assert {item.role for item in related} >= {"flow", "flow-run", "deployment"}


def test_without_a_flow_run_there_is_no_spec() -> None:
    with pytest.raises(RuntimeError, match="prepare_for_flow_run"):
        VertexJobConfiguration().run_spec()


# --- edited templates ----------------------------------------------------------------------------


def test_a_user_may_edit_the_job_spec_and_remove_variables(a_world: AWorld) -> None:
    template = base_job_template()
    spec = template["job_configuration"]["job_spec"]
    spec["tensorboard"] = "projects/p/locations/europe-west4/tensorboards/1"
    spec["base_output_directory"] = "gs://b/out"
    spec["network"] = None
    first = spec["worker_pool_specs"][0]
    first["machine_spec"] = {"machine_type": "{{ machine_type }}", "accelerator_type": None}
    spec["worker_pool_specs"] += [None, {"container_spec": {"image_uri": "server"}}]
    for name in ("accelerator_type", "accelerator_count", "network", "maximum_run_time_hours"):
        del template["variables"]["properties"][name]
    del template["job_configuration"]["maximum_run_time_hours"]
    world = a_world(template=template, run={**MINIMUM, "service_account_name": "s@p"})
    spec_made = world.resolve().run_spec()
    plan = build_plan(spec_made, spec_made.candidates[0], attempt=1, bootstrap="pass")
    job_spec = plan.request.custom_job.job_spec
    assert job_spec.tensorboard.endswith("/tensorboards/1")
    assert job_spec.base_output_directory.output_uri_prefix == "gs://b/out"
    assert [bool(pool.container_spec.image_uri) for pool in job_spec.worker_pool_specs] == [
        True,
        False,
        True,
    ]
    assert job_spec.scheduling.timeout == timedelta(days=1)
