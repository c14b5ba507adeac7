"""Results in a folder, or in a bucket named by a gs:// URI."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_SCHEME: Final = "gs://"


def default_target() -> str:
    """Below the checkpoint directory that a Vertex AI job is given, else `output` right here."""
    checkpoints = os.environ.get("PREFECT_VERTEX_CHECKPOINT_DIR")
    return f"{checkpoints.rstrip('/')}/output" if checkpoints else "output"


def write_files(target: str, files: Mapping[str, bytes]) -> list[str]:
    """Write files by name below a folder or gs:// URI, over older ones; gives where each is.

    A name may have folders in it.

    A bucket is reached as Google's client does: with Application Default Credentials, or with
    none at STORAGE_EMULATOR_HOST.

    Raises:
        ValueError: The URI names no bucket.
    """
    if target.startswith(_SCHEME):
        return _write_to_bucket(target, files)
    folder = Path(target).expanduser().resolve()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return [str(folder / name) for name in files]


def read_file(place: str) -> bytes:
    """What `write_files` wrote, by the place that it gave.

    Raises:
        FileNotFoundError: It is not there, as a folder of another machine is not.
    """
    if not place.startswith(_SCHEME):
        return Path(place).read_bytes()
    from google.api_core.exceptions import NotFound  # noqa: TID251 - the example's own storage
    from google.cloud.storage.retry import DEFAULT_RETRY  # noqa: TID251 - the same

    bucket_name, _, path = place.removeprefix(_SCHEME).partition("/")
    try:
        content: bytes = (
            _bucket(bucket_name).blob(path).download_as_bytes(timeout=60, retry=DEFAULT_RETRY)
        )
    except NotFound as error:
        raise FileNotFoundError(f"there is no {place}") from error
    return content


def _write_to_bucket(target: str, files: Mapping[str, bytes]) -> list[str]:
    from google.cloud.storage.retry import DEFAULT_RETRY  # noqa: TID251 - the example's own storage

    bucket_name, _, prefix = target.removeprefix(_SCHEME).partition("/")
    if not bucket_name:
        raise ValueError(f"output_dir must be a folder or gs://bucket/prefix; got {target!r}")
    bucket = _bucket(bucket_name)
    written = []
    for name, content in files.items():
        path = "/".join(part for part in (prefix.strip("/"), name) if part)
        # The same bytes again do no harm, so an upload may be repeated.
        bucket.blob(path).upload_from_string(content, timeout=60, retry=DEFAULT_RETRY)
        written.append(f"{_SCHEME}{bucket_name}/{path}")
    return written


def _bucket(name: str) -> Any:
    # Google's client takes a second to import; a local run does without.
    from google.cloud.storage import Client  # noqa: TID251 - the example's own storage

    return Client().bucket(name)
