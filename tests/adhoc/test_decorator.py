"""The decorator, and what becomes of a flow that it has bound."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from prefect import flow, task
from prefect.client.schemas.objects import WorkPool
from prefect.context import serialize_context
from prefect.flows import InfrastructureBoundFlow
from prefect.settings import PREFECT_API_KEY, temporary_settings

from prefect_vertex import VertexWorker, vertex_job
from prefect_vertex.adhoc.flow import VertexFlow
from prefect_vertex.errors import PlanError, SetupError
from prefect_vertex.runs.adhoc import own_settings_unsaid
from prefect_vertex.runs.launchers import check_storage
from prefect_vertex.runs.submitters import is_submitter

Write = Callable[..., Any]
STEP = {"prefect_vertex.bundles.upload": {"bucket": "b"}}


@flow
def plain() -> int:
    """A flow that is only bound."""
    return 1


def a_pool(**step: Any) -> WorkPool:
    """A work pool with storage."""
    upload = {"prefect_vertex.bundles.upload": {"bucket": "b", **step}}
    storage = {"bundle_upload_step": upload, "bundle_execution_step": upload}
    return WorkPool.model_validate(
        {"name": "a-pool", "type": VertexWorker.type, "storage_configuration": storage}
    )


def test_it_binds_sync_and_async_flows() -> None:
    @vertex_job("a-pool", region="us-central1", machine_type="n1-standard-8")
    @flow(name="one", retries=2)
    def one(months: int) -> int:
        return months

    @vertex_job("a-pool")
    @flow
    async def two() -> int:
        return 2

    assert isinstance(one, VertexFlow)
    assert (one.work_pool, one.name, one.retries) == ("a-pool", "one", 2)
    submitters = [one.worker_cls(work_pool_name="a-pool") for _ in range(2)]
    assert all(isinstance(worker, VertexWorker) for worker in submitters)
    assert all(is_submitter(worker.name) for worker in submitters)
    assert submitters[0].name != submitters[1].name
    assert one.job_variables == {"region": "us-central1", "machine_type": "n1-standard-8"}
    assert (one.fn(3), asyncio.run(two.fn())) == (3, 2)


def test_options_keep_what_binds_it() -> None:
    bind = vertex_job("a-pool", launcher=["python3"], region="us-central1")
    bound = bind(plain)
    changed = bound.with_options(name="other", job_variables={"region": "us-east1"})

    assert isinstance(changed, VertexFlow)
    assert (changed.name, changed.job_variables["region"]) == ("other", "us-east1")
    assert changed.launcher == {"upload": ["python3"], "execution": ["python3"]}


def test_what_is_no_flow_is_refused() -> None:
    def function() -> None: ...

    with pytest.raises(SetupError, match=r"decorates 'function', which is no flow\. .*above @flow"):
        vertex_job("a-pool")(function)  # type: ignore[arg-type]
    with pytest.raises(SetupError, match="no flow"):
        vertex_job("a-pool")(task(function))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [3, 3.0, "3", " 3 "])
def test_several_replicas_are_refused_however_they_are_written(count: object) -> None:
    """A job variable is read in each of these forms."""
    words = "worker_count is 3, but an ad-hoc run has one replica"
    with pytest.raises(PlanError, match=words):
        vertex_job("a-pool", worker_count=count)
    with pytest.raises(PlanError, match=words):
        vertex_job("a-pool")(plain).with_options(job_variables={"worker_count": count})


@pytest.mark.parametrize("count", [None, 1, "1", 1.0, True, "many", [2]])
def test_what_says_nothing_of_several_replicas_passes(count: object) -> None:
    """Whether it is a number at all is said when the job is planned."""
    vertex_job("a-pool", worker_count=count)


def test_a_command_is_refused() -> None:
    """Prefect would replace it without a word."""
    with pytest.raises(PlanError, match=r"command is 'python x\.py', but an ad-hoc run's command"):
        vertex_job("a-pool", command="python x.py")
    vertex_job("a-pool", command=None)


def test_the_decorator_without_its_call_says_how_to_write_it() -> None:
    def function() -> None: ...

    for given in (function, plain):
        with pytest.raises(SetupError, match=r'in place of a work pool.*`@vertex_job\("<work'):
            vertex_job(given)  # type: ignore[arg-type]


def test_a_launcher_of_no_known_form_is_refused() -> None:
    with pytest.raises(ValueError, match="launcher may only specify"):
        vertex_job("a-pool", launcher={"run": ["python3"]})(plain)  # type: ignore[arg-type]


def test_a_bundled_flow_needs_only_prefect(write_flow: Write, tmp_path: Path) -> None:
    """The image of a run with one replica need not have this package."""
    bound = write_flow()
    module = sys.modules[bound.fn.__module__]
    cloudpickle.register_pickle_by_value(module)
    try:
        (tmp_path / "flow.pkl").write_bytes(cloudpickle.dumps(bound))
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    script = (
        "import sys; sys.modules['prefect_vertex'] = None\n"
        "import cloudpickle\n"
        "flow = cloudpickle.load(open('flow.pkl', 'rb'))\n"
        "print(type(flow).__name__, flow.name, flow.fn(5), flow.work_pool)\n"
        "try: flow.worker_cls(work_pool_name='p')\n"
        "except ImportError: print('only submitting it does')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    assert done.stdout.splitlines() == [
        "InfrastructureBoundFlow main 5 a-pool",
        "only submitting it does",
    ]


def test_a_copy_still_submits_through_this_worker() -> None:
    bound = vertex_job("a-pool")(plain)
    copied = cloudpickle.loads(cloudpickle.dumps(bound))

    assert isinstance(copied, InfrastructureBoundFlow)
    assert isinstance(copied.worker_cls(work_pool_name="a-pool"), VertexWorker)


def test_the_submitters_settings_stay_at_home() -> None:
    """The API key among them: a bundle lies in a bucket."""
    with temporary_settings({PREFECT_API_KEY: "pnu_hidden"}):
        assert b"pnu_hidden" in cloudpickle.dumps(serialize_context())
        with own_settings_unsaid():
            assert PREFECT_API_KEY.value() == "pnu_hidden"
            context = serialize_context()

    assert b"pnu_hidden" not in cloudpickle.dumps(context)
    assert context["settings_context"] == {}


def test_a_pool_without_storage_is_told_before_there_is_a_run(write_flow: Write) -> None:
    pool = WorkPool.model_validate({"name": "a-pool", "type": VertexWorker.type})

    with pytest.raises(SetupError, match="storage configure gcs a-pool --bucket") as told:
        check_storage(write_flow(), pool)
    assert "work pool 'a-pool' has no storage" in str(told.value)
    assert "`prefect-vertex bundle-storage a-pool --bucket <bucket>`" in str(told.value)


def test_uv_is_asked_for_where_no_launcher_stands_for_it(
    write_flow: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Prefect's own error comes after the flow run, and names a file that is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "uv", None)
    launcher = {"launcher": ["python3"]}

    with pytest.raises(SetupError, match=r"uploading its code takes uv.* Install prefect-vertex\["):
        check_storage(write_flow(), a_pool())
    with pytest.raises(SetupError, match="bundling its code takes uv"):
        check_storage(write_flow(), a_pool(**launcher))
    check_storage(write_flow(**launcher), a_pool())
    check_storage(write_flow(launcher={"execution": ["python3"]}), a_pool(**launcher))


def test_uv_that_is_installed_off_path_is_named(
    write_flow: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("uv")
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(SetupError, match=r"which is not on PATH\. Add the folder of .*uv to PATH"):
        check_storage(write_flow(), a_pool())
    check_storage(write_flow(), a_pool(launcher=["python3"]))
