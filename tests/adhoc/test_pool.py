"""Which work pools a flow may be submitted to, and who counts among their workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prefect.client.schemas.actions import WorkPoolUpdate
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.exceptions import ObjectNotFound

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Site = Any


EACH_WAY = """
    told(bound(plain).submit)
    told(bound(plain))
    told(bound(plain).submit_to_work_pool)
"""


TWICE = """
    told(bound(plain).submit)
    told(bound(plain).submit)
"""
CONFIGURE = """
    from prefect_vertex.bundles.__main__ import main
    print(main(["POOL", "--bucket", "another"]))
"""


def test_a_misspelt_pool_is_named_and_not_created(site: Site) -> None:
    told = site.run("nope", EACH_WAY)

    assert len(told) == 3
    assert {line.partition(" Create it")[0] for line in told} == {
        "SetupError There is no work pool 'nope'."
    }
    with pytest.raises(ObjectNotFound):
        site.client.read_work_pool("nope")


def test_a_pool_of_another_type_gets_no_run_and_no_worker(site: Site) -> None:
    pool = site.pool("process")
    before = site.client.read_work_pool(pool)
    told = site.run(pool, EACH_WAY)
    status = site.run(pool, CONFIGURE.replace("POOL", pool))

    words = f"Work pool {pool!r} is of type 'process', not 'vertex-custom-job'."
    assert len(told) == 3
    assert all(line.startswith(f"SetupError {words}") for line in told)
    assert site.runs(pool) == site.client.read_workers_for_work_pool(pool) == []
    assert status == ["1"]
    after = site.client.read_work_pool(pool)
    assert after.base_job_template == before.base_job_template
    assert after.storage_configuration == before.storage_configuration


def test_a_paused_pool_gets_only_runs_that_its_workers_start(site: Site) -> None:
    """A pause holds back workers; this process would create the job all the same."""
    pool = site.pool()
    site.client.update_work_pool(pool, WorkPoolUpdate(is_paused=True))
    told = site.run(pool, EACH_WAY)

    assert [line.split()[0] for line in told] == ["SetupError", "SetupError", "future"]
    assert "is paused" in told[0]
    # Of type, not of name: after some seconds the server calls it Late.
    assert [run.state.type.value for run in site.runs(pool)] == ["SCHEDULED"]


def test_each_of_several_submissions_says_that_nobody_watches(site: Site) -> None:
    """Prefect calls the process that submitted before still online; it takes no runs."""
    pool = site.pool()
    told = site.run(pool, TWICE)
    assert [line.split()[0] for line in told] == ["future", "future"]

    runs = {line.split()[1] for line in told}
    ours = LogFilter(flow_run_id=LogFilterFlowRunId(any_=sorted(runs)))

    def warned() -> bool:
        logs = [
            log for log in site.client.read_logs(ours) if "No worker of the work" in log.message
        ]
        return {str(log.flow_run_id) for log in logs} == runs

    site.until(warned)
