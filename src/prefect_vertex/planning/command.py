"""What a container runs: the user's command behind the bootstrap.

The platform expands `$(NAME)` in command and args; what the user wrote there may use that.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.environment import literal
from prefect_vertex.planning.limits import check_arguments
from prefect_vertex.planning.spelling import shown


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
        return list(value)
    raise PlanError(
        f"{name} is {shown(value)}, expected text or a list of texts.",
        variable="command",
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
