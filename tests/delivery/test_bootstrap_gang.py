"""No replica begins before all are there; with `replicas: flow` each of them runs the flow."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from prefect.client.base import PrefectHttpxSyncClient
from tests.laptop import opened_laptop

from prefect_vertex.delivery.packing import bootstrap_source, pack_source, packed_bootstrap

JOB = "4711"
GANG = "prefect-vertex-gang-a1"


def here(rank: int, job: str = JOB) -> str:
    """The key under which a replica checks in."""
    return f"prefect-vertex-here-a1-j{job}-r{rank}"


class Api:
    """A flow run on a Prefect server, and what its replicas have said."""

    def __init__(self, url: str) -> None:
        self.url = url
        # Prefect's own asks again after a 503, as a busy SQLite gives.
        self.client = PrefectHttpxSyncClient(base_url=url, enable_csrf_support=False)
        flow = self.post("/flows/", {"name": f"flow-{uuid.uuid4().hex[:8]}"})
        state = {"type": "PENDING", "name": "Pending"}
        self.run_id = self.post("/flow_runs/", {"flow_id": flow["id"], "state": state})["id"]

    def post(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.client.post(path, json=body)
        answer.raise_for_status()
        return answer.json()

    @property
    def said(self) -> dict[str, Any]:
        """All that was said once about the run."""
        path = f"/flow_runs/{self.run_id}/input/filter"
        found = self.post(path, {"prefix": "prefect-vertex-", "limit": 1000})
        return {each["key"]: json.loads(each["value"]) for each in found}

    def say(self, key: str, job: str) -> None:
        """Let another replica have said something."""
        value = json.dumps({"job": job})
        path = f"/flow_runs/{self.run_id}/input"
        self.client.post(path, json={"key": key, "value": value}).raise_for_status()

    def put(self, kind: str) -> None:
        """Put the run into a state, whatever it was in."""
        path = f"/flow_runs/{self.run_id}/set_state"
        self.post(path, {"state": {"type": kind, "name": kind.title()}, "force": True})

    def delete(self) -> None:
        self.client.delete(f"/flow_runs/{self.run_id}").raise_for_status()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A real Prefect server on a free port, with a home of its own."""
    with opened_laptop("gang") as (stack, _):
        yield stack.api_url


@pytest.fixture
def api(server: str) -> Iterator[Api]:
    api = Api(server)
    yield api
    api.client.close()


class Replicas:
    """Bootstraps of one job, each with a file system of its own; their command leaves a mark."""

    def __init__(self, api_url: str, run_id: str, root: Path) -> None:
        self.api_url, self.run_id, self.root = api_url, run_id, root
        self.started: list[subprocess.Popen[str]] = []
        self.packed = packed_bootstrap()

    def start(
        self, rank: int, *command: str, size: int = 2, env: Mapping[str, str] = MappingProxyType({})
    ) -> subprocess.Popen[str]:
        """Start a replica's bootstrap; an empty variable is not set."""
        place = self.root / f"replica-{len(self.started)}"
        for name in ("home", "tmp", "work"):
            (place / name).mkdir(parents=True)
        given = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "PREFECT_API_URL": self.api_url,
            "PREFECT__FLOW_RUN_ID": self.run_id,
            "PREFECT_VERTEX_ATTEMPT": "1",
            "PREFECT_VERTEX_GANG": "1",
            "PREFECT_VERTEX_RANK": str(rank),
            "PREFECT_VERTEX_WORLD_SIZE": str(size),
            "CLOUD_ML_JOB_ID": JOB,
            **env,
        }
        mark = ("sh", "-c", f"echo {rank} >> '{self.root}/marks'")
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", self.packed, *(command or mark)],
            env={name: value for name, value in given.items() if value},
            cwd=place / "work",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    @property
    def ran(self) -> list[str]:
        """The ranks whose command has run."""
        marks = self.root / "marks"
        return sorted(marks.read_text().split()) if marks.exists() else []


