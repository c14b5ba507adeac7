"""What a rendered configuration becomes: project, account, folders, limits, secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from prefect_vertex.errors import PlanError
from prefect_vertex.lifecycle.policy import RunPolicy
from prefect_vertex.planning.plan import build_plan
from prefect_vertex.planning.spec import Candidate
from prefect_vertex.template import VertexJobConfiguration

MINIMUM = {"region": "europe-west4", "image": "i:1", "project": "forecasts"}

AWorld = Callable[..., Any]
Resolved = Callable[..., VertexJobConfiguration]


def candidate_of(configuration: VertexJobConfiguration, **arguments: Any) -> Candidate:
    (candidate,) = configuration.run_spec(**{"default_project": "default", **arguments}).candidates
    return candidate


# --- where and as whom ---------------------------------------------------------------------------

KEY = {"client_email": "key@k.iam.gserviceaccount.com", "project_id": "of-key", "private_key": "x"}


@pytest.mark.parametrize(
    ("variables", "project"),
    [
        ({"project": "variable", "credentials": {"project": "of-block"}}, "variable"),
        ({"credentials": {"project": "of-block", "service_account_info": KEY}}, "of-block"),
        ({"credentials": {"service_account_info": KEY}}, "of-key"),
        ({"credentials": {}}, "default"),
        ({}, "default"),
    ],
)
def test_the_project_is_the_variables_then_the_credentials_then_the_workers(
    resolved: Resolved,
    variables: dict[str, Any],
    project: str,
) -> None:
    assert candidate_of(resolved(**variables)).project == project


@pytest.mark.parametrize(
    ("variables", "of_worker", "account"),
    [
        ({"service_account_name": "own@p"}, "worker@p", "own@p"),
        ({"credentials": {"service_account_info": KEY}}, "worker@p", KEY["client_email"]),
        ({}, "worker@p", "worker@p"),
        ({}, "default", None),
        ({}, "", None),
    ],
)
def test_the_run_as_account_is_the_variables_then_the_credentials_or_none(
    resolved: Resolved,
    variables: dict[str, Any],
    of_worker: str,
    account: str | None,
) -> None:
    candidate = candidate_of(resolved(**variables), service_account=of_worker)
    assert candidate.job_spec.get("service_account") == account


def test_a_block_is_read_as_values_by_reference_and_as_an_object(
    a_world: AWorld,
    resolved: Resolved,
) -> None:
    class Secret:
        def get_secret_value(self) -> dict[str, str]:
            return KEY

    class Block:
        service_account_info = Secret()
        service_account_file = None
        project = "of-block"

    values = {"service_account_info": KEY, "project": "of-block"}
    reference = "{{ prefect.blocks.gcp-credentials.mine }}"
    by_name = a_world(
        run={**MINIMUM, "credentials": reference},
        blocks={"gcp-credentials/mine": values},
    ).resolve()
    block_id = "33333333-1111-4222-8333-444455556666"
    by_id = a_world(
        run={**MINIMUM, "credentials": {"$ref": {"block_document_id": block_id}}},
        blocks={block_id: values},
    ).resolve()
    given = resolved(credentials=values)
    as_text = resolved(credentials={**values, "service_account_info": '{"project_id": "x"}'})
    whole = resolved(credentials=Block())
    read = [item.credential_values() for item in (by_name, by_id, given, whole)]
    assert read == [read[0]] * 4
    assert read[0].service_account_info == KEY
    assert as_text.credential_values().service_account_info == {"project_id": "x"}
    assert "private_key" not in repr(given)


def test_another_key_in_the_block_is_another_credentials_key(resolved: Resolved) -> None:
    first = resolved(credentials={"service_account_info": KEY})
    rotated = resolved(credentials={"service_account_info": {**KEY, "private_key": "y"}})
    filed = resolved(credentials={"service_account_file": "/keys/a.json"})
    keys = [candidate_of(item).credentials_key for item in (first, rotated, filed, resolved())]
    assert len(set(keys)) == 4
    assert keys[3] == ""
    assert "x" not in keys


# --- files and limits ----------------------------------------------------------------------------

RUN = "0f1e2d3c-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    ("variables", "directory"),
    [
        ({}, ""),
        ({"staging_bucket": "b"}, f"gs://b/checkpoints/{RUN}"),
        ({"staging_bucket": "gs://b/x/"}, f"gs://b/x/checkpoints/{RUN}"),
        (
            {"staging_bucket": "b", "base_output_directory": "gs://out/y"},
            f"gs://out/y/checkpoints/{RUN}",
        ),
    ],
)
def test_checkpoints_are_kept_below_the_output_directory_else_the_staging_bucket(
    resolved: Resolved,
    variables: dict[str, Any],
    directory: str,
) -> None:
    assert candidate_of(resolved(**variables)).checkpoint_dir == directory


def test_the_policy_carries_the_runs_own_times(resolved: Resolved) -> None:
    assert resolved(
        provisioning_timeout_seconds=5,
        start_grace_seconds=9,
        stall_timeout_seconds=1800,
        cancel_grace_seconds=7,
        job_watch_poll_interval=2.5,
        maximum_run_time_hours=0.5,
        strategy="spot",
    ).run_policy() == RunPolicy(
        provisioning_timeout_seconds=5,
        start_grace_seconds=9,
        stall_timeout_seconds=1800,
        cancel_grace_seconds=7,
        poll_interval_seconds=2.5,
        timeout_seconds=1800,
        spot=True,
    )


@pytest.mark.parametrize(
    ("scheduling", "seconds"),
    [
        ({"timeout": "PT1M"}, 60.0),
        ({"timeout": "soon"}, None),
        ({"timeout": ""}, 86400.0),
        ({"timeout": 60, "strategy": "SPOTT"}, 60.0),
        (None, 86400.0),
    ],
)
def test_the_policys_timeout_is_the_jobs_own(
    resolved: Resolved,
    scheduling: Any,
    seconds: float | None,
) -> None:
    assert resolved(scheduling=scheduling).run_policy().timeout_seconds == seconds


@pytest.mark.parametrize(
    ("scheduling", "spot"),
    [
        ({"strategy": "SPOT", "timeout": ""}, True),
        ({"strategy": "SPOT", "timeout": "soon"}, True),
        ({"strategy": "low-cost"}, True),
        ({"strategy": 2}, True),
        ({"strategy": "FLEX_START"}, False),
        ({"strategy": ""}, False),
    ],
    ids=str,
)
def test_the_policy_knows_spot_machines_by_either_name(
    resolved: Resolved,
    scheduling: dict[str, Any],
    spot: bool,  # noqa: FBT001 - a row of a table
) -> None:
    assert resolved(scheduling=scheduling).run_policy().spot is spot


def test_secrets_of_prefects_are_known_by_their_settings(resolved: Resolved) -> None:
    candidate = candidate_of(
        resolved(
            env={
                "PREFECT_API_KEY": "pnu_1",
                "PREFECT_API_AUTH_STRING": "a:b",
                "PREFECT_CLIENT_CUSTOM_HEADERS": "{}",
                "PREFECT_API_DATABASE_CONNECTION_URL": "postgres://",
                "LEVEL": "1",
            },
        ),
    )
    assert set(candidate.env) - {"LEVEL"} >= candidate.secret_env
    assert len(candidate.secret_env) == 4
    assert "pnu_1" not in repr(candidate)


def test_a_secret_never_stands_in_what_is_shown(resolved: Resolved) -> None:
    configuration = resolved(
        env={"PREFECT_API_KEY": "pnu_1"}, credentials={"service_account_info": KEY}
    )
    spec = configuration.run_spec()
    plan = build_plan(spec, spec.candidates[0], attempt=1, bootstrap="pass")
    for shown in (repr(configuration), repr(spec), repr(plan), plan.as_json()):
        assert "pnu_1" not in shown
        assert "private_key" not in shown


def test_prefect_variables_are_filled_in(a_world: AWorld) -> None:
    class Variable:
        value = "us-central1"

    world = a_world(
        run={**MINIMUM, "region": "{{ prefect.variables.region }}"},
        variables={"region": Variable()},
    )
    assert candidate_of(world.resolve()).location == "us-central1"


# --- replicas ------------------------------------------------------------------------------------


def test_the_candidate_knows_how_its_replicas_go_together(resolved: Resolved) -> None:
    """As the contract has it where nothing is set."""
    usual = candidate_of(resolved(worker_count=3))
    assert (usual.replicas, usual.gang_start, usual.gang_seconds) == ("flow", True, None)
    own = candidate_of(
        resolved(replicas="command", gang_start=False, provisioning_timeout_seconds=900)
    )
    assert (own.replicas, own.gang_start, own.gang_seconds) == ("command", False, 900)


@pytest.mark.parametrize(
    ("given", "folder"),
    [(None, ""), ("b", "gs://b"), ("gs://b", "gs://b"), ("gs://b/x/y/", "gs://b/x/y")],
)
def test_replicas_meet_in_the_staging_bucket(
    resolved: Resolved, given: str | None, folder: str
) -> None:
    candidate = candidate_of(resolved(staging_bucket=given, base_output_directory="gs://out/y"))
    assert candidate.staging_folder == folder


def test_each_region_s_replicas_meet_in_its_own_bucket(resolved: Resolved) -> None:
    spec = resolved(staging_bucket="b-{region}", regions=["us-east1"]).run_spec("p")
    assert [each.staging_folder for each in spec.candidates] == [
        "gs://b-europe-west4",
        "gs://b-us-east1",
    ]


def test_a_staging_bucket_that_is_none_is_refused_beside_an_output_directory(
    resolved: Resolved,
) -> None:
    with pytest.raises(PlanError, match="staging_bucket is"):
        candidate_of(resolved(staging_bucket="s3://b", base_output_directory="gs://out/y"))
