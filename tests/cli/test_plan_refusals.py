"""`prefect-vertex plan` refuses in one line what cannot lead to a job."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings
from tests.cli.plan_site import NEEDED, Site

from prefect_vertex.cli.plan import plan
from prefect_vertex.errors import PlanError, SetupError


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
