"""The image, built for real, a container of it, and an installation whose jobs run in there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.installation import Installation, installed
from tests.image.builder import Builder, roomy_folder, what_is_missing


@pytest.fixture(scope="session")
def builder() -> Iterator[Builder]:
    """buildah, if it is here."""
    if missing := what_is_missing():
        pytest.skip(missing)
    # Not pytest's own folder, which is kept for some runs: all of it has three gigabytes.
    builder = Builder(Path(tempfile.mkdtemp(prefix="prefect-vertex-image-", dir=roomy_folder())))
    # Mounts of the image must be found by another user than root.
    builder.folder.chmod(0o755)
    yield builder
    builder.clean()


@pytest.fixture(scope="session")
def image(builder: Builder) -> str:
    """The image of docker/Dockerfile."""
    return builder.build(builder.make_base(), builder.make_context())


@pytest.fixture(scope="session")
def container(builder: Builder, image: str) -> str:
    """A container of the image, in which nothing runs yet."""
    return builder.buildah("from", image)


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """Prefect server, emulator and storage."""
    with installed("image-run") as installation:
        yield installation
