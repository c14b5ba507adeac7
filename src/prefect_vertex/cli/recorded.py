"""`prefect-vertex plan --from`: what was launched, and the command that starts the same again.

Nobody is asked but the bucket that the record lies in, and nobody at all for a file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import anyio

from prefect_vertex.cli.gcloud import gcloud_script
from prefect_vertex.errors import PlanError, SetupError
from prefect_vertex.planning.launches import Bootstrap, read_record
from prefect_vertex.planning.masking import MASK
from prefect_vertex.planning.relaunch import bootstrap_marker, changes, elided, relaunch, unknowns
from prefect_vertex.template.facts import packages

_SCHEME = "gs://"
_TOLD_APART = ("kind", "version", "request", "resource_plan", "bootstrap")
"""Parts of a record that its summary leaves out."""


def show_record(where: str, output_format: Literal["json", "gcloud"], *, full: bool) -> None:
    """Print a launch record.

    Args:
        where: `gs://…`, or a file's path.
        output_format: As of the command.
        full: Whether the bootstrap is printed too.

    Raises:
        PlanError: It is no launch record, or gcloud cannot send its request.
        SetupError: The file cannot be read.
        CodeStoreError: It is not there, or the bucket refused or did not answer.
    """
    try:
        _show_record(where, output_format, full=full)
    except RecursionError:
        raise PlanError(f"{where} is not a launch record: it is nested too deeply.") from None


def _show_record(where: str, output_format: Literal["json", "gcloud"], *, full: bool) -> None:
    value, code_is_there = anyio.run(_read, where)
    record = read_record(value, where)
    again = relaunch(record, where)
    changed = changes(record, packages(), code_is_there=code_is_there)
    unknown = unknowns(record, code_is_there=code_is_there)
    for title, lines in (("changed", changed), ("not compared", unknown), ("note", again.notes)):
        for line in lines:
            sys.stderr.write(sayable(f"{title}: {line}\n"))
    sys.stderr.write(sayable(f"The same again:\n  {again.command}\n"))
    request = record["request"]
    if output_format == "gcloud":
        script = gcloud_script([request], notes=_notes(record, where), mask=MASK)
        print(sayable(script), end="")
        return
    output = {
        "launch": {name: part for name, part in record.items() if name not in _TOLD_APART},
        "requests": [
            {
                **(request if full else _without_bootstrap(record)),
                "resource_plan": record["resource_plan"],
            }
        ],
        "changed": changed,
        "not_compared": unknown,
        "again": {"command": again.command, "notes": again.notes},
    }
    print(sayable(json.dumps(output, indent=2, ensure_ascii=False)))


def sayable(text: str) -> str:
    """The same with JSON's escape for half a surrogate pair, which nobody can print."""
    return text.encode("utf-8", "backslashreplace").decode()


def _notes(record: Mapping[str, Any], where: str) -> list[str]:
    """What the script's reader should know."""
    from prefect_vertex.vertex.channel import emulator_address

    run = record["flow_run"]
    what = f"attempt {record['attempt']} of flow run {run['name']}, launched {record['created_at']}"
    notes = [
        f"Made by `prefect-vertex plan` from {where}: {what}.",
        f"Running it creates a CustomJob for flow run {run['id']}; if it has ended, nothing runs.",
    ]
    if emulator_address():
        notes.append("gcloud knows no emulator: the job is created in Vertex AI itself.")
    return notes


def _without_bootstrap(record: Mapping[str, Any]) -> Mapping[str, Any]:
    known = record["bootstrap"]
    characters, digest = known.get("characters"), known.get("sha256")
    request: Mapping[str, Any] = record["request"]
    if not isinstance(characters, int) or not isinstance(digest, str):
        return request
    version = str(record["packages"].get("prefect-vertex", ""))
    bootstrap = Bootstrap(characters=characters, sha256=digest)
    return elided(request, bootstrap, bootstrap_marker(version, characters))


async def _read(where: str) -> tuple[Any, bool | None]:
    """What stands there, and whether its code is still in its bucket."""
    if not where.startswith(_SCHEME):
        return await anyio.to_thread.run_sync(_of_file, where), None
    # Late: they load Google's libraries, which a plan alone does not need.
    from prefect_vertex.vertex.gateways import Gateways
    from prefect_vertex.vertex.objects import GcsObjects
    from prefect_vertex.vertex.rest import GoogleRest

    gateways = Gateways(submissions_per_minute=30, reads_per_minute=300)
    try:
        objects = GcsObjects(GoogleRest(gateways.credentials), pauses=(1.0,))
        value = await objects.read(where)
        code = read_record(value, where)["code"] or {}
        uri = str(code.get("uri", ""))
        return value, await objects.is_there(uri) if uri.startswith(_SCHEME) else None
    finally:
        await gateways.aclose()


def _of_file(path: str) -> Any:
    try:
        return json.loads(Path(path).expanduser().read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SetupError(
            f"There is no file {path}.", hint="A record in a bucket begins with gs://."
        ) from error
    except OSError as error:
        raise SetupError(f"Could not read {path}: {error.strerror}.") from error
    except ValueError:
        # What is no JSON is no record, and said to be none.
        return None
