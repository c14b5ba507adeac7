"""What the pages tell to type exists: commands, options, job variables, settings, names."""

from __future__ import annotations

import ast
import importlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from prefect.cli._app import _app as prefect_app
from prefect.settings import Settings
from prefect.settings.base import PrefectBaseSettings

from prefect_vertex import __version__
from prefect_vertex.chronicle.prices import parse_prices
from prefect_vertex.cli.app import app
from prefect_vertex.planning.plan import JobPlan
from prefect_vertex.settings import PREFIX, VertexSettings

if TYPE_CHECKING:
    from tests.docs.conftest import Block

SOME_ID = "0f1e2d3c-1111-4222-8333-444455556666"
_ENDS_A_COMMAND = frozenset({";", "&", "&&", "|", "||", ">", ">>", "(", ")"})
_REDIRECTION = frozenset({">", ">>"})
SMOKES = "PREFECT_VERTEX_CLOUD_"
FOREIGN = frozenset({"authorized_user", "external_account", "result_storage"})
"""Names in sentences that are Google's or Prefect's, and no code of ours has."""


def _commands(text: str) -> Iterator[list[str]]:
    """The simple commands of a script, without comments, assignments and redirections."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        command: list[str] = []
        into = False
        for word in [*words, ";"]:
            if word in _ENDS_A_COMMAND:
                yield _without_assignments(command)
                command, into = [], word in _REDIRECTION
            elif not into:
                command.append(word)


def _without_assignments(words: list[str]) -> list[str]:
    while words and (words[0] == "exec" or re.fullmatch(r"\w+=.*", words[0])):
        words = words[1:]
    return words


def test_every_command_can_be_parsed(bash_block: Block) -> None:
    """Commands and options of ours and of Prefect's exist, and their values can be read."""
    for program, *words in filter(None, _commands(bash_block.text)):
        if program == "prefect-vertex" and words != ["--install-completion"]:
            app.parse_args(words, exit_on_error=False, print_error=False)
        if program == "prefect":
            told = [SOME_ID if word == "ID" else word for word in words if word != "--no-prompt"]
            prefect_app.parse_args(told, exit_on_error=False, print_error=False)


def test_every_wheel_is_of_this_version(page: Path) -> None:
    """A command with the wheel's name can be copied."""
    named = re.findall(r"prefect_vertex-([\w.]+)-py3", page.read_text(encoding="utf-8"))

    assert set(named) <= {__version__}


def test_every_variable_on_a_command_line_is_one(
    bash_block: Block, variables: frozenset[str]
) -> None:
    for command in _commands(bash_block.text):
        pairs = pairwise(command)
        given = [value for option, value in pairs if option in {"--job-variable", "-jv"}]
        assert {text.partition("=")[0].partition(".")[0] for text in given} <= variables


def test_inline_commands_have_options_that_exist(page: Path) -> None:
    """A command in the middle of a sentence may be a part of one."""
    for text in re.findall(r"`(prefect-vertex [a-z][^`]*)`", page.read_text(encoding="utf-8")):
        words = text.split()[1:]
        command = app
        while words and words[0] in command:
            command = command[words.pop(0)]
        assert command is not app, text
        known = {
            name
            for each in command.assemble_argument_collection(
                default_parameter=app.default_parameter
            )
            for name in each.names
        }
        assert {word for word in words if word.startswith("--")} <= known | {"--help"}, text


def test_every_yaml_example_can_be_read_and_planned(
    yaml_block: Block, plan_with: Callable[[Mapping[str, Any]], list[JobPlan]]
) -> None:
    """Its job variables lead to a job, at each of its candidates."""
    for document in yaml.safe_load_all(yaml_block.text):
        for job_variables in _job_variables(document):
            given = {**_minimum(job_variables), **_filled(job_variables)}
            assert plan_with(given), yaml_block.name


