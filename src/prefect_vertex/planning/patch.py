"""A user's JSON Patch (RFC 6902) on the whole CustomJob, in snake_case."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import jsonpatch

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.spelling import closest, shown, snake_case

VARIABLE = "job_spec_patch"

_DOCUMENT = re.compile(r" in [{\[]|\n")
_OPERATIONS = ("add", "copy", "move", "remove", "replace", "test")


def patched(job: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The job after all operations, in their order; neither argument is changed.

    Raises:
        PlanError: An operation is none, or cannot be applied; it is named.
    """
    result: dict[str, Any] = deepcopy(dict(job))
    for index, operation in enumerate(operations):
        name = _named(index, operation)
        try:
            changed = jsonpatch.JsonPatch([deepcopy(dict(operation))]).apply(result)
        except jsonpatch.JsonPatchTestFailed as error:
            # Neither value is shown: it may be a secret's.
            raise PlanError(f"{name} found another value.", variable=VARIABLE) from error
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
            # What follows is the document, in which secrets may stand.
            reason = _DOCUMENT.split(str(error), maxsplit=1)[0].rstrip(".")
            raise PlanError(
                f"{name} cannot be applied: {reason}.",
                variable=VARIABLE,
                hint="Its paths are those of the CustomJob that `prefect-vertex plan` prints, such "
                "as /job_spec/scheduling/timeout; `add` makes a key, `replace` needs one.",
            ) from error
        if not isinstance(changed, dict):
            raise PlanError(f"{name} leaves no CustomJob.", variable=VARIABLE)
        result = changed
    return result


def _named(index: int, operation: object) -> str:
    """How messages name an operation, once its parts are what they should be."""
    name = f"{VARIABLE}[{index}]"
    if not isinstance(operation, Mapping):
        raise PlanError(
            f"{name} is {shown(operation)}, expected a mapping.",
            variable=VARIABLE,
            hint="Write {op: add, path: /job_spec/network, value: …}.",
        )
    kind, path = operation.get("op"), operation.get("path")
    if kind not in _OPERATIONS:
        near = closest(kind, _OPERATIONS) if isinstance(kind, str) and kind else ""
        raise PlanError(
            f"{name} has the op {shown(kind)}" + (f"; the closest is {near}." if near else "."),
            variable=VARIABLE,
            hint=f"Use one of: {', '.join(_OPERATIONS)}.",
        )
    if not isinstance(path, str) or (path and not path.startswith("/")):
        raise PlanError(
            f"{name} ({kind}) has the path {shown(path)}, which does not begin with a slash.",
            variable=VARIABLE,
        )
    camel = next((part for part in path.split("/") if part != snake_case(part)), "")
    if camel and path.startswith("/jobSpec"):
        raise PlanError(
            f"{name} ({kind} {path}) spells {camel!r} the JSON way; the job is in snake_case.",
            variable=VARIABLE,
            hint=f"Write {snake_case(camel)!r}.",
        )
    return f"{name} ({kind} {path or 'the whole job'})"
