"""Prefect's own user interface in a headless Chromium, on a whole installation.

The browser is the system's; none is ever fetched, and no request leaves the machine.
`SCREENSHOTS=docs/images` (make screenshots) keeps the pictures of README and docs as well.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from tests.e2e.installation import Installation, installed

from prefect_vertex.cli.local import free_port
from prefect_vertex.emulator.control_client import ControlClient

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page, Response, Route, ViewportSize

Photograph = Callable[..., None]
"""Of a name; perhaps also of a height in pixels, and of what is to stand at the top."""

PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)
VIEWPORT: ViewportSize = {"width": 1280, "height": 800}
PATIENCE_MS = 60_000
"""For one thing to appear; a page takes seconds, and a server whose database is busy many more."""

FIELDS = """body => [...body.querySelectorAll("input, textarea, .cm-content")]
    .map(each => `${each.name || each.id}: ${each.value ?? each.innerText}`)"""

LAST = 30
"""Of a page's requests that a failure is shown with."""

LARGEST = 200_000
"""Bytes of a picture in the documentation."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a browser where there is none."""
    lacking = ""
    if importlib.util.find_spec("playwright") is None:
        lacking = "playwright is not installed: pip install playwright (no browser of its own)"
    elif CHROMIUM is None:
        lacking = "there is no Chromium: apt-get install chromium"
    for item in items:
        if "browser" in item.path.parts:
            item.add_marker(pytest.mark.browser)
            if lacking:
                item.add_marker(pytest.mark.skip(reason=lacking))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the page showed, and what it was told by its server."""
    report = yield
    found: dict[str, Any] = item.funcargs if isinstance(item, pytest.Function) else {}
    if report.failed and "page" in found and not found["page"].is_closed():
        told = [*found["heard"][-LAST:], *found["script_errors"]]
        report.sections += [
            ("the page", _shown(found["page"])),
            ("what its server answered, and its scripts' errors", "\n".join(told)),
        ]
    return report


def _shown(page: Page) -> str:
    """Text and fields of a page, which may have crashed."""
    from playwright.sync_api import Error

    body = page.locator("body")
    try:
        return "\n".join([body.inner_text(), *body.evaluate(FIELDS)])
    except Error as error:
        return str(error)


@pytest.fixture(scope="module", autouse=True)
def _module_ends(installation: Installation) -> Iterator[None]:
    """End a module's workers, and Prefect's threads, which hold sockets until they are told."""
    yield
    installation.end_workers()
    EventsWorker.drain_all(timeout=5)
    APILogWorker.drain_all(timeout=5)


@pytest.fixture(scope="session")
def control_port() -> int:
    """Where the emulator takes faults."""
    return free_port()


@pytest.fixture(scope="session")
def installation(control_port: int) -> Iterator[Installation]:
    """Server, emulator and storage; each test brings its own pool."""
    with installed("browser", control_port=control_port) as found:
        yield found


@pytest.fixture
def cloud(installation: Installation, control_port: int) -> ControlClient:
    """The emulator's faults."""
    return ControlClient(f"http://127.0.0.1:{control_port}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's browser; for a module, because Playwright's loop would stand in others' way."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # Its sandbox cannot be had in a container, nor by root.
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def script_errors() -> list[str]:
    """What the page's scripts have failed with; the run's graph does so whenever it is left."""
    return []


@pytest.fixture
def heard() -> list[str]:
    """What a page asked its server, but for reads that were answered, each with its status."""
    return []


@pytest.fixture
def page(
    browser: Browser, installation: Installation, script_errors: list[str], heard: list[str]
) -> Iterator[Page]:
    """A page that reaches the installation only."""
    context = browser.new_context(
        base_url=installation.stack.ui_url,
        viewport=VIEWPORT,
        color_scheme="light",
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
    )

    def stay_here(route: Route) -> None:
        if route.request.url.startswith(installation.stack.ui_url):
            route.continue_()
        else:
            route.abort()

    def hear(response: Response) -> None:
        request = response.request
        if request.method != "GET" or not response.ok:
            heard.append(f"{request.method} {request.url} {response.status}")

    context.route("**/*", stay_here)
    context.on("response", hear)
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    opened.on("pageerror", lambda error: script_errors.append(str(error)))
    yield opened
    context.close()


@pytest.fixture
def photograph(page: Page) -> Photograph:
    """Keep what the page shows as a picture of the documentation, when that was asked for."""
    folder = os.environ.get("SCREENSHOTS")

    def keep(name: str, height: int = 800, top: Locator | None = None) -> None:
        if not folder:
            return
        page.set_viewport_size({**VIEWPORT, "height": height})
        if top is not None:
            top.evaluate("element => element.scrollIntoView()")
        page.mouse.move(0, 0)
        page.evaluate("document.activeElement.blur()")
        path = Path(folder) / f"{name}.png"
        page.screenshot(path=path, animations="disabled", caret="hide")
        page.set_viewport_size(VIEWPORT)
        assert path.stat().st_size < LARGEST, f"{path} is too large for the documentation"

    return keep
