"""A CreateCustomJobRequest as a shell script that gives it to `gcloud ai custom-jobs create`.

Read in, and run with, gcloud 528.0.0 (2026-11); its page is
https://cloud.google.com/sdk/gcloud/reference/ai/custom-jobs/create. What decides the form:

- `--config=FILE` takes a CustomJobSpec in YAML, with the REST API's camelCase ("keys with
  underscore are invalid"), and `-` is standard input. The bootstrap makes the spec too long for an
  argument list, so it comes as a here-document. JSON is YAML.
- What stands beside the spec has flags: `--display-name`, `--labels`, and `--kms-key`, which takes
  the key's full resource name. A CustomJob has nothing else that can be set.
- A field or an accelerator newer than gcloud itself is sent on as it is; a region is not.
- An empty worker pool, which keeps an unused pool's place, is refused in a file.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.packed import is_part

_BESIDE_THE_SPEC = frozenset({"display_name", "labels", "encryption_spec", "job_spec"})
_END = "SPEC"
_SHELL_SPECIAL = re.compile(r"([\\$`])")
_UNDERSCORE = re.compile(r"_([a-z0-9])")
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")

# JSON's escapes of what a shell variable may hold.
_QUOTE_FUNCTION = r"""quoted() {
  printf '%s' "$1" | sed -e 's/[\\"]/\\&/g' -e '$!s/$/\\n/' | tr -d '\n'
}"""


def gcloud_script(
    requests: Sequence[Mapping[str, Any]],
    *,
    notes: Sequence[str] = (),
    mask: str,
) -> str:
    """One POSIX shell script for all candidates; its argument says which (by default the first).

    Args:
        requests: A CreateCustomJobRequest for each, in the template's spelling.
        notes: Lines of the comment at the top.
        mask: The value of env entries that are not to be printed: the script takes each from the
            environment variable of its name, and ends if that is not set.

    Raises:
        PlanError: gcloud cannot send one of them.
    """
    commands, secrets = [], set()
    for request in requests:
        command, names = _command(request, mask)
        commands.append(command)
        secrets |= names
    lines = ["#!/bin/sh", *(f"# {' '.join(note.split())}" for note in notes), "set -eu"]
    lines += [f': "${{{name}:?its value is not printed: set it}}"' for name in sorted(secrets)]
    if secrets:
        lines.append(_QUOTE_FUNCTION)
    lines.append("")
    if len(commands) == 1:
        return "\n".join([*lines, commands[0], ""])
    lines.append('case "${1:-1}" in')
    for number, (request, command) in enumerate(zip(requests, commands, strict=True), start=1):
        lines += [f"{number}) # {request['parent']}", command, ";;"]
    lines += [f'*) echo "Name a candidate, 1 to {len(commands)}." >&2; exit 2 ;;', "esac", ""]
    return "\n".join(lines)


def _command(request: Mapping[str, Any], mask: str) -> tuple[str, set[str]]:
    """One gcloud command, and the names of the secrets that it takes from the environment."""
    job = request["custom_job"]
    if unknown := sorted(set(job) - _BESIDE_THE_SPEC):
        raise PlanError(
            f"gcloud has no option for {unknown[0]} of a CustomJob.",
            hint="`--format json` has all of it.",
        )
    _, project, _, location = request["parent"].split("/")
    options = {
        "project": project,
        "region": location,
        "display-name": job["display_name"],
        "labels": ",".join(f"{key}={value}" for key, value in job.get("labels", {}).items()),
        "kms-key": job.get("encryption_spec", {}).get("kms_key_name", ""),
        "config": "-",
    }
    _check_unmasked(" ".join(options.values()), mask)
    flags = [shlex.quote(f"--{name}={value}") for name, value in options.items() if value]
    body, secrets = _config(job["job_spec"], mask)
    end = _END if secrets else f"'{_END}'"
    head = " \\\n  ".join(["gcloud ai custom-jobs create", *flags])
    return f"{head} <<{end}\n{body}\n{_END}", secrets


def _config(job_spec: Mapping[str, Any], mask: str) -> tuple[str, set[str]]:
    """The here-document: ASCII alone, so that no locale changes it."""
    for index, pool in enumerate(job_spec.get("worker_pool_specs", ())):
        if not pool:
            raise PlanError(
                f"gcloud takes no empty worker pool in a file (worker_pool_specs[{index}]).",
                variable="worker_pools",
                hint="Send what `--format json` prints through the REST API.",
            )
    spec, secrets = _camel(job_spec), set()
    marker = "SECRET"
    while marker in json.dumps(spec):
        marker += "_"
    for pool in spec.get("workerPoolSpecs", ()):
        for task in ("containerSpec", "pythonPackageSpec"):
            for entry in pool.get(task, {}).get("env", ()):
                if entry.get("value") == mask:
                    _check_single(entry["name"])
                    secrets.add(entry["name"])
                    entry["value"] = f"{marker}:{entry['name']}"
    text = json.dumps(spec, indent=2, ensure_ascii=False)
    _check_unmasked(text, mask)
    # YAML has no surrogate pairs, and takes some characters only by number.
    text = _NOT_ASCII.sub(lambda match: f"\\U{ord(match[0]):08x}", text)
    if secrets:
        text = _SHELL_SPECIAL.sub(r"\\\1", text)
        text = re.sub(rf"{marker}:(\w+)", r'$(quoted "$\1")', text)
    return text, secrets


def _check_unmasked(text: str, mask: str) -> None:
    """Refuse a secret in a place that the script would have to print."""
    if mask in text:
        raise PlanError(
            "A secret stands in the job outside env, where no command can take it from the "
            "environment.",
            variable="job_spec_patch",
            hint="Take it out; prefect_api_key_secret keeps secrets out of the job.",
        )


def _check_single(name: str) -> None:
    """Refuse a masked value that the shell could not have: one that packs several variables."""
    if is_part(name):
        raise PlanError(
            f"env {name} packs secrets together with other variables, so no command can name them.",
            variable="env",
            hint="Set prefect_api_key_secret, which keeps secrets out of the job; or fewer in env.",
        )


def _camel(value: Any) -> Any:
    """A copy with the REST API's spelling of every key."""
    if isinstance(value, Mapping):
        return {
            _UNDERSCORE.sub(lambda match: match[1].upper(), key): _camel(item)
            for key, item in value.items()
        }
    return [_camel(item) for item in value] if isinstance(value, list) else value
