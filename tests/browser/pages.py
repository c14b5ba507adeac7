"""What a person does with a page of Prefect's user interface, as often as it takes."""

from __future__ import annotations

import json
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response

ATTEMPTS = 4


def send(page: Page, button: str, *, ending: str) -> Response:
    """Press a button that writes to the server, again where its database was too busy.

    Prefect's client asks again after a 503, its user interface leaves that to who uses it.

    Args:
        page: The page with the button.
        button: The button's name.
        ending: How the address ends that the page is to write to.

    Returns:
        The server's answer.
    """
    for _ in range(ATTEMPTS):
        with page.expect_response(lambda answer: _is_write(answer, ending)) as awaited:
            page.get_by_role("button", name=button).click()
        answer = awaited.value
        if answer.status != HTTPStatus.SERVICE_UNAVAILABLE:
            break
    assert answer.ok, f"{answer.request.method} {answer.url}: {answer.status} {answer.text()}"
    return answer


def _is_write(answer: Response, ending: str) -> bool:
    return answer.request.method != "GET" and answer.url.endswith(ending)


def rewrite(page: Page, values: dict[str, Any]) -> None:
    """Have the page's editor hold these values and nothing else, as JSON."""
    editor = page.locator(".cm-content")
    for _ in range(ATTEMPTS):
        editor.click()
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.insert_text(json.dumps(values, indent=2))
        # A page that is drawn anew meanwhile drops the selection, and the text joins the old one.
        with suppress(json.JSONDecodeError):
            if json.loads(editor.inner_text()) == values:
                return
    raise AssertionError(f"The editor holds {editor.inner_text()!r}")
