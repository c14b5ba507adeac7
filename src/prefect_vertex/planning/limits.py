"""How much text a container can be given, in env, command and args."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.packed import is_part
from prefect_vertex.planning.spelling import shown

MAX_ENV_ENTRIES = 100
"""google.cloud.aiplatform_v1 ContainerSpec.env (2.7.0): "Maximum limit is 100"."""

MAX_STRING_BYTES = 131_071
"""Linux takes no longer argument or `NAME=value` (MAX_ARG_STRLEN less its end mark)."""

MAX_ENV_BYTES = 512_000
"""Of all names and values of one container. Vertex AI publishes no limit; what Kubernetes stores of
a pod is at most 1 to 1.5 MB, and the job carries this once per pool."""

_NAMED = 3
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def checked_sizes(values: Mapping[str, str]) -> dict[str, int]:
    """Bytes of each `NAME=value`, as a process has it.

    Raises:
        PlanError: A process cannot have one.
    """
    return {name: _checked_size(name, value) for name, value in values.items()}


def _checked_size(name: str, value: str) -> int:
    if not _ENV_NAME.fullmatch(name):
        raise PlanError(
            f"env has the name {shown(name)}; Vertex AI takes letters, digits and underscores, "
            "not beginning with a digit.",
            variable="env",
        )
    if is_part(name):
        raise PlanError(
            f"env has the name {name}, which the worker keeps for itself.",
            variable="env",
            hint="Choose another name.",
        )
    try:
        size = len(f"{name}={value}".encode())
    except UnicodeEncodeError as error:
        raise _unfit(name, "half of a character (a lone surrogate)") from error
    if "\0" in value:
        raise _unfit(name, "a NUL character")
    if size > MAX_STRING_BYTES:
        raise PlanError(
            f"env {name} has {size} bytes with its name; Linux takes {MAX_STRING_BYTES}.",
            variable="env",
            hint="Put the value into a file or a bucket, and its address into env.",
        )
    return size


def _unfit(name: str, what: str) -> PlanError:
    return PlanError(
        f"env {name} holds {what}, which no process can have in its environment.",
        variable="env",
    )


def check_amount(
    entries: int,
    sizes: Mapping[str, int],
    *,
    ours: Container[str],
    packs: bool,
) -> None:
    """Refuse more than a job can carry, naming what is largest, never a value.

    Args:
        entries: EnvVars in the request.
        sizes: Bytes of each `NAME=value`.
        ours: Names that the worker sets itself, which nobody can leave out.
        packs: Whether they were packed as far as they could be.

    Raises:
        PlanError: There are too many entries or bytes.
    """
    theirs = [name for name in sizes if name not in ours]
    largest = sorted(theirs, key=lambda name: (-sizes[name], name))[:_NAMED]
    named = ", ".join(f"{name} ({sizes[name]} bytes)" for name in largest)
    if entries > MAX_ENV_ENTRIES:
        where = "" if packs else ", and only the bootstrap could unpack more"
        raise PlanError(
            f"env has {entries} entries; Vertex AI takes {MAX_ENV_ENTRIES} for a container{where}. "
            f"The largest are {named}.",
            variable="env",
            hint="Remove some, or set them in the image.",
        )
    total = sum(sizes.values())
    if total > MAX_ENV_BYTES:
        raise PlanError(
            f"env has {total} bytes in all; {MAX_ENV_BYTES} fit into a job. "
            f"The largest are {named}.",
            variable="env",
            hint="Put large values into a file or a bucket, and their addresses into env.",
        )


def check_arguments(arguments: Iterable[str]) -> None:
    """Refuse arguments that no process can be given.

    Raises:
        PlanError: There is one.
    """
    for argument in arguments:
        try:
            size = len(argument.encode())
        except UnicodeEncodeError:
            size = 0
        if "\0" in argument or (argument and not size):
            raise PlanError(
                f"command has the argument {shown(argument)}, which no process can be given.",
                variable="command",
                hint="Remove NUL characters and lone surrogates.",
            )
        if size > MAX_STRING_BYTES:
            raise PlanError(
                f"command has an argument of {size} bytes; Linux takes {MAX_STRING_BYTES}.",
                variable="command",
                hint="Pass long values in env, or in a file.",
            )
