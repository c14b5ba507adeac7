"""Staged code in deployments: the step for `prefect.yaml`, and the same as a function.

    build:
      - prefect_vertex.deployments.stage_code: {id: code, staging_bucket: my-bucket}
    pull:
      - prefect.deployments.steps.set_working_directory: {directory: "."}
    deployments:
      - name: forecast
        entrypoint: flow.py:forecast
        work_pool:
          name: vertex-forecast
          job_variables:
            code_uri: "{{ code.code_uri }}"
            code_sha256: "{{ code.code_sha256 }}"

The bootstrap has unpacked the archive into the working directory before Prefect looks for the flow,
and that pull section says so. It has to be there: without it Prefect 3.9 stores the path of the
deployer's own directory, and with an empty one it copies the whole working directory. The step
checks both, the pull section and the job variables.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any

from prefect_vertex.delivery.staging import stage_directory
from prefect_vertex.delivery.store import GcsCodeStore
from prefect_vertex.errors import DeliveryError, PrefectVertexError

_STEP = "prefect_vertex.deployments.stage_code"
_SET_DIRECTORY = "prefect.deployments.steps.set_working_directory"
_ARGUMENTS = ("staging_bucket", "path", "name", "credentials")
_VARIABLES = ("code_uri", "code_sha256")
_TEMPLATE = re.compile(r"\{\{\s*([^\s{}]+)\s*\}\}")
_LINE_TO_WRITE = f'pull: [{{{_SET_DIRECTORY}: {{directory: "."}}}}]'

PULL_STEPS: list[dict[str, Any]] = [{_SET_DIRECTORY: {"directory": "."}}]
"""The pull steps of every deployment with staged code; `pull_steps` of Prefect's client."""


def stage_code(
    *,
    staging_bucket: str = "",
    path: str = ".",
    name: str = "",
    credentials: Mapping[str, Any] | None = None,
    **unknown: object,
) -> dict[str, Any]:
    """Upload a directory's code unless the same code is there already.

    A step of `prefect.yaml`, or called from a script that passes `PULL_STEPS` itself. Under
    `prefect deploy` an error ends that command with one line: Prefect would print a traceback.

    Args:
        staging_bucket: Bucket name, or `gs://bucket/prefix`. Required; it has a default so that its
            absence is one line too.
        path: The directory that becomes the container's working directory. Entrypoints are
            relative to it.
        name: Stem of the archive's name; by default that of the directory.
        credentials: Values of a `gcp-credentials` block, as
            `"{{ prefect.blocks.gcp-credentials.my-block }}"` gives; by default the machine's own.
        unknown: Refused: a misspelt argument.

    Returns:
        `code_uri` and `code_sha256` for the job variables of those names; `code_files` and
        `code_bytes`; `code_uploaded`, false where the code was there already.

    Raises:
        DeliveryError: An argument is missing or unknown; `prefect.yaml` does not use the result as
            above; or the code cannot be archived or stored.
        AccessDeniedError: The credentials are not usable.
    """
    arguments = sys.argv if _is_prefect_deploy(sys.argv) else []
    try:
        _check_arguments(unknown, staging_bucket=staging_bucket, path=path, name=name)
        _check_prefect_file(arguments)
        store = GcsCodeStore(staging_bucket, credentials=_google_credentials(credentials))
        staged = stage_directory(Path(path), store, name=name)
    except PrefectVertexError as error:
        if not arguments:
            raise
        sys.stderr.write(f"prefect-vertex: {error}\n")
        # Prefect wraps every Exception of a step in a traceback of its own.
        raise SystemExit(1) from error
    return {
        "code_uri": staged.stored.reference.uri,
        "code_sha256": staged.stored.reference.sha256,
        "code_files": staged.bundle.file_count,
        "code_bytes": staged.bundle.size,
        "code_uploaded": staged.stored.uploaded,
    }


def _check_arguments(unknown: Mapping[str, object], **given: object) -> None:
    """Say in one line what Python would say in a traceback."""
    for argument in unknown:
        close = get_close_matches(argument, _ARGUMENTS, n=1)
        raise DeliveryError(
            f"{_STEP} has no argument {argument!r}.",
            hint=f"Did you mean {close[0]}?" if close else f"It has {', '.join(_ARGUMENTS)}.",
        )
    if not given["staging_bucket"]:
        raise DeliveryError(
            f"{_STEP} lacks staging_bucket.",
            hint="Set it to a bucket name or to gs://bucket/prefix.",
        )
    for argument, value in given.items():
        if not isinstance(value, str):
            raise DeliveryError(f"{_STEP}: {argument} is {value!r}, not a text.")


def _google_credentials(values: Mapping[str, Any] | None) -> Any:
    if not values:
        return None
    from prefect_vertex.planning.credentials import read_credentials
    from prefect_vertex.vertex.credentials import load_credentials

    return load_credentials(read_credentials(values)).google


# --- what prefect.yaml does with the result -------------------------------------------------------


def _is_prefect_deploy(arguments: Sequence[str]) -> bool:
    program = Path(arguments[0]) if arguments else Path()
    is_prefect = program.stem == "prefect" or program.parts[-2:] == ("prefect", "__main__.py")
    return is_prefect and "deploy" in arguments[1:]


def _option(arguments: Sequence[str], *names: str) -> list[str]:
    """Collect the values of an option of a command line, `--name value` and `--name=value`."""
    spaced = [after for flag, after in pairwise(arguments) if flag in names]
    joined = [text.partition("=")[2] for text in arguments if text.partition("=")[0] in names]
    return spaced + [value for value in joined if value]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deployment:
    """A deployment that runs this step, as Prefect reads it: what it inherits is filled in."""

    label: str
    steps: Sequence[Mapping[str, Any]]
    pull: object
    job_variables: Mapping[str, Any]


