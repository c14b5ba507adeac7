"""The smoke against the emulator: its code is known to work before it costs anybody money."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import AsyncIterator, Iterator

import anyio
import httpx
import pytest
from tests.cloud import about_ends, about_lists, about_places
from tests.cloud.lab import SMOKE_LABEL, Lab
from tests.cloud.site import EMULATED, Site, site_of
from tests.cloud.smoke import POINTS, run_smoke
from tests.cloud.table import Finding, Verdict, as_markdown, untold

from prefect_vertex.cli.storage import StorageServer
from prefect_vertex.emulator import FAST, Emulator
from prefect_vertex.emulator.faults import CallFault, Stockout
from prefect_vertex.errors import SetupError
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.gateways import Gateways
from prefect_vertex.vertex.logs import EMULATOR_VARIABLE as LOGS_VARIABLE

SITE = Site(
    project="demo-project",
    location="us-central1",
    bucket="smoke",
    service_account="flows@demo-project.iam.gserviceaccount.com",
    scarce="a2-highgpu-1g:NVIDIA_TESLA_A100:1",
    persistent_resource="a-resource",
)
GRACE = 0.6
QUICK = dataclasses.replace(
    FAST,
    queued_seconds=0.01,
    provisioning_seconds=0.02,
    starting_seconds=0.3,
    termination_grace_seconds=GRACE,
)
NOT_TOLD_HERE = {
    about_places.AGENT: "no metadata server",
    about_places.FLEX: "machines at once",
    about_places.TAIL: "were refused",
    about_places.BILLING: "compare the bill",
    about_places.SPOT: "nobody can order",
    about_lists.PAGE_SIZE: "has only",
}
"""What the emulator cannot show: it has no accounts, no scarcity of its own and no bill."""


@pytest.fixture(scope="module")
def storage() -> Iterator[str]:
    """Cloud Storage with the smoke's bucket."""
    with StorageServer() as server:
        answer = httpx.post(f"{server.address}/storage/v1/b", json={"name": SITE.bucket})
        answer.raise_for_status()
        yield server.address


@pytest.fixture
async def emulator(storage: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Emulator]:
    """An emulator whose containers find the bucket, and refuse to name an account at once."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", storage)
    env = {"STORAGE_EMULATOR_HOST": storage, "GCE_METADATA_HOST": "127.0.0.1:1"}
    async with Emulator(timings=QUICK, replica_env=env) as emulator:
        yield emulator


@pytest.fixture
async def lab(emulator: Emulator) -> AsyncIterator[Lab]:
    """A laboratory in it."""
    environ = {EMULATOR_VARIABLE: emulator.address, LOGS_VARIABLE: emulator.address}
    gateways = Gateways(submissions_per_minute=math.inf, reads_per_minute=math.inf, environ=environ)
    yield Lab(SITE, EMULATED, gateways)
    await gateways.aclose()


@pytest.mark.anyio
async def test_every_point_is_asked_and_what_the_emulator_can_show_is_told(
    lab: Lab, emulator: Emulator, storage: str
) -> None:
    """No probe breaks; the answers are the emulator's; no job and no object is left."""
    emulator.faults.add(Stockout(labels={SMOKE_LABEL: "scarce"}, after_seconds=0.1))

    findings = {row.point: row for row in await run_smoke(lab)}

    text = as_markdown(findings.values(), "emulator")
    assert tuple(findings) == POINTS
    assert {row.point for row in findings.values() if row.verdict is not Verdict.TOLD} == set(
        NOT_TOLD_HERE
    ), text
    for point, why in NOT_TOLD_HERE.items():
        assert why in findings[point].answer
    _check_answers({point: row.answer for point, row in findings.items()})
    assert emulator.jobs() == []
    assert len(emulator.deleted_jobs) == len(lab.jobs) == 11
    assert await _objects(storage) == []


async def _objects(storage: str) -> list[str]:
    async with httpx.AsyncClient() as client:
        answer = await client.get(f"{storage}/storage/v1/b/{SITE.bucket}/o")
    return [item["name"] for item in answer.json().get("items", [])]


