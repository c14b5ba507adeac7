"""The command that starts the same again, and what has changed since."""

from __future__ import annotations

import itertools
import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from prefect.cli._utilities import load_json_key_values

from prefect_vertex.planning.code import CodeReference
from prefect_vertex.planning.launches import Bootstrap
from prefect_vertex.planning.masking import MASK
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.planning.relaunch import changes, elided, relaunch, unknowns

APlan = Callable[..., JobPlan]
ARecord = Callable[..., dict[str, Any]]

WHERE = "gs://staging/launches/x/a1.json"
NASTY: dict[str, Any] = {
    "text": 'it\'s "quoted" $HOME `date` \\ \n two lines',
    "number": 12,
    "like_a_number": "12",
    "nothing": None,
    "yes": True,
    "nested": {"a": [1, "b c"], "ü": "é"},
    "empty": "",
}


def options_of(command: str) -> dict[str, list[str]]:
    """The values of each option, as a shell hands them over."""
    words = shlex.split(command)
    found: dict[str, list[str]] = {}
    for option, value in itertools.pairwise(words):
        if option.startswith("--"):
            found.setdefault(option, []).append(value)
    return found


def test_parameters_and_job_variables_come_through_shell_and_prefect_unchanged(
    a_record: ARecord,
) -> None:
    """Prefect's own parser reads what a shell makes of the command."""
    variables = {"image": "i:1", "env": {"A": "$1", "B": "x y"}, "regions": ["a", "b"], "n": NASTY}
    again = relaunch(a_record(parameters=NASTY, job_variables=variables), WHERE)
    options = options_of(again.command)

    assert again.command.startswith("prefect deployment run forecast/nightly --param ")
    assert load_json_key_values(options["--param"], "parameter") == NASTY
    assert load_json_key_values(options["--job-variable"], "job variable") == variables
    assert again.notes == ()


def test_a_name_that_a_shell_would_split_is_quoted(a_record: ARecord) -> None:
    again = relaunch(a_record(flow_name="Monthly Forecast", deployment_name="a'b"), WHERE)

    assert shlex.split(again.command) == [
        *("prefect", "deployment", "run"),
        "Monthly Forecast/a'b",
    ]


def test_a_deployment_without_a_known_name_is_started_by_its_id(a_record: ARecord) -> None:
    again = relaunch(a_record(flow_name=""), WHERE)

    assert again.command == ("prefect deployment run --id 11111111-2222-4333-8444-555566667777")


def test_what_the_record_does_not_hold_is_said(a_record: ARecord) -> None:
    record = a_record(
        parameters={"data": "x" * 20_000, "password": MASK},
        job_variables={"env": {"A": "1", "PREFECT_API_KEY": MASK}, "setup_command": [f"x {MASK}"]},
    )
    again = relaunch(record, WHERE)

    assert options_of(again.command) == {"--job-variable": ['env.A="1"']}
    assert [line.split(" ")[:3] for line in again.notes] == [
        ["Parameter", "data", "is"],
        ["Parameter", "password", "holds"],
        ["Job", "variable", "env.PREFECT_API_KEY"],
        ["Job", "variable", "setup_command"],
    ]
    assert "20,002 characters" in again.notes[0]
    assert MASK not in again.command


@pytest.mark.parametrize("name", ["a=b", "=", "half \ud800"])
def test_a_name_that_no_option_takes_is_said(a_record: ARecord, name: str) -> None:
    """The command is one that a terminal can show."""
    record = a_record(parameters={name: 1, "c": "\ud800"}, job_variables={name: 1})
    again = relaunch(record, WHERE)

    assert options_of(again.command) == {"--param": ['c="\\ud800"']}
    assert [line.split(" takes no name")[0] for line in again.notes] == [
        "--param",
        "--job-variable",
    ]
    assert " ".join(again.notes).encode()


def test_a_parameter_that_no_schema_describes_is_asked_for(a_record: ARecord) -> None:
    again = relaunch(a_record(unjudged_parameters=("note",)), WHERE)

    assert "add --param note=VALUE" in again.notes[0].replace("Add", "add")
    assert "no schema" in again.notes[0]


def test_a_job_finds_what_the_record_leaves_out_in_its_flow_run(a_record: ARecord) -> None:
    record = a_record(deployment_id="", deployment_name="", unjudged_parameters=("note",))

    assert "Parameter note is not in the record: no schema" in relaunch(record, WHERE).notes[1]


def test_a_run_without_a_deployment_has_only_its_job(a_record: ARecord) -> None:
    again = relaunch(a_record(deployment_id="", deployment_name=""), "my records/a1.json")

    assert again.command == ("prefect-vertex plan --from 'my records/a1.json' --format gcloud | sh")
    assert "if that has ended, nothing runs" in again.notes[0]


@pytest.mark.parametrize(
    ("packages", "code_is_there", "says"),
    [
        ({"prefect-vertex": "0.1.0", "prefect": "3.9.1"}, True, []),
        ({"prefect-vertex": "0.2.0", "prefect": "3.9.1"}, True, ["prefect-vertex was 0.1.0"]),
        ({"prefect-vertex": "0.1.0"}, None, []),
        (
            {"prefect-vertex": "0.1.0", "prefect": "3.10.0"},
            False,
            ["prefect was 3.9.1, and is 3.10.0 here", "gs://staging/code/x.zip"],
        ),
    ],
)
def test_what_is_another_thing_by_now_is_told(
    a_plan: APlan,
    a_record: ARecord,
    packages: dict[str, str],
    code_is_there: bool | None,  # noqa: FBT001 - a row of a table
    says: list[str],
) -> None:
    record = a_record(a_plan(code=CodeReference("gs://staging/code/x.zip", "ab" * 32)))
    found = changes(record, packages, code_is_there=code_is_there)

    assert len(found) == len(says)
    assert all(words in line for words, line in zip(says, found, strict=True))


def test_what_nobody_was_asked_is_not_said_to_be_unchanged(
    a_plan: APlan, a_record: ARecord
) -> None:
    coded = a_record(a_plan(code=CodeReference("gs://staging/code/x.zip", "ab" * 32)))

    assert "vertex-forecast" in unknowns(coded, code_is_there=True)[0]
    assert "abababababab…" in unknowns(coded, code_is_there=True)[0]
    assert "gs://staging/code/x.zip" in unknowns(coded, code_is_there=None)[1]
    assert "came with the image" in unknowns(a_record(), code_is_there=None)[1]


def test_the_bootstrap_is_left_out_and_what_stands_before_it_is_not(a_plan: APlan) -> None:
    """What unpacks the environment is the job's own."""
    source = "print('a bootstrap')\n" * 100
    request = json.loads(a_plan(env={"A": "$ b"}).as_json())
    short = elided(request, Bootstrap.of(source), "<left out>")

    (pool,) = short["custom_job"]["job_spec"]["worker_pool_specs"]
    line = pool["container_spec"]["command"][2]
    assert line.startswith("import sys;")
    assert line.endswith("\n<left out>")
    assert "a bootstrap" not in json.dumps(short)
    (whole,) = request["custom_job"]["job_spec"]["worker_pool_specs"]
    pool["container_spec"]["command"][2] = whole["container_spec"]["command"][2]
    assert short == request
