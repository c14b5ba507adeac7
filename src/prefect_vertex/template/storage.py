"""What a candidate's variables name in Cloud Storage: its code, and where it keeps checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.code import CodeReference
from prefect_vertex.planning.forms import FOLDER, is_folder
from prefect_vertex.planning.spelling import shown

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OBJECT = re.compile(r"gs://[^/]+/.+")


def code(uri: str | None, sha256: str | None) -> CodeReference | None:
    """The staged code archive; None if there is none.

    Raises:
        PlanError: Only one of the two is set, or one is not what it should be.
    """
    if not uri and not sha256:
        return None
    if not uri or not sha256:
        missing, other = ("code_uri", "code_sha256") if sha256 else ("code_sha256", "code_uri")
        raise PlanError(
            f"{other} is set but {missing} is not.",
            variable=missing,
            hint="`prefect-vertex stage-code` prints both.",
        )
    if not (_OBJECT.fullmatch(uri) and is_folder(uri)):
        raise PlanError(
            f"code_uri is {shown(uri)}, expected gs://bucket/object.", variable="code_uri"
        )
    if not _SHA256.fullmatch(sha256.lower()):
        raise PlanError(
            f"code_sha256 is {shown(sha256, 80)}, expected 64 hexadecimal digits.",
            variable="code_sha256",
        )
    return CodeReference(uri, sha256.lower())


def checkpoint_directory(
    spec: Mapping[str, Any],
    staging_bucket: str | None,
    flow_run_id: str,
) -> str:
    """Where the flow run keeps checkpoints, in every attempt; empty: nowhere.

    Raises:
        PlanError: One of the folders that it could stand in is not one in Cloud Storage.
    """
    output = spec.get("base_output_directory")
    prefix = output.get("output_uri_prefix") if isinstance(output, Mapping) else None
    folders: dict[str, str] = {}
    if isinstance(prefix, str) and prefix:
        folders["base_output_directory"] = prefix
    if staging_bucket:
        bucket = staging_bucket
        folders["staging_bucket"] = bucket if "://" in bucket else f"gs://{bucket}"
    for variable, folder in folders.items():
        if not is_folder(folder):
            raise PlanError(
                f"{variable} is {shown(folder)}, expected {FOLDER}.",
                variable=variable,
                hint="Names of buckets are lower case letters, digits, '-', '_' and '.'.",
            )
    parent = next(iter(folders.values()), "")
    return f"{parent.rstrip('/')}/checkpoints/{flow_run_id}" if parent else ""
