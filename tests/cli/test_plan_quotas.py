"""`prefect-vertex plan --quota` shows quotas beside the requests that it prints."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.cli.plan_site import NEEDED, Site

from prefect_vertex.emulator import ControlClient


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
