"""What submitting a run says where the run has ended before its flow began, on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Site = Any


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
REFUSED = """
    import threading

    for value in (float("nan"), threading.Lock()):
        told(lambda: bound(plain).submit(value))
        told(lambda: bound(plain).submit_to_work_pool(value))
"""
RETRIED = """
    from prefect.client.orchestration import get_client

    future = bound(plain).submit_to_work_pool()
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(future.flow_run_id)
    told(lambda: asyncio.run(bound(plain).retry(run)))
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


def test_a_parameter_that_would_change_gets_no_run(site: Site) -> None:
    pool = site.pool()
    told = site.run(pool, REFUSED)

    assert [line.split(",")[0] for line in told] == [
        "PlanError Parameter x of flow 'plain' is nan",
        "PlanError Parameter x of flow 'plain' is nan",
        "PlanError Parameter x of flow 'plain' is of type lock",
        "PlanError Parameter x of flow 'plain' is of type lock",
    ]
    assert site.runs(pool) == []


def test_a_run_that_goes_on_is_not_retried(site: Site) -> None:
    """It would have a second job beside its first."""
    pool = site.pool()
    (told,) = site.run(pool, RETRIED)
    (run,) = site.runs(pool)

    assert told.startswith(f"SetupError Flow run {run.name!r} is Scheduled: only one that has")
    assert run.state.name == "Scheduled"
