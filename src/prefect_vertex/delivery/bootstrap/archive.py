"""The code archive: fetched, checked, unpacked."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import urllib.parse
import zipfile
from pathlib import Path

from prefect_vertex.delivery.bootstrap.basics import die, env, reason, say
from prefect_vertex.delivery.bootstrap.google import ask_google, google_address, mending
from prefect_vertex.delivery.bootstrap.web import NETWORK, is_local, persist

STORAGE = "STORAGE_EMULATOR_HOST"


def save(url: str, path: Path) -> str:
    """Download `url` to `path` and return its SHA-256."""
    digest = hashlib.sha256()
    with ask_google(url, STORAGE, 71, "fetch the code") as answer, path.open("wb") as file:
        for block in iter(lambda: answer.read(1 << 20), b""):
            file.write(block)
            digest.update(block)
        if file.tell() < int(answer.headers.get("Content-Length") or 0):
            raise ConnectionError(f"the answer ended after {file.tell()} bytes")
    return digest.hexdigest()


def download(uri: str, path: Path) -> str:
    """Fetch `gs://bucket/object` to `path` and return its SHA-256."""
    bucket, _, name = uri[5:].partition("/")
    if not uri.startswith("gs://") or not name:
        die(78, f"PREFECT_VERTEX_CODE_URI is not gs://bucket/object: {uri}")
    base = google_address(STORAGE, "https://storage.googleapis.com")
    url = f"{base}/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, '')}?alt=media"
    try:
        return str(persist(lambda: save(url, path)))
    except NETWORK as error:
        if is_local(error):
            die(73, f"cannot store {uri}: {reason(error)}")
        hint = mending(error, "stage the code again, or correct code_uri", "storage.objects.get")
        die(71, f"cannot fetch {uri} from {base}: {reason(error)}{hint}")


def is_safe_name(name: str) -> bool:
    """Whether an archive entry of this name stays inside the directory it is unpacked to."""
    odd = "\\" in name or "\0" in name or re.match("[A-Za-z]:", name)
    return not odd and not {"", ".", ".."} & set(name.split("/"))


def unpack(path: Path, target: Path) -> int:
    """Unpack the archive; nothing is written unless every entry stays inside `target`."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            for entry in entries:
                kind = stat.S_IFMT(entry.external_attr >> 16)
                if not is_safe_name(entry.orig_filename) or kind not in (0, stat.S_IFREG):
                    die(72, f"the code archive holds an entry that is refused: {entry.filename!r}")
            for entry in entries:
                made = Path(archive.extract(entry, target))
                made.chmod((entry.external_attr >> 16 & 0o755) or 0o644)
            return len(entries)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        die(72, f"the code archive cannot be read: {error}")
    except OSError as error:
        die(73, f"cannot unpack the code archive: {error}")


def bring_code(scratch: Path) -> None:
    """Fetch, check and unpack the code; make it the working directory and first on PYTHONPATH."""
    uri = env.get("PREFECT_VERTEX_CODE_URI")
    if not uri:
        return
    want = env.get("PREFECT_VERTEX_CODE_SHA256", "").lower()
    path, code = scratch / "code.zip", scratch / "code"
    found = download(uri, path)
    if found != want:
        die(72, f"{uri} has SHA-256 {found}, but code_sha256 is {want or 'unset'}: nothing was run")
    code.mkdir()
    count = unpack(path, code)
    path.unlink()
    # Prefect copies or walks the working directory: no temporary directory may lie below it.
    os.chdir(code)
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(code), env.get("PYTHONPATH")]))
    say(f"{count} files of {uri} are in {code}")