def end_of(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for a bootstrap's end: its exit code and what it said."""
    out, error = process.communicate(timeout=30)
    return process.returncode, out, error


@contextmanager
def ended_in_time(replicas: Replicas) -> Iterator[Replicas]:
    """Leave no process behind, whatever became of the test."""
    try:
        yield replicas
    finally:
        for process in replicas.started:
            process.kill()
            process.communicate()


@pytest.fixture
def replicas(api: Api, tmp_path: Path) -> Iterator[Replicas]:
    with ended_in_time(Replicas(api.url, api.run_id, tmp_path)) as replicas:
        yield replicas


Wait = Callable[..., None]


# --- all are there -------------------------------------------------------------------------------


def test_replicas_begin_once_the_last_one_is_there(
    api: Api, replicas: Replicas, wait_until: Wait
) -> None:
    """Each checks in under its job and rank; the gang is said once, then each start is claimed."""
    early = [replicas.start(rank, size=3) for rank in (0, 2)]
    wait_until(lambda: {here(0), here(2)} <= api.said.keys(), "two replicas to check in")
    ran_before = replicas.ran
    last = replicas.start(1, size=3)
    ends = [end_of(process) for process in (*early, last)]

    assert ran_before == []
    assert ends == [(0, "", "")] * 3
    assert replicas.ran == ["0", "1", "2"]
    starts = {f"prefect-vertex-start-a1-r{rank}" for rank in range(3)}
    assert api.said.keys() == {here(0), here(1), here(2), GANG} | starts
    assert api.said[here(2)] == api.said[GANG] == {"job": JOB}


def test_a_replica_that_starts_again_before_the_gang_is_there_still_counts(
    api: Api, replicas: Replicas
) -> None:
    api.say(here(1), JOB)

    ends = [end_of(process) for process in (replicas.start(0), replicas.start(1))]

    assert ends == [(0, "", "")] * 2
    assert replicas.ran == ["0", "1"]


def test_a_replica_that_starts_again_after_it_ran_runs_nothing(
    api: Api, replicas: Replicas
) -> None:
    for key in (here(0), here(1), GANG, "prefect-vertex-start-a1-r1"):
        api.say(key, JOB)

    code, _, error = end_of(replicas.start(1))

    assert (code, replicas.ran) == (75, [])
    assert "replica 1 of attempt 1 was started again" in error


def test_where_the_platform_may_start_them_again_they_gather_all_the_same(
    api: Api, replicas: Replicas
) -> None:
    """And a replica that is started again later finds the gang complete."""
    api.say(here(1), JOB)

    ends = [end_of(replicas.start(0, env={"PREFECT_VERTEX_GUARD": "0"})) for _ in range(2)]

    assert ends == [(0, "", "")] * 2
    assert replicas.ran == ["0", "0"]
    assert api.said.keys() == {here(0), here(1), GANG}


def test_an_earlier_attempts_check_ins_do_not_count(api: Api, replicas: Replicas) -> None:
    api.say(here(1).replace("-a1-", "-a11-"), JOB)
    api.say(here(1).replace("-a1-", "-a2-"), JOB)

    code, _, _ = end_of(replicas.start(0, env={"PREFECT_VERTEX_GANG_SECONDS": "0"}))

    assert (code, replicas.ran) == (79, [])


def test_of_two_jobs_for_one_attempt_one_gathers_and_the_other_runs_nothing(
    api: Api, replicas: Replicas
) -> None:
    """Replicas of both together are no gang."""
    api.say(here(1, "another"), "another")
    api.say(GANG, "another")

    code, _, error = end_of(replicas.start(0))

    assert (code, replicas.ran) == (75, [])
    assert "replica 0 of attempt 1 had started in CustomJob another; nothing was run" in error


# --- one is not ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1], ids=["the first", "another"])
def test_a_replica_that_does_not_come_in_time_is_named(
    rank: int, api: Api, replicas: Replicas
) -> None:
    """Whichever of them waited longest says so; nothing of the user's has run."""
    api.say(here(2), JOB)

    code, out, error = end_of(
        replicas.start(rank, size=4, env={"PREFECT_VERTEX_GANG_SECONDS": "0.1"})
    )

    late = [each for each in range(4) if each not in {rank, 2}]
    assert (code, out, replicas.ran) == (79, "", [])
    assert error == f"prefect-vertex: only 2 of 4 replicas after 0.1 s, not ranks {late}\n"
    assert GANG not in api.said


def test_when_time_is_over_and_all_are_there_it_goes_on(api: Api, replicas: Replicas) -> None:
    """The first may be about to say that the gang is complete; then another says it."""
    api.say(here(0), JOB)

    code, _, error = end_of(replicas.start(1, env={"PREFECT_VERTEX_GANG_SECONDS": "0"}))

    assert (code, error, replicas.ran) == (0, "", ["1"])


@pytest.mark.parametrize("state", ["CANCELLING", "CANCELLED", "CRASHED", "COMPLETED"])
def test_a_run_that_is_over_meanwhile_needs_no_gang(
    state: str, api: Api, replicas: Replicas, wait_until: Wait
) -> None:
    waiting = [replicas.start(rank, size=3) for rank in (0, 1)]
    wait_until(lambda: {here(0), here(1)} <= api.said.keys(), "two replicas to check in")
    api.put(state)

    for rank, process in enumerate(waiting):
        code, out, error = end_of(process)
        assert (code, error) == (0, "")
        assert f"is {state.lower()}: replica {rank} has nothing to run" in out
    assert replicas.ran == []


def test_a_run_that_is_deleted_meanwhile_is_an_error(
    api: Api, replicas: Replicas, wait_until: Wait
) -> None:
    waiting = replicas.start(1)
    wait_until(lambda: here(1) in api.said, "the replica to check in")
    api.delete()

    code, _, error = end_of(waiting)

    assert (code, replicas.ran) == (74, [])
    assert f"knows no flow run {api.run_id}" in error


def test_a_replica_that_waits_can_be_ended(api: Api, replicas: Replicas, wait_until: Wait) -> None:
    waiting = replicas.start(0)
    wait_until(lambda: here(0) in api.said, "the replica to check in")
    waiting.send_signal(signal.SIGTERM)

    code, _, error = end_of(waiting)

    assert (code, replicas.ran) == (143, [])
    assert "ended by signal 15 before the command began" in error


# --- the way to the API --------------------------------------------------------------------------


def test_an_api_that_is_away_for_a_while_is_waited_for(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    """Longer than a single request is repeated elsewhere: a server may be upgraded meanwhile."""
    said: dict[str, str] = {}
    away = iter(range(5))
    lock = threading.Lock()

    def script(asked: Any) -> tuple[int, bytes]:
        with lock:
            path = asked.path.rpartition("/")[2]
            if path == "health":
                return 200, b"true"
            if said and next(away, None) is not None:
                return 503, b""
            if path == "filter":
                said.setdefault(here(1), "")
                return 200, json.dumps([{"key": key} for key in said]).encode()
            if asked.method == "POST":
                body = json.loads(asked.body)
                said[body["key"]] = body["value"]
                return 201, b"null"
            if path in said:
                return 200, said[path].encode()
            known = "/input/" not in asked.path
            return (200, b'{"state_type": "PENDING"}') if known else (404, b"{}")

    url = serve(script).url
    with ended_in_time(Replicas(url, str(uuid.uuid4()), tmp_path)) as replicas:
        source = bootstrap_source()
        assert source.count("RETRY_SECONDS = 60\n") == 1
        # Five refusals take longer than two seconds, and less than five times two.
        replicas.packed = pack_source(source.replace("_SECONDS = 60\n", "_SECONDS = 2\n"))
        ends = end_of(replicas.start(0))

        assert ends == (0, "", "")
        assert replicas.ran == ["0"]


# --- who takes part ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        {"PREFECT_VERTEX_WORLD_SIZE": "1"},
        {"PREFECT_VERTEX_GANG": ""},
        {"PREFECT__FLOW_RUN_ID": ""},
        {"PREFECT_API_URL": ""},
    ],
    ids=["one replica", "not asked for", "no flow run", "no API"],
)
def test_without_a_gang_a_replica_begins_at_once(
    env: dict[str, str], api: Api, replicas: Replicas
) -> None:
    code, _, error = end_of(replicas.start(0, env=env))

    assert (code, error, replicas.ran) == (0, "", ["0"])
    assert not {key for key in api.said if "-start-" not in key}


