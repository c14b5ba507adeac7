"""Job variables that lead to no job, or not to the one that was meant: an error, or a warning."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

import pytest

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.durations import MAX_SECONDS
from prefect_vertex.planning.plan import JobPlan, build_plan
from prefect_vertex.template import VertexJobConfiguration, base_job_template

AWorld = Callable[..., Any]
Resolved = Callable[..., VertexJobConfiguration]

VARIABLES = list(base_job_template()["variables"]["properties"])
GOOD = {"region": "europe-west4", "image": "i:1", "project": "forecasts"}
KEY = {
    "type": "service_account",
    "client_email": "a@p.iam.gserviceaccount.com",
    "private_key": "-----BEGIN PRIVATE KEY-----",
    "token_uri": "https://oauth2.googleapis.com/token",
}


def planned(configuration: VertexJobConfiguration) -> list[JobPlan]:
    spec = configuration.run_spec("forecasts")
    return [build_plan(spec, each, attempt=1, bootstrap="pass") for each in spec.candidates]


def refusal(configuration: VertexJobConfiguration) -> PlanError:
    with pytest.raises(PlanError) as caught:
        planned(configuration)
    return caught.value


ODD: list[object] = [
    *([], [None], [{"a": [1]}], {"a": {"b": 1}}, "²", "\0", "x\ny", "{{ x }}"),
    *(True, -1, 2**63, 1e12, 1e300, 10**400, float("nan")),
]


@pytest.mark.parametrize("name", VARIABLES)
def test_no_value_of_any_type_raises_anything_but_a_plan_error(
    resolved: Resolved, name: str
) -> None:
    """In one line; and what the worker asks before it plans is answered too."""
    for value in ODD:
        configuration = resolved(**{"project": "forecasts", name: value})
        configuration.run_policy()
        configuration.capacity_policy()
        said = list(configuration.warnings)
        with suppress(PlanError):
            planned(configuration)
            continue
        said.append(str(refusal(configuration)))
        assert not [line for line in said if "\n" in line]


SECONDS = [name for name in VARIABLES if name.endswith(("_seconds", "_interval"))]


@pytest.mark.parametrize("value", [1e12, 1e300, 10**400, 315_360_001])
@pytest.mark.parametrize("name", SECONDS)
def test_a_wait_is_at_most_ten_years(resolved: Resolved, name: str, value: float) -> None:
    """Added to the time, more would be no date, at every tick of the run."""
    configuration = resolved(**{**GOOD, name: value})

    assert refusal(configuration).variable == name
    policy = asdict(configuration.run_policy())
    assert all(each is None or each <= MAX_SECONDS for each in policy.values())


@pytest.mark.parametrize("value", [0, -1])
def test_a_job_is_given_time_to_start(resolved: Resolved, value: float) -> None:
    assert refusal(resolved(**GOOD, start_grace_seconds=value)).variable == "start_grace_seconds"


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    # what: the variables, the message (with its fix), the variable
    "hours that no request can say": (
        {"maximum_run_time_hours": 87_660_001},
        "maximum_run_time_hours is 8.766e+07, expected a number of hours above 0 and of at most",
        "maximum_run_time_hours",
    ),
    "a list for an account": (
        {"service_account_name": ["x"]},
        "is ['x'], which is not a service account's address. It looks like",
        "service_account_name",
    ),
    "no address": ({"service_account_name": "a b@p"}, "is 'a b@p', which", "service_account_name"),
    "IAM's prefix": (
        {"service_account_name": "serviceAccount:a@p.iam.gserviceaccount.com"},
        "Leave out `serviceAccount:`",
        "service_account_name",
    ),
    "a misspelt field of a block": (
        {"credentials": {"service_account_inf": KEY, "project": "p"}},
        "credentials has no field 'service_account_inf'; the closest is 'service_account_info'.",
        "credentials",
    ),
    "no block at all": ({"credentials": {"a": 1}}, "credentials has no field 'a'", "credentials"),
    "a key in a block's place": (
        {"credentials": KEY, "project": None},
        "credentials is a service account's key, expected a GCP Credentials block. Choose",
        "credentials",
    ),
    "a block's name": (
        {"credentials": "my-block"},
        'set credentials to "{{ prefect.blocks.gcp-credentials.NAME }}" by API',
        "credentials",
    ),
    "an empty interpreter": (
        {"python_command": [""]},
        "python_command is [''], which names no program. Leave it out for python3.",
        "python_command",
    ),
    "NUL in a script": (
        {"setup_command": ["ls", "a\0"]},
        "setup_command[1] holds a NUL character or half of a character. Remove it.",
        "setup_command",
    ),
    "half of a character in a script": (
        {"setup_command": ["\ud800"]},
        "setup_command[0] holds",
        "setup_command",
    ),
    "a bucket in upper case": (
        {"staging_bucket": "B ad"},
        "staging_bucket is 'gs://B ad', expected gs://bucket or gs://bucket/folder. Names of",
        "staging_bucket",
    ),
    "a bucket beside the one that is used": (
        {"staging_bucket": "s3://b", "base_output_directory": "gs://b/x"},
        "staging_bucket is 's3://b', expected gs://",
        "staging_bucket",
    ),
    "code in no bucket": (
        {"code_uri": "gs://B/o", "code_sha256": "a" * 64},
        "code_uri is 'gs://B/o', expected gs://bucket/object",
        "code_uri",
    ),
    "a list of no items": (
        {"python_command": []},
        "python_command is [], expected at least 1 item.",
        "python_command",
    ),
    "a mapping in env": (
        {"env": {"A": {"B": "pnu_1"}}},
        "env has a mapping in 'A', expected a text. Write it as one text",
        "env",
    ),
    "a list in labels": (
        {"labels.team": ["a"]},
        "labels has a list in 'team', expected a text",
        "labels",
    ),
    "a dot in a variable's name": (
        {"env.a.b": "x"},
        "env has the name 'a.b'; Vertex AI takes letters",
        "env",
    ),
    "a null among the ranges": (
        {"network": "projects/1/global/networks/n", "reserved_ip_ranges": [None]},
        "reserved_ip_ranges[0] is None, expected text",
        "reserved_ip_ranges",
    ),
    "another machine beside gpu_type": (
        {"gpu_type": "L4", "worker_pools": [{"machine_spec": {"machine_type": "cloud-tpu"}}]},
        "worker_pools[0].machine_spec: hardware is gpu, but machine_type cloud-tpu is a TPU host.",
        "machine_type",
    ),
}


@pytest.mark.parametrize(("variables", "words", "variable"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_with_its_variable_and_what_to_do(
    resolved: Resolved, variables: dict[str, Any], words: str, variable: str
) -> None:
    error = refusal(resolved(**{**GOOD, **variables}))
    assert words in str(error)
    assert error.variable == variable
    assert "pnu_1" not in str(error)
    assert "PRIVATE KEY" not in str(error)


BLANK = [
    *("name", "command", "project", "hardware", "gpu_type", "machine_type", "accelerator_type"),
    *("strategy", "boot_disk_type", "network", "service_account_name", "base_output_directory"),
    *("staging_bucket", "code_uri", "code_sha256", "prefect_api_key_secret", "tensorboard"),
    *("persistent_resource_id", "encryption_spec_key", "experiment", "max_wait_duration"),
]


@pytest.mark.parametrize("blank", ["", "   "], ids=["empty", "blanks"])
@pytest.mark.parametrize("name", BLANK)
def test_a_text_box_that_was_emptied_is_not_set(resolved: Resolved, name: str, blank: str) -> None:
    emptied, unset = resolved(**{name: blank}), resolved(**{name: None})
    assert planned(emptied) == planned(unset)
    assert emptied.warnings == unset.warnings == ()


# --- keys with dots -------------------------------------------------------------------------------


def test_what_follows_labels_is_one_name(a_world: AWorld) -> None:
    """As it is inside the mapping."""
    dotted = a_world(deployment={"labels.Foo.Bar": "x"}, run=GOOD).resolve()
    nested = a_world(deployment={"labels": {"Foo.Bar": "x"}}, run=GOOD).resolve()
    assert planned(dotted)[0].labels == planned(nested)[0].labels
    assert planned(dotted)[0].labels["foo-bar"] == "x"


def test_what_follows_another_variable_is_a_path(a_world: AWorld) -> None:
    deployment = {"psc_interface_config.network_attachment": "a"}
    (plan,) = planned(a_world(deployment=deployment, run=GOOD).resolve())
    assert plan.request.custom_job.job_spec.psc_interface_config.network_attachment == "a"


# --- what would be ignored without a word ---------------------------------------------------------


def template_with(**job_configuration: object) -> dict[str, Any]:
    template = base_job_template()
    template["job_configuration"] |= job_configuration
    return template


def test_a_key_that_its_level_says_twice_is_warned_of(a_world: AWorld) -> None:
    level = {"env.A": "1", "env.C": "3", "env": {"A": "2", "C": "3"}}
    for where in ({"deployment": level, "run": GOOD}, {"run": {**GOOD, **level}}):
        configuration = a_world(**where).resolve()
        assert configuration.warnings == (
            "job variable 'env.A' has no effect: env has A too, at the same level.",
        )


@pytest.mark.parametrize(
    ("template", "variables", "warned"),
    [
        (template_with(labels={"team": "x"}), {"labels": {"a": "b"}}, ["labels"]),
        (template_with(labels={"team": "x"}), {"labels.a": "b"}, ["labels"]),
        (template_with(labels={"team": "x"}), {}, []),
        (template_with(env={"A": "1"}), {"env": {"B": "2"}}, []),
        (template_with(env=None), {"env": {"B": "2"}}, ["env"]),
    ],
)
def test_a_variable_that_the_template_does_not_use_is_warned_of(
    a_world: AWorld, template: dict[str, Any], variables: dict[str, Any], warned: list[str]
) -> None:
    """Env is merged into a mapping in its place; nothing else is."""
    configuration = a_world(template=template, deployment=variables, run=GOOD).resolve()
    assert configuration.warnings == tuple(
        f"job variable {name!r} has no effect: the job_configuration of this work pool's template "
        "does not use it."
        for name in warned
    )


@pytest.mark.parametrize(
    ("own", "given", "is_warned"),
    [("python a.py", "python b.py", True), ("python a.py", None, False), (None, "python b", False)],
)
def test_a_command_that_the_template_s_own_replaces_is_warned_of(
    a_world: AWorld,
    own: str | None,
    given: str | None,
    is_warned: bool,  # noqa: FBT001 - parameter
) -> None:
    template = base_job_template()
    (pool,) = template["job_configuration"]["job_spec"]["worker_pool_specs"]
    pool["container_spec"]["command"] = own
    configuration = a_world(template=template, run={**GOOD, "command": given}).resolve()
    said = [line for line in configuration.warnings if line.startswith("command has no effect")]
    assert len(said) == is_warned


def test_a_run_without_the_api_s_address_is_warned_of(resolved: Resolved) -> None:
    (warning,) = resolved(**{"env.PREFECT_API_URL": None}).warnings
    assert warning.startswith("env unsets PREFECT_API_URL: the flow run cannot reach")


@pytest.mark.parametrize("level", ["deployment", "run"])
def test_a_key_in_the_job_variables_is_warned_of(a_world: AWorld, level: str) -> None:
    """`prefect deploy` writes it there; a reference to the block is none."""
    levels: dict[str, dict[str, Any]] = {"deployment": {}, "run": dict(GOOD)}
    levels[level]["credentials"] = {"service_account_info": KEY}
    (warning,) = a_world(**levels).resolve().warnings
    assert warning.startswith("The job variables of the ")
    assert "in clear" in warning
    assert "PRIVATE KEY" not in warning

    levels[level]["credentials"] = "{{ prefect.blocks.gcp-credentials.mine }}"
    blocks = {"gcp-credentials/mine": {"service_account_info": KEY}}
    configuration = a_world(**levels, blocks=blocks).resolve()
    assert configuration.credential_values().service_account_info == KEY
    assert configuration.warnings == ()


# --- machines -------------------------------------------------------------------------------------

CPU = {"machine_type": "n1-standard-4", "accelerator_type": None}


@pytest.mark.parametrize("counted", [{}, {"accelerator_count": 1}], ids=["alone", "with a count"])
def test_a_null_in_worker_pools_unsets_the_gpu_of_the_first(
    resolved: Resolved, counted: dict[str, int]
) -> None:
    (plan,) = planned(resolved(gpu_type="L4", worker_pools=[{"machine_spec": CPU}], **counted))
    (pool,) = plan.request.custom_job.job_spec.worker_pool_specs
    assert pool.machine_spec.machine_type == "n1-standard-4"
    assert int(pool.machine_spec.accelerator_type) == 0
    assert not pool.machine_spec.accelerator_count
