"""No secret of Prefect's stands in a job whose key is in Secret Manager."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import types
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_KEY,
    PREFECT_CLIENT_CUSTOM_HEADERS,
    temporary_settings,
)
from pydantic import SecretStr

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.template import VertexJobConfiguration
from prefect_vertex.template.secrets import (
    about_plain_keys,
    secret_names,
    secret_setting_names,
    secret_version,
)

Resolved = Callable[..., VertexJobConfiguration]

VERSION = "projects/p/secrets/prefect-api-key/versions/3"
WITH_SECRET = {
    "prefect_api_key_secret": VERSION,
    "service_account_name": "runner@p.iam.gserviceaccount.com",
    "project": "p",
}


def plan_of(configuration: VertexJobConfiguration) -> JobPlan:
    spec = configuration.run_spec()
    return build_plan(spec, spec.candidates[0], attempt=1, bootstrap="pass")


def sent(configuration: VertexJobConfiguration) -> str:
    """The request as it goes over the wire."""
    request: bytes = types.CreateCustomJobRequest.serialize(plan_of(configuration).request)
    return request.decode("latin-1")


def environment(configuration: VertexJobConfiguration, pool: int = 0) -> dict[str, str]:
    pools = plan_of(configuration).request.custom_job.job_spec.worker_pool_specs
    return {entry.name: entry.value for entry in pools[pool].container_spec.env}


def fault_of(configuration: VertexJobConfiguration) -> PlanError:
    with pytest.raises(PlanError) as caught:
        configuration.run_spec()
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture
def workers_own() -> Iterator[dict[str, str]]:
    """A worker whose settings hold a key and headers; the values by variable."""
    headers = {"Proxy-Authorization": "header-hidden"}
    with temporary_settings(
        {PREFECT_API_KEY: SecretStr("pnu_hidden"), PREFECT_CLIENT_CUSTOM_HEADERS: headers}
    ):
        yield {
            "PREFECT_API_KEY": "pnu_hidden",
            "PREFECT_CLIENT_CUSTOM_HEADERS": "header-hidden",
        }


def test_the_workers_own_secrets_are_replaced_by_the_version(
    resolved: Resolved, workers_own: dict[str, str]
) -> None:
    """The same configuration without the variable shows that they would have been sent."""
    with_secret, without = resolved(**WITH_SECRET), resolved(project="p")

    assert environment(with_secret)["PREFECT_VERTEX_API_KEY_SECRET"] == VERSION
    assert not workers_own.keys() & environment(with_secret).keys()
    for value in workers_own.values():
        assert value in sent(without)
        assert value not in sent(with_secret)


def test_every_replica_that_runs_the_bootstrap_is_told(resolved: Resolved) -> None:
    configuration = resolved(**WITH_SECRET, worker_count=3)

    assert [environment(configuration, pool)["PREFECT_VERTEX_API_KEY_SECRET"] for pool in (0, 1)]


def test_the_auth_string_is_replaced_where_the_worker_uses_one(resolved: Resolved) -> None:
    """As Prefect's client does, it comes before a key."""
    updates = {PREFECT_API_AUTH_STRING: SecretStr("admin:hidden")}
    updates[PREFECT_API_KEY] = SecretStr("pnu_hidden")
    with temporary_settings(updates):
        configuration = resolved(**WITH_SECRET)

    assert environment(configuration)["PREFECT_VERTEX_API_AUTH_STRING_SECRET"] == VERSION
    assert "PREFECT_VERTEX_API_KEY_SECRET" not in environment(configuration)
    assert "hidden" not in sent(configuration)


def test_a_worker_without_a_key_may_name_a_secret(resolved: Resolved) -> None:
    assert environment(resolved(**WITH_SECRET))["PREFECT_VERTEX_API_KEY_SECRET"] == VERSION


