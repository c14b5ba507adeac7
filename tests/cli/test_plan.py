"""`prefect-vertex plan` says what the worker would submit, asks Google nothing and submits nothing.

The Prefect server is real. No test has credentials, and none may leave this machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import BlockDocumentCreate, WorkPoolCreate
from prefect.settings import (
    PREFECT_API_KEY,
    PREFECT_API_URL,
    PREFECT_HOME,
    PREFECT_LOCAL_STORAGE_PATH,
    PREFECT_LOGGING_LEVEL,
    PREFECT_PROFILES_PATH,
    PREFECT_SERVER_EPHEMERAL_ENABLED,
    PREFECT_WORKER_QUERY_SECONDS,
    temporary_settings,
)
from tests.laptop import opened_laptop

from prefect_vertex.cli.identity import known_identity
from prefect_vertex.cli.plan import parse_job_variables, plan, prefect_told
from prefect_vertex.delivery.packing import packed_bootstrap
from prefect_vertex.emulator import ControlClient
from prefect_vertex.errors import PlanError, PrefectVertexError, SetupError
from prefect_vertex.template import CredentialValues, base_job_template

NEEDED = ("region=us-central1", "image=i:1", "project=forecasts")
STOCK = Path(__file__).parents[1] / "template" / "fixtures" / "prefect_gcp_0_6_22.json"
KEY = {
    "type": "service_account",
    "project_id": "of-the-key",
    "client_email": "runner@of-the-key.iam.gserviceaccount.com",
    "private_key": "-----BEGIN PRIVATE KEY-----",
    "token_uri": "https://oauth2.googleapis.com/token",
}


@dataclass
class Site:
    """A Prefect server, and what the command says about what is on it."""

    client: SyncPrefectClient
    capsys: pytest.CaptureFixture[str]
    said: str = ""

    def pool(self, kind: str = "vertex-custom-job", template: Any = None) -> str:
        name = f"pool-{uuid4().hex[:8]}"
        self.client.create_work_pool(
            WorkPoolCreate(
                name=name,
                type=kind,
                base_job_template=base_job_template() if template is None else template,
            )
        )
        return name

    def deployment(self, pool: str | None, **job_variables: Any) -> tuple[UUID, str]:
        """Returns its id, and FLOW/NAME."""
        flow = f"flow-{uuid4().hex[:8]}"
        flow_id = self.client.create_flow_from_name(flow)
        deployment_id = self.client.create_deployment(
            flow_id, "nightly", work_pool_name=pool, job_variables=job_variables
        )
        return deployment_id, f"{flow}/nightly"

    def block(self, slug: str, data: dict[str, Any]) -> str:
        """A block of that type; its name."""
        block_type = self.client.read_block_type_by_slug(slug)
        schema = self.client.get_most_recent_block_schema_for_block_type(block_type.id)
        assert schema is not None
        name = f"block-{uuid4().hex[:8]}"
        self.client.create_block_document(
            BlockDocumentCreate(
                name=name, data=data, block_schema_id=schema.id, block_type_id=block_type.id
            )
        )
        return name

    def text(self, *job_variable: str, **options: Any) -> str:
        """What the command prints."""
        self.capsys.readouterr()
        plan(job_variable=job_variable, **options)
        out, self.said = self.capsys.readouterr()
        return out

    def plans(self, *job_variable: str, **options: Any) -> list[dict[str, Any]]:
        """The requests that the command prints."""
        found: list[dict[str, Any]] = json.loads(self.text(*job_variable, **options))
        return found

    def job(self, *job_variable: str, **options: Any) -> dict[str, Any]:
        """The only job that the command prints."""
        (request,) = self.plans(*job_variable, **options)
        job: dict[str, Any] = request["custom_job"]
        return job


@pytest.fixture(scope="module")
def api_url() -> Iterator[str]:
    """A real server on a free port, with a home of its own."""
    with opened_laptop("plan") as (stack, _):
        yield stack.api_url


@pytest.fixture
def site(
    api_url: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Site]:
    """The command speaks to the server, on a machine that knows no credentials."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    settings = temporary_settings({PREFECT_API_URL: api_url, PREFECT_HOME: tmp_path})
    with settings, SyncPrefectClient(api=api_url) as client:
        yield Site(client, capsys)


