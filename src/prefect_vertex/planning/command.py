"""What a container runs: the user's command behind the bootstrap.

The platform expands `$(NAME)` in command and args; what the user wrote there may use that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.environment import literal
from prefect_vertex.planning.limits import check_arguments
from prefect_vertex.planning.spelling import shown

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def argument_list(value: object, name: str) -> list[str]:
    """A command as an argument list; text is split as a shell would.

    Raises:
        PlanError: It is neither text nor a list of texts, a quote is not closed, or no process can
            have such an argument.
    """
    if value is None:
        return []
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise PlanError(
                f"{name} is {shown(value)}, which a shell could not split: {error}.",
                variable="command",
            ) from error
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        check_arguments(value)
        if value and not value[0].strip() and not name.endswith("args"):
            raise PlanError(
                f"{name} is {shown(value)}, which names no program.",
                variable="command",
                hint="Leave command out for the usual one, `prefect flow-run execute`.",
            )
        return list(value)
    raise PlanError(
        f"{name} is {shown(value)}, expected text or a list of texts.",
        variable="command",
    )


def check_launch(python_command: Sequence[str], setup_command: Sequence[str]) -> None:
    """Refuse an interpreter or a script with which no container would start.

    Raises:
        PlanError: It is one.
    """
    if not python_command or not python_command[0].strip():
        raise PlanError(
            f"python_command is {shown(list(python_command))}, which names no program.",
            variable="python_command",
            hint="Leave it out for python3.",
        )
    lists = {"python_command": python_command, "setup_command": setup_command}
    for name, texts in lists.items():
        for index, text in enumerate(texts):
            if "\0" in text or _SURROGATE.search(text):
                raise PlanError(
                    f"{name}[{index}] holds a NUL character or half of a character.",
                    variable=name,
                    hint="Remove it.",
                )


def wrapped_command(
    command: Sequence[str],
    *,
    python_command: Sequence[str],
    bootstrap: str,
    prelude: str = "",
) -> list[str]:
    """`python3 -c <bootstrap> <command>`.

    Args:
        command: What the user runs.
        python_command: The interpreter, with its options.
        bootstrap: Python source.
        prelude: Python source that runs before it, in the same process.

    Raises:
        PlanError: An argument is longer than the kernel takes.
    """
    source = f"{prelude}\n{bootstrap}" if prelude else bootstrap
    wrapped = [*python_command, "-c", literal(source), *command]
    check_arguments(wrapped)
    return wrapped
