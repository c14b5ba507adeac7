"""Job variables of a deployment and a run, laid over each other; and what is wrong with them.

Everything here works on copies: Prefect's own merge changes the flow run and the deployment that
it is given, so that a second look at the same objects sees something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from http import HTTPStatus
from typing import Any

import httpx
from prefect.exceptions import ObjectNotFound
from prefect.utilities.collections import deep_merge, set_in_dict
from pydantic import ValidationError

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.addresses import without_user
from prefect_vertex.planning.spelling import closest, shown

_BY_NAME = frozenset({"env", "labels"})
"""Variables whose keys are names, which may have dots in them."""

_NOT_SHOWN = frozenset({"env", "credentials", "prefect_api_key_secret"})
_MAY_HOLD_ENV = frozenset({"worker_pools", "job_spec_patch", "job_spec", "candidates"})
# Of a value in which env may stand: too short for a secret.
_HARMLESS = 10


def layered(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one level of job variables over another; neither is changed.

    `env` is merged by name, as Prefect does; any other variable is replaced. A key with dots
    (`scheduling.timeout`) reaches into the lower level's mapping; what follows `env.` and `labels.`
    is one name, dots and all. A null unsets what the lower level says.
    """
    result = deepcopy(dict(lower))
    whole = {key: deepcopy(value) for key, value in upper.items() if "." not in key}
    for name, parts in _nested(upper).items():
        own, below = whole.get(name), result.get(name)
        if isinstance(own, dict):
            whole[name] = deep_merge(parts, own)
        elif name not in whole:
            result[name] = deep_merge(below if isinstance(below, dict) else {}, parts)
    for name, value in whole.items():
        below = result.get(name)
        if name == "env" and isinstance(value, dict) and isinstance(below, dict):
            result[name] = {**below, **value}
        else:
            result[name] = value
    return result


def _nested(level: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What the keys with dots say, as mappings."""
    nested: dict[str, dict[str, Any]] = {}
    for key, value in level.items():
        if "." not in key:
            continue
        variable, _, name = key.partition(".")
        if variable in _BY_NAME:
            nested.setdefault(variable, {})[name] = deepcopy(value)
            continue
        try:
            set_in_dict(nested, key, deepcopy(value))
        except TypeError as error:
            raise PlanError(
                f"job variable {key!r} reaches into what another one sets as a whole.",
                variable=key.partition(".")[0],
            ) from error
    return nested


def said_twice(*levels: Mapping[str, Any] | None) -> tuple[str, ...]:
    """A warning for each key with dots that its level also sets in the whole, which wins."""
    found: list[str] = []
    for level in levels:
        for variable, parts in _nested(level or {}).items():
            whole = (level or {}).get(variable)
            if isinstance(whole, Mapping):
                found += [
                    f"job variable '{variable}.{name}' has no effect: {variable} has {name} too, "
                    "at the same level."
                    for name in parts
                    if name in whole and whole[name] != parts[name]
                ]
    return tuple(dict.fromkeys(found))


def about_clear_key(level: Mapping[str, Any] | None, where: str) -> tuple[str, ...]:
    """A warning for a key in the job variables themselves, where everybody can read it."""
    block = (level or {}).get("credentials")
    if not isinstance(block, Mapping) or not block.get("service_account_info"):
        return ()
    line = (
        f"The job variables of the {where} hold a service account's key in clear, in credentials "
        "(`prefect deploy` writes it there): have it name the block instead, and replace the key."
    )
    return (line,)


def set_variables(*levels: Mapping[str, Any] | None) -> dict[str, Any]:
    """All levels over each other, the last one on top, without those that a null unsets."""
    result: dict[str, Any] = {}
    for level in levels:
        result = layered(result, level or {})
    return {name: value for name, value in result.items() if value is not None}


def is_unset(value: object) -> bool:
    """Whether a value is as good as none: a null, or a text box that was emptied."""
    return value is None or (isinstance(value, str) and not value.strip())


def check_texts(values: object, variable: str) -> None:
    """Refuse what is no mapping of names to texts; numbers and true or false are written as texts.

    Raises:
        PlanError: It is none; no value is shown.
    """
    if not isinstance(values, Mapping):
        raise PlanError(f"{variable} is not a mapping of names to texts.", variable=variable)
    for name, value in values.items():
        if isinstance(value, Mapping | list | tuple):
            kind = "a mapping" if isinstance(value, Mapping) else "a list"
            raise PlanError(
                f"{variable} has {kind} in {shown(str(name))}, expected a text.",
                variable=variable,
                hint="Write it as one text, for example as JSON in quotes.",
            )


# "List should have at least 1 item after validation, not 0"
_AMOUNT = re.compile(r"\w+ should have (.+?)(?: after validation.*)?$")


@contextmanager
def renamed(known: Iterable[str]) -> Iterator[None]:
    """Turn what a rendering raises because of the user's values into a PlanError.

    Trouble of the API's passes through.

    Args:
        known: The keys that a job_configuration may have.
    """
    try:
        yield
    except httpx.HTTPStatusError as error:
        if error.response.status_code != HTTPStatus.UNPROCESSABLE_ENTITY:
            raise
        raise as_plan_error(error, known) from error
    except (PlanError, json.JSONDecodeError):
        # The second is a page that answered in place of the API.
        raise
    except (ObjectNotFound, ValueError, TypeError, KeyError, AttributeError) as error:
        raise as_plan_error(error, known) from error


def as_plan_error(error: Exception, known: Iterable[str]) -> PlanError:
    """What went wrong while the template was rendered, as one line that names the variable.

    Args:
        error: What Prefect or pydantic raised.
        known: The keys that a job_configuration may have.
    """
    if isinstance(error, PlanError):
        return error
    if isinstance(error, ValidationError):
        return _from_validation(error, known)
    if isinstance(error, ObjectNotFound):
        first = without_user(error.help_message or str(error)).split(". ")[0].rstrip(".")
        return PlanError(
            f"A job variable or the work pool's template refers to what is not there: {first}.",
            hint="Create it, or change the reference.",
        )
    if isinstance(error, httpx.HTTPStatusError):
        return PlanError(
            "A job variable or the work pool's template refers to a block by something that is no "
            f"block's id: {error.request.url.path.rpartition('/')[2]}.",
        )
    text = " ".join(without_user(str(error)).split())
    return PlanError(
        f"The work pool's template could not be rendered: {type(error).__name__}: {text}",
        hint="Compare it with `prefect work-pool get-default-base-job-template`.",
    )


def _from_validation(error: ValidationError, known: Iterable[str]) -> PlanError:
    first = error.errors(include_url=False)[0]
    raised = first.get("ctx", {}).get("error")
    if isinstance(raised, PlanError):
        return raised
    location = [str(part) for part in first["loc"]]
    variable = location[0] if location else ""
    if first["type"] == "extra_forbidden":
        return PlanError(
            f"The template's job_configuration has no key {variable!r}; the closest is "
            f"{closest(variable, known)!r}.",
            variable=variable,
        )
    expected = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    expected = expected.partition(", unable to")[0]
    if match := _AMOUNT.match(expected):
        expected = match[1]
    where = ".".join(location) or "job_configuration"
    text = shown(first["input"])
    if variable in _MAY_HOLD_ENV and len(text) > _HARMLESS:
        text = f"a {type(first['input']).__name__}"
    value = "" if variable in _NOT_SHOWN else f" is {text}"
    return PlanError(
        f"{where}{value}, expected {expected}." if value else f"{where} needs {expected}.",
        variable=variable,
    )
