"""The script for gcloud sends exactly the request that the worker would send.

A program of the name `gcloud` on the PATH writes down what it is given; one test runs the real one,
where it is installed, against a local server.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.cloud.aiplatform_v1 import types
from google.protobuf.json_format import ParseDict

from prefect_vertex.cli.gcloud import gcloud_script
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.plan import MASK, JobPlan, build_plan
from prefect_vertex.planning.spec import Candidate, RunIdentity, RunSpec

IDENTITY = RunIdentity(
    flow_run_id="0f1e2d3c-1111-4222-8333-444455556666",
    flow_run_name="crafty-mongoose",
    work_pool_id="7a7b7c7d-1111-4222-8333-444455556666",
)
KEY = "projects/forecasts/locations/us-central1/keyRings/r/cryptoKeys/k"
AWKWARD = {
    "DOLLAR": "$(HOME) $$ ${HOME} `id` \\ \\\\ \\$",
    "QUOTES": "'single' \"double\"",
    "LINES": "one\ntwo\r\nSPEC\nthree\t",
    "UNICODE": "é ☃ 😀 \x7f \x85 \u2028 \ufeff",
    "YAML": "0x10",
    "LIKE_A_SECRET": "SECRET: SECRET_",
}


@pytest.fixture
def a_plan() -> Callable[..., JobPlan]:
    """Plan one candidate; `env` and further parts of the job spec may be given."""

    def build(
        location: str = "us-central1",
        *,
        env: Mapping[str, str] | None = None,
        secrets: tuple[str, ...] = (),
        **spec: Any,
    ) -> JobPlan:
        pools = [{"container_spec": {"image_uri": "i:1"}}]
        candidate = Candidate(
            project="forecasts",
            location=location,
            job_spec={"worker_pool_specs": pools, **spec},
            name="it's -- a name",
            labels={"team": "Demand", "empty": ""},
            env=env or {},
            secret_env=frozenset(secrets),
            command=("prefect", "flow-run", "execute"),
        )
        run = RunSpec(identity=IDENTITY, candidates=(candidate,))
        return build_plan(run, candidate, attempt=1, bootstrap="print('$`\\\\`')\n")

    return build


def script_of(*plans: JobPlan) -> str:
    return gcloud_script([json.loads(plan.as_json()) for plan in plans], mask=MASK)


@dataclass
class Sent:
    """What a gcloud command was given."""

    flags: dict[str, str]
    spec: dict[str, Any]

    @property
    def job_spec(self) -> types.CustomJobSpec:
        """The configuration file, as the service would read it."""
        message = types.CustomJobSpec.pb(types.CustomJobSpec())
        return types.CustomJobSpec(ParseDict(self.spec, message))

    @property
    def labels(self) -> dict[str, str]:
        return dict(pair.split("=") for pair in self.flags["--labels"].split(","))


@dataclass
class Shell:
    """A shell in which gcloud writes down what it is given."""

    folder: Path

    def run(self, script: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        path = self.folder / "job.sh"
        path.write_text(script, encoding="ascii")
        return subprocess.run(
            ["/bin/sh", str(path), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env={"PATH": f"{self.folder}:{os.environ['PATH']}", "SENT": str(self.folder), **env},
        )

    def sent(self) -> Sent:
        words = (self.folder / "argv").read_text().split("\0")[:-1]
        assert words[:3] == ["ai", "custom-jobs", "create"]
        flags = dict(word.split("=", 1) for word in words[3:])
        assert flags.pop("--config") == "-"
        return Sent(flags, yaml.safe_load((self.folder / "stdin").read_text(encoding="ascii")))

    def was_used(self) -> bool:
        return (self.folder / "argv").exists()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    program = tmp_path / "gcloud"
    program.write_text(
        '#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done > "$SENT/argv"\n'
        'cat > "$SENT/stdin"\n'
    )
    program.chmod(0o755)
    return Shell(tmp_path)


SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scheduling": {"scheduling": {"strategy": 4, "timeout": "3600s", "disable_retries": True}},
    "gpu": {
        "worker_pool_specs": [
            {
                "machine_spec": {
                    "machine_type": "g2-standard-12",
                    "accelerator_type": "NVIDIA_L4",
                    "accelerator_count": 1,
                },
                "disk_spec": {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 200},
                "container_spec": {"image_uri": "i:1"},
                "nfs_mounts": [{"server": "10.0.0.1", "path": "/x", "mount_point": "y"}],
            }
        ],
    },
    "network": {
        "network": "projects/1/global/networks/n",
        "reserved_ip_ranges": ["r"],
        "service_account": "a@b.iam.gserviceaccount.com",
        "tensorboard": "projects/1/locations/us-central1/tensorboards/2",
        "base_output_directory": {"output_uri_prefix": "gs://b/o"},
    },
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("secrets", [(), ("PREFECT_API_KEY",)], ids=["no secret", "a secret"])
def test_running_it_sends_the_request(
    a_plan: Callable[..., JobPlan],
    shell: Shell,
    spec: dict[str, Any],
    secrets: tuple[str, ...],
) -> None:
    """Whatever the values hold, and whether or not the shell has to fill in a secret."""
    env = {**AWKWARD, **dict.fromkeys(secrets, "pnu_1234")}
    plan = a_plan(env=env, secrets=secrets, **spec)

    done = shell.run(script_of(plan), PREFECT_API_KEY="pnu_1234")

    sent, job = shell.sent(), plan.request.custom_job
    assert (done.returncode, done.stderr) == (0, "")
    assert sent.job_spec == job.job_spec
    assert sent.labels == dict(job.labels)
    assert sent.flags["--display-name"] == job.display_name
    assert plan.request.parent == (
        f"projects/{sent.flags['--project']}/locations/{sent.flags['--region']}"
    )


@pytest.mark.parametrize(
    "value", ['a "quote" \\ and $HOME', "two\nlines", "{'X': \"y\"}", "`id` $(id)"]
)
def test_a_secret_is_taken_from_the_shell_s_environment(
    a_plan: Callable[..., JobPlan], shell: Shell, value: str
) -> None:
    plan = a_plan(env={"PREFECT_API_KEY": "pnu_1234"}, secrets=("PREFECT_API_KEY",))
    script = script_of(plan)

    shell.run(script, PREFECT_API_KEY=value)

    (entry,) = [
        entry
        for entry in shell.sent().spec["workerPoolSpecs"][0]["containerSpec"]["env"]
        if entry["name"] == "PREFECT_API_KEY"
    ]
    assert entry["value"] == value
    assert "pnu_1234" not in script


def test_without_the_secret_nothing_is_sent(a_plan: Callable[..., JobPlan], shell: Shell) -> None:
    plan = a_plan(env={"PREFECT_API_KEY": "pnu_1234"}, secrets=("PREFECT_API_KEY",))

    done = shell.run(script_of(plan))

    assert done.returncode != 0
    assert "PREFECT_API_KEY" in done.stderr
    assert not shell.was_used()


@pytest.mark.parametrize(
    ("arguments", "region"), [((), "us-central1"), (("1",), "us-central1"), (("2",), "us-east1")]
)
def test_one_candidate_is_sent_the_first_unless_another_is_named(
    a_plan: Callable[..., JobPlan], shell: Shell, arguments: tuple[str, ...], region: str
) -> None:
    done = shell.run(script_of(a_plan(), a_plan("us-east1", env=AWKWARD)), *arguments)

    assert done.returncode == 0
    assert shell.sent().flags["--region"] == region


def test_a_candidate_that_is_not_there_sends_nothing(
    a_plan: Callable[..., JobPlan], shell: Shell
) -> None:
    done = shell.run(script_of(a_plan(), a_plan("us-east1")), "3")

    assert (done.returncode, shell.was_used()) == (2, False)
    assert "1 to 2" in done.stderr


def test_a_note_stays_a_comment(a_plan: Callable[..., JobPlan], shell: Shell) -> None:
    """Whatever stands in it: it may hold a name that somebody chose."""
    request = json.loads(a_plan().as_json())

    done = shell.run(gcloud_script([request], notes=["a pool\nexit 7\n"], mask=MASK))

    assert (done.returncode, shell.was_used()) == (0, True)


def test_an_encryption_key_has_a_flag_of_its_own(
    a_plan: Callable[..., JobPlan], shell: Shell
) -> None:
    request = json.loads(a_plan().as_json())
    request["custom_job"]["encryption_spec"] = {"kms_key_name": KEY}

    shell.run(gcloud_script([request], mask=MASK))

    assert shell.sent().flags["--kms-key"] == KEY


def test_a_secret_that_a_flag_would_have_to_show_is_refused(
    a_plan: Callable[..., JobPlan],
) -> None:
    request = json.loads(a_plan().as_json())
    request["custom_job"]["labels"]["copy"] = MASK
    with pytest.raises(PlanError, match="outside env, where no command can take it"):
        gcloud_script([request], mask=MASK)


def test_what_gcloud_cannot_send_is_refused(a_plan: Callable[..., JobPlan]) -> None:
    """An empty pool in a file, and a field of a CustomJob that has no flag."""
    request = json.loads(a_plan().as_json())
    pools = request["custom_job"]["job_spec"]["worker_pool_specs"]
    with pytest.raises(PlanError, match="no empty worker pool"):
        gcloud_script([_with(request, job_spec={"worker_pool_specs": [*pools, {}]})], mask=MASK)
    with pytest.raises(PlanError, match="no option for start_time"):
        gcloud_script([_with(request, start_time="2026-11-30T00:00:00Z")], mask=MASK)


def test_secrets_that_are_packed_with_other_values_are_refused(
    a_plan: Callable[..., JobPlan],
) -> None:
    """No variable of the shell could hold them."""
    env = {f"NAME_{number}": "x" for number in range(120)}
    plan = a_plan(env={**env, "PREFECT_API_KEY": "pnu_1234"}, secrets=("PREFECT_API_KEY",))

    with pytest.raises(PlanError, match="packs secrets together") as refused:
        script_of(plan)
    assert "prefect_api_key_secret" in refused.value.hint


def _with(request: dict[str, Any], **parts: Any) -> dict[str, Any]:
    return {**request, "custom_job": {**request["custom_job"], **parts}}


# --- the real one ---------------------------------------------------------------------------------


@dataclass
class Vertex:
    """A server that takes one job over REST."""

    port: int
    path: str = ""
    body: Any = None


@pytest.fixture
def vertex() -> Iterator[Vertex]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            seen.path, seen.body = self.path, json.loads(self.rfile.read(length))
            answer = json.dumps({"name": "projects/1/locations/us-central1/customJobs/5"}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    seen = Vertex(server.server_port)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield seen
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
def test_the_installed_gcloud_sends_it_to_vertex_ai(
    a_plan: Callable[..., JobPlan], vertex: Vertex, tmp_path: Path
) -> None:
    plan = a_plan(env={**AWKWARD, "PREFECT_API_KEY": "k"}, secrets=("PREFECT_API_KEY",))
    plan_with_fields = a_plan(
        env=AWKWARD, psc_interface_config={"network_attachment": "n"}, **SPECS["gpu"]
    )
    for each in (plan, plan_with_fields):
        request = json.loads(each.as_json())
        request["custom_job"]["encryption_spec"] = {"kms_key_name": KEY}
        _run_gcloud(gcloud_script([request], mask=MASK), vertex.port, tmp_path)

        expected = each.request.custom_job
        message = types.CustomJob.pb(types.CustomJob())
        sent = types.CustomJob(ParseDict(vertex.body, message))
        assert vertex.path.startswith("/v1/projects/forecasts/locations/us-central1/customJobs")
        assert sent.job_spec == expected.job_spec
        assert sent.display_name == expected.display_name
        assert dict(sent.labels) == dict(expected.labels)
        assert sent.encryption_spec.kms_key_name == KEY


def _run_gcloud(script: str, port: int, folder: Path) -> None:
    token = folder / "token"
    token.write_text("a-token")
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PREFECT_API_KEY": "k",
            "CLOUDSDK_CONFIG": str(folder),
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": f"http://127.0.0.1:{port}/",
            "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(token),
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
            "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
        },
    )
    assert done.returncode == 0, done.stderr
