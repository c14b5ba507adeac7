"""Writing results to a folder, or to a bucket named by a gs:// URI."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_SCHEME: Final = "gs://"


def default_target() -> str:
    """Below the checkpoint directory that a Vertex AI job is given, else `output` right here."""
    checkpoints = os.environ.get("PREFECT_VERTEX_CHECKPOINT_DIR")
    return f"{checkpoints.rstrip('/')}/output" if checkpoints else "output"


def write_files(target: str, files: Mapping[str, bytes]) -> list[str]:
    """Write files by name below a folder or gs:// URI, over older ones; gives where each is.

    A bucket is reached as Google's client does: with Application Default Credentials, or with
    none at STORAGE_EMULATOR_HOST.

    Raises:
        ValueError: The URI names no bucket.
    """
    if target.startswith(_SCHEME):
        return _write_to_bucket(target, files)
    folder = Path(target).expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [str(folder / name) for name in files]


def _write_to_bucket(target: str, files: Mapping[str, bytes]) -> list[str]:
    # Google's client takes a second to import; a local run does without.
    from google.cloud.storage import Client  # noqa: TID251 - the example brings its own storage
    from google.cloud.storage.retry import DEFAULT_RETRY  # noqa: TID251 - the same

    bucket_name, _, prefix = target.removeprefix(_SCHEME).partition("/")
    if not bucket_name:
        raise ValueError(f"output_dir must be a folder or gs://bucket/prefix; got {target!r}")
    bucket = Client().bucket(bucket_name)
    written = []
    for name, content in files.items():
        path = "/".join(part for part in (prefix.strip("/"), name) if part)
        # The same bytes again do no harm, so an upload may be repeated.
        bucket.blob(path).upload_from_string(content, timeout=60, retry=DEFAULT_RETRY)
        written.append(f"{_SCHEME}{bucket_name}/{path}")
    return written
