"""What a replica's command finds: places to write, the user's setup, packages, an interpreter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.delivery.packing import packed_bootstrap

PRINT_PLACES = "echo HOME=$HOME; echo PREFECT_HOME=$PREFECT_HOME; echo PWD=$(pwd -P)"


def places(stdout: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in stdout.splitlines())


def test_a_home_that_can_be_written_stays(bootstrap: Callable[..., Any], tmp_path: Path) -> None:
    found = places(bootstrap("sh", "-c", PRINT_PLACES).stdout)

    assert found == {
        "HOME": str(tmp_path / "home"),
        "PREFECT_HOME": "",
        "PWD": str(tmp_path / "work"),
    }


@pytest.mark.parametrize("home", ["/dev/null/home", ""])
def test_a_home_that_cannot_be_written_is_replaced(
    bootstrap: Callable[..., Any], home: str
) -> None:
    found = places(
        bootstrap("sh", "-c", f"{PRINT_PLACES}; touch $HOME/x", env={"HOME": home}).stdout
    )

    assert Path(found["HOME"], "x").exists()


def test_prefect_s_own_home_is_replaced_alone(
    bootstrap: Callable[..., Any], tmp_path: Path
) -> None:
    """Also the default one, below a home that is fine otherwise."""
    (tmp_path / "home" / ".prefect").write_text("a file in the way")

    found = places(bootstrap("sh", "-c", PRINT_PLACES).stdout)
    given = places(bootstrap("sh", "-c", PRINT_PLACES, env={"PREFECT_HOME": "/dev/null/p"}).stdout)

    assert found["HOME"] == str(tmp_path / "home")
    assert found["PREFECT_HOME"].startswith(str(tmp_path / "tmp"))
    assert given["PREFECT_HOME"].startswith(str(tmp_path / "tmp"))


@pytest.fixture
def as_other_user() -> Callable[..., dict[str, str]]:
    """Run the bootstrap as a user who owns nothing but TMPDIR, in another user's directory."""
    python = shutil.which("python3", path="/usr/bin:/bin")
    if os.geteuid() != 0 or python is None:
        pytest.skip("needs root and a Python that other users may run")

    def run(image: Path, tmp: Path) -> dict[str, str]:
        os.chown(tmp, 65534, 65534)
        done = subprocess.run(
            [python, "-I", "-S", "-c", packed_bootstrap(), "sh", "-c", PRINT_PLACES],
            env={"PATH": "/usr/bin:/bin", "HOME": "/root", "TMPDIR": str(tmp)},
            cwd=image,
            user=65534,
            group=65534,
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
        )
        return places(done.stdout)

    return run


