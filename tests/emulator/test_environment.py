"""What a replica is started with, as the replica itself sees it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest
from google.cloud.aiplatform_v1 import JobServiceAsyncClient
from google.cloud.aiplatform_v1.types import CustomJob

from prefect_vertex.emulator import Behaviour

pytestmark = pytest.mark.anyio

REPORT = """
import json, os, sys
print(json.dumps({"env": dict(os.environ), "argv": sys.argv[1:], "cwd": os.getcwd(),
                  "files": os.listdir("."), "prefix": sys.prefix, "stdin": sys.stdin.read(),
                  "session": os.getsid(0) == os.getpid()}))
"""
COMMAND = ("python3", "-c", REPORT)
# The primary leaves last: it listens on its own port of the cluster until all others have called.
PRIMARY = f"""
import json, os, socket
spec = json.loads(os.environ["CLUSTER_SPEC"])
host, port = spec["cluster"]["workerpool0"][0].split(":")
with socket.create_server((host, int(port))) as server:
    for _ in range(int(os.environ["WORLD_SIZE"]) - 1):
        server.accept()[0].close()
{REPORT}
"""
FOLLOWER = f"""
{REPORT}
sys.stdout.flush()
import contextlib, socket
while True:
    with contextlib.suppress(ConnectionRefusedError):
        socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        break
"""


@pytest.fixture
def reports(run_job: Callable[..., Any]) -> Callable[..., Any]:
    """Run a job whose replicas report; their reports by name."""

    async def run(*command: str, **fields: Any) -> dict[str, Any]:
        job = await run_job(*command, **fields)
        assert job.resource.error.message == ""
        return {name: json.loads(job.output(name).stdout) for name in job.replicas}

    return run


@pytest.fixture
def report(reports: Callable[..., Any]) -> Callable[..., Any]:
    """The report of a job with one replica."""

    async def run(*arguments: str, **fields: Any) -> Any:
        return (await reports(*COMMAND, *arguments, **fields))["workerpool0-0"]

    return run


async def test_environment_holds_nothing_of_the_servers_own(
    report: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://example.invalid/api")

    seen = (await report())["env"]

    assert set(seen) - {"PWD", "SHLVL", "_", "__CF_USER_TEXT_ENCODING", "LC_CTYPE"} == {
        "CLUSTER_SPEC",
        "CLOUD_ML_PROJECT_ID",
        "CLOUD_ML_JOB_ID",
        "CLOUD_ML_REGION",
        "CLOUD_LOGGING_EMULATOR_HOST",
        "CLOUD_QUOTAS_EMULATOR_HOST",
        "HOME",
        "HOSTNAME",
        "LANG",
        "PATH",
        "SECRET_MANAGER_EMULATOR_HOST",
        "TMPDIR",
        "VERTEX_AI_EMULATOR_HOST",
        "VERTEX_EMULATOR_REPLICA",
    }


async def test_replica_starts_in_a_fresh_place_of_its_own(report: Callable[..., Any]) -> None:
    """Empty working directory, home and temporary directory beside it, no input, own session."""
    first, second = await report(), await report()

    assert first["files"] == []
    assert first["stdin"] == ""
    assert first["session"]
    places = [first["cwd"], first["env"]["HOME"], first["env"]["TMPDIR"], second["cwd"]]
    assert len(set(places)) == 4
    assert os.path.commonpath(places[:2]) not in places


async def test_file_system_of_a_replica_goes_with_it(run_job: Callable[..., Any]) -> None:
    job = await run_job("sh", "-c", "touch left $HOME/left $TMPDIR/left")

    left = [path.name for path in job.directory.rglob("*") if path.name != "workerpool0-0"]
    assert sorted(left) == ["stderr", "stdout", "supervisor"]


@pytest.mark.parametrize("name", ["python", "python3"])
async def test_python_is_the_one_that_runs_the_emulator(
    reports: Callable[..., Any], name: str
) -> None:
    seen = await reports(name, *COMMAND[1:])

    assert seen["workerpool0-0"]["prefix"] == sys.prefix


async def test_job_variables_are_the_platforms(
    run_job: Callable[..., Any], report: Callable[..., Any]
) -> None:
    job = await run_job(*COMMAND)

    seen = json.loads(job.output().stdout)["env"]
    _, number, _, location, _, job_id = job.name.split("/")
    assert seen["CLOUD_ML_PROJECT_ID"] == number
    assert seen["CLOUD_ML_REGION"] == location
    assert seen["CLOUD_ML_JOB_ID"] == job_id


async def test_single_replica_has_a_cluster_spec_and_no_more(report: Callable[..., Any]) -> None:
    seen = (await report())["env"]

    spec = json.loads(seen["CLUSTER_SPEC"])
    assert list(spec["cluster"]) == ["workerpool0"]
    assert len(spec["cluster"]["workerpool0"]) == 1
    assert spec["cluster"]["workerpool0"][0].startswith("127.0.0.1:")
    assert spec["task"] == {"type": "workerpool0", "index": 0}
    assert spec["environment"] == "cloud"
    assert json.loads(spec["job"])["job_args"] == []
    assert not {"TF_CONFIG", "MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"} & set(seen)


async def test_single_replica_may_be_called_chief(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    emulator = await start_emulator(behaviour=Behaviour(single_replica_pool="chief"))
    created = await connect(emulator.address).create_custom_job(
        parent=parent, custom_job=a_job("sh", "-c", 'echo "$CLUSTER_SPEC"')
    )
    job = emulator.job(created.name)
    await job.wait_for_end()

    spec = json.loads(job.output().stdout)
    assert list(spec["cluster"]) == ["chief"]
    assert spec["task"] == {"type": "chief", "index": 0}


async def test_two_pools_know_each_other(
    reports: Callable[..., Any], a_pool: Callable[..., dict[str, Any]]
) -> None:
    """Every address in CLUSTER_SPEC can be listened on, and MASTER_* is the primary's."""
    primary = a_pool("python3", "-c", PRIMARY)
    followers = a_pool("python3", "-c", FOLLOWER, replica_count=2)
    seen = await reports(pools=[primary, {}, followers])

    specs = {name: json.loads(one["env"]["CLUSTER_SPEC"]) for name, one in seen.items()}
    cluster = specs["workerpool0-0"]["cluster"]
    assert {pool: len(hosts) for pool, hosts in cluster.items()} == {
        "workerpool0": 1,
        "workerpool2": 2,
    }
    assert all(spec["cluster"] == cluster for spec in specs.values())
    assert specs["workerpool2-1"]["task"] == {"type": "workerpool2", "index": 1}
    hosts = [host for pool in cluster.values() for host in pool]
    open_ports = [f"127.0.0.1:{port}" for spec in specs.values() for port in spec["open_ports"]]
    assert len({*hosts, *open_ports}) == 6
    ranks = {name: (one["env"]["RANK"], one["env"]["WORLD_SIZE"]) for name, one in seen.items()}
    assert ranks == {
        "workerpool0-0": ("0", "3"),
        "workerpool2-0": ("1", "3"),
        "workerpool2-1": ("2", "3"),
    }
    last = seen["workerpool2-1"]["env"]
    assert f"{last['MASTER_ADDR']}:{last['MASTER_PORT']}" == cluster["workerpool0"][0]
    tensorflow = json.loads(last["TF_CONFIG"])
    assert tensorflow["task"] == {"type": "ps", "index": 1}
    assert tensorflow["cluster"] == {
        "chief": cluster["workerpool0"],
        "ps": cluster["workerpool2"],
    }