def _check_answers(answers: dict[str, str]) -> None:
    """The probes read what the emulator is known to do, and not something else."""
    for point in (about_ends.CANCEL_TERM, about_ends.FINISH_TERM, about_ends.FAIL_TERM):
        assert answers[point].startswith("SIGTERM")
    assert "JOB_STATE_CANCELLED, code 1" in answers[about_ends.CANCEL_END]
    assert "workerpool0" in answers[about_ends.SINGLE_SPEC]
    assert answers[about_ends.FINISH_END] == "JOB_STATE_SUCCEEDED, no error"
    assert "JOB_STATE_FAILED, code 3" in answers[about_ends.FAIL_END]
    assert "workerpool1-0 exited with a non-zero status of 3" in answers[about_ends.FAIL_END]
    assert answers[about_ends.FAIL_STARTS] == "1"
    assert "of 1 s" in answers[about_ends.TIMEOUT_END]
    assert answers[about_ends.CRASH_STARTS].startswith("1, at 0.0 s; JOB_STATE_FAILED")
    assert "Resources are insufficient" in answers[about_places.STOCKOUT]
    assert answers[about_lists.MASK].startswith("honoured")
    assert "refused" not in answers[about_lists.FILTER]
    assert "never seen: none" in answers[about_lists.FRESH]


@pytest.mark.anyio
async def test_a_probe_that_breaks_costs_its_own_rows_only(lab: Lab, emulator: Emulator) -> None:
    """A table with holes is better than none; the jobs are gone all the same."""
    emulator.faults.add(
        CallFault(method="CreateCustomJob", code="PERMISSION_DENIED", message="not here", times=1)
    )

    findings = await run_smoke(lab)

    broken = [row for row in findings if row.verdict is Verdict.BROKEN]
    assert broken
    assert all("not here" in row.answer for row in broken)
    assert any(row.verdict is Verdict.TOLD for row in findings)
    assert emulator.jobs() == []


@pytest.mark.anyio
async def test_a_smoke_that_is_broken_off_leaves_nothing(
    lab: Lab, emulator: Emulator, storage: str
) -> None:
    """Whoever has enough of it goes on paying for nothing."""
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(run_smoke, lab)
            while not await _objects(storage):  # noqa: ASYNC110 - it is about a service
                await anyio.sleep(0.05)
            scope.cancel()

    assert lab.jobs
    assert emulator.jobs() == []
    assert await _objects(storage) == []


def test_the_table_is_markdown_whatever_a_message_holds() -> None:
    rows = [Finding("a point", "one | two\nthree"), untold("another", "nobody knows")]

    assert as_markdown(rows, "somewhere").splitlines() == [
        "| point | somewhere |",
        "|---|---|",
        "| a point | one \\| two three |",
        "| another | *not told:* nobody knows |",
    ]


def test_a_site_that_is_not_named_in_full_says_what_is_missing() -> None:
    given = {"PREFECT_VERTEX_CLOUD_PROJECT": "p", "PREFECT_VERTEX_CLOUD_LOCATION": "us-central1"}

    with pytest.raises(SetupError, match=r"PREFECT_VERTEX_CLOUD_BUCKET, \w+_SERVICE_ACCOUNT\."):
        site_of(given)


def test_a_site_is_named_by_the_environment() -> None:
    given = {"PROJECT": "p", "LOCATION": "l", "BUCKET": "b", "SERVICE_ACCOUNT": "s", "KEEP": "1"}

    site = site_of({f"PREFECT_VERTEX_CLOUD_{name}": value for name, value in given.items()})

    assert (site.project, site.image, site.keep) == ("p", "python:3.12-slim", True)


PLACE = {"PROJECT": "p", "LOCATION": "l", "BUCKET": "b", "SERVICE_ACCOUNT": "s@p"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("SCARCE", value) for value in ("a2", "a2:", "a2:L4", "a2:L4:", "a2:L4:0", "a2:L4:1:1")),
        *(("KEEP", value) for value in ("maybe", "2", "truee")),
        *(("BUCKET", value) for value in ("gs://", "gs://b/folder", "/")),
    ],
)
def test_a_wrong_word_of_a_site_is_refused_before_jobs_are_paid_for(name: str, value: str) -> None:
    given = {f"PREFECT_VERTEX_CLOUD_{key}": text for key, text in {**PLACE, name: value}.items()}
    with pytest.raises(SetupError, match=f"PREFECT_VERTEX_CLOUD_{name} is "):
        site_of(given)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(("KEEP", value, True) for value in ("1", "true", "Yes")),
        *(("KEEP", value, False) for value in ("", "0", "no", "FALSE")),
        *(("BUCKET", value, "b") for value in ("b", "gs://b", "gs://b/")),
        ("SCARCE", "a2-highgpu-1g:NVIDIA_TESLA_A100:1", "a2-highgpu-1g:NVIDIA_TESLA_A100:1"),
    ],
)
def test_a_site_s_words_are_understood(name: str, value: str, expected: object) -> None:
    given = {f"PREFECT_VERTEX_CLOUD_{key}": text for key, text in {**PLACE, name: value}.items()}
    assert getattr(site_of(given), name.lower()) == expected
