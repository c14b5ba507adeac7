"""The smoke in a real project, for whoever lends one: docs/cloud-smoke.md."""

from __future__ import annotations

import os
import sys

import pytest
from tests.cloud.lab import Lab
from tests.cloud.site import CLOUD, SWITCH, site_of
from tests.cloud.smoke import run_smoke
from tests.cloud.table import Verdict, as_markdown

from prefect_vertex.vertex.gateways import Gateways

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.cloud,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(os.environ.get(SWITCH) != "1", reason=f"{SWITCH}=1 is not set"),
]
_ENVIRONMENT = dict(os.environ)


@pytest.fixture(autouse=True)
def _clean_environment() -> None:
    """This test wants the developer's own project and credentials."""


@pytest.fixture(autouse=True)
def _loopback_only() -> None:
    """This test goes out."""


async def test_vertex_ai_answers_what_its_documentation_leaves_open(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The table is printed whatever it says; a probe that failed fails the test."""
    site = site_of(_ENVIRONMENT)
    gateways = Gateways(submissions_per_minute=30, reads_per_minute=300, environ=_ENVIRONMENT)
    lab = Lab(site, CLOUD, gateways)
    try:
        findings = await run_smoke(lab)
    finally:
        await gateways.aclose()

    with capsys.disabled():
        sys.stdout.write("\n" + as_markdown(findings, f"{site.location}, smoke {lab.id}"))
    assert not [row for row in findings if row.verdict is Verdict.BROKEN]
