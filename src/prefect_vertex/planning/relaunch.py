"""A launch record, used: the command that starts the same again, and what has changed since."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prefect_vertex.planning.launches import Bootstrap, text_digest
from prefect_vertex.planning.masking import MASK

_BY_NAME = ("env", "labels")
"""Job variables that a command can set name by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaunch:
    """How to start the same again.

    Attributes:
        command: For a POSIX shell, on one line.
        notes: What the command cannot repeat, one line each.
    """

    command: str
    notes: tuple[str, ...] = ()


def relaunch(record: Mapping[str, Any], where: str) -> Relaunch:
    """The command that starts what a record tells.

    A deployment's run is started as one, with the parameters and job variables of then, whatever
    the deployment says by now. Another run's job can only be created as it was.

    Args:
        record: As `read_record` returns it.
        where: Its URI or path.
    """
    run = record["flow_run"]
    if not run["deployment_id"]:
        command = f"prefect-vertex plan --from {shlex.quote(where)} --format gcloud | sh"
        note = f"The job is for flow run {run['id']} itself; if that has ended, nothing runs."
        notes = [
            f"Parameter {name} is not in the record: no schema says whether its text is a secret. "
            "The job finds it in the flow run."
            for name in run.get("unjudged_parameters", ())
        ]
        return Relaunch(command=command, notes=(note, *notes))
    words = ["prefect", "deployment", "run"]
    if run["flow_name"] and run["deployment_name"]:
        words.append(f"{run['flow_name']}/{run['deployment_name']}")
    else:
        words += ["--id", run["deployment_id"]]
    notes = [
        f"Parameter {name} is not in the record, which keeps no value of {length:,} characters: "
        f"add --param {name}=VALUE."
        for name, length in run["omitted_parameters"].items()
    ]
    notes += [
        f"Parameter {name} is not in the record: no schema says whether its text is a secret. Add "
        f"--param {name}=VALUE."
        for name in run.get("unjudged_parameters", ())
    ]
    for option, values in (("--param", run["parameters"]), ("--job-variable", None)):
        pairs = values if values is not None else dict(_variables(run["job_variables"]))
        for name, value in pairs.items():
            text = _json(value)
            if MASK in text:
                notes.append(_of_secret(option, name))
            elif "=" in name or not _is_sayable(name):
                notes.append(
                    f"{option} takes no name like {_json(name)}: the run gets what it has without."
                )
            else:
                words += [option, f"{name}={text}"]
    return Relaunch(command=" ".join(map(shlex.quote, words)), notes=tuple(notes))


def _variables(job_variables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Name and value of each option; a mapping that holds a secret is split by its names."""
    for name, value in job_variables.items():
        if name in _BY_NAME and isinstance(value, Mapping) and MASK in json.dumps(value):
            yield from ((f"{name}.{key}", item) for key, item in value.items())
        else:
            yield name, value


def _is_sayable(text: str) -> bool:
    """Whether it can be written at all: half a surrogate pair cannot."""
    return text.encode("utf-8", "replace") == text.encode("utf-8", "surrogatepass")


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if _is_sayable(text) else json.dumps(value)


def _of_secret(option: str, name: str) -> str:
    if option == "--param":
        return f"Parameter {name} holds a secret, which no record keeps: add --param {name}=VALUE."
    return (
        f"Job variable {name} holds a secret, which no record keeps: the run gets what the "
        "deployment, the pool or the worker says."
    )


def changes(
    record: Mapping[str, Any], packages: Mapping[str, str], *, code_is_there: bool | None
) -> list[str]:
    """What is another thing by now, one line each.

    Args:
        record: As `read_record` returns it.
        packages: Versions by distribution, here and now.
        code_is_there: Whether the code archive is still in its bucket; None: nobody was asked.
    """
    found = [
        f"{name} was {then}, and is {packages[name]} here."
        for name, then in record["packages"].items()
        if packages.get(name) not in (None, then)
    ]
    code = record["code"]
    if code is not None and code_is_there is False:
        found.append(f"The code archive is gone: {code.get('uri')}. Stage the code again.")
    return found


def unknowns(record: Mapping[str, Any], *, code_is_there: bool | None) -> list[str]:
    """What may have changed, and cannot be told from here, one line each."""
    pool = record["work_pool"]
    digest = str(pool.get("template_sha256", ""))[:12]
    template = f"the base job template of then (sha256 {digest}…)"
    found = [f"Whether work pool {pool.get('name')} still has {template} was not asked."]
    code = record["code"]
    if code is None:
        found.append("The code came with the image or the pull steps, which no record pins.")
    elif code_is_there is None:
        found.append(f"Whether {code.get('uri')} is still there was not asked.")
    return found


# --- the bootstrap, left out of what is printed ---------------------------------------------------


def bootstrap_marker(version: str, characters: int) -> str:
    """What stands in its place; no Python, so that a job with it does not end as if all is well."""
    return f"<the bootstrap of prefect-vertex {version}, {characters:,} characters; see --full>"


def elided(request: Mapping[str, Any], bootstrap: Bootstrap, marker: str) -> dict[str, Any]:
    """A copy of a request in which the bootstrap's source is a marker.

    Args:
        request: A CreateCustomJobRequest in the template's spelling.
        bootstrap: Which source.
        marker: What stands in its place.
    """
    if bootstrap.characters < len(marker):
        return dict(request)

    def copied(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: copied(item) for key, item in value.items()}
        if isinstance(value, Sequence) and not isinstance(value, str):
            return [copied(item) for item in value]
        if isinstance(value, str) and len(value) >= bootstrap.characters:
            # What unpacks the environment may stand before it.
            source = value[-bootstrap.characters :]
            if text_digest(source) == bootstrap.sha256:
                return value[: -bootstrap.characters] + marker
        return value

    result: dict[str, Any] = copied(request)
    return result
