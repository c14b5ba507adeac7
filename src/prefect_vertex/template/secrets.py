"""Secrets of Prefect's: which variables hold them, and how a job does without them.

What is a secret is said by the type of Prefect's own setting, never by a list kept here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from pydantic import Secret, SecretBytes, SecretStr

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.spelling import shown
from prefect_vertex.template.prefect_settings import holds, prefect_settings

VARIABLE = "prefect_api_key_secret"

_KEY = "PREFECT_API_KEY"
_AUTH_STRING = "PREFECT_API_AUTH_STRING"
_HEADERS = "PREFECT_CLIENT_CUSTOM_HEADERS"

# Typed as a plain mapping in Prefect 3.9, but it is where people put tokens for a proxy.
_TREATED_AS_SECRET = frozenset({_HEADERS})

# https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/access,
# read 2026-11; a version is a number, `latest`, or an alias.
_VERSION = re.compile(
    r"(projects/[a-z0-9][a-z0-9.:-]*/secrets/[A-Za-z0-9_-]{1,255})(/versions/[A-Za-z0-9_-]{1,63})?"
)

# Shorter values stand in a request by chance.
_TELLING_LENGTH = 8


class Rendered(Protocol):
    """As much of a configuration as may hold a secret."""

    prefect_api_key_secret: str | None
    env: dict[str, str | None]
    job_spec: dict[str, Any]
    command: str | None
    setup_command: list[str]
    worker_pools: list[dict[str, Any] | None]
    job_spec_patch: list[dict[str, Any]]
    labels: dict[str, str]
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What of a job's environment may be sent.

    Attributes:
        env: The environment of every container.
        job_spec: The CustomJobSpec.
        secret_env: Names in either whose values are never shown; none with a secret.
        api_secrets: Secret Manager version by the Prefect variable that it fills.
    """

    env: dict[str, str] = field(repr=False)
    job_spec: dict[str, Any] = field(repr=False)
    secret_env: frozenset[str]
    api_secrets: Mapping[str, str]


@cache
def secret_setting_names() -> frozenset[str]:
    """Names of the environment variables of all secret Prefect settings, older names included."""
    return _TREATED_AS_SECRET | {
        variable
        for setting in prefect_settings()
        if holds(setting.annotation, SecretStr, SecretBytes, Secret)
        for variable in setting.variables
    }


def secret_names(env: Iterable[str]) -> frozenset[str]:
    """Those of `env` whose values are never shown; Prefect reads them in any case."""
    return frozenset(name for name in env if name.upper() in secret_setting_names())


def guard(values: Rendered, job_spec: Mapping[str, Any]) -> Guarded:
    """Leave every secret of Prefect's out of a job, if Secret Manager has what replaces them.

    Nothing is left out where `prefect_api_key_secret` is not set.

    Args:
        values: The job variables; not changed.
        job_spec: The CustomJobSpec, whose pools may set variables of their own; not changed.

    Raises:
        PlanError: The variable is no secret's name, no account may read it, or a secret's value
            stands where leaving out a variable does not help.
    """
    env = {name: value for name, value in values.env.items() if value is not None}
    own = list(_entries(job_spec))
    patched = list(_named_in(values.job_spec_patch))
    names = secret_names([*env, *(name for name, _ in own), *patched])
    if not values.prefect_api_key_secret:
        return Guarded(env=env, job_spec=dict(job_spec), secret_env=names, api_secrets={})
    full_name = secret_version(values.prefect_api_key_secret)
    if not job_spec.get("service_account"):
        raise PlanError(
            f"{VARIABLE} is set but service_account_name is not: Vertex AI's own agent may read no "
            "secret.",
            variable=VARIABLE,
            hint="Set service_account_name, and grant it roles/secretmanager.secretAccessor.",
        )
    # Prefect's client prefers the auth string (3.9.1), so that is what the worker uses.
    used = _AUTH_STRING if _AUTH_STRING in {name.upper() for name in env} else _KEY
    guarded = Guarded(
        env={name: value for name, value in env.items() if name not in names},
        job_spec=_without(job_spec, names),
        secret_env=frozenset(),
        api_secrets={used: full_name},
    )
    kept_back = [(name, str(value)) for name, value in [*env.items(), *own] if name in names]
    sent = {
        "env": guarded.env,
        "job_spec": guarded.job_spec,
        "command": values.command,
        "setup_command": values.setup_command,
        "job_spec_patch": values.job_spec_patch,
        "labels": values.labels,
        "name": values.name,
    }
    _check_patch(patched)
    _check_absent(kept_back, sent)
    return guarded


