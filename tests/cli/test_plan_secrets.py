"""No secret is in what `prefect-vertex plan` prints, nor in what it says of trouble."""

from __future__ import annotations

import json
from http import HTTPStatus

import httpx
import pytest
from prefect.settings import PREFECT_API_KEY, PREFECT_API_URL, temporary_settings
from tests.cli.plan_site import KEY, NEEDED, Site, env_of

from prefect_vertex.cli.plan import plan, prefect_told
from prefect_vertex.errors import PlanError, SetupError


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


def test_a_block_is_read_and_its_key_is_not_shown(site: Site) -> None:
    """Its project and its account are those of the job."""
    name = site.block("gcp-credentials", {"service_account_info": KEY})
    reference = "{{ prefect.blocks.gcp-credentials." + name + " }}"
    text = site.text(*NEEDED[:2], f"credentials={reference}", pool=site.pool())

    (request,) = json.loads(text)
    assert request["parent"] == "projects/of-the-key/locations/us-central1"
    assert request["custom_job"]["job_spec"]["service_account"] == KEY["client_email"]
    assert "PRIVATE KEY" not in text + site.said


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
