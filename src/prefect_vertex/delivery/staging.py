"""Bundle and upload in one go: what the command, the deployment step and scripts have in common."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from prefect_vertex.delivery.bundle import Bundle, build_bundle
from prefect_vertex.delivery.store import CodeStore, StoredCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A directory's code in the staging bucket.

    Attributes:
        bundle: What was archived; the file itself is gone.
        stored: Where it lies now, and whether it had to be uploaded.
    """

    bundle: Bundle
    stored: StoredCode


def stage_directory(root: Path, store: CodeStore, *, name: str = "") -> Staged:
    """Archive the directory and upload the archive unless it is there. Blocks; safe to repeat.

    Raises:
        BundleError: The directory cannot be archived.
        CodeStoreError: The bucket refused, is missing, or did not answer.
    """
    with tempfile.TemporaryDirectory(prefix="prefect-vertex-") as folder:
        bundle = build_bundle(root, into=Path(folder), name=name)
        return Staged(bundle=bundle, stored=store.upload(bundle))