@pytest.mark.parametrize("name", sorted(secret_setting_names()))
@pytest.mark.parametrize("spelt", [str.upper, str.lower])
def test_no_secret_setting_is_sent_from_any_level(
    resolved: Resolved, name: str, spelt: Callable[[str], str]
) -> None:
    """Prefect reads its variables in any case."""
    spelling = spelt(name)
    in_variables = resolved(**WITH_SECRET, env={spelling: "value-hidden"})
    in_a_pool = resolved(**WITH_SECRET, env={"KEPT": "1"})
    (container,) = [pool["container_spec"] for pool in in_a_pool.job_spec["worker_pool_specs"]]
    container["env"] = [{"name": spelling, "value": "value-hidden"}, {"name": "OWN", "value": "2"}]
    as_mapping = resolved(**WITH_SECRET)
    (container,) = [pool["container_spec"] for pool in as_mapping.job_spec["worker_pool_specs"]]
    container["env"] = {spelling: "value-hidden", "OWN": "2"}

    for configuration in (in_variables, in_a_pool, as_mapping):
        assert "value-hidden" not in sent(configuration)
        assert spelling not in environment(configuration)
    assert environment(in_a_pool).items() >= {"KEPT": "1", "OWN": "2"}.items()
    assert environment(as_mapping)["OWN"] == "2"
    assert container["env"] == {spelling: "value-hidden", "OWN": "2"}


def test_the_two_api_credentials_and_more_are_known_by_type() -> None:
    assert secret_setting_names() >= {
        "PREFECT_API_KEY",
        "PREFECT_API_AUTH_STRING",
        "PREFECT_SERVER_API_AUTH_STRING",
        "PREFECT_SERVER_DATABASE_PASSWORD",
        "PREFECT_API_DATABASE_CONNECTION_URL",
        "PREFECT_CLIENT_CUSTOM_HEADERS",
    }
    assert secret_names(["PREFECT_API_URL", "prefect_api_key"]) == {"prefect_api_key"}


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({"env": {"MINE": "Bearer pnu_hidden"}}, "env.MINE"),
        ({"setup_command": ["true", "login pnu_hidden"]}, "setup_command[1]"),
        ({"command": "run --key pnu_hidden"}, "command"),
        ({"labels": {"key": "pnu_hidden"}}, "labels.key"),
        ({"network": "pnu_hidden"}, "job_spec.network"),
    ],
)
@pytest.mark.usefixtures("workers_own")
def test_the_same_value_elsewhere_is_refused(
    resolved: Resolved, variables: dict[str, Any], place: str
) -> None:
    fault = fault_of(resolved(**WITH_SECRET, **variables))

    assert f"{place} holds the value of PREFECT_API_KEY" in str(fault)
    assert "pnu_hidden" not in str(fault)


def test_a_patch_cannot_bring_a_secret_back(resolved: Resolved) -> None:
    entry = {"name": "PREFECT_API_KEY", "value": "pnu_hidden"}
    path = "/job_spec/worker_pool_specs/0/container_spec/env/-"
    patch = [{"op": "add", "path": path, "value": entry}]

    fault = fault_of(resolved(**WITH_SECRET, job_spec_patch=patch))

    assert (fault.variable, "sets PREFECT_API_KEY" in str(fault)) == ("job_spec_patch", True)
    assert "pnu_hidden" not in str(fault)


# --- the variable --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "full"),
    [
        (VERSION, VERSION),
        ("projects/123/secrets/s/versions/latest", "projects/123/secrets/s/versions/latest"),
        ("projects/example.com:p/secrets/s", "projects/example.com:p/secrets/s/versions/latest"),
        (" projects/p/secrets/S_1/versions/prod ", "projects/p/secrets/S_1/versions/prod"),
    ],
)
def test_a_secret_without_a_version_is_its_latest(text: str, full: str) -> None:
    assert secret_version(text) == full