def test_a_parameter_server_neither_waits_nor_counts(api: Api, replicas: Replicas) -> None:
    hosts = {"workerpool0": ["a:1"], "workerpool1": ["b:1"], "workerpool2": ["c:1"]}
    spec = {"cluster": hosts, "task": {"type": "workerpool2", "index": 0}}
    own = {"PREFECT_VERTEX_RANK": "", "PREFECT_VERTEX_WORLD_SIZE": ""}

    server = end_of(replicas.start(9, env={"CLUSTER_SPEC": json.dumps(spec), **own}))

    assert (server, replicas.ran) == ((0, "", ""), ["9"])
    assert api.said.keys() == {"prefect-vertex-start-a1-workerpool2-0"}


# --- what each of them runs ----------------------------------------------------------------------

EXECUTE = ("flow-run", "execute")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder of programs: an interpreter that finds this package, one that does not, Prefect."""
    library = tmp_path / "library" / "prefect_vertex" / "replica"
    library.mkdir(parents=True)
    (library.parent / "__init__.py").write_text("")
    (library / "__init__.py").write_text("")
    (library / "__main__.py").write_text("import sys; print('launched', sys.argv[1:])")
    for folder, path in {"with": tmp_path / "library", "without": tmp_path / "nowhere"}.items():
        (tmp_path / folder).mkdir()
        python = tmp_path / folder / "python"
        python.write_text(f'#!/bin/sh\nPYTHONPATH="{path}" exec "{sys.executable}" -S "$@"\n')
        prefect = tmp_path / folder / "prefect"
        prefect.write_text('#!/bin/sh\necho "prefect $*"\n')
        for program in (python, prefect):
            program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("prefect", *EXECUTE),
        ("{image}/with/prefect", *EXECUTE),
        ("{image}/with/python", "-m", "prefect", *EXECUTE),
        ("env", "A=1", "prefect", *EXECUTE),
    ],
    ids=["by name", "by path", "as a module", "behind another program"],
)
def test_several_replicas_that_run_the_flow_do_so_by_our_launcher(
    command: tuple[str, ...], image: Path, replicas: Replicas
) -> None:
    """With the interpreter that runs Prefect, wherever that is."""
    given = [part.format(image=image) for part in command]
    env = {"PREFECT_VERTEX_REPLICAS": "flow", "PREFECT_VERTEX_GANG": ""}

    ended = end_of(replicas.start(1, *given, env={"PATH": f"{image}/with:/usr/bin:/bin", **env}))

    assert ended == (0, "launched []\n", "")


@pytest.mark.parametrize(
    ("size", "env", "command"),
    [
        (1, {"PREFECT_VERTEX_REPLICAS": "flow"}, ("prefect", *EXECUTE)),
        (2, {"PREFECT_VERTEX_REPLICAS": "command"}, ("prefect", *EXECUTE)),
        (2, {}, ("prefect", *EXECUTE)),
        (2, {"PREFECT_VERTEX_REPLICAS": "flow"}, ("prefect", "version")),
    ],
    ids=["one replica", "command", "not said", "another command"],
)
def test_else_they_run_the_command_as_it_is(
    size: int, env: dict[str, str], command: tuple[str, ...], image: Path, replicas: Replicas
) -> None:
    own = {"PATH": f"{image}/with:/usr/bin:/bin", "PREFECT_VERTEX_GANG": ""}
    started = replicas.start(0, *command, size=size, env={**own, **env})

    assert end_of(started) == (0, f"{' '.join(command)}\n", "")


def test_a_package_that_cannot_be_imported_there_is_shown_with_its_error(
    image: Path, api: Api, replicas: Replicas
) -> None:
    """It is not missing: another package is, or does not fit."""
    package = image / "site" / "prefect_vertex" / "replica"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("raise ImportError('pydantic is too old')")
    env = {"PREFECT_VERTEX_REPLICAS": "flow", "PYTHONPATH": f"{image}/site"}
    execute = (sys.executable, "-m", "prefect", *EXECUTE)

    code, out, error = end_of(replicas.start(0, *execute, env=env))

    assert (code, out) == (127, "")
    assert "ImportError: pydantic is too old\nprefect-vertex: " in error
    assert "cannot import prefect_vertex.replica: it has to be in the image" in error


def test_an_image_without_this_package_is_told_before_anybody_waits(
    image: Path, api: Api, replicas: Replicas
) -> None:
    env = {"PREFECT_VERTEX_REPLICAS": "flow", "PATH": f"{image}/without:/usr/bin:/bin"}

    code, out, error = end_of(replicas.start(0, "prefect", *EXECUTE, env=env))

    assert (code, out) == (127, "")
    assert error.endswith(
        "prefect-vertex: python cannot import prefect_vertex.replica: it has to be in the image\n"
    )
    assert api.said == {}
