"""What docker/Dockerfile may bring into the image, read without building it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pathspec
import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKERFILE = REPOSITORY / "docker" / "Dockerfile"
SECRETS = ("TOKEN", "PASSWORD", "API_KEY", "AUTH", "CREDENTIALS")


def _instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines) if word]


def _arguments() -> dict[str, str]:
    pairs = [rest.partition("=") for word, rest in _instructions() if word == "ARG"]
    return {name: value.strip('"') for name, _, value in pairs}


def test_only_requirements_and_wheels_are_copied() -> None:
    """So no flow's code is in the image, whatever the context: new code needs no new image."""
    sources = [
        source.replace("${REQUIREMENTS}", _arguments()["REQUIREMENTS"])
        for word, rest in _instructions()
        if word == "COPY"
        for source in rest.split()[:-1]
    ]

    assert sources == ["examples/forecast/requirements.txt", "dist/*.whl"]


def test_nothing_comes_in_by_another_way() -> None:
    """Neither from another image or an address, nor by a program that fetches."""
    text = " ".join(f"{word} {rest}" for word, rest in _instructions())

    assert {word for word, _ in _instructions()} <= {
        "ARG", "COPY", "ENV", "FROM", "RUN", "USER", "WORKDIR"
    }  # fmt: skip
    assert not re.search(r"--from|--mount|\bgit\b|\bcurl\b|\bwget\b|https?:", text)


def test_the_context_lets_only_wheels_and_requirements_through() -> None:
    lines = (REPOSITORY / ".dockerignore").read_text().splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]

    assert patterns == ["*", "!dist/*.whl", "!**/requirements*.txt"]


@pytest.mark.parametrize(
    "path",
    [
        "examples/forecast/forecast.py",
        "examples/other/flow.py",
        "src/prefect_vertex/worker.py",
        "pyproject.toml",
        "dist/package.tar.gz",
        ".venv/bin/python",
        ".git/config",
    ],
)
def test_cloud_build_is_sent_no_code(path: str) -> None:
    assert not _is_uploaded(path)


@pytest.mark.parametrize(
    "path",
    [
        ".dockerignore",
        "dist/prefect_vertex-1.0-py3-none-any.whl",
        "docker/Dockerfile",
        "examples/forecast/requirements.txt",
    ],
)
def test_cloud_build_is_sent_what_the_dockerfile_copies(path: str) -> None:
    assert _is_uploaded(path)


def _is_uploaded(path: str) -> bool:
    lines = (REPOSITORY / ".gcloudignore").read_text().splitlines()
    return not pathspec.GitIgnoreSpec.from_lines(lines).match_file(path)


def test_the_image_is_not_roots() -> None:
    """What comes after the last USER runs as that user, the flow too."""
    users = [rest for word, rest in _instructions() if word == "USER"]

    assert users == ["root", "flow"]


def test_the_base_is_an_argument_and_prefects_own_by_default() -> None:
    assert ("FROM", "${BASE}") in _instructions()
    assert re.fullmatch(r"prefecthq/prefect:3-python3\.\d+", _arguments()["BASE"])


def test_prefects_range_is_the_packages() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]

    assert f"prefect{_arguments()['PREFECT']}" in project["dependencies"]


def test_cloud_build_uses_the_same_defaults_and_arguments_that_exist() -> None:
    build = yaml.safe_load((REPOSITORY / "docker" / "cloudbuild.yaml").read_text())
    given = re.findall(r"--build-arg=(\w+)=\$_\w+", " ".join(build["steps"][0]["args"]))

    assert set(given) <= _arguments().keys()
    assert build["substitutions"] == {f"_{name}": _arguments()[name] for name in given}


def test_no_secret_and_no_address_of_an_index_is_asked_for() -> None:
    names = " ".join(_arguments())

    assert not any(word in names for word in SECRETS)
    assert "index-url" not in DOCKERFILE.read_text()
