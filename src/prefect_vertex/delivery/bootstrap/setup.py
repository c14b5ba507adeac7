"""What the user has done to the container before the command: a script and packages."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from prefect_vertex.delivery.bootstrap.basics import die, env


def run_setup(scratch: Path) -> None:
    """Run the user's script and take over its environment."""
    lines = env.get("PREFECT_VERTEX_SETUP_COMMAND")
    if not lines:
        return
    dump = scratch / "environment"
    store = f"import json,os;json.dump(dict(os.environ),open({str(dump)!r},'w'))"
    last = shlex.join(["exec", sys.executable, "-I", "-c", store])
    try:
        script = "\n".join([*json.loads(lines), last])
        code = subprocess.call(["sh", "-e", "-c", script])
        if code or not dump.exists():
            die(76, f"setup_command ended with status {code}")
        after = json.loads(dump.read_text())
    except (ValueError, TypeError) as error:
        die(78, f"PREFECT_VERTEX_SETUP_COMMAND is not a JSON list of strings: {error}")
    except OSError as error:
        die(76, f"cannot run setup_command: {error}")
    dump.unlink()
    env.clear()
    env.update(after)


def install_packages() -> None:
    """Install EXTRA_PIP_PACKAGES, by uv if it is there, else by pip."""
    packages = shlex.split(env.get("EXTRA_PIP_PACKAGES", ""))
    if not packages:
        return
    tool = [sys.executable, "-m", "pip", "install"]
    if shutil.which("uv"):
        tool = ["uv", "pip", "install", "--python", sys.executable]
    code = subprocess.call([*tool, *packages])
    if code:
        die(76, f"cannot install EXTRA_PIP_PACKAGES: {shlex.join([*tool, *packages])}: {code}")