@pytest.mark.parametrize(
    "text",
    [
        "projects/p/secrets",
        "projects/p/secrets/s/versions",
        "projects/p/secrets/s/versions/1:access",
        "projects/p/locations/l/secrets/s/versions/1",
        "projects/p/secrets/a b",
        "projects/p/secrets/s/versions/1/../../x",
    ],
)
def test_another_form_is_refused_and_shown(resolved: Resolved, text: str) -> None:
    fault = fault_of(resolved(**{**WITH_SECRET, "prefect_api_key_secret": text}))

    assert fault.variable == "prefect_api_key_secret"
    assert str(fault).startswith("prefect_api_key_secret is 'projects/")
    assert "expected projects/PROJECT/secrets/SECRET/versions/VERSION" in str(fault)


@pytest.mark.parametrize("value", ["pnu_hidden", {"key": "pnu_hidden"}])
def test_a_key_pasted_there_is_not_shown(resolved: Resolved, value: Any) -> None:
    fault = fault_of(resolved(**{**WITH_SECRET, "prefect_api_key_secret": value}))

    assert fault.variable == "prefect_api_key_secret"
    assert "pnu_hidden" not in str(fault)


def test_it_needs_a_service_account(resolved: Resolved) -> None:
    """The one that the credentials name is as good as the variable."""
    variables = {**WITH_SECRET, "service_account_name": None}

    fault = fault_of(resolved(**variables))

    assert fault.variable == "prefect_api_key_secret"
    assert "service_account_name is not" in str(fault)
    assert resolved(**variables).run_spec(service_account="worker@p").candidates[0].api_secrets


# --- what is said --------------------------------------------------------------------------------


@pytest.mark.usefixtures("workers_own")
def test_what_a_container_may_miss_is_said(resolved: Resolved) -> None:
    """The key is fetched and needs no word; headers and what the user wrote are gone."""
    written = resolved(**WITH_SECRET, env={"PREFECT_SERVER_DATABASE_PASSWORD": "hidden"})

    warnings = [line for line in written.warnings if "is not sent" in line]

    assert [line.partition(" ")[0] for line in warnings] == [
        "PREFECT_CLIENT_CUSTOM_HEADERS",
        "PREFECT_SERVER_DATABASE_PASSWORD",
    ]
    assert not [line for line in resolved(project="p").warnings if "is not sent" in line]


def test_jobs_that_carry_a_key_are_worth_one_line() -> None:
    carried = about_plain_keys([{"PREFECT_API_KEY"}, {"PREFECT_API_AUTH_STRING", "X"}])

    assert "carry PREFECT_API_AUTH_STRING and PREFECT_API_KEY" in carried
    assert "set prefect_api_key_secret to" in carried
    assert "\n" not in carried
    assert about_plain_keys([set(), {"PREFECT_CLIENT_CUSTOM_HEADERS"}]) == ""


def test_without_a_secret_the_values_are_sent_and_never_shown(
    resolved: Resolved, workers_own: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever wrote them: the worker's settings, the user, the template's own pool, a patch."""
    caplog.set_level(logging.DEBUG)
    entry = {"name": "PREFECT_SERVER_DATABASE_PASSWORD", "value": "patched-hidden"}
    path = "/job_spec/worker_pool_specs/0/container_spec/env/-"
    configuration = resolved(
        project="p",
        env={"prefect_api_auth_string": "a:user-hidden"},
        job_spec_patch=[{"op": "add", "path": path, "value": entry}],
    )
    (container,) = [pool["container_spec"] for pool in configuration.job_spec["worker_pool_specs"]]
    container["env"] = {"PREFECT_API_DATABASE_PASSWORD": "pool-hidden"}
    values = [*workers_own.values(), "user-hidden", "pool-hidden", "patched-hidden"]

    plan = plan_of(configuration)

    assert not [value for value in values if value not in sent(configuration)]
    for shown in (repr(configuration), repr(plan), plan.as_json(), caplog.text):
        assert not [value for value in values if value in shown]
