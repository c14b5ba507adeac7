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
    output_folder = prefix if isinstance(prefix, str) else ""
    if output_folder:
        _check_folder("base_output_directory", output_folder)
    parent = output_folder.rstrip("/") or staging_folder(staging_bucket)
    return f"{parent}/checkpoints/{flow_run_id}" if parent else ""


def staging_folder(staging_bucket: str | None) -> str:
    """`gs://…` of the staging bucket, without a slash at its end; empty: there is none.

    Raises:
        PlanError: It is no folder in Cloud Storage.
    """
    if not staging_bucket:
        return ""
    folder = staging_bucket if "://" in staging_bucket else f"gs://{staging_bucket}"
    _check_folder("staging_bucket", folder)
    return folder.rstrip("/")


def _check_folder(variable: str, folder: str) -> None:
    if not is_folder(folder):
        raise PlanError(
            f"{variable} is {shown(folder)}, expected {FOLDER}.",
            variable=variable,
            hint="Names of buckets are lower case letters, digits, '-', '_' and '.'.",
        )