def env_of(job: dict[str, Any]) -> dict[str, str]:
    (pool,) = job["job_spec"]["worker_pool_specs"]
    return {entry["name"]: entry.get("value", "") for entry in pool["container_spec"]["env"]}


# --- what is printed ------------------------------------------------------------------------------


def test_what_a_replica_runs_at_once_is_shown_beside_the_request(site: Site) -> None:
    """One line for each pool that shares the work, with what the slots end at; nothing is sent."""
    machines = [{}, {"machine_spec": {"machine_type": "n1-highcpu-16"}}]
    variables = (
        "machine_type=n1-standard-4",
        "worker_count=3",
        f"worker_pools={json.dumps(machines)}",
    )
    (request,) = site.plans(*NEEDED, *variables, pool=site.pool())

    primary, workers = request["resource_plan"]
    assert (primary["machine_type"], primary["slots"]) == ("n1-standard-4", 3)
    assert primary["binding_axis"] == "cores"
    assert (workers["slots"], workers["binding_axis"]) == (7, "memory")
    assert "resource_plan" not in json.dumps(request["custom_job"])


def test_settings_of_this_machine_are_not_in_the_request(site: Site, tmp_path: Path) -> None:
    """Nor what a server or a worker reads; the level of the flow's log is."""
    odd = {
        PREFECT_PROFILES_PATH: tmp_path / "my profiles.toml",
        PREFECT_LOCAL_STORAGE_PATH: tmp_path / "results",
        PREFECT_SERVER_EPHEMERAL_ENABLED: False,
        PREFECT_WORKER_QUERY_SECONDS: 3,
        PREFECT_LOGGING_LEVEL: "WARNING",
    }
    with temporary_settings(odd):
        job = site.job(*NEEDED, pool=site.pool())

    names = {name for name in env_of(job) if not name.startswith(("PREFECT__", "PREFECT_VERTEX_"))}
    assert names == {
        "PREFECT_API_URL",
        "PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR",
        "PREFECT_LOGGING_LEVEL",
    }
    assert str(tmp_path) not in json.dumps(job)


def test_a_pool_s_request_is_complete(site: Site) -> None:
    """With the bootstrap, the labels and the environment that the worker sends."""
    pool = site.pool()
    (request,) = site.plans(*NEEDED, pool=pool, full=True)

    job = request["custom_job"]
    (first,) = job["job_spec"]["worker_pool_specs"]
    assert request["parent"] == "projects/forecasts/locations/us-central1"
    assert first["container_spec"]["image_uri"] == "i:1"
    assert first["container_spec"]["command"] == [
        "python3",
        "-c",
        packed_bootstrap(),
        *["prefect", "flow-run", "execute"],
    ]
    assert job["labels"]["prefect-io_work-pool-name"] == pool
    assert job["labels"]["prefect-vertex_attempt"] == "1"
    assert env_of(job)["PREFECT_API_URL"].startswith("http://127.0.0.1:")


def test_the_bootstrap_is_left_out_unless_asked_for(site: Site) -> None:
    """Nothing else is; a script has it all the same, because it is one to be run."""
    pool = site.pool()
    short = site.job(*NEEDED, pool=pool)
    whole = site.job(*NEEDED, pool=pool, full=True)
    script = site.text(*NEEDED, pool=pool, output_format="gcloud")

    (first,) = short["job_spec"]["worker_pool_specs"]
    source = packed_bootstrap()
    line = first["container_spec"]["command"][2]
    assert line.startswith("<the bootstrap of prefect-vertex ")
    assert f"{len(source):,} characters; see --full" in line
    assert json.loads(json.dumps(short).replace(json.dumps(line), json.dumps(source))) == whole
    assert source[:40] in script
    assert source[-9:] in script
    assert "see --full" not in script


