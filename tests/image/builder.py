"""buildah with a storage of its own, gone afterwards, and what a build needs of this machine.

No registry has to be reached: the base is a bare Debian that debootstrap makes, without Python, as
NVIDIA's CUDA images are.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BASE = "localhost/bare-debian"
IMAGE = "localhost/flows"

_PROGRAMS = ("buildah", "debootstrap")
_SETTING = re.compile(r"^[\w:.-]+\.(?P<key>[a-z-]+)='(?P<value>.*)'$")
_FROM_THE_NETWORK = ("index-url", "extra-index-url", "trusted-host", "proxy", "default-timeout")
_MEMORY = Path("/dev/shm")  # noqa: S108 - with mkdtemp
_NEEDED_BYTES = 8 * 2**30
_ISOLATION = ("--isolation", "chroot")
"""Needs no engine, no privileges in a network namespace, and uses this machine's network."""


def what_is_missing() -> str:
    """Why no image can be built here, in one line; empty where one can."""
    if sys.platform != "linux":
        return "images are built on Linux only"
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (Debian's packages of that name)"
    return "" if os.geteuid() == 0 else "debootstrap needs root"


def roomy_folder() -> str | None:
    """Where to build: in memory where there is plenty, as a build writes each file three times."""
    if not _MEMORY.is_dir():
        return None
    room = os.statvfs(_MEMORY)
    is_fit = room.f_bavail * room.f_frsize >= _NEEDED_BYTES and not room.f_flag & os.ST_NOEXEC
    return str(_MEMORY) if is_fit else None


def _ran(command: Sequence[str], log: Path) -> str:
    """Run a program to its end; what it says on standard error goes to the log."""
    with log.open("ab") as errors:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, check=False
        )
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        tail = (log.read_text(errors="replace") + output)[-4000:]
        raise AssertionError(f"{' '.join(command[:12])} … ended with {done.returncode}:\n{tail}")
    return output.strip()


@dataclass(frozen=True)
class Builder:
    """Builds and runs images below a folder, and leaves nothing outside of it."""

    folder: Path

    @property
    def command(self) -> list[str]:
        """Buildah on the storage of this builder."""
        storage = ["--root", str(self.folder / "root"), "--runroot", str(self.folder / "run")]
        return ["buildah", *storage, "--storage-driver", "overlay"]

    def buildah(self, *arguments: str) -> str:
        """Run one of its commands; returns what it printed."""
        return _ran([*self.command, *arguments], self.folder / "buildah.log")

    def make_base(self) -> str:
        """A Debian of this machine's release, with nothing that is not essential."""
        container = self.buildah("from", "scratch")
        tree = self.buildah("mount", container)
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        command = ["debootstrap", "--variant=minbase", release, tree]
        _ran(command, self.folder / "debootstrap.log")
        self.buildah("commit", "--rm", container, BASE)
        return BASE

    def make_context(self) -> Path:
        """What a checkout has, code included, and the package's wheel in dist/."""
        context = self.folder / "context"
        for name in ("docker", "examples", "src"):
            shutil.copytree(REPOSITORY / name, context / name)
        shutil.copy(REPOSITORY / ".dockerignore", context)
        options = ["--no-deps", "--no-build-isolation", "--disable-pip-version-check"]
        command = [sys.executable, "-m", "pip", "wheel", *options]
        command += ["--wheel-dir", str(context / "dist"), str(REPOSITORY)]
        _ran(command, self.folder / "wheel.log")
        return context

    def build(self, base: str, context: Path) -> str:
        """Build docker/Dockerfile on a base, as its README says."""
        options = ["--file", str(context / "docker" / "Dockerfile"), "--build-arg", f"BASE={base}"]
        volumes = [f"--volume={source}:{target}:ro" for source, target in self._package_index()]
        self.buildah("bud", *_ISOLATION, *options, *volumes, "--tag", IMAGE, str(context))
        return IMAGE

    def _package_index(self) -> list[tuple[Path, str]]:
        """This machine's way to the package index, mounted while building: never in the image."""
        listed = subprocess.run(
            [sys.executable, "-m", "pip", "config", "list"],
            capture_output=True,
            text=True,
            check=True,
        )
        found = [_SETTING.match(line) for line in listed.stdout.splitlines()]
        settings = {each["key"]: each["value"] for each in found if each is not None}
        kept = {key: settings[key] for key in _FROM_THE_NETWORK if key in settings}
        if "extra-index-url" in kept:
            urls = [url for url in kept["extra-index-url"].split() if url.startswith("http")]
            kept["extra-index-url"] = " ".join(urls)
        volumes = []
        if authority := settings.get("cert") or os.environ.get("REQUESTS_CA_BUNDLE"):
            kept["cert"] = "/run/host-certificates.pem"
            volumes.append((Path(authority).resolve(), kept["cert"]))
        configuration = self.folder / "pip.conf"
        lines = [f"{key} = {value}\n" for key, value in kept.items() if value]
        configuration.write_text("[global]\n" + "".join(lines))
        return [*volumes, (configuration, "/etc/pip.conf")]

    def run(self, container: str, *command: str) -> str:
        """Run a command in a container as the image's user; returns what it printed."""
        return self.buildah("run", *_ISOLATION, container, "--", *command)

    def clean(self) -> None:
        """Let go of every mount and delete every file: the storage is nobody else's."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for place in sorted(each for each in mounts if each.startswith(f"{self.folder}/"))[::-1]:
            _ran(["umount", place], self.folder / "umount.log")
        shutil.rmtree(self.folder)
