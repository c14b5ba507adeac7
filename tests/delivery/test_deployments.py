"""The deployment step: what it returns, and which pull sections it lets pass."""

from __future__ import annotations

import hashlib
import json
import sys
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from prefect_vertex.deployments import PULL_STEPS, stage_code
from prefect_vertex.errors import CodeStoreError, DeliveryError, PlanError

STEP = {"prefect_vertex.deployments.stage_code": {"id": "code", "staging_bucket": "b"}}
OTHER = {"prefect.deployments.steps.run_shell_script": {"script": "true"}}
POOL = {
    "job_variables": {"code_uri": "{{ code.code_uri }}", "code_sha256": "{{ code.code_sha256 }}"}
}
GIVEN = {"name": "d", "work_pool": POOL}
ELSEWHERE = {"prefect.deployments.steps.set_working_directory": {"directory": "/opt/prefect"}}


@pytest.fixture
def project(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write_tree: Callable[[Path, Mapping[str, str | bytes]], Path],
) -> Path:
    """The current directory: a project with one flow."""
    root = write_tree(tmp_path / "project", {"flow.py": "x = 1\n"})
    monkeypatch.chdir(root)
    return root


def write_yaml(content: object, name: str = "prefect.yaml") -> None:
    Path(name).write_text(yaml.safe_dump(content))


def test_the_result_names_an_archive_with_that_digest(project: Path, storage: Any) -> None:
    result = stage_code(staging_bucket=storage.bucket)
    name = urllib.parse.quote(result["code_uri"].partition(f"{storage.bucket}/")[2], "")
    stored = storage.request(f"/storage/v1/b/{storage.bucket}/o/{name}?alt=media")

    assert hashlib.sha256(stored).hexdigest() == result["code_sha256"]
    assert result["code_bytes"] == len(stored)
    assert (result["code_files"], result["code_uploaded"]) == (1, True)
    assert stage_code(staging_bucket=storage.bucket) == {**result, "code_uploaded": False}


def test_prefect_finds_the_step_and_fills_the_job_variables(project: Path, storage: Any) -> None:
    """By the name that stands in `prefect.yaml`, with the result under the step's id."""
    from prefect.utilities.importtools import import_object
    from prefect.utilities.templating import apply_values

    step = import_object("prefect_vertex.deployments.stage_code")
    outputs = {"code": step(staging_bucket=storage.bucket)}
    wanted = {"code_uri": "{{ code.code_uri }}", "code_sha256": "{{ code.code_sha256 }}"}
    filled = apply_values(wanted, outputs)

    assert filled["code_uri"].startswith(f"gs://{storage.bucket}/code/project-")
    assert filled["code_sha256"] == outputs["code"]["code_sha256"]


GOOD = [
    pytest.param({"build": [STEP], "pull": PULL_STEPS, "deployments": [GIVEN]}, id="top level"),
    pytest.param({"build": [STEP], "deployments": [{**GIVEN, "pull": PULL_STEPS}]}, id="own"),
    pytest.param(
        {"push": [STEP], "pull": PULL_STEPS, "deployments": [{**GIVEN, "pull": None}]},
        id="null inherits",
    ),
    pytest.param(
        {"build": [STEP], "pull": [*PULL_STEPS, OTHER], "deployments": [GIVEN]},
        id="more steps after it",
    ),
    pytest.param({"build": [OTHER], "pull": [ELSEWHERE]}, id="the step is not used"),
    pytest.param(
        {"build": [STEP], "pull": PULL_STEPS, "deployments": [{"name": "d", "build": []}]},
        id="a deployment without it",
    ),
]
BAD = [
    pytest.param({"build": [STEP]}, id="none"),
    pytest.param({"build": [STEP], "pull": []}, id="empty"),
    pytest.param({"build": [STEP], "pull": [ELSEWHERE]}, id="elsewhere"),
    pytest.param({"build": [STEP], "pull": [*PULL_STEPS, ELSEWHERE]}, id="elsewhere later"),
    pytest.param({"build": [STEP], "pull": [OTHER, *PULL_STEPS]}, id="too late"),
    pytest.param(
        {"build": [STEP], "pull": PULL_STEPS, "deployments": [{"name": "d", "pull": []}]},
        id="own empty one",
    ),
    pytest.param({"deployments": [{"name": "d", "push": [STEP]}]}, id="own step"),
    pytest.param({"build": [STEP], "pull": "x", "deployments": [{"name": "d"}]}, id="nonsense"),
]