def test_a_secret_of_a_block_is_masked_and_a_plain_one_shown(site: Site) -> None:
    """By the block's own schema, also in the middle of a text."""
    name = site.block("secret", {"value": "hunter2-hunter2"})
    url = f"db://u:{{{{ prefect.blocks.secret.{name} }}}}@h"
    variables = (*NEEDED, f"env.DB={url}", "env.PLAIN=shown")
    job = site.job(*variables, pool=site.pool())
    script = site.text(*variables, pool=site.pool(), output_format="gcloud")

    assert (env_of(job)["DB"], env_of(job)["PLAIN"]) == ("********", "shown")
    assert '"$DB"' in script
    assert "hunter2" not in script + site.said


def test_each_candidate_has_a_request_in_order(site: Site) -> None:
    requests = site.plans(
        *NEEDED,
        'regions=["us-east1"]',
        'strategy=["spot", "standard"]',
        pool=site.pool(),
    )

    tried = [
        (
            request["parent"].rpartition("/")[2],
            request["custom_job"]["job_spec"]["scheduling"].get("strategy", "STANDARD"),
        )
        for request in requests
    ]
    assert tried == [
        ("us-central1", "SPOT"),
        ("us-east1", "SPOT"),
        ("us-central1", "STANDARD"),
        ("us-east1", "STANDARD"),
    ]


@pytest.mark.parametrize("by_id", [True, False], ids=["id", "name"])
def test_a_deployment_s_variables_are_laid_over_the_pool_s(site: Site, by_id: bool) -> None:  # noqa: FBT001
    deployment_id, name = site.deployment(
        site.pool(),
        region="europe-west4",
        image="i:1",
        project="p",
        service_account_name="a@b.iam.gserviceaccount.com",
        env={"A": "1", "B": "2"},
    )

    job = site.job(
        "service_account_name=null",
        "env.B=3",
        "machine_type=n1-standard-8",
        deployment=str(deployment_id) if by_id else name,
    )

    (pool,) = job["job_spec"]["worker_pool_specs"]
    assert "service_account" not in job["job_spec"]
    assert pool["machine_spec"]["machine_type"] == "n1-standard-8"
    assert (env_of(job)["A"], env_of(job)["B"]) == ("1", "3")
    assert job["labels"]["prefect-io_flow-name"] == name.partition("/")[0]


def test_a_flow_run_s_request_is_for_that_run(site: Site) -> None:
    deployment_id, _ = site.deployment(site.pool(), region="us-central1", image="i:1", project="p")
    run = site.client.create_flow_run_from_deployment(
        deployment_id, job_variables={"machine_type": "n1-standard-16"}
    )

    job = site.job("worker_count=1", flow_run=str(run.id))

    (pool,) = job["job_spec"]["worker_pool_specs"]
    assert job["labels"]["prefect-io_flow-run-id"] == str(run.id)
    assert env_of(job)["PREFECT__FLOW_RUN_ID"] == str(run.id)
    assert pool["machine_spec"]["machine_type"] == "n1-standard-16"


def test_nothing_is_submitted_and_no_run_is_made(site: Site) -> None:
    """The deployment has as many runs as before: none."""
    deployment_id, name = site.deployment(
        site.pool(), region="us-central1", image="i:1", project="p"
    )

    site.job(deployment=name)

    runs = site.client.read_flow_runs()
    assert [run for run in runs if run.deployment_id == deployment_id] == []


def test_the_gcloud_script_names_what_it_is_for(site: Site) -> None:
    pool = site.pool()
    script = site.text(*NEEDED, pool=pool, output_format="gcloud")

    assert script.startswith("#!/bin/sh\n")
    assert f"work pool {pool}" in script.splitlines()[1]
    assert "--region=us-central1" in script
    assert packed_bootstrap()[:40] in script