def _job_variables(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if isinstance(value.get("job_variables"), dict):
            yield value["job_variables"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _job_variables(item)


def _minimum(given: Mapping[str, Any]) -> dict[str, Any]:
    """What an example leaves to the pool."""
    pool = {
        "region": "us-central1",
        "image": "us-central1-docker.pkg.dev/my-project/flows/flows:1",
        "service_account_name": "flows@my-project.iam.gserviceaccount.com",
    }
    return pool if "candidates" not in given else {**pool, "region": None}


def _filled(given: Mapping[str, Any]) -> dict[str, Any]:
    """With what the build step puts in."""
    text = json.dumps(given)
    text = text.replace("{{ code.code_uri }}", "gs://my-staging-bucket/code/code.zip")
    filled: dict[str, Any] = json.loads(text.replace("{{ code.code_sha256 }}", "0" * 64))
    return filled


def test_every_job_variable_of_a_yaml_example_is_one(
    yaml_block: Block, variables: frozenset[str]
) -> None:
    for document in yaml.safe_load_all(yaml_block.text):
        for given in _job_variables(document):
            own = {name.partition(".")[0] for name in given}
            tried = {name for entry in given.get("candidates", ()) for name in entry}
            assert own | tried <= variables


def test_every_json_example_can_be_read(json_block: Block) -> None:
    value = json.loads(json_block.text)

    if "prices" in value:
        assert parse_prices(json_block.text, json_block.name).machines


def test_every_python_example_is_python_with_names_that_exist(
    python_block: Block, variables: frozenset[str]
) -> None:
    """What it takes from this package is there, and so is each job variable that it sets."""
    tree = ast.parse(python_block.text, mode="exec", type_comments=False)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prefect"):
            module = importlib.import_module(node.module or "")
            for name in node.names:
                assert hasattr(module, name.name) or find_spec(f"{node.module}.{name.name}")
        if isinstance(node, ast.keyword) and node.arg == "job_variables":
            assert _literal_keys(node.value) <= variables


def _literal_keys(value: ast.expr) -> set[str]:
    keys = value.keys if isinstance(value, ast.Dict) else []
    return {str(key.value) for key in keys if isinstance(key, ast.Constant)}


def _prefect_settings() -> set[str]:
    return {name.upper() for name in _names(Settings)}


def _names(settings: type[PrefectBaseSettings]) -> Iterator[str]:
    prefix = str(settings.model_config.get("env_prefix", ""))
    for name, field in settings.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, PrefectBaseSettings):
            yield from _names(field.annotation)
        else:
            yield f"{prefix}{name}"


def _is_read(name: str, source: str) -> bool:
    """Whether the code has it, as a whole or, of the smoke's, behind their common beginning."""
    own = name.removeprefix(SMOKES)
    return name in source or (own != name and SMOKES in source and f'"{own}"' in source)


def test_every_variable_of_the_environment_is_known(page: Path, source: str) -> None:
    """Ours stand in the code or in the settings, Prefect's own in Prefect."""
    text = page.read_text(encoding="utf-8")
    ours = {f"{PREFIX}{name.upper()}" for name in VertexSettings.model_fields}
    named = set(re.findall(r"\bPREFECT_\w*[A-Z0-9]\b(?!…)", text))
    settings = {name for name in named if name.startswith(PREFIX)}
    read = {name for name in named - settings if name.startswith("PREFECT_VERTEX_")}

    assert settings <= ours
    assert {name for name in read if not _is_read(name, source)} == set()
    rest = named - settings - read - _prefect_settings()
    assert {name for name in rest if name not in source} == set()


@pytest.mark.parametrize("pattern", [r"`([a-z]+(?:_[a-z0-9]+)+)`", r"`([a-z]+(?:_[a-z0-9]+)+): "])
def test_every_name_in_a_sentence_stands_in_the_code(page: Path, source: str, pattern: str) -> None:
    """A job variable, a key or a function that is told of has not been renamed since."""
    told = set(re.findall(pattern, page.read_text(encoding="utf-8")))

    assert {name for name in told - FOREIGN if not re.search(rf"\b{name}\b", source)} == set()
