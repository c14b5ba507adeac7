"""What submitting a run says where the run has ended before its flow began, on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Site = Any

pytestmark = pytest.mark.timeout(180)

SCRIPT = """
    import threading

    lock = threading.Lock()

    @flow
    def closes():
        return lock

    told(bound(closes).submit)
    told(bound(plain, region="").submit)
    told(bound(plain, job_spec_patch=[{"op": "nothing"}]).submit)
"""
SLOW = """
    import prefect.bundles
    from prefect.client.orchestration import get_client
    from prefect.states import Crashed

    upload = prefect.bundles.upload_bundle_to_storage

    def slowly(bundle, *rest, **options):
        # A worker ends the run meanwhile, as it does after a time.
        with get_client(sync_client=True) as client:
            for run in client.read_flow_runs():
                if run.state.name == "Pending":
                    client.set_flow_run_state(run.id, Crashed(message="taken away"))
        return upload(bundle, *rest, **options)

    prefect.bundles.upload_bundle_to_storage = slowly
    told(bound(plain).submit_to_work_pool)
"""


def test_a_run_that_ended_before_its_flow_began_is_raised_with_its_message(site: Site) -> None:
    pool = site.pool()
    told = site.run(pool, SCRIPT)
    runs = {run.name: run.state for run in site.runs(pool)}

    assert len(told) == len(runs) == 3
    for line in told:
        name = line.split("'")[1]
        assert " ".join(runs[name].message.split()) in line
        assert runs[name].name == "Crashed"
    assert "Flow run bundle could not be created: TypeError: cannot pickle" in told[0]
    assert all(line.split()[0].endswith("Error") for line in told)


def test_an_upload_that_took_too_long_is_raised(site: Site) -> None:
    pool = site.pool()
    (told,) = site.run(pool, SLOW)
    (run,) = site.runs(pool)

    assert told == (
        f"PrefectVertexError Flow run {run.name!r} is Crashed, its flow has not begun: taken away"
    )
