"""The work pool's edit page is a form that explains itself; what it saves is what is planned."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from prefect.client.schemas.actions import BlockDocumentCreate
from tests.browser.pages import send

from prefect_vertex.cli.local import program
from prefect_vertex.planning.hardware import GPU_TYPES

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator, Page
    from tests.e2e.installation import Installation

    Photograph = Callable[..., None]

POOL = "gpu-forecast"
IMAGE = "us-central1-docker.pkg.dev/my-project/flows/forecast:1"
KEY = {"type": "service_account", "project_id": "of-the-block", "private_key": "BEGIN KEY"}


@pytest.fixture(scope="module")
def block(installation: Installation) -> str:
    """A credentials block, by its id."""
    client = installation.client
    block_type = client.read_block_type_by_slug("gcp-credentials")
    schema = client.get_most_recent_block_schema_for_block_type(block_type.id)
    assert schema is not None
    document = BlockDocumentCreate(
        name="forecasting",
        data={"service_account_info": KEY},
        block_schema_id=schema.id,
        block_type_id=block_type.id,
    )
    return str(client.create_block_document(document).id)


@pytest.fixture(scope="module")
def pool(installation: Installation) -> str:
    """A pool of the usual template."""
    return installation.pool(POOL, image=IMAGE)


@pytest.fixture
def template(installation: Installation, page: Page, pool: str, block: str) -> dict[str, Any]:
    """The base job template of the pool, whose edit page is open."""
    page.goto("/v2/work-pools")
    page.get_by_role("link", name=pool).first.click()
    # The list, which has such buttons too, stays until the pool's page is there.
    page.get_by_role("tab", name="Workers").wait_for()
    page.get_by_role("button", name="Open menu").first.click()
    page.get_by_role("menuitem", name="Edit").click()
    page.get_by_text("Command (Optional)", exact=True).wait_for()
    return _template(installation)


def _template(installation: Installation) -> dict[str, Any]:
    found: dict[str, Any] = installation.client.read_work_pool(POOL).base_job_template
    return found


def _titles(properties: dict[str, Any]) -> Iterator[str]:
    """Every title of the form in its order, those of a mapping's keys included."""
    for each in sorted(properties.values(), key=lambda schema: schema["position"]):
        yield each["title"]
        yield from _titles(each.get("properties", {}))


def _field(page: Page, title: str) -> Locator:
    """One field of the form, with its title, its tabs and what one sets it with."""
    label = page.get_by_text(f"{title} (Optional)", exact=True)
    return page.locator("div.group").filter(has=label).last


def _choose(page: Page, title: str, choice: str) -> list[str]:
    """Choose from a field's list; returns all that was offered."""
    from playwright.sync_api import expect

    _field(page, title).get_by_role("button", name=re.compile("^Select")).click()
    offered = page.get_by_role("option").all_inner_texts()
    page.get_by_role("option", name=choice, exact=True).click()
    # A list that still closes takes the focus back, and with it closes the next one.
    expect(page.get_by_role("option")).to_have_count(0)
    return offered


def test_every_variable_has_its_title_and_description_in_the_form_s_order(
    page: Page, template: dict[str, Any], script_errors: list[str]
) -> None:
    properties = template["variables"]["properties"]
    labels = [text for text in page.locator("form label").all_inner_texts() if text != "Name"]
    texts = set(page.locator("form p").all_inner_texts())

    titles = [f"{title} (Optional)" for title in _titles(properties)]
    assert labels[-len(titles) :] == titles
    assert {each["description"] for each in properties.values()} <= texts
    assert script_errors == []


def test_what_is_chosen_in_the_form_is_stored_and_planned(
    page: Page,
    installation: Installation,
    template: dict[str, Any],
    block: str,
    photograph: Photograph,
) -> None:
    """Choices are offered, the credentials block is picked, and nothing else of it changes."""
    assert _field(page, "GPU Type").get_by_role("tab").all_inner_texts() == [
        "Choice",
        "Text",
        "None",
    ]
    assert _choose(page, "Hardware", "gpu") == ["cpu", "gpu"]
    assert _choose(page, "GPU Type", "L4") == list(GPU_TYPES)
    assert _choose(page, "Scheduling Strategy", "SPOT") == ["STANDARD", "SPOT", "FLEX_START"]
    assert "forecasting" in _choose(page, "GCP Credentials", "forecasting")
    page.get_by_label("Worker Count (Optional)").fill("3")
    heading = page.get_by_role("heading", name="Base Job Template")
    photograph("pool-form", height=1136, top=heading)
    send(page, "Save", ending=f"/work_pools/{POOL}")
    page.wait_for_url(f"**/work-pool/{POOL}*")

    expected = deepcopy(template)
    chosen = {
        "hardware": "gpu",
        "gpu_type": "L4",
        "strategy": "SPOT",
        "credentials": {"$ref": {"block_document_id": block}},
        "worker_count": 3,
    }
    for name, value in chosen.items():
        expected["variables"]["properties"][name]["default"] = value
    assert _template(installation) == expected

    command = [*program("prefect-vertex"), "plan", "--pool", POOL]
    (planned,) = json.loads(subprocess.check_output(command, env=installation.stack.env))
    pools = planned["custom_job"]["job_spec"]["worker_pool_specs"]
    assert planned["parent"] == "projects/of-the-block/locations/us-central1"
    assert [pool["replica_count"] for pool in pools] == ["1", "2"]
    assert {pool["machine_spec"]["machine_type"] for pool in pools} == {"g2-standard-8"}
