"""The environment of a container: who sets what, and how it travels.

The platform rewrites `$(NAME)` and `$$` in env, command and args, as Kubernetes does
(google.cloud.aiplatform_v1 EnvVar, 2.7.0). So there are two kinds of text. What the user wrote into
the template's own `container_spec` (env, command, args) and into `command` may use that. Everything
else (the `env` variable at any level, Prefect's settings, what this package sets) is literal: the
code sees what was written. Behind the bootstrap a literal value with `$`, a large one, and more of
them than Vertex AI takes travel packed; elsewhere `$` is escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.code import CodeReference
from prefect_vertex.planning.limits import MAX_ENV_ENTRIES, check_amount, checked_sizes
from prefect_vertex.planning.packed import pack

LARGE_BYTES = 32_768
"""A value from here on is compressed: every list page of the service carries it."""

_EXPANDED = re.compile(r"\${2,}|\$(?=\()")
_REFERENCE = re.compile(r"\$\(([^)]*)\)")

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The env of one container, as the request carries it.

    Attributes:
        entries: EnvVars in snake_case, names unique.
        parts: How many of them are numbered variables, which have to be unpacked.
        packed: Names of what is in those.
        warnings: One line for each value of the user's that is not used.
    """

    entries: tuple[Entry, ...]
    parts: int = 0
    packed: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def literal(text: str) -> str:
    """Escape what the platform would rewrite, and nothing else.

    Only `$(` and runs of `$` are rewritten; a lone `$` is doubled by nobody and so left alone.
    """
    return _EXPANDED.sub(lambda match: match[0] * 2, text)


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


def secret_environment(api_secrets: Mapping[str, str]) -> dict[str, str]:
    """What tells the bootstrap where the Prefect API's key or auth string is kept.

    Args:
        api_secrets: Secret Manager version by the Prefect variable that it fills.
    """
    return {
        f"PREFECT_VERTEX_{name.removeprefix('PREFECT_')}_SECRET": version
        for name, version in api_secrets.items()
    }


def primary_environment(*, vertex_retries: bool) -> dict[str, str]:
    """What the primary replica's command reads unless the user says otherwise.

    Asked to end (SIGTERM), `prefect flow-run execute` (3.9.1) can hand its run to the next attempt
    and exit 0 (`reschedule`), or leave it Running and exit 1 for the platform to start it again
    (`relinquish`). Other replicas get none of this: a follower's run has no worker to take it up.
    """
    behavior = "relinquish" if vertex_retries else "reschedule"
    return {"PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": behavior}


def drafted_entries(own: object, common: Mapping[str, str], path: str) -> list[Entry]:
    """The env of a container as a patch sees it: the common values by name, escaped, then its own.

    Args:
        own: The container's own env, a list of name and value or a mapping; without a value an
            entry unsets the common one.
        common: Literal values for every container; its own win.
        path: Where the env stands, for messages.

    Raises:
        PlanError: The env is neither, or an entry has no name.
    """
    written = dict(_own_entries(own, path))
    return [
        *(
            _entry(name, literal(value))
            for name, value in sorted(common.items())
            if name not in written
        ),
        *written.values(),
    ]


def split_entries(
    drafted: object,
    common: Mapping[str, str],
    path: str,
) -> tuple[dict[str, str], list[Entry]]:
    """A drafted env, perhaps patched since: which common values are still in it, and the rest.

    Raises:
        PlanError: It is no env any more.
    """
    entries = list(dict(_own_entries(drafted, path)).items())
    kept = {
        name: common[name]
        for name, entry in entries
        if name in common and entry == _entry(name, literal(common[name]))
    }
    return kept, [entry for name, entry in entries if name not in kept]


def merged_environment(
    own: object,
    *,
    common: Mapping[str, str],
    platform: Mapping[str, str],
    path: str,
    used: Iterable[str] = (),
    packs: bool = False,
) -> Environment:
    """The env of one container.

    Order: the common ones by name, the platform's by name, the packed, the pool's own as written,
    so that those can refer to the others.

    Args:
        own: The pool's own env, a list of name and value or a mapping; a null value unsets.
        common: Literal values for every pool; the pool's own win.
        platform: Literal values that nothing overrides.
        path: Where the env stands, for messages.
        used: Command and args, which may refer to variables with `$(NAME)`.
        packs: Whether the bootstrap runs in this container and can unpack.

    Raises:
        PlanError: A name that is none, a value that no process can have, or too much of them.
    """
    written = dict(_own_entries(own, path))
    warnings = tuple(
        f"env {name} is set by the worker; the value given for it is not used."
        for name in sorted(platform)
        if name in written or common.get(name, platform[name]) != platform[name]
    )
    literals = {
        name: value
        for values in (common, platform)
        for name, value in sorted(values.items())
        if values is platform or (name not in written and name not in platform)
    }
    expanding = {
        name: entry
        for name, entry in written.items()
        if name not in platform and entry.get("value") is not None
    }
    sizes = checked_sizes({**literals, **{name: str(e["value"]) for name, e in expanding.items()}})
    referred = _references([*used, *(str(entry["value"]) for entry in expanding.values())])
    packed: dict[str, str] = {}
    if packs:
        plain = {**literals, **_plain_values(expanding)}
        movable = {name: value for name, value in plain.items() if name not in referred}
        packed = _to_pack(movable, sizes, keep=platform)
    parts = pack(packed)
    entries = [
        *(_entry(name, literal(value)) for name, value in literals.items() if name not in packed),
        *(_entry(name, value) for name, value in parts.items()),
        *(entry for name, entry in expanding.items() if name not in packed),
    ]
    check_amount(len(entries), sizes, ours=platform, packs=packs)
    return Environment(
        entries=tuple(entries),
        parts=len(parts),
        packed=frozenset(packed),
        warnings=warnings,
    )


def _entry(name: str, value: str) -> Entry:
    return {"name": name, "value": value}


def _plain_values(expanding: Mapping[str, Entry]) -> dict[str, str]:
    """The pool's own values that mean the same packed: nothing in them is expanded."""
    return {
        name: str(entry["value"])
        for name, entry in expanding.items()
        if "$" not in str(entry["value"]) and set(entry) == {"name", "value"}
    }


def _references(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(name for text in texts for name in _REFERENCE.findall(text))


def _to_pack(
    movable: Mapping[str, str],
    sizes: Mapping[str, int],
    *,
    keep: Iterable[str],
) -> dict[str, str]:
    packed = {
        name: value for name, value in movable.items() if "$" in value or sizes[name] >= LARGE_BYTES
    }
    if len(sizes) - len(packed) + len(pack(packed)) <= MAX_ENV_ENTRIES:
        return packed
    # What this package sets itself stays to be read in the job.
    kept = frozenset(keep)
    return {name: value for name, value in movable.items() if name in packed or name not in kept}


def _own_entries(own: object, path: str) -> Iterator[tuple[str, Entry]]:
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
