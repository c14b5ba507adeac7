"""What a container runs, and the environment it runs in.

The platform rewrites `$(NAME)` and `$$` in env, command and args, as Kubernetes does
(google.cloud.aiplatform_v1 EnvVar, 2.7.0). So there are two kinds of text. What the user wrote into
the template's own `container_spec` (env, command, args) and into `command` may use that. Everything
else (the `env` variable at any level, Prefect's settings, what this package sets) is escaped, so
that the code sees what was written.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.code import CodeReference
from prefect_vertex.planning.spelling import shown

MAX_ENV_ENTRIES = 100
"""google.cloud.aiplatform_v1 ContainerSpec.env (2.7.0): "Maximum limit is 100"."""

MAX_STRING_BYTES = 131_071
"""Linux takes no longer argument or `NAME=value` (MAX_ARG_STRLEN less its end mark)."""

_ENV_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_EXPANDED = re.compile(r"\${2,}|\$(?=\()")


def literal(text: str) -> str:
    """Escape what the platform would rewrite, and nothing else.

    Only `$(` and runs of `$` are rewritten; a lone `$` is doubled by nobody and so left alone.
    """
    return _EXPANDED.sub(lambda match: match[0] * 2, text)


def argument_list(value: object, name: str) -> list[str]:
    """A command as an argument list; text is split as a shell would.

    Raises:
        PlanError: It is neither text nor a list of texts, or a quote is not closed.
    """
    if value is None:
        return []
    if isinstance(value, str):
        try:
            return shlex.split(value)
        except ValueError as error:
            raise PlanError(
                f"{name} is {shown(value)}, which a shell could not split: {error}.",
                variable="command",
            ) from error
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
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
) -> list[str]:
    """`python3 -c <bootstrap> <command>`.

    Raises:
        PlanError: An argument is longer than the kernel takes.
    """
    wrapped = [*python_command, "-c", literal(bootstrap), *command]
    for argument in wrapped:
        if len(argument.encode()) > MAX_STRING_BYTES:
            raise PlanError(
                f"command has an argument of {len(argument.encode())} bytes; "
                f"Linux takes {MAX_STRING_BYTES}.",
                variable="command",
                hint="Pass long values in env, or in a file.",
            )
    return wrapped


def platform_environment(
    *,
    flow_run_id: str,
    attempt: int,
    code: CodeReference | None,
    checkpoint_dir: str,
    setup_command: Sequence[str],
    vertex_retries: bool,
) -> dict[str, str]:
    """What the bootstrap and `prefect_vertex.replica` read; users cannot override it.

    Args:
        flow_run_id: The run that the container is for.
        attempt: Attempt number, from 1.
        code: Staged code archive, if there is one.
        checkpoint_dir: Where the run keeps checkpoints; empty: nowhere.
        setup_command: Lines of the script that runs before the command.
        vertex_retries: Vertex AI may start a container of this attempt again, and the user wants
            that: the bootstrap then lets a second start run.
    """
    environment = {
        "PREFECT__FLOW_RUN_ID": flow_run_id,
        "PREFECT_VERTEX_ATTEMPT": str(attempt),
    }
    if vertex_retries:
        environment["PREFECT_VERTEX_GUARD"] = "0"
    if code is not None:
        environment["PREFECT_VERTEX_CODE_URI"] = code.uri
        environment["PREFECT_VERTEX_CODE_SHA256"] = code.sha256
    if checkpoint_dir:
        environment["PREFECT_VERTEX_CHECKPOINT_DIR"] = checkpoint_dir
    if setup_command:
        environment["PREFECT_VERTEX_SETUP_COMMAND"] = json.dumps(
            list(setup_command),
            ensure_ascii=False,
        )
    return environment


def primary_environment(*, vertex_retries: bool) -> dict[str, str]:
    """What the primary replica's command reads unless the user says otherwise.

    Asked to end (SIGTERM), `prefect flow-run execute` (3.9.1) can hand its run to the next attempt
    and exit 0 (`reschedule`), or leave it Running and exit 1 for the platform to start it again
    (`relinquish`). Other replicas get none of this: a follower's run has no worker to take it up.
    """
    behavior = "relinquish" if vertex_retries else "reschedule"
    return {"PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": behavior}


def merged_environment(
    own: object,
    *,
    common: Mapping[str, str],
    platform: Mapping[str, str],
    path: str,
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The env entries of one pool.

    Order: the common ones by name, the platform's by name, the pool's own as written, so that those
    can refer to all the others.

    Args:
        own: The pool's own env, a list of name and value or a mapping; a null value unsets.
        common: Literal values for every pool; the pool's own win.
        platform: Literal values that nothing overrides.
        path: Where the env stands, for messages.

    Returns:
        The entries, names unique, and warnings about values that the platform's replace.

    Raises:
        PlanError: A name that is none, too many entries, or one too large.
    """
    written = dict(_own_entries(own, path))
    entries = {
        name: {"name": name, "value": literal(value)}
        for values in (common, platform)
        for name, value in sorted(values.items())
        if values is platform or (name not in written and name not in platform)
    }
    entries |= {
        name: entry
        for name, entry in written.items()
        if name not in platform and entry["value"] is not None
    }
    warnings = tuple(
        f"env {name} is set by the worker; the value given for it is not used."
        for name in sorted(platform)
        if name in written or common.get(name, platform[name]) != platform[name]
    )
    for name in entries:
        source = platform.get(name, "" if name in written else common.get(name, ""))
        _check_entry(name, source or str(entries[name]["value"]))
    if len(entries) > MAX_ENV_ENTRIES:
        raise PlanError(
            f"env has {len(entries)} entries; Vertex AI takes {MAX_ENV_ENTRIES} for a container.",
            variable="env",
            hint="Remove some, or set them in the image.",
        )
    return list(entries.values()), warnings


def _own_entries(own: object, path: str) -> Iterable[tuple[str, dict[str, Any]]]:
    if own is None:
        return
    if isinstance(own, Mapping):
        own = [{"name": name, "value": value} for name, value in own.items()]
    if not isinstance(own, Sequence) or isinstance(own, str):
        raise PlanError(f"{path} is not a list of name and value.", variable="env")
    for index, entry in enumerate(own):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
            raise PlanError(
                f"{path}[{index}] has no name.",
                variable="env",
                hint="Write {name: NAME, value: text}.",
            )
        value = entry.get("value")
        yield entry["name"], {**entry, "value": None if value is None else str(value)}


def _check_entry(name: str, value: str) -> None:
    if not _ENV_NAME.fullmatch(name):
        raise PlanError(
            f"env has the name {shown(name)}; Vertex AI takes letters, digits and underscores, "
            "not beginning with a digit.",
            variable="env",
        )
    size = len(f"{name}={value}".encode())
    if size > MAX_STRING_BYTES:
        raise PlanError(
            f"env {name} has {size} bytes with its name; Linux takes {MAX_STRING_BYTES}.",
            variable="env",
            hint="Put the value into a file or a bucket, and its address into env.",
        )
