"""`prefect-vertex stage-code`: a directory's code goes to the staging bucket."""

from __future__ import annotations

import json as json_module
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from prefect_vertex.cli.terminal import working
from prefect_vertex.delivery.staging import stage_directory
from prefect_vertex.delivery.store import GcsCodeStore

_STEP = 1000
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def stage_code(
    path: str = ".",
    *,
    bucket: str,
    name: str = "",
    json: Annotated[bool, Parameter(negative=())] = False,
) -> None:
    """Upload the code of a directory, unless the same code is there already.

    Prints what to set as the job variables code_uri and code_sha256. The same files give the same
    archive on every machine; .gitignore and .prefectignore say what stays out.

    Args:
        path: The directory that becomes the container's working directory.
        bucket: Bucket name, or gs://bucket/prefix.
        name: Stem of the archive's name; by default that of the directory.
        json: Print one JSON object instead.
    """
    with working(f"Staging {path} in {bucket}"):
        staged = stage_directory(Path(path), GcsCodeStore(bucket), name=name)
    bundle, stored = staged.bundle, staged.stored
    if json:
        result = {
            "code_uri": stored.reference.uri,
            "code_sha256": stored.reference.sha256,
            "code_files": bundle.file_count,
            "code_bytes": bundle.size,
            "code_uploaded": stored.uploaded,
        }
        print(json_module.dumps(result))
        return
    files = "1 file" if bundle.file_count == 1 else f"{bundle.file_count} files"
    print(f"{'uploaded' if stored.uploaded else 'already there:'} {files}, {_human(bundle.size)}")
    print(f"code_uri: {stored.reference.uri}")
    print(f"code_sha256: {stored.reference.sha256}")


def _human(size: float) -> str:
    unit = 0
    while size >= _STEP and unit < len(_UNITS) - 1:
        size /= _STEP
        unit += 1
    return f"{size:.1f} {_UNITS[unit]}" if unit else f"{size} {_UNITS[0]}"
