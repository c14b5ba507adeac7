"""A directory becomes one archive whose bytes depend on the files' names and content alone.

Entries stand in the order of their names, uncompressed (builds of zlib differ), with one fixed
time; the mode follows from the content. So every checkout on every machine gives the same digest,
and the digest can be the archive's name.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import stat
import zipfile
from dataclasses import dataclass
from pathlib import Path

from prefect_vertex.delivery.tree import SourceFile, list_files
from prefect_vertex.errors import BundleError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip archive can say
_UNIX = 3
_DIGEST_IN_NAME = 16
_RUNNABLE = (b"#!", b"\x7fELF")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A code archive on this machine's disk.

    Attributes:
        name: `<stem>-<first 16 hex digits of the SHA-256>.zip`.
        path: Where it lies; the caller's to delete.
        sha256: Of the archive's bytes, in hex.
        file_count: Files in it.
        size: Its bytes.
    """

    name: str
    path: Path
    sha256: str
    file_count: int
    size: int


def _stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "code"


def _entry(file: SourceFile, head: bytes) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(file.name, date_time=_EPOCH)
    info.create_system = _UNIX
    info.compress_type = zipfile.ZIP_STORED
    # Scripts and binaries stay executable; the mode on disk depends on the checkout.
    mode = 0o755 if head.startswith(_RUNNABLE) else 0o644
    info.external_attr = (stat.S_IFREG | mode) << 16
    info.file_size = file.size
    return info


def _write(files: list[SourceFile], path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            with file.path.open("rb") as source:
                info = _entry(file, source.read(4))
                source.seek(0)
                with archive.open(info, "w") as target:
                    shutil.copyfileobj(source, target, 1 << 20)


def build_bundle(root: Path, *, into: Path, name: str = "") -> Bundle:
    """Archive the code files below `root` (see `tree.list_files`) into the directory `into`.

    Files go through a buffer of 1 MB, whatever their size.

    Args:
        root: The directory that becomes the container's working directory.
        into: Where to write; outside of `root`, or the next archive would hold this one.
        name: Stem of the archive's name; by default that of `root`. It is not in the bytes.

    Raises:
        BundleError: As `list_files`, or a file cannot be read or the archive not be written.
    """
    files = list_files(root)
    draft = into / "bundle.zip"
    try:
        _write(files, draft)
        with draft.open("rb") as archive:
            digest = hashlib.file_digest(archive, "sha256").hexdigest()
        stem = _stem(name or root.resolve().name)
        path = draft.rename(into / f"{stem}-{digest[:_DIGEST_IN_NAME]}.zip")
        size = path.stat().st_size
    except (OSError, RuntimeError) as error:
        # RuntimeError: zipfile's word for a file that grew past 2 GB meanwhile.
        raise BundleError(f"Cannot archive {root}: {error}.") from error
    return Bundle(name=path.name, path=path, sha256=digest, file_count=len(files), size=size)