def test_the_script_says_what_gcloud_does_in_another_way(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has its own account, knows no emulator, and sends one candidate."""
    monkeypatch.setenv("VERTEX_AI_EMULATOR_HOST", "127.0.0.1:1")
    key = tmp_path / "key.json"
    key.write_text(json.dumps(KEY))
    script = site.text(
        *NEEDED,
        'regions=["us-east1"]',
        f'credentials={{"service_account_file": "{key}"}}',
        pool=site.pool(),
        output_format="gcloud",
    )

    notes = "\n".join(line for line in script.splitlines()[:9] if line.startswith("# "))
    for words in ("its own account", "knows no emulator", "2 candidates", "No flow run"):
        assert words in notes


def test_the_printed_script_is_one_that_a_shell_can_read(site: Site, tmp_path: Path) -> None:
    path = tmp_path / "job.sh"
    path.write_text(
        site.text(*NEEDED, 'regions=["us-east1"]', pool=site.pool(), output_format="gcloud")
    )

    assert subprocess.run(["/bin/sh", "-n", str(path)], check=False).returncode == 0


def test_what_a_user_should_know_stands_on_stderr(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that what stands on stdout can be piped; here from a pool of prefect-gcp's worker."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-the-machine")
    pool = site.pool("vertex-ai", json.loads(STOCK.read_text()))

    (request,) = site.plans(*NEEDED[:2], "machine_typ=n1-standard-8", pool=pool)

    assert request["parent"] == "projects/of-the-machine/locations/us-central1"
    assert "warning: job variable 'machine_typ' is not one of this work pool's" in site.said
    assert "the closest is 'machine_type'" in site.said


@pytest.fixture
def quotas() -> Iterator[ControlClient]:
    """An emulator with quotas, which CLOUD_QUOTAS_EMULATOR_HOST names; its other end."""
    pytest.importorskip("google.cloud.cloudquotas_v1")
    command = [sys.executable, "-m", "prefect_vertex.emulator", "--control-port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,
        pytest.MonkeyPatch.context() as environment,
    ):
        assert process.stdout is not None
        environment.setenv("CLOUD_QUOTAS_EMULATOR_HOST", process.stdout.readline().strip())
        yield ControlClient(process.stdout.readline().strip())
        process.terminate()


def test_quotas_are_shown_beside_the_requests(site: Site, quotas: ControlClient) -> None:
    """The requests are as without: what the worker makes of the quotas, it says by itself."""
    limit = {"metric": "custom_model_training_cpus", "limit": 4}
    quotas.call("set_quotas", limits=[limit, {**limit, "limit": 3, "location": "us-east1"}])
    job = (*NEEDED, 'regions=["us-east1"]', "worker_count=2")
    pool = site.pool()

    found = json.loads(site.text(*job, pool=pool, quota=True))

    first, second = found["quota"]["candidates"]
    assert (first["region"], first["says"]) == ("us-central1", "fits only in part")
    assert (second["region"], second["says"]) == ("us-east1", "blocked")
    assert "custom_model_training_cpus  3      8      blocked" in site.said
    assert found["requests"] == site.plans(*job, pool=pool)


def test_quotas_that_cannot_be_read_are_unknown(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is printed all the same, and the table does not get into a script."""
    monkeypatch.setenv("CLOUD_QUOTAS_EMULATOR_HOST", "127.0.0.1:1")

    script = site.text(*NEEDED, pool=site.pool(), output_format="gcloud", quota=True)

    assert script.startswith("#!/bin/sh\n")
    assert "The quotas of project forecasts are unknown: " in site.said


def test_a_secret_s_value_is_masked(site: Site) -> None:
    with temporary_settings({PREFECT_API_KEY: "pnu_verysecret"}):
        text = site.text(*NEEDED, pool=site.pool())
        script = site.text(*NEEDED, pool=site.pool(), output_format="gcloud")

    assert "pnu_verysecret" not in text + script + site.said
    assert env_of(json.loads(text)[0]["custom_job"])["PREFECT_API_KEY"] == "********"
    assert '"$PREFECT_API_KEY"' in script
    assert "carry PREFECT_API_KEY" in site.said


def test_a_password_in_the_api_s_address_is_masked(site: Site) -> None:
    """The container gets the address as it is; a script takes it from the shell."""
    url = str(PREFECT_API_URL.value())
    with temporary_settings({PREFECT_API_URL: url.replace("://", "://me:hunter2@")}):
        text = site.text(*NEEDED, pool=site.pool())
        script = site.text(*NEEDED, pool=site.pool(), output_format="gcloud")

    assert "hunter2" not in text + script + site.said
    assert env_of(json.loads(text)[0]["custom_job"])["PREFECT_API_URL"] == "********"
    assert '"$PREFECT_API_URL"' in script


@pytest.mark.parametrize("op", ["move", "copy"])
def test_a_patch_cannot_bring_a_secret_into_sight(site: Site, op: str) -> None:
    """Neither in an error nor in the request, nor as a wrong value in a script."""
    env = "/job_spec/worker_pool_specs/0/container_spec/env"
    network = [{"op": op, "from": env, "path": "/job_spec/network"}]
    args = [{"op": "copy", "from": f"{env}/0/value", "path": env.replace("/env", "/args")}]
    pool = site.pool()
    with temporary_settings({PREFECT_API_KEY: "pnu_verysecret"}):
        with pytest.raises(PlanError) as refused:
            site.text(*NEEDED, f"job_spec_patch={json.dumps(network)}", pool=pool)
        printed = site.text(*NEEDED, f"job_spec_patch={json.dumps(args)}", pool=pool)
        with pytest.raises(PlanError, match="outside env, where no command can take it"):
            site.text(
                *NEEDED, f"job_spec_patch={json.dumps(args)}", pool=pool, output_format="gcloud"
            )

    assert "verysecret" not in str(refused.value) + printed + site.said
    assert "network is" in str(refused.value)
    (pool_spec,) = json.loads(printed)[0]["custom_job"]["job_spec"]["worker_pool_specs"]
    assert pool_spec["container_spec"]["args"] == ["********"]


def test_a_pool_of_another_type_is_warned_of(site: Site) -> None:
    """A worker takes it, with a warning of Prefect's, if started with this type."""
    site.job(*NEEDED, pool=site.pool("process"))
    assert "is of type 'process': this worker takes its runs only if started with" in site.said
    site.job(*NEEDED, pool=site.pool("vertex-ai"))
    assert "is of type" not in site.said


def test_a_text_that_json_changes_is_warned_of(site: Site) -> None:
    """It is what a run would get, which Prefect's own command reads in the same way."""
    pool = site.pool()
    job = site.job(*NEEDED, "env.V=1.10", "env.W=2", "labels.on=true", pool=pool)
    assert (env_of(job)["V"], env_of(job)["W"], job["labels"]["on"]) == ("1.1", "2", "true")
    assert [line.split()[2] for line in site.said.splitlines()] == ["env.V", "labels.on"]

    job = site.job(*NEEDED, 'env.V="1.10"', pool=pool)
    assert env_of(job)["V"] == "1.10"
    assert site.said == ""


def test_a_region_may_stand_first_in_a_value(site: Site) -> None:
    image = "{region}-docker.pkg.dev/p/i:1"
    (pool,) = site.job(NEEDED[0], NEEDED[2], f"image={image}", pool=site.pool())["job_spec"][
        "worker_pool_specs"
    ]
    assert pool["container_spec"]["image_uri"] == "us-central1-docker.pkg.dev/p/i:1"


def test_a_block_is_read_and_its_key_is_not_shown(site: Site) -> None:
    """Its project and its account are those of the job."""
    name = site.block("gcp-credentials", {"service_account_info": KEY})
    reference = "{{ prefect.blocks.gcp-credentials." + name + " }}"
    text = site.text(*NEEDED[:2], f"credentials={reference}", pool=site.pool())

    (request,) = json.loads(text)
    assert request["parent"] == "projects/of-the-key/locations/us-central1"
    assert request["custom_job"]["job_spec"]["service_account"] == KEY["client_email"]
    assert "PRIVATE KEY" not in text + site.said


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "Name one of --pool, --deployment, --flow-run and --from"),
        ({"pool": "a", "deployment": "b/c"}, "Name only one of"),
        ({"pool": "nowhere"}, "no work pool 'nowhere'"),
        ({"deployment": "nobody/nothing"}, "no deployment 'nobody/nothing'"),
        ({"deployment": "nothing"}, "neither FLOW/NAME nor a deployment's id"),
        ({"deployment": str(UUID(int=1))}, "no deployment"),
        ({"flow_run": str(UUID(int=1))}, "no flow run"),
        ({"flow_run": "crafty-mongoose"}, "not a flow run's id"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_what_is_not_there_is_named(site: Site, options: dict[str, Any], says: str) -> None:
    with pytest.raises(PlanError) as refused:
        site.plans(**options)
    assert says in refused.value.message


def test_a_deployment_or_run_without_a_pool_is_refused(site: Site) -> None:
    """A served flow has none."""
    deployment_id, name = site.deployment(None)
    run = site.client.create_flow_run_from_deployment(deployment_id)
    with pytest.raises(PlanError, match="has no work pool"):
        site.plans(deployment=name)
    with pytest.raises(PlanError, match="in no work pool"):
        site.plans(flow_run=str(run.id))


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        (NEEDED[1:], "region is not set"),
        ((NEEDED[0], NEEDED[2]), "image is not set"),
        (NEEDED[:2], "project is not set"),
        ((*NEEDED, "imag=j:1"), "the closest is 'image'"),
        ((*NEEDED, "hardware=tpu"), "hardware"),
        ((*NEEDED, "credentials=key"), "credentials"),
        (
            (*NEEDED[:2], 'credentials={"service_account_inf": {"a": 1}}'),
            "credentials has no field 'service_account_inf'",
        ),
        (
            (*NEEDED, 'credentials={"service_account_info": {"type": "service_account"}}'),
            "credentials.service_account_info has no client_email",
        ),
        (
            (*NEEDED[:2], 'credentials={"service_account_info": {"type": "authorized_user"}}'),
            "credentials.service_account_info is of type 'authorized_user'",
        ),
        ((*NEEDED, "maximum_run_time_hours=87660001"), "at most 10,000 years"),
        ((*NEEDED, 'service_account_name=["x"]'), "which is not a service account's address"),
    ],
)
def test_a_job_variable_that_cannot_lead_to_a_job_is_one_error(
    site: Site, variables: Sequence[str], says: str
) -> None:
    with pytest.raises(PlanError) as refused:
        site.plans(*variables, pool=site.pool())
    assert says in refused.value.message
    assert "\n" not in str(refused.value)