async def test_output_directory_gives_the_aip_variables(report: Callable[..., Any]) -> None:
    base = {"base_output_directory": {"output_uri_prefix": "gs://bucket/run/"}}

    seen = (await report(job_spec=base))["env"]

    assert seen["AIP_MODEL_DIR"] == "gs://bucket/run/model/"
    assert seen["AIP_CHECKPOINT_DIR"] == "gs://bucket/run/checkpoints/"
    assert seen["AIP_TENSORBOARD_LOG_DIR"] == "gs://bucket/run/logs/"


async def test_emulator_hosts_that_were_configured_reach_every_replica(
    start_emulator: Callable[..., Any],
    connect: Callable[[str], JobServiceAsyncClient],
    a_job: Callable[..., CustomJob],
    parent: str,
) -> None:
    emulator = await start_emulator(replica_env={"STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"})
    created = await connect(emulator.address).create_custom_job(
        parent=parent,
        custom_job=a_job("sh", "-c", "echo $STORAGE_EMULATOR_HOST $VERTEX_AI_EMULATOR_HOST"),
    )
    job = emulator.job(created.name)
    await job.wait_for_end()

    assert job.output().stdout == f"http://127.0.0.1:9 {emulator.address}\n"


async def test_references_are_expanded_in_env_command_and_args(
    reports: Callable[..., Any], a_pool: Callable[..., dict[str, Any]]
) -> None:
    """PATH and HOME come with the image, which Kubernetes does not know when it expands."""
    env = [
        {"name": "WHERE", "value": "$(CLOUD_ML_REGION)"},
        {"name": "NESTED", "value": "<$(WHERE)> $$(WHERE) $(NOWHERE)"},
    ]
    pool = a_pool(*COMMAND, "$(NESTED)", args=["$$HOME", "$(HOME)"], env=env)

    seen = (await reports(pools=[pool]))["workerpool0-0"]

    assert seen["env"]["NESTED"] == "<us-central1> $(WHERE) $(NOWHERE)"
    assert seen["argv"] == ["<us-central1> $(WHERE) $(NOWHERE)", "$HOME", "$(HOME)"]


async def test_args_alone_are_the_command(
    run_job: Callable[..., Any], a_pool: Callable[..., dict[str, Any]]
) -> None:
    job = await run_job(pools=[a_pool(args=["echo", "hello"])])

    assert job.output().stdout == "hello\n"


async def test_environment_of_a_megabyte_arrives(
    reports: Callable[..., Any], a_pool: Callable[..., dict[str, Any]]
) -> None:
    env = [{"name": f"BIG_{n}", "value": "x" * 131_000} for n in range(8)]

    seen = (await reports(pools=[a_pool(*COMMAND, env=env)]))["workerpool0-0"]

    assert all(len(seen["env"][entry["name"]]) == 131_000 for entry in env)
