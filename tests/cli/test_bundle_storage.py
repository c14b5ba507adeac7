"""`prefect-vertex bundle-storage` writes to the pool what `@vertex_job` reads there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_vertex.bundles.__main__ import main
from prefect_vertex.cli.app import app
from prefect_vertex.cli.usage import WrongUseError
from prefect_vertex.errors import CodeStoreError, SetupError

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Desk = Any

pytestmark = pytest.mark.e2e


def type_in(*words: str) -> None:
    app(["bundle-storage", *words], exit_on_error=False)


def test_the_pool_stores_bundles_as_the_module_would_say(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """One act under two names, with the same options; it may be repeated."""
    pool, other = desk.pool(), desk.pool()
    options = ["--bucket", "gs://b-b/team", "--execution-launcher", "/opt/venv/bin/python -I"]
    type_in("--pool", pool, "--bucket", "gs://former")
    type_in(pool, *options)
    said = capsys.readouterr().out.splitlines()[-1]
    assert main([other, *options]) == 0

    stored = desk.read_pool(pool).storage_configuration
    assert stored == desk.read_pool(other).storage_configuration
    assert stored.bundle_upload_step == {
        "prefect_vertex.bundles.upload": {"bucket": "gs://b-b/team", "launcher": ["python3"]}
    }
    (step,) = stored.bundle_execution_step.values()
    assert step["launcher"] == ["/opt/venv/bin/python", "-I"]
    assert said == f"Work pool {pool!r} stores bundles in gs://b-b/team."


def test_a_server_that_does_not_answer_is_named_without_a_password() -> None:
    url = "http://me:hunter2@127.0.0.1:9/api"
    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(SetupError) as refused:
        type_in("pool", "--bucket", "b-b")

    assert "the Prefect API at http://…@127.0.0.1:9/api" in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        (["no-such-pool", "--bucket", "b-b"], SetupError, "There is no work pool 'no-such-pool'."),
        (["{pool}", "--bucket", "gs://"], CodeStoreError, "bucket"),
        (["{pool}", "--bucket", "b-b", "--upload-launcher", ""], WrongUseError, "no command"),
        (["{pool}", "--bucket", "b-b", "--execution-launcher", "'"], WrongUseError, "No closing"),
    ],
)
def test_a_mistake_leaves_the_pool_as_it_is(
    desk: Desk, words: list[str], error: type[Exception], says: str
) -> None:
    pool = desk.pool()
    with pytest.raises(error, match=says):
        type_in(*(word.format(pool=pool) for word in words))

    assert desk.read_pool(pool).storage_configuration.bundle_upload_step is None