def about_plain_keys(secret_env: Iterable[Iterable[str]]) -> str:
    """What to say of jobs that carry the Prefect API's key; empty if they carry none.

    Args:
        secret_env: The secret names in the environment of each candidate.
    """
    carried = {
        name for names in secret_env for name in names if name.upper() in (_KEY, _AUTH_STRING)
    }
    if not carried:
        return ""
    return (
        f"This pool's CustomJobs carry {' and '.join(sorted(carried))}, and everybody who may read "
        f"jobs in the project can read it. Put it into Secret Manager, and set {VARIABLE} to its "
        "projects/PROJECT/secrets/SECRET/versions/VERSION."
    )


def about_left_out(values: Rendered, written: Iterable[str]) -> tuple[str, ...]:
    """One line for each secret that a container without it may miss.

    Args:
        values: The job variables.
        written: Names in `env` that the user's own template or job variables set.
    """
    if not values.prefect_api_key_secret:
        return ()
    pools = ({"worker_pool_specs": values.worker_pools}, values.job_spec)
    own = {*written, *(name for each in pools for name, _ in _entries(each))}
    return tuple(
        f"{name} is not sent, because {VARIABLE} is set: set it in the image or in setup_command "
        "if the flow needs it."
        for name in sorted(secret_names([*own, *values.env]))
        if name.upper() not in (_KEY, _AUTH_STRING) and (name in own or name.upper() == _HEADERS)
    )


def secret_version(text: str) -> str:
    """The full name of a secret's version; a secret's own name means its latest.

    Raises:
        PlanError: It is neither.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        # Somebody may have put the key itself there.
        value = f"is {shown(text)}" if text.startswith("projects/") else "names no secret"
        raise PlanError(
            f"{VARIABLE} {value}, expected projects/PROJECT/secrets/SECRET/versions/VERSION.",
            variable=VARIABLE,
            hint="Without /versions/VERSION the latest is read.",
        )
    return match[1] + (match[2] or "/versions/latest")


def _entries(job_spec: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Name and value of each variable that a pool sets itself, however it is written."""
    for _, env in _own_environments(job_spec):
        if isinstance(env, Mapping):
            yield from ((str(name), value) for name, value in env.items())
        elif isinstance(env, Sequence) and not isinstance(env, str):
            for entry in env:
                if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
                    yield entry["name"], entry.get("value")


def _own_environments(job_spec: Mapping[str, Any]) -> Iterator[tuple[tuple[int, str], Any]]:
    pools = job_spec.get("worker_pool_specs")
    if not isinstance(pools, Sequence) or isinstance(pools, str):
        return
    for index, pool in enumerate(pools):
        for task in ("container_spec", "python_package_spec"):
            body = pool.get(task) if isinstance(pool, Mapping) else None
            if isinstance(body, Mapping) and body.get("env"):
                yield (index, task), body["env"]


def _without(job_spec: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """A copy whose pools set none of these variables."""
    result = dict(job_spec)
    for (index, task), env in _own_environments(job_spec):
        kept: Any = env
        if isinstance(env, Mapping):
            kept = {name: value for name, value in env.items() if name not in names}
        elif isinstance(env, Sequence) and not isinstance(env, str):
            kept = [
                entry
                for entry in env
                if not (isinstance(entry, Mapping) and entry.get("name") in names)
            ]
        pools = list(result["worker_pool_specs"])
        pools[index] = {**pools[index], task: {**pools[index][task], "env": kept}}
        result["worker_pool_specs"] = pools
    return result


def _named_in(patch: object) -> Iterator[str]:
    """Names of the variables that a patch may set, at any depth."""
    if isinstance(patch, Mapping):
        if isinstance(patch.get("name"), str):
            yield patch["name"]
        patch = patch.values()
    if isinstance(patch, Iterable) and not isinstance(patch, str):
        for item in patch:
            yield from _named_in(item)


def _check_patch(names: Iterable[str]) -> None:
    """See that a patch, which is applied last, brings no secret back."""
    for name in sorted(secret_names(names)):
        raise PlanError(
            f"{VARIABLE} is set, but job_spec_patch sets {name}.",
            variable="job_spec_patch",
            hint="Take it out: everybody who may read the job could read it.",
        )


def _check_absent(secrets: Iterable[tuple[str, str]], sent: Mapping[str, object]) -> None:
    """See that no secret's value stands anywhere else; neither is shown."""
    telling = [(name, value) for name, value in secrets if len(value) >= _TELLING_LENGTH]
    for variable, content in sent.items():
        for path, text in _texts(content, variable):
            for name, value in telling:
                if value in text:
                    raise PlanError(
                        f"{VARIABLE} is set, but {path} holds the value of {name}.",
                        variable=variable,
                        hint="Take it out: everybody who may read the job could read it.",
                    )


def _texts(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Every text in a value, with where it stands."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _texts(item, f"{path}.{name}")
    elif isinstance(value, Iterable):
        for index, item in enumerate(value):
            yield from _texts(item, f"{path}[{index}]")
