"""Which of the worker's Prefect settings reach the job: the model says, for each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

import pytest
from prefect.context import SettingsContext, get_settings_context
from prefect.settings import Settings, get_current_settings
from prefect.settings.base import PrefectBaseSettings, build_settings_config
from pydantic import Field, Secret, SecretStr
from pydantic_settings import SettingsConfigDict

from prefect_vertex.planning.plan import build_plan
from prefect_vertex.settings import VertexSettings
from prefect_vertex.template import VertexJobConfiguration, base_job_template
from prefect_vertex.template.prefect_settings import holds, kept_back, prefect_settings

Resolved = Callable[..., VertexJobConfiguration]

SECTIONS_THAT_STAY = {"server", "worker", "testing", "cli"}
OF_THIS_MACHINE = {"home", "profiles_path", "results.local_storage_path", "logging.config_path"}
READ_BY_CLIENTS = {
    "server.events.maximum_size_bytes",
    "server.events.maximum_related_resources",
}
NEEDED_BY_FLOWS = {
    *("api.url", "api.key", "api.auth_string", "api.ssl_cert_file", "client.custom_headers"),
    *("api.tls_insecure_skip_verify", "client.max_retries", "cloud.api_url", "ui_url"),
    *("debug_mode", "logging.level", "logging.to_api.enabled", "logging.log_prints"),
    *("internal.logging_level", "results.persist_by_default", "results.default_storage_block"),
    *("flows.default_retries", "flows.heartbeat_frequency", "runner.process_limit"),
    *("tasks.default_retries", "tasks.runner.thread_pool_max_workers", "experiments.warn"),
    *("events.worker_max_queue_size", "telemetry.enable_resource_metrics", "plugins.enabled"),
}
ALL = {setting.path: setting for setting in prefect_settings()}


def env_of(configuration: VertexJobConfiguration) -> dict[str, str]:
    """The environment of the primary replica, as the request carries it."""
    spec = configuration.run_spec(default_project="p")
    plan = build_plan(spec, spec.candidates[0], attempt=1, bootstrap="pass")
    (pool,) = plan.request.custom_job.job_spec.worker_pool_specs
    return {entry.name: entry.value for entry in pool.container_spec.env}


@pytest.fixture
def everything_set(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A worker's environment with each of Prefect's settings that has a value, and one of ours."""
    variables = get_current_settings().to_environment_variables()
    variables |= {
        "PREFECT_API_URL": "http://127.0.0.1:4200/api",
        "PREFECT_API_KEY": "pnu_of-the-worker",
        "PREFECT_API_AUTH_STRING": "of:the-worker",
        "PREFECT_API_SSL_CERT_FILE": "/etc/ssl/ca.pem",
        "PREFECT_SERVER_API_AUTH_STRING": "of:the-server",
        "PREFECT_SERVER_DATABASE_PASSWORD": "of-the-database",
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": "postgresql+asyncpg://p:of-the-database@db/p",
        "PREFECT_CLI_PROMPT": "false",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PREFECT_INTEGRATIONS_VERTEX_TICK_SECONDS", "7")
    return variables


@pytest.fixture
def resolved_there(everything_set: dict[str, str], resolved: Resolved) -> Resolved:
    """What that worker makes of job variables."""
    assert everything_set

    def build(**variables: Any) -> VertexJobConfiguration:
        with SettingsContext(profile=get_settings_context().profile, settings=Settings()):
            return resolved(**variables)

    return build


@pytest.mark.parametrize("path", sorted(ALL))
def test_every_setting_has_its_place(path: str) -> None:
    """A path of this machine and what another process reads stay; the rest reaches the job."""
    setting = ALL[path]
    elsewhere = path.partition(".")[0] in SECTIONS_THAT_STAY and path not in READ_BY_CLIENTS

    assert setting.reaches_the_job is not (elsewhere or holds(setting.annotation, Path))


@pytest.mark.parametrize("path", sorted(OF_THIS_MACHINE))
def test_paths_of_this_machine_stay(path: str) -> None:
    assert not ALL[path].reaches_the_job


@pytest.mark.parametrize("path", sorted(NEEDED_BY_FLOWS | READ_BY_CLIENTS))
def test_what_a_flow_is_meant_to_have_reaches_it(path: str) -> None:
    assert ALL[path].reaches_the_job


def test_a_worker_with_every_setting_sends_those_that_reach_the_job_and_no_other(
    everything_set: dict[str, str], resolved_there: Resolved
) -> None:
    """As Prefect itself writes them down, with this package's own settings left out."""
    reach = {
        setting.variables[0]
        for setting in prefect_settings()
        if setting.reaches_the_job and setting.variables[0] in everything_set
    }

    sent = env_of(resolved_there())

    ours = {name for name in sent if name.startswith(("PREFECT__", "PREFECT_VERTEX_"))}
    assert sent.keys() - ours - {"PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"} == reach
    assert {name: sent[name] for name in reach} == {name: everything_set[name] for name in reach}
    assert VertexSettings().tick_seconds == 7


def test_what_the_user_sets_in_env_is_left_alone(resolved_there: Resolved) -> None:
    """Also where the worker's own value is the same, and where it is taken away."""
    wanted = {"PREFECT_HOME": "/data/prefect", "PREFECT_WORKER_QUERY_SECONDS": "10.0"}

    sent = env_of(resolved_there(env={**wanted, "PREFECT_SERVER_UI_ENABLED": None}))

    assert {name: sent.get(name) for name in wanted} == wanted
    assert not sent.keys() & (kept_back() - wanted.keys())


def test_what_the_pool_sets_in_its_container_is_left_alone(
    everything_set: dict[str, str], a_world: Callable[..., Any]
) -> None:
    assert everything_set["PREFECT_HOME"]
    template = base_job_template()
    (pool,) = template["job_configuration"]["job_spec"]["worker_pool_specs"]
    pool["container_spec"]["env"] = [{"name": "PREFECT_HOME", "value": "/opt/prefect"}]
    run = {"region": "europe-west4", "image": "i:1"}

    with SettingsContext(profile=get_settings_context().profile, settings=Settings()):
        configuration = a_world(run=run, template=template).resolve()

    assert env_of(configuration)["PREFECT_HOME"] == "/opt/prefect"


class _NewSection(PrefectBaseSettings):
    model_config: ClassVar[SettingsConfigDict] = build_settings_config(("novelties",))

    cache: Path | None = None
    mirrors: list[Annotated[Path, Field(description="a path")]] = Field(
        default_factory=list, validation_alias="prefect_mirrors"
    )
    threads: int = 1
    token: Secret[str] | None = None


class _WorkerSection(PrefectBaseSettings):
    model_config: ClassVar[SettingsConfigDict] = build_settings_config(("worker",))

    mood: str = "calm"


class _Newer(PrefectBaseSettings):
    model_config: ClassVar[SettingsConfigDict] = build_settings_config()

    server: str = "a setting, no section"
    novelties: _NewSection | None = None
    worker: _WorkerSection = Field(default_factory=_WorkerSection)


def test_a_setting_of_a_newer_prefect_is_told_by_the_rule() -> None:
    """By its type and its section, also in a section that may be missing."""
    found = {setting.variables: setting.reaches_the_job for setting in prefect_settings(_Newer)}

    assert found == {
        ("PREFECT_SERVER",): True,
        ("PREFECT_NOVELTIES_CACHE",): False,
        ("PREFECT_NOVELTIES_MIRRORS", "PREFECT_MIRRORS"): False,
        ("PREFECT_NOVELTIES_THREADS",): True,
        ("PREFECT_NOVELTIES_TOKEN",): True,
        ("PREFECT_WORKER_MOOD",): False,
    }


def test_a_secret_of_any_spelling_is_one() -> None:
    (token,) = (each for each in prefect_settings(_NewSection) if each.path == "token")

    assert holds(token.annotation, SecretStr, Secret)
    assert not holds(dict[str, str], SecretStr, Secret)