def test_a_working_directory_that_cannot_be_written_is_replaced_by_one_that_looks_like_it(
    as_other_user: Callable[..., dict[str, str]],
) -> None:
    """The image's flow is found by the same relative path, and files can be written beside it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        image, tmp = Path(name, "image"), Path(name, "tmp")
        (image / "flows").mkdir(parents=True)
        (image / "flows" / "flow.py").write_text("x = 1\n")
        tmp.mkdir()

        found = as_other_user(image, tmp)

        assert found["PWD"].startswith(str(tmp))
        assert Path(found["PWD"], "flows/flow.py").read_text() == "x = 1\n"
        assert Path(found["HOME"]).parent == Path(found["PWD"]).parent
        assert Path(found["PWD"]).stat().st_uid == 65534


def test_the_root_directory_is_replaced_by_an_empty_one(
    as_other_user: Callable[..., dict[str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        Path(name, "tmp").mkdir()

        found = as_other_user(Path("/"), Path(name, "tmp"))

        assert list(Path(found["PWD"]).iterdir()) == []


def test_output_is_unbuffered_unless_the_image_says_otherwise(
    bootstrap: Callable[..., Any],
) -> None:
    shown = ["sh", "-c", "echo $PYTHONUNBUFFERED"]

    assert bootstrap(*shown).stdout == "1\n"
    assert bootstrap(*shown, env={"PYTHONUNBUFFERED": "0"}).stdout == "0\n"


# --- setup_command -------------------------------------------------------------------------------


def setup(*lines: str) -> dict[str, str]:
    return {"PREFECT_VERTEX_SETUP_COMMAND": json.dumps(lines)}


def test_the_command_inherits_the_environment_of_the_setup(
    bootstrap: Callable[..., Any],
) -> None:
    """Whole: exported, changed and unset names, values with line ends and dollar signs."""
    env = setup("A='1\n$2'", "export A", "unset GONE", "export PATH=/opt/x:$PATH", "b=local")
    show = (
        "import os,json;e=os.environ;print(json.dumps([e['A'],'GONE' in e,e['PATH'][:7],'b' in e]))"
    )

    ended = bootstrap(sys.executable, "-c", show, env={**env, "GONE": "x"})

    assert json.loads(ended.stdout) == ["1\n$2", False, "/opt/x:", False]


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        pytest.param(json.dumps(["false", "touch after"]), 76, "ended with status 1", id="fails"),
        pytest.param(json.dumps(["exit 0"]), 76, "ended with status 0", id="leaves early"),
        pytest.param("touch x", 78, "is not a JSON list", id="no JSON"),
        pytest.param('{"a": 1}{', 78, "is not a JSON list", id="more than JSON"),
        pytest.param("[1]", 78, "is not a JSON list of strings", id="no strings"),
    ],
)
def test_a_setup_that_fails_fails_the_replica(
    bootstrap: Callable[..., Any], tmp_path: Path, value: str, code: int, words: str
) -> None:
    ended = bootstrap("touch", "ran", env={"PREFECT_VERTEX_SETUP_COMMAND": value})

    assert ended.code == code
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not list((tmp_path / "work").iterdir())


def test_a_setup_without_a_shell_says_so(bootstrap: Callable[..., Any]) -> None:
    ended = bootstrap("true", env={**setup("true"), "PATH": "/nonexistent"})

    assert (ended.code, "cannot run setup_command" in ended.stderr) == (76, True)


# --- EXTRA_PIP_PACKAGES --------------------------------------------------------------------------


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str, str], dict[str, str]]:
    """Put a shell script of that name first on the PATH."""

    def make(name: str, body: str) -> dict[str, str]:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
        return {"PATH": f"{folder}:/usr/bin:/bin"}

    return make


def test_extra_packages_are_installed_before_the_command(
    bootstrap: Callable[..., Any], program: Callable[..., dict[str, str]], tmp_path: Path
) -> None:
    env = program("uv", f'printf "%s|" "$@" > {tmp_path}/asked')

    ended = bootstrap(
        "cat", f"{tmp_path}/asked", env={**env, "EXTRA_PIP_PACKAGES": "a==1 'b[c]>2'"}
    )

    assert ended.stdout == f"pip|install|--python|{sys.executable}|a==1|b[c]>2|"


def test_without_uv_pip_installs_them(bootstrap: Callable[..., Any], tmp_path: Path) -> None:
    """And what cannot be installed ends the replica, by name."""
    ended = bootstrap("touch", "ran", env={"EXTRA_PIP_PACKAGES": "./no-such-package"})

    assert ended.code == 76
    assert ended.stderr.splitlines()[-1].startswith(
        "prefect-vertex: cannot install EXTRA_PIP_PACKAGES"
    )
    assert "-m pip install ./no-such-package" in ended.stderr
    assert not (tmp_path / "work" / "ran").exists()


# --- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        pytest.param(["sh", "-c", "exit 3"], 3, "", id="its own code"),
        pytest.param(["no-such-command"], 127, "cannot run no-such-command", id="not there"),
        pytest.param(["/etc/hostname"], 126, "cannot run /etc/hostname", id="not executable"),
        pytest.param([], 78, "there is no command to run", id="none"),
        pytest.param(["prefect", "version"], 127, "neither `prefect` on PATH nor", id="no prefect"),
    ],
)
def test_the_command_s_end_is_the_replica_s(
    bootstrap: Callable[..., Any], command: list[str], code: int, words: str
) -> None:
    ended = bootstrap(*command)

    assert ended.code == code
    assert words in ended.stderr
    assert ended.stderr.count("\n") == (1 if words else 0)


@pytest.mark.parametrize("name", ["python", "python3"])
def test_python_is_this_interpreter_where_path_has_none(
    bootstrap: Callable[..., Any], name: str
) -> None:
    ended = bootstrap(name, "-c", "import sys; print(sys.executable)", env={"PATH": "/nonexistent"})

    assert ended.stdout == f"{sys.executable}\n"


def test_prefect_is_the_package_where_path_has_no_such_command(
    bootstrap_env: Mapping[str, str], tmp_path: Path
) -> None:
    package = tmp_path / "lib" / "prefect"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("import sys; print(sys.argv[1:])")

    done = subprocess.run(
        [sys.executable, "-S", "-c", packed_bootstrap(), "prefect", "flow-run", "execute"],
        env={**bootstrap_env, "PYTHONPATH": str(tmp_path / "lib")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == ("['flow-run', 'execute']\n", "")


def test_arguments_and_input_pass_untouched(bootstrap: Callable[..., Any]) -> None:
    words = ["a b", "", "$HOME", "$$", "*", "é\n"]

    ended = bootstrap(sys.executable, "-c", "import sys; print(sys.argv[1:])", *words)

    assert ended.stdout == f"{words}\n"


def test_no_place_to_write_is_one_line(bootstrap: Callable[..., Any]) -> None:
    """The bootstrap needs one directory; it says which variable names it."""
    if Path("/proc/self").exists() is False:
        pytest.skip("needs /proc, where nobody can write")
    # Python tries TMPDIR, /tmp, /var/tmp, /usr/tmp and the working directory in turn.
    script = f"import tempfile;tempfile._get_default_tempdir=lambda:'/proc';{packed_bootstrap()}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, "true"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 73
    assert "set TMPDIR" in done.stderr
    assert done.stderr.count("\n") == 1
