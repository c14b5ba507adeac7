"""Addresses are shown without the name and password that one may hold."""

from __future__ import annotations

import httpx
import pytest

from prefect_vertex.planning.addresses import hidden_in, shown_url, told


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:hunter2@host:4200/api", "http://…@host:4200/api"),
        ("http://me:hun/te@r2@host/api", "http://…@host/api"),
        ("me:hunter2@host/api", "…@host/api"),
        ("https://host/api", "https://host/api"),
    ],
)
def test_an_address_is_shown_without_its_user(url: str, shown: str) -> None:
    """However it is written: who mistypes it must not see the password in the message either."""
    assert shown_url(url) == shown


def test_an_error_is_told_in_its_first_line_and_without_a_password() -> None:
    """What the HTTP client says quotes the address with all that is in it."""
    request = httpx.Request("GET", "http://me:hun%40ter2@host/api/a@b")
    with pytest.raises(httpx.HTTPStatusError) as caught:
        httpx.Response(401, request=request).raise_for_status()

    assert told(caught.value) == "Client error '401 Unauthorized' for url 'http://…@host/api/a@b'"


@pytest.mark.parametrize("password", ["hun'ter2", 'hun"ter2', "hun ter2", "hun@ter2", "hun<ter2>"])
def test_whatever_password_the_http_client_takes_is_neither_told_nor_shown(password: str) -> None:
    """It escapes most of these in what it quotes, but no apostrophe."""
    url = f"http://me:{password}@host/api"
    request = httpx.Request("GET", url)
    with pytest.raises(httpx.HTTPStatusError) as caught:
        httpx.Response(401, request=request).raise_for_status()

    assert told(caught.value) == "Client error '401 Unauthorized' for url 'http://…@host/api'"
    assert hidden_in(url) == (url, f"me:{password}", password)


def test_what_is_hidden_of_an_address_is_it_its_user_and_the_password() -> None:
    assert hidden_in("http://me:hunter2@host/api") == (
        "http://me:hunter2@host/api",
        "me:hunter2",
        "hunter2",
    )
    assert hidden_in("http://host/api") == hidden_in("http://host/a@b") == ()