def test_an_error_is_one_line_and_exit_code_1(site: Site, api_url: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "prefect_vertex", "plan", "--pool", site.pool()],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PREFECT_API_URL": api_url, "PREFECT_HOME": str(tmp_path), "HOME": str(tmp_path)},
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert [line.split(":")[0] for line in done.stderr.splitlines()][:1] == ["prefect-vertex"]
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("url", [None, "http://127.0.0.1:1/api"], ids=["unset", "nobody there"])
def test_without_a_server_none_is_started(url: str | None, tmp_path: Path) -> None:
    """Prefect's client would start one of its own, which knows no pool."""
    settings = temporary_settings({PREFECT_API_URL: url, PREFECT_HOME: tmp_path})
    with settings, pytest.raises(SetupError) as refused:
        plan(pool="vertex-forecast")
    assert "PREFECT_API_URL" in str(refused.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://me:hunter2@127.0.0.1:9/api", "All connection attempts failed"),
        ("http://me:hunter2/x@127.0.0.1:9/api", "PREFECT_API_URL is not the address of an API"),
    ],
)
def test_no_trouble_with_the_server_shows_a_password(url: str, says: str) -> None:
    """Neither the client's words nor the address itself are told as they are."""
    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(SetupError) as refused:
        plan(pool="vertex-forecast")

    assert says in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_an_answer_that_prefect_did_not_expect_is_told_without_a_password() -> None:
    """What the client says of one quotes the whole address."""
    request = httpx.Request("GET", "http://me:hunter2@host/api/work_pools/a")
    with (
        temporary_settings({PREFECT_API_URL: "http://me:hunter2@host/api"}),
        pytest.raises(SetupError) as refused,
        prefect_told(),
    ):
        httpx.Response(HTTPStatus.UNAUTHORIZED, request=request).raise_for_status()

    assert "401 Unauthorized" in str(refused.value)
    assert "hunter2" not in str(refused.value)


