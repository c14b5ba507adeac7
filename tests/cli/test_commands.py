"""What the commands refuse, in one line and at once."""

from __future__ import annotations

import io
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pytest
from rich.console import Console

from prefect_vertex.cli.app import app
from prefect_vertex.cli.examples import EXAMPLES
from prefect_vertex.cli.terminal import console, print_table, quiet, working


def _run(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "prefect_vertex", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["demo", "--series", "0"], "366 monthly series", id="no series"),
        pytest.param(["demo", "--series", "999"], "366 monthly series", id="too many series"),
        pytest.param(["demo", "--replicas", "0"], "expected 1 or more", id="no replicas"),
        pytest.param(["demo", "--output", "{file}"], "cannot be a directory", id="output a file"),
        pytest.param(["emulator", "start", "--port", "99999"], "not a port", id="port"),
        pytest.param(["emulator", "start", "--storage-port", "-1"], "not a port", id="storage"),
        pytest.param(["emulator", "start", "--control-port", "70000"], "not a port", id="control"),
        pytest.param(
            ["emulator", "start", "--storage-port", "0", "--data", "{file}"],
            "--data",
            id="data a file",
        ),
    ],
)
def test_a_wrong_argument_is_one_line_and_nothing_is_started(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    """The message and its hint are the only output."""
    file = tmp_path / "file"
    file.touch()
    done = _run(*(text.format(file=file) for text in arguments))

    assert done.returncode == 1
    assert says in done.stderr
    assert len(done.stderr.splitlines()) <= 2
    assert done.stdout == ""


def test_help_describes_every_command() -> None:
    """Nobody has to guess what a command is for; a pipe gets plain text."""
    text = _run("--help").stdout

    for words in (
        *("Forecast real series", "Upload a directory's code", "A local Vertex AI"),
        *("Check a work pool end to end", "Show a pool's jobs", "--install-completion"),
        "Tell a work pool where the code of flows without a deployment is stored.",
    ):
        assert words in text
    assert text.isascii()


def _commands() -> list[str]:
    lines = [line for text in EXAMPLES.values() for line in text.splitlines()]
    return [line.strip() for line in lines if line.startswith("prefect-vertex ")]


@pytest.mark.parametrize("line", _commands())
def test_every_example_of_the_help_is_a_command(line: str) -> None:
    """It names options that exist, with values that can be read."""
    words = shlex.split(line.partition(" > ")[0])[1:]
    if words != ["--install-completion"]:
        app.parse_args(words, exit_on_error=False, print_error=False)


@pytest.mark.parametrize("command", [name for name in EXAMPLES if name])
def test_each_command_s_help_ends_with_examples(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    app([*command.split(), "--help"], exit_on_error=False)

    *_, heading, _ = capsys.readouterr().out.partition("Examples:")
    assert heading == "Examples:"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["plan"], "Name one of --pool, --deployment, --flow-run and --from."),
        (["plan", "--bogus"], "Unknown option: --bogus."),
        (["plan", "--format", "xml"], '"xml" for --format. Choose from: "json", "gcloud".'),
        (["nonsense"], 'Unknown command "nonsense".'),
        (["emulator", "strt"], 'Did you mean "start"?'),
        (["jobs"], "--pool requires an argument"),
        (["jobs", "--pool", "a", "b c"], "Nothing takes 'b c' here."),
        (["demo", "--replicas", "few"], 'unable to convert "few" into int'),
        (["bundle-storage", "a"], "--bucket requires an argument"),
        (["bundle-storage", "a", "--bucket", "b-b", "--upload-launcher", "'"], "No closing quot"),
        (["doctor"], "Name one of --pool and --deployment."),
        (["jobs", "--pool", "a", "--since", "3x"], "not a time span"),
    ],
    ids=" ".join,
)
def test_wrong_use_is_plain_lines_and_has_an_exit_code_of_its_own(
    arguments: list[str], says: str
) -> None:
    """In one form whoever finds it: what is wrong, then what to do; no box, however wide."""
    done = _run(*arguments)
    first, *rest = done.stderr.splitlines()

    assert (done.returncode, done.stdout) == (2, "")
    assert first.startswith("prefect-vertex: ")
    assert says in first
    assert len(rest) <= 1
    assert all(line.startswith("  ") and line.strip() == line[2:] for line in rest)
    assert done.stderr.isascii()
    assert max(map(len, (first, *rest))) < 250


def test_wrong_use_reads_the_same_whatever_the_terminal_is_said_to_be() -> None:
    wrong = ("plan", "--format", "xml")
    variables: list[dict[str, str]] = [
        {},
        {"COLUMNS": "20", "LINES": "5"},
        {"NO_COLOR": "1"},
        {"FORCE_COLOR": "1"},
        {"TERM": "dumb"},
    ]

    assert len({_run(*wrong, env=env).stderr for env in variables}) == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_every_command(shell: Literal["bash", "zsh", "fish"]) -> None:
    script = app.generate_completion(shell=shell)

    for name in ("doctor", "jobs", "plan", "stage-code", "bundle-storage", "emulator", "demo"):
        assert name in script


def test_columns_are_plain_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are neither cut nor folded, however narrow the terminal was."""
    print_table(console(), ("name", "says"), [("a" * 200, "in step"), ("b", "[bold]x[/bold]")])
    heading, long, short = capsys.readouterr().out.splitlines()

    assert heading.split() == ["name", "says"]
    assert long == f"{'a' * 200}  in step"
    assert short.split() == ["b", "[bold]x[/bold]"]


def test_a_terminal_gets_a_table_and_no_color_takes_its_colours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def printed() -> str:
        out = Console(file=io.StringIO(), force_terminal=True, width=60, color_system="standard")
        print_table(out, ("name", "says"), [("a", "bad")], styles={"bad": "bold red"})
        assert isinstance(out.file, io.StringIO)
        return out.file.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;31mbad" in printed()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in printed()


def test_what_goes_on_is_said_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path or a pool may have brackets in its name, which are markup elsewhere."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with working("Staging [/data] in [b]"):
        pass

    assert "Staging [/data] in [b]" in capsys.readouterr().err


def test_log_lines_stay_off_the_terminal_while_a_command_prints_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Handlers that send lines elsewhere still get them, and afterwards all is as before."""
    kept: list[str] = []
    shown, sent = logging.StreamHandler(sys.stderr), logging.Handler()
    sent.emit = lambda record: kept.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("prefect_vertex.of_this_test")
    logger.propagate = False
    logger.handlers = [shown, sent]
    with quiet():
        logger.error("within")
    logger.error("after")

    assert kept == ["within", "after"]
    assert capsys.readouterr().err == "after\n"
