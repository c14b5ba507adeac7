"""The deployment step: what it returns, and which pull sections it lets pass."""

from __future__ import annotations

import hashlib
import sys
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from prefect_vertex.deployments import PULL_STEPS, stage_code
from prefect_vertex.errors import CodeStoreError, DeliveryError, SetupError

STEP = {"prefect_vertex.deployments.stage_code": {"id": "code", "staging_bucket": "b"}}
OTHER = {"prefect.deployments.steps.run_shell_script": {"script": "true"}}
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
    pytest.param({"build": [STEP], "pull": PULL_STEPS}, id="top level"),
    pytest.param({"build": [STEP], "pull": PULL_STEPS, "deployments": [{"name": "d"}]}, id="both"),
    pytest.param({"build": [STEP], "deployments": [{"name": "d", "pull": PULL_STEPS}]}, id="own"),
    pytest.param(
        {"push": [STEP], "pull": PULL_STEPS, "deployments": [{"name": "d", "pull": None}]},
        id="null inherits",
    ),
    pytest.param({"build": [STEP], "pull": [*PULL_STEPS, OTHER]}, id="more steps after it"),
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
    deployments = [{"name": "good", "pull": PULL_STEPS}, {"name": "bad"}]
    write_yaml({"build": [STEP], "deployments": deployments})
    write_yaml({"build": [STEP], "pull": PULL_STEPS}, "other.yaml")
    monkeypatch.setattr(sys, "argv", ["/env/bin/prefect", "--no-prompt", "deploy", *options])

    if passes:
        stage_code(staging_bucket=storage.bucket)
    else:
        with pytest.raises(SystemExit, match="1"):
            stage_code(staging_bucket=storage.bucket)
    lines = capsys.readouterr().err.splitlines()

    assert len(lines) == (0 if passes else 1)
    assert passes or lines[0].startswith("prefect-vertex: Deployment 'bad' in prefect.yaml")


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
    with pytest.raises(SetupError, match="service_account_info is not JSON"):
        stage_code(staging_bucket="staging", credentials={"service_account_info": "{"})