@pytest.mark.parametrize("content", GOOD)
def test_a_pull_section_that_uses_the_archive_passes(
    project: Path, storage: Any, content: object
) -> None:
    write_yaml(content)

    assert stage_code(staging_bucket=storage.bucket)["code_uploaded"]


@pytest.mark.parametrize("content", BAD)
def test_any_other_pull_section_is_refused_with_the_line_to_write(
    project: Path, storage: Any, content: object
) -> None:
    write_yaml(content)

    with pytest.raises(DeliveryError) as caught:
        stage_code(staging_bucket=storage.bucket)
    line = caught.value.hint.removeprefix("Write in prefect.yaml: ")

    assert yaml.safe_load(line) == {"pull": PULL_STEPS}
    assert storage.names() == []


def test_a_file_that_cannot_be_read_is_one_line(project: Path, storage: Any) -> None:
    Path("prefect.yaml").write_text("build: [\n")

    with pytest.raises(DeliveryError, match=r"Cannot read prefect.yaml") as caught:
        stage_code(staging_bucket=storage.bucket)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        pytest.param(["-n", "good"], True, id="only the good one"),
        pytest.param(["--name=flow/good"], True, id="by flow and name"),
        pytest.param(["--name", "g*"], True, id="by pattern"),
        pytest.param(["--all"], False, id="all"),
        pytest.param(["-n", "bad", "-n", "good"], False, id="both"),
        pytest.param(["--prefect-file", "other.yaml"], True, id="another file"),
    ],
)
def test_under_prefect_deploy_the_chosen_deployments_count(
    project: Path,
    storage: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    passes: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """A refusal is one line on stderr and exit code 1; Prefect would print a traceback."""
    deployments = [{**GIVEN, "name": "good", "pull": PULL_STEPS}, {"name": "bad"}]
    write_yaml({"build": [STEP], "deployments": deployments})
    write_yaml({"build": [STEP], "pull": PULL_STEPS, "deployments": [GIVEN]}, "other.yaml")
    monkeypatch.setattr(sys, "argv", ["/env/bin/prefect", "--no-prompt", "deploy", *options])

    if passes:
        stage_code(staging_bucket=storage.bucket)
    else:
        with pytest.raises(SystemExit, match="1"):
            stage_code(staging_bucket=storage.bucket)
    lines = capsys.readouterr().err.splitlines()

    assert len(lines) == (0 if passes else 1)
    assert passes or lines[0].startswith("prefect-vertex: Deployment 'bad' in prefect.yaml")


def variables_of(**job_variables: object) -> dict[str, Any]:
    return {"name": "d", "work_pool": {"name": "p", "job_variables": job_variables}}


NO_ID = {"prefect_vertex.deployments.stage_code": {"staging_bucket": "b"}}
SHELL = {"prefect.deployments.steps.run_shell_script": {"id": "sh", "script": "true"}}
OWN_NAMES = variables_of(code_uri="{{code_uri}}", code_sha256="{{ code_sha256 }}")


@pytest.mark.parametrize(
    ("steps", "deployment", "passes"),
    [
        pytest.param([STEP], GIVEN, True, id="under the id"),
        pytest.param([NO_ID], OWN_NAMES, True, id="by their own names"),
        pytest.param([STEP], OWN_NAMES, True, id="by their own names despite an id"),
        pytest.param(
            [STEP, SHELL],
            variables_of(code_uri="{{ sh.stdout }}", code_sha256="{{ $DIGEST }}"),
            True,
            id="from elsewhere",
        ),
        pytest.param([NO_ID], GIVEN, False, id="the step has no id"),
        pytest.param([STEP], {"name": "d"}, False, id="no work pool"),
        pytest.param([STEP], {"name": "d", "work_pool": {"job_variables": None}}, False, id="null"),
        pytest.param([STEP], variables_of(code_uri="{{ code.code_uri }}"), False, id="one of two"),
        pytest.param(
            [STEP],
            variables_of(code_uri="{{ code.uri }}", code_sha256="{{ code.code_sha256 }}"),
            False,
            id="no such result",
        ),
        pytest.param(
            [STEP],
            variables_of(code_uri="{{ uri }}", code_sha256="{{ code.code_sha256 }}"),
            False,
            id="no such name",
        ),
    ],
)
def test_job_variables_that_do_not_take_the_result_are_refused_with_the_lines_to_write(
    project: Path,
    storage: Any,
    steps: list[object],
    deployment: dict[str, Any],
    passes: bool,  # noqa: FBT001 - a column of the table
) -> None:
    write_yaml({"build": steps, "pull": PULL_STEPS, "deployments": [deployment]})

    if passes:
        assert stage_code(staging_bucket=storage.bucket)["code_uploaded"]
        return
    with pytest.raises(DeliveryError, match=r"Deployment 'd' in prefect\.yaml") as caught:
        stage_code(staging_bucket=storage.bucket)
    line = caught.value.hint.removeprefix("Write under its work_pool: ")
    line, _, identity = line.partition(" and, as an argument of")

    assert yaml.safe_load(line) == POOL
    assert identity.endswith("id: code") is (steps == [NO_ID])
    assert storage.names() == []


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        pytest.param(["-jv", "image=x"], False, id="they replace the file's"),
        pytest.param(["--job-variable=image=x"], False, id="the other spelling"),
        pytest.param(["-jv", json.dumps(POOL["job_variables"])], True, id="an object"),
        pytest.param(
            ["-jv", "code_uri={{ code.code_uri }}", "-jv", "code_sha256={{ code.code_sha256 }}"],
            True,
            id="one by one",
        ),
    ],
)
def test_job_variables_of_the_command_line_replace_the_files(
    project: Path,
    storage: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    passes: bool,  # noqa: FBT001 - a column of the table
) -> None:
    """In Prefect 3.9, for a single deployment: `-jv image=x` drops `code_uri`."""
    write_yaml({"build": [STEP], "pull": PULL_STEPS, "deployments": [GIVEN]})
    monkeypatch.setattr(sys, "argv", ["prefect", "deploy", "-n", "d", *options])

    if passes:
        assert stage_code(staging_bucket=storage.bucket)["code_uploaded"]
        return
    with pytest.raises(SystemExit, match="1"):
        stage_code(staging_bucket=storage.bucket)

    assert "--job-variable on the command line replaces" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "stage_code lacks staging_bucket. Set it"),
        ({"staging_bucket": None}, "stage_code lacks staging_bucket. Set it"),
        (
            {"stagingbucket": "staging"},
            "stage_code has no argument 'stagingbucket'. Did you mean staging_bucket?",
        ),
        (
            {"staging_bucket": "staging", "zzz": 1},
            "has no argument 'zzz'. It has staging_bucket, path, name, credentials.",
        ),
        ({"staging_bucket": "staging", "name": 3}, "stage_code: name is 3, not a text."),
    ],
)
def test_a_missing_or_misspelt_argument_ends_prefect_deploy_with_one_line(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: dict[str, Any],
    said: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["prefect", "deploy", "--all"])

    with pytest.raises(SystemExit, match="1"):
        stage_code(**arguments)
    error = capsys.readouterr().err

    assert said in error
    assert error.count("\n") == 1


def test_a_step_error_ends_prefect_deploy_with_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["/lib/prefect/__main__.py", "deploy", "--all"])

    with pytest.raises(SystemExit, match="1"):
        stage_code(staging_bucket="not a bucket")

    assert capsys.readouterr().err.count("\n") == 1


def test_in_a_script_errors_are_errors(project: Path) -> None:
    with pytest.raises(CodeStoreError):
        stage_code(staging_bucket="not a bucket")


def test_credentials_of_a_block_are_read_as_the_worker_reads_them(project: Path) -> None:
    with pytest.raises(PlanError, match="service_account_info that is not the JSON of a key"):
        stage_code(staging_bucket="staging", credentials={"service_account_info": "{"})
