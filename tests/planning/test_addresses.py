"""Addresses are shown without the name and password that one may hold."""

from __future__ import annotations

import time

import httpx
import pytest

from prefect_vertex.planning.addresses import (
    hidden_in,
    passwords_in,
    shown_url,
    told,
    trace_of,
    without_user,
)


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


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("postgres://scott:tiger@db/x", ["scott:tiger"]),
        ("redis://:tiger@db", [":tiger"]),
        ("postgres://scott:ti/g'er@db:5432/x", ["scott:ti/g'er"]),
        ("http://a:b@h:1,socks5://c:d@h", ["a:b", "c:d"]),
        ("--proxy http://a:b@h --index git+https://ghp_1@github.com/x", ["a:b", "ghp_1"]),
        ("ssh://git@github.com/x", []),
        ("http://proxy:3128/a@b", []),
        ("gs://bucket/a:b@c", []),
        ("http://[::1]:4200/a@b", []),
        ("somebody@example.com:x", []),
        ("postgres://u:{{prefect.blocks.secret.db}}@h", []),
    ],
)
def test_who_is_named_with_a_password_is_found_in_any_text(text: str, found: list[str]) -> None:
    assert list(passwords_in(text)) == found


def test_a_port_before_a_path_is_no_password() -> None:
    assert without_user("http://host:80/a@b, db://u:p/w@h") == "http://host:80/a@b, db://…@h"


def test_a_trace_tells_the_place_and_the_causes_but_no_password() -> None:
    request = httpx.Request("GET", "http://me:hunter2@host/api")

    def ask() -> None:
        try:
            httpx.Response(401, request=request).raise_for_status()
        except httpx.HTTPStatusError as error:
            raise RuntimeError(str(error)) from error

    with pytest.raises(RuntimeError) as caught:
        ask()

    trace = trace_of(caught.value)
    assert "hunter2" not in trace
    assert "in ask" in trace
    assert trace.count("for url 'http://…@host/api'") == 2


@pytest.mark.parametrize("address", ["tcp://node:x,", "://", "http://", "redis://me:hunter2@h,"])
def test_a_long_list_of_addresses_is_read_in_no_time(address: str) -> None:
    """A worker that reads one does nothing else meanwhile: seconds would cost other runs."""
    text = address * (100_000 // len(address))
    began = time.process_time()
    shown = without_user(text)
    found = [*passwords_in(text)]

    assert time.process_time() - began < 5
    assert bool(found) == ("hunter2" in address)
    assert "hunter2" not in shown
