"""`prefect-vertex bundle-storage`: where the code of a pool's ad-hoc runs goes."""

from __future__ import annotations

import shlex

from prefect_vertex.cli.plan import prefect_told
from prefect_vertex.cli.usage import WrongUseError


def bundle_storage(
    pool: str,
    *,
    bucket: str,
    upload_launcher: str = "python3",
    execution_launcher: str = "python3",
) -> None:
    """Let a work pool store the code of flows that run without a deployment.

    It is told once, and kept in the pool's record on the Prefect server; nothing is uploaded. The
    bucket may be the staging bucket. Needed for @vertex_job only.

    Args:
        pool: The work pool.
        bucket: Bucket name, or gs://bucket/prefix.
        upload_launcher: What starts Python on the machine that submits.
        execution_launcher: What starts Python in the container.
    """
    from prefect_vertex.bundles.__main__ import set_storage

    launchers = {
        "upload_launcher": _words("--upload-launcher", upload_launcher),
        "execution_launcher": _words("--execution-launcher", execution_launcher),
    }
    with prefect_told():
        set_storage(pool, bucket, **launchers)


def _words(option: str, text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUseError(f"{option} is {text!r}, no command: {error}.") from error
    if not words:
        raise WrongUseError(f"{option} is {text!r}, no command.")
    return words