# --- reading arguments, and what files say --------------------------------------------------------


def test_values_are_read_as_prefect_reads_them() -> None:
    """JSON where it is JSON, else text; a dot reaches into a mapping later on."""
    read = {
        "a=1": 1,
        "a=true": True,
        "a=null": None,
        'a={"x": [1]}': {"x": [1]},
        "a=n1-standard-4": "n1-standard-4",
        "a=b=c": "b=c",
        "a=": "",
    }
    assert {text: parse_job_variables([text])["a"] for text in read} == read
    assert parse_job_variables(["env.A=5", "b=x"]) == {"env.A": 5, "b": "x"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("credentials", "{{ prefect.blocks.gcp-credentials.mine }}"),
        ("image", "{region}-docker.pkg.dev/p/i:1"),
        ("staging_bucket", "{region}"),
        ("env.A", "{x"),
        ("env.A", '"x'),
        ("labels.a", "[x"),
    ],
)
def test_a_placeholder_and_a_text_of_env_are_no_json(name: str, text: str) -> None:
    assert parse_job_variables([f"{name}={text}"]) == {name: text}


@pytest.mark.parametrize("text", ["region", "=x", 'env={"A": }', "regions=[a, b"])
def test_what_is_no_variable_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="--job-variable"):
        parse_job_variables([text])


