"""A start is claimed in the Prefect API before the command runs; a second one runs nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_vertex.delivery.packing import packed_bootstrap

RUN_ID = "0f1e2d3c-1111-4222-8333-444455556666"
KEY = "prefect-vertex-start-a1-r0"
PATH = f"/api/flow_runs/{RUN_ID}"

Answer = tuple[int, bytes]


class Api:
    """The routes of the Prefect API that a start uses, in memory; faults come before them."""

    def __init__(self, serve: Callable[..., Any]) -> None:
        self.claims: dict[str, str] = {}
        self.state: str | None = "PENDING"
        self.exists = True
        self.csrf_token = ""
        self.faults: dict[str, list[Answer]] = {}
        self.faults_after: dict[str, list[Answer]] = {}
        self.server = serve(self._answer)

    @property
    def env(self) -> dict[str, str]:
        """What a replica of the first attempt is started with."""
        return {
            "PREFECT_API_URL": f"{self.server.url}/api",
            "PREFECT__FLOW_RUN_ID": RUN_ID,
            "PREFECT_VERTEX_ATTEMPT": "1",
            "CLOUD_ML_JOB_ID": "4711",
        }

    def asked(self, method: str) -> list[Any]:
        """The requests by a method, but for the question whether the API is there."""
        found = [asked for asked in self.server.asked if asked.method == method]
        return [asked for asked in found if not asked.path.endswith("/health")]

    def hold(self, job: str, key: str = KEY) -> None:
        """Let another start have claimed already."""
        self.claims[key] = json.dumps({"nonce": "another's", "job": job})

    def _answer(self, asked: Any) -> Answer:
        if asked.path.endswith("/health"):
            return 200, b"true"
        if self.faults.get(asked.method):
            return self.faults[asked.method].pop(0)
        answer = self._serve(asked)
        if self.faults_after.get(asked.method):
            return self.faults_after[asked.method].pop(0)
        return answer

    def _serve(self, asked: Any) -> Answer:
        if asked.path.startswith("/api/csrf-token?client="):
            return 200, json.dumps({"token": self.csrf_token}).encode()
        if not self.exists:
            return 404, b'{"detail": "Flow run not found"}'
        if asked.method == "POST":
            return self._create(asked)
        if asked.path == PATH:
            return 200, json.dumps({"id": RUN_ID, "state_type": self.state}).encode()
        claim = self.claims.get(asked.path.removeprefix(f"{PATH}/input/"))
        return (200, claim.encode()) if claim else (404, b'{"detail": "not found"}')

    def _create(self, asked: Any) -> Answer:
        assert asked.path == f"{PATH}/input"
        assert asked.headers["Content-Type"] == "application/json"
        if self.csrf_token and asked.headers.get("Prefect-Csrf-Token") != self.csrf_token:
            return 403, b'{"detail": "Missing CSRF token."}'
        body = json.loads(asked.body)
        if body["key"] in self.claims:
            return 409, b'{"detail": "A flow run input with this key already exists."}'
        self.claims[body["key"]] = body["value"]
        return 201, b"null"


@pytest.fixture
def api(serve: Callable[..., Any]) -> Api:
    return Api(serve)


@pytest.fixture
def count(tmp_path: Path) -> Callable[[], int]:
    """How often the command ran so far."""
    return lambda: len((tmp_path / "runs").read_text()) if (tmp_path / "runs").exists() else 0


@pytest.fixture
def start(bootstrap: Callable[..., Any], api: Api, tmp_path: Path) -> Callable[..., Any]:
    """Start a replica whose command leaves a mark, with a file system of its own."""

    def run(**env: str) -> Any:
        fresh = tmp_path / f"container-{len(list(tmp_path.glob('container-*')))}"
        for name in ("home", "tmp", "work"):
            (fresh / name).mkdir(parents=True)
        places = {"HOME": str(fresh / "home"), "TMPDIR": str(fresh / "tmp")}
        script = f"printf x >> '{tmp_path}/runs'"
        given = {**api.env, **places, **env}
        return bootstrap("sh", "-c", script, env=given, cwd=fresh / "work", hasty=True)

    return run


Start = Callable[..., Any]
Count = Callable[[], int]


# --- one start, and a second one -----------------------------------------------------------------


def test_a_first_start_claims_its_replica_and_runs(api: Api, start: Start, count: Count) -> None:
    """The claim names the job, and a nonce of this process."""
    ended = start()
    value = json.loads(api.claims[KEY])

    assert (ended.code, ended.stdout, ended.stderr, count()) == (0, "", "", 1)
    assert list(api.claims) == [KEY]
    assert value["job"] == "4711"
    assert len(value["nonce"]) == 32


def test_a_second_start_runs_nothing_and_says_so(api: Api, start: Start, count: Count) -> None:
    """A restarted container has a fresh file system: the claim lives outside it."""
    start()
    api.state = "RUNNING"

    ended = start()

    assert (ended.code, ended.stdout, count()) == (75, "", 1)
    assert ended.stderr == (
        "prefect-vertex: replica 0 of attempt 1 was started again;"
        " the first start ended without a word\n"
    )


def test_the_next_attempt_is_no_second_start(api: Api, start: Start, count: Count) -> None:
    start()

    assert start(PREFECT_VERTEX_ATTEMPT="2").code == 0
    assert (count(), len(api.claims)) == (2, 2)


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("COMPLETED", 0),
        ("FAILED", 0),
        ("CRASHED", 0),
        ("CANCELLED", 0),
        ("SCHEDULED", 0),
        ("PAUSED", 0),
        ("PENDING", 75),
        ("RUNNING", 75),
        ("CANCELLING", 75),
        (None, 75),
    ],
)
def test_a_second_start_ends_by_the_run_s_state(
    api: Api, start: Start, count: Count, state: str | None, code: int
) -> None:
    """75 fails the job at once; 0 where the run needs nothing more of it."""
    api.hold("4711")
    api.state = state

    ended = start()

    assert (ended.code, count()) == (code, 0)
    assert ended.stdout.count("has nothing to run") == (code == 0)


def test_a_duplicate_job_of_the_attempt_runs_nothing(api: Api, start: Start, count: Count) -> None:
    api.hold("1234")

    ended = start()

    assert (ended.code, count()) == (75, 0)
    assert "had started in CustomJob 1234; nothing was run" in ended.stderr


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"])
def test_a_first_start_runs_nothing_for_a_run_that_has_ended(
    api: Api, start: Start, count: Count, state: str
) -> None:
    """Somebody ended it while the job was queued; Prefect itself would run it again."""
    api.state = state

    ended = start()

    assert (ended.code, count()) == (0, 0)
    assert f"flow run {RUN_ID} is {state.lower()}" in ended.stdout


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "PAUSED", None])
def test_a_first_start_leaves_any_other_state_to_the_command(
    api: Api, start: Start, count: Count, state: str | None
) -> None:
    """A follower may come late, when its leader runs or pauses."""
    api.state = state

    assert (start().code, count()) == (0, 1)


def test_a_run_that_the_api_does_not_know_is_not_run(api: Api, start: Start, count: Count) -> None:
    """Deleted, or the container looks at another server than the worker."""
    api.exists = False

    ended = start()

    assert (ended.code, count()) == (74, 0)
    assert f"knows no flow run {RUN_ID}" in ended.stderr
    assert "another server or workspace" in ended.stderr


def test_nothing_of_the_user_s_runs_in_a_second_start_not_even_the_setup(
    api: Api, start: Start, count: Count, tmp_path: Path
) -> None:
    lines = json.dumps([f"printf x >> '{tmp_path}/setups'"])
    start(PREFECT_VERTEX_SETUP_COMMAND=lines)
    api.state = "RUNNING"

    ended = start(PREFECT_VERTEX_SETUP_COMMAND=lines)

    assert (ended.code, count()) == (75, 1)
    assert (tmp_path / "setups").read_text() == "x"


def test_a_setup_may_be_what_makes_the_api_reachable(api: Api, start: Start, count: Count) -> None:
    """That nothing can be seen before it is no reason to stop."""
    lines = json.dumps([f"export PREFECT_API_URL={api.env['PREFECT_API_URL']}"])

    ended = start(PREFECT_VERTEX_SETUP_COMMAND=lines, PREFECT_API_URL="http://127.0.0.1:1/api")

    assert (ended.code, count(), list(api.claims)) == (0, 1, [KEY])


# --- who claims what -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "name"),
    [(("workerpool0", 0), "r0"), (("workerpool1", 1), "r2"), (("workerpool2", 1), "workerpool2-1")],
)
def test_each_replica_has_a_claim_of_its_own(
    api: Api, start: Start, task: tuple[str, int], name: str
) -> None:
    """Parameter servers too, though they have no rank."""
    cluster = {"workerpool0": ["a"], "workerpool1": ["b", "c"], "workerpool2": ["d", "e"]}
    spec = {"cluster": cluster, "task": {"type": task[0], "index": task[1]}}

    assert start(CLUSTER_SPEC=json.dumps(spec)).code == 0
    assert list(api.claims) == [f"prefect-vertex-start-a1-{name}"]


def test_a_rank_that_is_given_is_the_one_claimed(api: Api, start: Start) -> None:
    start(PREFECT_VERTEX_RANK="3", PREFECT_VERTEX_WORLD_SIZE="4")

    assert list(api.claims) == ["prefect-vertex-start-a1-r3"]


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"PREFECT_VERTEX_GUARD": "0"}, id="Vertex retries are wanted"),
        pytest.param({"PREFECT__FLOW_RUN_ID": ""}, id="no flow run"),
        pytest.param({"PREFECT_VERTEX_ATTEMPT": ""}, id="no attempt"),
        pytest.param({"PREFECT_API_URL": ""}, id="no API"),
    ],
)
def test_without_a_guard_every_start_runs(
    api: Api, start: Start, count: Count, env: dict[str, str]
) -> None:
    assert [start(**env).code for _ in range(2)] == [0, 0]
    assert (count(), api.claims, api.asked("GET")) == (2, {}, [])


def test_a_command_that_cannot_run_claims_nothing(api: Api, bootstrap: Start) -> None:
    ended = bootstrap("prefect", "flow-run", "execute", env=api.env)

    assert (ended.code, api.claims) == (127, {})


# --- the way to the API --------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [0, 502])
def test_a_claim_whose_answer_is_lost_is_recognised(
    api: Api, start: Start, count: Count, answer: int
) -> None:
    """The server had created it: the repetition is refused, and the nonce is our own."""
    api.faults_after["POST"] = [(answer, b"")]

    assert (start().code, count(), len(api.asked("POST"))) == (0, 1, 2)


@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("answer", [0, 429, 500, 503])
def test_an_api_that_fails_for_a_moment_is_asked_again(
    api: Api, start: Start, count: Count, method: str, answer: int
) -> None:
    api.faults[method] = [(answer, b"")]

    assert (start().code, count(), len(api.asked(method))) == (0, 1, 2)


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_without_a_claim_nothing_runs(api: Api, start: Start, count: Count, method: str) -> None:
    api.faults[method] = [(503, b"")] * 50

    ended = start()

    assert (ended.code, count(), ended.stderr.count("\n")) == (74, 0, 1)
    assert "cannot claim this start from the Prefect API at 127.0.0.1: HTTP 503" in ended.stderr


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        pytest.param((401, b"{}"), "check its key or auth string", id="no key"),
        pytest.param((403, b"{}"), "check its key or auth string", id="wrong key"),
        pytest.param((422, b"{}"), "HTTP 422", id="another API"),
        pytest.param((200, b"<html>Log in"), "Expecting value", id="a login page"),
    ],
)
def test_a_refusal_is_told_at_once(
    api: Api, start: Start, count: Count, answer: Answer, says: str
) -> None:
    """`/health` needs no key, so a wrong one shows here first."""
    api.faults["POST"] = [answer]

    ended = start()

    assert (ended.code, count(), len(api.asked("POST"))) == (74, 0, 1)
    assert says in ended.stderr


def test_it_claims_with_prefect_s_own_credentials(api: Api, start: Start) -> None:
    headers = '{"X-Gate": "open"}'

    start(PREFECT_API_KEY="k", PREFECT_CLIENT_CUSTOM_HEADERS=headers)

    for asked in (*api.asked("POST"), *api.asked("GET")):
        assert (asked.headers["Authorization"], asked.headers["X-Gate"]) == ("Bearer k", "open")


def test_a_server_that_guards_against_csrf_gets_its_token(
    api: Api, start: Start, count: Count
) -> None:
    api.csrf_token = "from the server"

    assert (start().code, count(), list(api.claims)) == (0, 1, [KEY])


# --- asked to end meanwhile ----------------------------------------------------------------------


@pytest.mark.parametrize("after", [False, True], ids=["before the claim", "after it"])
def test_a_signal_while_it_claims_ends_it_before_the_command(
    serve: Callable[..., Any],
    bootstrap_env: dict[str, str],
    tmp_path: Path,
    wait_until: Callable[..., None],
    after: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """143, as for any other process that SIGTERM ends, and no user code."""
    gate = threading.Event()
    reached = threading.Event()

    def script(asked: Any) -> Answer:
        waited_for = "GET" if after else "POST"
        if asked.method == waited_for and RUN_ID in asked.path:
            reached.set()
            gate.wait(15)
            return 0, b""  # nobody listens any more
        return (200, b"true") if asked.method == "GET" else (201, b"null")

    server = serve(script)
    env = {
        **bootstrap_env,
        "PREFECT_API_URL": server.url,
        "PREFECT__FLOW_RUN_ID": RUN_ID,
        "PREFECT_VERTEX_ATTEMPT": "1",
    }
    command = [sys.executable, "-I", "-S", "-c", packed_bootstrap()]
    process = subprocess.Popen(
        [*command, "sh", "-c", f"printf x >> '{tmp_path}/runs'"],
        env=env,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_until(reached.is_set, "the claim")
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate(timeout=15)
    finally:
        gate.set()
        process.kill()

    assert process.returncode == 143
    assert "ended by signal 15 before the command began" in complaint
    assert not (tmp_path / "runs").exists()
