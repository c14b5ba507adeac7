"""What stands for `python3` in a pool whose jobs run in the image: emulated jobs have none.

    python in_image.py CONTAINER BUILDAH-OPTION... -- ARGUMENT...

Runs the image's own python3 with those arguments, in the replica's environment less what belongs to
the machine: paths, and the home and temporary directory.
"""

from __future__ import annotations

import os
import sys

_THE_MACHINES = {"PATH", "HOME", "TMPDIR", "PWD", "OLDPWD", "SHLVL", "_", "LD_LIBRARY_PATH"}

if __name__ == "__main__":
    border = sys.argv.index("--")
    container, *buildah = sys.argv[1:border]
    environment = [
        f"--env={name}={value}" for name, value in os.environ.items() if name not in _THE_MACHINES
    ]
    arguments = ["run", "--isolation", "chroot", *environment, container, "--", "python3"]
    command = [*buildah, *arguments, *sys.argv[border + 1 :]]
    os.execvp(command[0], command)  # noqa: S606 - a shell would rewrite the arguments
