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
deployer's own directory, and with an empty one it copies the whole working directory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from typing import Any

from prefect_vertex.delivery.staging import stage_directory
from prefect_vertex.delivery.store import GcsCodeStore
from prefect_vertex.errors import DeliveryError, PrefectVertexError

_STEP = "prefect_vertex.deployments.stage_code"
_SET_DIRECTORY = "prefect.deployments.steps.set_working_directory"
_LINE_TO_WRITE = f'pull: [{{{_SET_DIRECTORY}: {{directory: "."}}}}]'

PULL_STEPS: list[dict[str, Any]] = [{_SET_DIRECTORY: {"directory": "."}}]
"""The pull steps of every deployment with staged code; `pull_steps` of Prefect's client."""


def stage_code(
    *,
    staging_bucket: str,
    path: str = ".",
    name: str = "",
    credentials: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Upload a directory's code unless the same code is there already.

    A step of `prefect.yaml`, or called from a script that passes `PULL_STEPS` itself. Under
    `prefect deploy` an error ends that command with one line: Prefect would print a traceback.

    Args:
        staging_bucket: Bucket name, or `gs://bucket/prefix`.
        path: The directory that becomes the container's working directory. Entrypoints are
            relative to it.
        name: Stem of the archive's name; by default that of the directory.
        credentials: Values of a `gcp-credentials` block, as
            `"{{ prefect.blocks.gcp-credentials.my-block }}"` gives; by default the machine's own.

    Returns:
        `code_uri` and `code_sha256` for the job variables of those names; `code_files` and
        `code_bytes`; `code_uploaded`, false where the code was there already.

    Raises:
        DeliveryError: The pull section of `prefect.yaml` is not the one above, or the code cannot
            be archived or stored.
        AccessDeniedError: The credentials are not usable.
    """
    arguments = sys.argv if _is_prefect_deploy(sys.argv) else []
    try:
        _check_pull_section(arguments)
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


def _google_credentials(values: Mapping[str, Any] | None) -> Any:
    if not values:
        return None
    from prefect_vertex.vertex.credentials import load_credentials, parse_credentials

    return load_credentials(parse_credentials(values)).google


# --- the pull section ----------------------------------------------------------------------------


def _is_prefect_deploy(arguments: Sequence[str]) -> bool:
    program = Path(arguments[0]) if arguments else Path()
    is_prefect = program.stem == "prefect" or program.parts[-2:] == ("prefect", "__main__.py")
    return is_prefect and "deploy" in arguments[1:]


def _option(arguments: Sequence[str], *names: str) -> list[str]:
    """Collect the values of an option of a command line, `--name value` and `--name=value`."""
    spaced = [after for flag, after in pairwise(arguments) if flag in names]
    joined = [text.partition("=")[2] for text in arguments if text.partition("=")[0] in names]
    return spaced + [value for value in joined if value]


def _check_pull_section(arguments: Sequence[str]) -> None:
    """Refuse a `prefect.yaml` whose deployments stage code and then look for it elsewhere.

    A step sees neither the deployment nor the pull section that it is run for, so the file is read
    again. Without a file, or with one that does not use this step, there is nothing to check.
    """
    file = Path((_option(arguments, "--prefect-file") or ["prefect.yaml"])[-1])
    content = _read_yaml(file)
    wanted = _option(arguments, "--name", "-n")
    for name, pull in _pull_sections(content, wanted):
        if not _runs_staged_code(pull):
            raise DeliveryError(
                f"{name} in {file} stages its code, but its pull section does not use it there.",
                hint=f"Write in {file}: {_LINE_TO_WRITE}",
            )


def _read_yaml(file: Path) -> Mapping[str, Any]:
    import yaml

    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise DeliveryError(f"Cannot read {file} to check its pull section: {reason}") from error
    return content if isinstance(content, Mapping) else {}


def _pull_sections(
    content: Mapping[str, Any], wanted: Sequence[str]
) -> Iterator[tuple[str, object]]:
    """Yield name and pull section of each deployment that runs this step, as Prefect reads them.

    A deployment's own section replaces the file's; an explicit empty list stays empty.
    """
    listed = content.get("deployments")
    all_of_them = [item for item in listed or () if isinstance(item, Mapping)]
    chosen = [item for item in all_of_them if _is_wanted(str(item.get("name", "")), wanted)]
    for item in chosen or [{}]:
        steps = [_section(item, content, kind) for kind in ("build", "push")]
        if any(_names(section, _STEP) for section in steps):
            name = item.get("name")
            label = f"Deployment {name!r}" if name else "The deployment"
            yield label, _section(item, content, "pull")


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
