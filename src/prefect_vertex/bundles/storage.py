"""Bundles in a bucket: one object each, and one for the files that travel beside them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from prefect_vertex.delivery.bucket import GcsBucket
from prefect_vertex.errors import BundleError, PrefectVertexError

_FOLDER = "bundles"


class BundleStorage:
    """Where bundles lie: below `<prefix>/bundles/`.

    Args:
        location: Bucket name, or `gs://bucket/prefix`.

    Raises:
        CodeStoreError: It names no bucket.
    """

    def __init__(self, location: str) -> None:
        self._bucket = GcsBucket(location, setting="--bucket (of the work pool's bundle storage)")
        prefix = self._bucket.prefix
        self._folder = f"{prefix}/{_FOLDER}" if prefix else _FOLDER

    def upload(self, path: Path, key: str) -> None:
        """Store a file; one of that name is replaced. Blocks.

        Raises:
            BundleError: There is no such file.
            CodeStoreError: The bucket refused, is missing, or did not answer.
        """
        if not path.is_file():
            raise BundleError(f"Cannot upload {path}: there is no such file.")
        name = f"{self._folder}/{key}"
        with self._bucket.speaking_of(name, "upload"):
            self._bucket.call(self._bucket.blob(name).upload_from_filename, str(path))

    def download(self, key: str, folder: Path) -> Path:
        """Bring a bundle and its files; returns the bundle's path, beside which they lie. Blocks.

        It asks for no packages any more: those of the image are there, and it may have no uv.

        Raises:
            BundleError: What lies there is no bundle.
            CodeStoreError: One is missing, or the bucket refused or did not answer.
        """
        path = self._fetch(key, folder)
        try:
            bundle = {**json.loads(path.read_text(encoding="utf-8")), "dependencies": ""}
        except (ValueError, TypeError) as error:
            where = self._bucket.uri(f"{self._folder}/{key}")
            raise BundleError(f"{where} is no bundle.", hint="Submit the flow again.") from error
        path.write_text(json.dumps(bundle), encoding="utf-8")
        if files_key := bundle.get("files_key"):
            self._fetch(files_key, folder)
        return path

    def _fetch(self, key: str, folder: Path) -> Path:
        path = (folder / key).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise BundleError(f"{key!r} is no key of a bundle: it leads out of its folder.")
        path.parent.mkdir(parents=True, exist_ok=True)
        name = f"{self._folder}/{key}"
        with self._bucket.speaking_of(name, "download"):
            self._bucket.call(self._bucket.blob(name).download_to_filename, str(path))
        return path


def parser(description: str) -> argparse.ArgumentParser:
    """A step's options, as Prefect gives them."""
    options = argparse.ArgumentParser(description=description, allow_abbrev=False)
    options.add_argument("--bucket", required=True, help="bucket name, or gs://bucket/prefix")
    options.add_argument("--key", required=True, help="the bundle's name")
    return options


def ending(step: Callable[[], None], status: int) -> int:
    """Run a step; its exit status, and what went wrong as one line on stderr."""
    try:
        step()
    except PrefectVertexError as error:
        sys.stderr.write(f"prefect-vertex: {error}\n")
        return status
    return 0