def _check_prefect_file(arguments: Sequence[str]) -> None:
    """Refuse a `prefect.yaml` whose deployments stage code and then do not use it.

    A step sees neither the deployment nor the pull section that it is run for, so the file is read
    again. Without a file, or with one that does not use this step, there is nothing to check.
    """
    file = Path((_option(arguments, "--prefect-file") or ["prefect.yaml"])[-1])
    typed = _option(arguments, "--job-variable", "-jv")
    for deployment in _deployments(_read_yaml(file), _option(arguments, "--name", "-n"), typed):
        if not _runs_staged_code(deployment.pull):
            raise DeliveryError(
                f"{deployment.label} in {file} stages its code, but its pull section does not use"
                " it there.",
                hint=f"Write in {file}: {_LINE_TO_WRITE}",
            )
        _check_job_variables(deployment, file, typed)


def _check_job_variables(deployment: _Deployment, file: Path, typed: Sequence[str]) -> None:
    """The bootstrap fetches nothing unless the job variables say what."""
    missing = [name for name in _VARIABLES if not _is_filled(name, deployment)]
    if not missing:
        return
    own = next(step[_STEP] for step in deployment.steps if _STEP in step)
    given = own.get("id") if isinstance(own, Mapping) else None
    written = ", ".join(f'{name}: "{{{{ {given or "code"}.{name} }}}}"' for name in _VARIABLES)
    hint = f"Write under its work_pool: job_variables: {{{written}}}"
    if not given:
        hint += f" and, as an argument of {_STEP}, id: code"
    if typed:
        hint += "; --job-variable on the command line replaces all of them, so write that there too"
    raise DeliveryError(
        f"{deployment.label} in {file} stages its code, but its job variables do not take"
        f" {' and '.join(missing)} from the step.",
        hint=hint,
    )


def _is_filled(name: str, deployment: _Deployment) -> bool:
    """Whether a job variable will hold something once the steps' results are filled in.

    Prefect offers a step's results by their own names, and once more under the step's id. What
    has no value it leaves out with no more than a warning.
    """
    value = deployment.job_variables.get(name)
    if not isinstance(value, str) or not value:
        return False
    ids = {
        str(inputs.get("id")): step
        for item in deployment.steps
        for step, inputs in item.items()
        if isinstance(inputs, Mapping)
    }
    for template in _TEMPLATE.findall(value):
        source, dot, result = template.partition(".")
        if source.startswith("$") or source == "prefect":
            continue
        if dot and (source not in ids or (ids[source] == _STEP and result != name)):
            return False
        # Another step may well give a result of any name.
        if not dot and template != name and len(deployment.steps) == 1:
            return False
    return True


def _read_yaml(file: Path) -> Mapping[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise DeliveryError(f"Cannot read {file} to check what uses the code: {reason}") from error
    return content if isinstance(content, Mapping) else {}


def _deployments(
    content: Mapping[str, Any], wanted: Sequence[str], typed: Sequence[str]
) -> Iterator[_Deployment]:
    """Yield each chosen deployment that runs this step.

    A deployment's own section replaces the file's; an explicit empty list stays empty. Job
    variables of the command line replace a single deployment's; for several Prefect ignores them.
    """
    listed = content.get("deployments")
    all_of_them = [item for item in listed or () if isinstance(item, Mapping)]
    chosen = [item for item in all_of_them if _is_wanted(str(item.get("name", "")), wanted)]
    for item in chosen or [{}]:
        sections = [_section(item, content, kind) for kind in ("build", "push")]
        steps = [step for section in sections for step in _steps(section)]
        if not _names(steps, _STEP):
            continue
        name, pool = item.get("name"), item.get("work_pool")
        variables = pool.get("job_variables") if isinstance(pool, Mapping) else None
        if typed and len(chosen) <= 1:
            variables = _typed_variables(typed)
        yield _Deployment(
            label=f"Deployment {name!r}" if name else "The deployment",
            steps=steps,
            pull=_section(item, content, "pull"),
            job_variables=variables if isinstance(variables, Mapping) else {},
        )


def _typed_variables(typed: Sequence[str]) -> dict[str, Any]:
    """Read `--job-variable` as Prefect does: `name=value`, or a JSON object."""
    variables: dict[str, Any] = {}
    for text in typed:
        try:
            read = json.loads(text)
        except ValueError:
            name, _, value = text.partition("=")
            read = {name: value}
        variables |= read if isinstance(read, dict) else {}
    return variables


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(fnmatch(name, text.rpartition("/")[2]) for text in wanted)


def _section(item: Mapping[str, Any], content: Mapping[str, Any], kind: str) -> object:
    own = item.get(kind)
    inherits = not own and (kind not in item or (kind == "pull" and own != []))
    return content.get(kind) if inherits else own


def _names(section: object, step: str) -> bool:
    return any(step in item for item in _steps(section))


def _steps(section: object) -> list[Mapping[str, Any]]:
    return [s for s in section if isinstance(s, Mapping)] if isinstance(section, list) else []


def _runs_staged_code(pull: object) -> bool:
    """Whether the first step stays in the bootstrap's directory, and no other one leaves it."""
    first, *rest = _steps(pull) or [{}]
    inputs = first.get(_SET_DIRECTORY)
    directory = inputs.get("directory") if isinstance(inputs, Mapping) else None
    return directory in {".", "./"} and not _names(rest, _SET_DIRECTORY)