IMPERSONATED = {
    "type": "impersonated_service_account",
    "service_account_impersonation_url": (
        "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
        "a@b.iam.gserviceaccount.com:generateAccessToken"
    ),
    "quota_project_id": "quota",
}


@pytest.mark.parametrize(
    ("content", "named", "known"),
    [
        (KEY, "", ("of-the-key", KEY["client_email"])),
        (KEY, "of-the-variable", ("of-the-variable", KEY["client_email"])),
        ({"type": "authorized_user", "quota_project_id": "quota"}, "", ("quota", "")),
        (IMPERSONATED, "", ("quota", "a@b.iam.gserviceaccount.com")),
        (None, "of-the-variable", ("of-the-variable", "")),
        (None, "", ("", "")),
    ],
    ids=["key", "key and variable", "user", "impersonated", "variable", "nothing"],
)
@pytest.mark.parametrize("place", ["variable", "gcloud"])
def test_the_machine_s_own_credentials_are_known_from_their_file(
    content: Any,
    named: str,
    known: tuple[str, str],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That of GOOGLE_APPLICATION_CREDENTIALS, else gcloud's; the variable names the project."""
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    if named:
        monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", named)
    if content is not None:
        path = tmp_path / "application_default_credentials.json"
        if place == "variable":
            path = tmp_path / "mine.json"
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        path.write_text(json.dumps(content))

    assert known_identity(CredentialValues()) == known


def test_a_block_s_own_file_and_project_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine's own project is not that of a block."""
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "of-the-machine")
    path = tmp_path / "key.json"
    path.write_text(json.dumps(KEY))
    block = CredentialValues(service_account_file=str(path))
    assert known_identity(block) == ("of-the-key", KEY["client_email"])
    block = CredentialValues(service_account_file=str(path), own_project="of-the-block")
    assert known_identity(block) == ("of-the-block", KEY["client_email"])


@pytest.mark.parametrize(
    "content",
    [None, "not JSON: -----BEGIN", '{"private_key": "-----BEGIN"}'],
    ids=["missing", "no JSON", "no key"],
)
def test_a_file_that_cannot_be_read_is_named(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(PrefectVertexError) as refused:
        known_identity(CredentialValues(service_account_file=str(path)))
    assert str(path) in str(refused.value)
    assert "BEGIN" not in str(refused.value)
