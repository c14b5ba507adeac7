"""The commands, with every option and its default, as the parser itself knows them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from cyclopts import App
from cyclopts.argument import Argument

from prefect_vertex.cli.app import app
from prefect_vertex.cli.examples import EXAMPLES
from rendering.markdown import code, page, shown_default, table

_CODES = (
    ("0", "done"),
    ("1", ("an error, told in one line; or `doctor` found something that failed, `jobs` something "
          "that was not done")),
    ("2", "options that are missing, contradict each other or cannot be read"),
    ("130", "Ctrl-C"),
)  # fmt: skip


def commands_page() -> str:
    """Every command in alphabetical order."""
    return page(
        "# Commands",
        "`prefect-vertex --help` and `prefect-vertex COMMAND --help` say the same. "
        "`prefect-vertex --install-completion` completes commands in bash, zsh and fish.",
        *(part for name, command in commands() for part in _command(name, command)),
        "## Exit codes",
        table(("code", "means"), ((code(number), text) for number, text in _CODES)),
        "`PREFECT_VERTEX_DEBUG=1` shows an error's traceback.",
    )


def commands(of: App = app, prefix: str = "") -> Iterator[tuple[str, App]]:
    """The commands that do something, by their full names."""
    for name in sorted(of):
        if name.startswith("-"):
            continue
        command = of[name]
        if command.default_command is None:
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def options(command: App) -> list[Argument]:
    """What a command takes, in the order of its signature."""
    found = command.assemble_argument_collection(
        default_parameter=app.default_parameter, parse_docstring=True
    )
    return [each for each in found if each.show]


def _command(name: str, command: App) -> Iterator[str]:
    yield f"## prefect-vertex {name}"
    text = inspect.getdoc(command.default_command) or ""
    yield text.partition("\nArgs:")[0].strip()
    rows = [_option(each) for each in options(command)]
    if rows:
        yield "\n".join(table(("option", "default", "meaning"), rows))
    lines = EXAMPLES[name].splitlines()[1:]
    yield "\n".join(["```bash", *(line.strip() for line in lines), "```"])


def _option(option: Argument) -> tuple[str, str, str]:
    names = ", ".join(code(name) for name in option.names)
    if option.index is not None:
        names = code(option.field_info.names[0].upper())
    choices = option.get_choices(force=True) or ()
    told = str(option.parameter.help or "")
    if len(choices) > 1:
        told += f" One of {', '.join(code(each) for each in choices)}."
    if option.required:
        return names, "needed", told
    default = option.field_info.default
    return names, "off" if default is False else shown_default(default), told
