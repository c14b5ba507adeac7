"""What is said beforehand of replicas that have no bucket to meet in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from prefect_vertex.cli.plan import plan

if TYPE_CHECKING:
    # The fixture's class; test modules cannot import a conftest.
    Desk = Any

pytestmark = pytest.mark.e2e

WARNING = "3 replicas run the flow without staging_bucket: barrier and gather fail."


@pytest.mark.parametrize(
    ("variables", "warns"),
    [
        ({"worker_count": 3}, True),
        ({"worker_count": 3, "regions": ["us-east1"]}, True),
        ({"worker_count": 3, "staging_bucket": "desk-bucket"}, False),
        ({"worker_count": 3, "replicas": "command"}, False),
        ({"worker_count": 1}, False),
    ],
    ids=str,
)
def test_replicas_of_a_flow_without_a_bucket_are_warned_of_once(
    desk: Desk, capsys: pytest.CaptureFixture[str], variables: dict[str, Any], *, warns: bool
) -> None:
    """By plan and by doctor; a run itself says nothing, as it may need none."""
    pool = desk.pool(**variables)
    plan(pool=pool)
    said = capsys.readouterr().err
    found = desk.json("doctor", "--pool", pool)["findings"]

    assert said.count(WARNING) == int(warns)
    verdicts = [each["verdict"] for each in found if WARNING in each["text"]]
    assert verdicts == (["warning"] if warns else [])
