"""Gateways share connections, credentials and budgets, and say what is missing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from google.auth import credentials as google_credentials
from google.auth import exceptions as google_auth_exceptions

from prefect_vertex.errors import (
    AccessDeniedError,
    NamingError,
    ServiceUnavailableError,
    SetupError,
)
from prefect_vertex.planning.naming import ResourceName
from prefect_vertex.planning.spec import Target
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.credentials import VertexCredentials
from prefect_vertex.vertex.gateway import JobGateway
from prefect_vertex.vertex.gateways import Gateways, Identity
from prefect_vertex.vertex.service import Deadlines

pytestmark = pytest.mark.anyio

auth_errors: Any = google_auth_exceptions  # has no types

NAME = ResourceName("p", "us-central1", "7")
BLOCK = {
    "service_account_info": {"client_email": "e@p.example", "project_id": "p", "private_key": "k"}
}


class _Own(google_credentials.Credentials):
    """Credentials whose token is made as a test says."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._refresh = refresh

    def refresh(self, request: Any) -> None:
        self._refresh()
        self.token = "t"


@pytest.fixture
async def real_gateways(make_gateways: Any) -> Callable[..., Gateways]:
    """Make Gateways for the real service, whose own credentials refresh as told."""

    def make(refresh: Callable[[], None], **overrides: Any) -> Gateways:
        gateways: Gateways = make_gateways("", environ={}, **overrides)
        own = gateways._credentials[""]
        own.loaded = VertexCredentials(
            google=_Own(refresh), project="adc-project", service_account_email="w@p.example"
        )
        return gateways

    return make


def _raise(error: Exception) -> Callable[[], None]:
    def refresh() -> None:
        raise error

    return refresh


async def test_a_target_has_one_gateway_which_keeps_the_protocol(
    make_gateways: Any, target: Target
) -> None:
    gateways = make_gateways("127.0.0.1:1")

    gateway: JobGateway = gateways.for_target(target)

    assert gateways.for_target(Target("p", "us-central1")) is gateway
    assert gateway.target == target


async def test_a_budget_belongs_to_project_and_location_whatever_the_credentials(
    make_gateways: Any,
) -> None:
    gateways = make_gateways("127.0.0.1:1")
    one = gateways.for_target(Target("p", "us-central1"))
    other_credentials = gateways.for_target(Target("p", "us-central1", "k"))
    other_place = gateways.for_target(Target("p", "us-east1"))

    assert other_credentials.budgets is one.budgets
    assert other_place.budgets is not one.budgets


async def test_budgets_run_at_the_figures_given(make_gateways: Any, target: Target) -> None:
    gateways = make_gateways("127.0.0.1:1", submissions_per_minute=30, reads_per_minute=300)

    budgets = gateways.budgets(target)

    assert budgets.submissions.rate_per_minute == 30
    assert budgets.reads.rate_per_minute == 300


async def test_a_location_that_holds_no_jobs_is_refused_before_anything_is_opened(
    make_gateways: Any,
) -> None:
    with pytest.raises(NamingError):
        make_gateways("127.0.0.1:1").for_target(Target("p", "global"))


async def test_an_address_that_is_none_is_refused_at_once(make_gateways: Any) -> None:
    with pytest.raises(SetupError, match=EMULATOR_VARIABLE):
        make_gateways("http://x")


async def test_an_emulator_needs_no_credentials_whatever_the_target_names(
    job_service: Any, make_gateways: Any, a_job: Any
) -> None:
    job_service.answer("GetCustomJob", a_job(7))
    gateways = make_gateways(job_service.address)

    seen = await gateways.for_target(Target("p", "us-central1", "unheard-of")).describe(NAME)

    assert seen.resource_name.key == NAME.key


async def test_gateways_that_were_closed_open_again(
    job_service: Any, make_gateways: Any, target: Target, a_job: Any
) -> None:
    job_service.answer("GetCustomJob", a_job(7))
    gateways = make_gateways(job_service.address)
    await gateways.for_target(target).describe(NAME)
    await gateways.aclose()

    await gateways.for_target(target).describe(NAME)

    assert len(job_service.requests["GetCustomJob"]) == 2


async def test_credentials_that_nobody_registered_are_refused(
    real_gateways: Any,
) -> None:
    gateway = real_gateways(lambda: None).for_target(Target("p", "us-central1", "lost"))

    with pytest.raises(AccessDeniedError, match="lost"):
        await gateway.describe(NAME)


async def test_a_refused_token_is_said_before_anything_is_sent(
    real_gateways: Any, target: Target
) -> None:
    refusal = auth_errors.RefreshError("invalid_grant: account deleted")
    gateway = real_gateways(_raise(refusal)).for_target(target)

    with pytest.raises(AccessDeniedError, match="invalid_grant"):
        await gateway.describe(NAME)


async def test_a_token_service_that_is_away_is_tried_again(
    real_gateways: Any, target: Target
) -> None:
    tries: list[int] = []

    def refresh() -> None:
        tries.append(1)
        raise auth_errors.TransportError("no route to host")

    with pytest.raises(ServiceUnavailableError, match="no route"):
        await real_gateways(refresh).for_target(target).describe(NAME)

    assert len(tries) == 4


async def test_a_hung_token_service_ends_with_the_deadline(
    real_gateways: Any, target: Target
) -> None:
    release = threading.Event()
    hasty = Deadlines(create_seconds=0.1, call_seconds=0.1)
    gateway = real_gateways(release.wait, deadlines=hasty).for_target(target)
    try:
        with pytest.raises(ServiceUnavailableError, match="no access token within"):
            await gateway.describe(NAME)
    finally:
        release.set()


async def test_callers_who_need_a_token_at_once_fetch_it_once(real_gateways: Any) -> None:
    made: list[int] = []
    credentials = real_gateways(lambda: made.append(1))._credentials[""]

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(credentials.refresh)

    assert len(made) == 1


async def test_a_block_says_in_whose_name_and_is_the_same_one_every_time(
    make_gateways: Any,
) -> None:
    gateways = make_gateways("", environ={})

    identity = await gateways.identity(BLOCK)

    assert identity == Identity(project="p", service_account_email="e@p.example")
    assert gateways.register(BLOCK) == gateways.register(BLOCK) != ""


async def test_the_workers_own_identity_is_that_of_its_credentials(real_gateways: Any) -> None:
    identity = await real_gateways(lambda: None).identity({"project": "wanted"})

    assert identity == Identity(project="wanted", service_account_email="w@p.example")


async def test_with_an_emulator_nobody_is_asked_for_an_identity(make_gateways: Any) -> None:
    environ = {EMULATOR_VARIABLE: "127.0.0.1:1", "GOOGLE_CLOUD_PROJECT": "demo"}

    identity = await make_gateways("", environ=environ).identity(None)

    assert identity == Identity(project="demo")
