"""The page of a run, its bill and the price list."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from prefect_vertex.chronicle.bill import add_up
from prefect_vertex.chronicle.page import as_markdown, headline, write_page
from prefect_vertex.chronicle.prices import PriceList, parse_prices
from prefect_vertex.errors import SetupError
from prefect_vertex.lifecycle.snapshot import PoolMachines
from prefect_vertex.reconciler.prices import read_prices

Build = Callable[..., Any]
LIST = {
    "date": "2026-10-07",
    "prices": [
        {"location": "us-central1", "machine_type": "n1-standard-4", "per_hour": 2},
        {"location": "us-central1", "accelerator_type": "NVIDIA_TESLA_T4", "per_hour": 0.5},
    ],
}


@pytest.fixture
def prices() -> PriceList:
    """A machine for 2 an hour, and half of that for two accelerators more."""
    return parse_prices(json.dumps(LIST), "a list")


def test_machine_hours_count_each_replica_from_its_jobs_start(
    told: Build, a_job: Build, machines: Build, prices: PriceList
) -> None:
    """The estimate is a range, because nobody says whether the wait before is billed."""
    job = a_job("SUCCEEDED", started=1800, ended=3600, machines=machines(4))
    bill = add_up(told(job), prices)

    assert bill.hours == {"n1-standard-4": 2.0}
    assert (bill.low, bill.high) == (4.0, 8.0)
    assert bill.priced
    assert bill.unpriced == ()


def test_a_job_that_never_ran_costs_nothing_at_least(
    told: Build, a_job: Build, prices: PriceList
) -> None:
    bill = add_up(told(a_job("FAILED", ended=1800, error=(8, "x"))), prices)

    assert (bill.low, bill.high) == (0.0, 1.0)


def test_a_start_before_the_creation_is_no_wait_below_nought(
    told: Build, a_job: Build, prices: PriceList
) -> None:
    """Two clocks made the times; the estimate's lower figure is never above its upper."""
    chronicle = told(a_job("SUCCEEDED", created=600, started=0, ended=4200))
    bill = add_up(chronicle, prices)

    assert (bill.hours, bill.low, bill.high) == ({"n1-standard-4": 1.0}, 2.0, 2.0)
    assert "| completed | 0 s | 1 h 0 min |" in write_page(chronicle, prices)


def test_a_job_that_succeeded_without_a_start_has_run_nobody_knows_how_long(
    told: Build, a_job: Build, prices: PriceList
) -> None:
    page = write_page(told(a_job("SUCCEEDED", ended=3600)), prices)

    assert "| completed | unknown | unknown |" in page
    assert "n1-standard-4: 0.00, without those of unknown start." in page
    assert "USD 0.00 to 2.00" in page


def test_accelerators_are_priced_with_their_machine(
    told: Build, a_job: Build, machines: Build, prices: PriceList
) -> None:
    pools = machines(accelerator_type="NVIDIA_TESLA_T4", accelerator_count=2)
    bill = add_up(told(a_job("SUCCEEDED", started=0, ended=3600, machines=pools)), prices)

    assert bill.hours == {"n1-standard-4 + 2 NVIDIA_TESLA_T4": 1.0}
    assert bill.low == 3.0


UNPRICED: dict[str, tuple[dict[str, Any], str]] = {
    "another location": ({"location": "asia-east1"}, "n1-standard-4 in asia-east1"),
    "Spot": ({"strategy": "SPOT"}, "n1-standard-4 with SPOT"),
    "Flex-start": ({"strategy": "FLEX_START"}, "n1-standard-4 with FLEX\\_START"),
    "a job that is gone": ({"machines": ()}, "the machines of a job that is gone"),
    "another accelerator": (
        {
            "machines": (
                PoolMachines(
                    pool=0,
                    replicas=1,
                    machine_type="n1-standard-4",
                    accelerator_type="NVIDIA_L4",
                    accelerator_count=1,
                ),
            )
        },
        "n1-standard-4 + 1 NVIDIA\\_L4 in us-central1",
    ),
}


@pytest.mark.parametrize(("fields", "told_as"), UNPRICED.values(), ids=UNPRICED)
def test_what_the_list_does_not_cover_is_not_priced(
    told: Build, a_job: Build, prices: PriceList, fields: dict[str, Any], told_as: str
) -> None:
    chronicle = told(a_job("SUCCEEDED", started=0, ended=60, **fields))
    page = write_page(chronicle, prices)

    assert f"**Estimated cost**: none. Not priced: {told_as}." in page


def test_a_page_tells_where_what_and_how_long(
    told: Build, a_job: Build, machines: Build, prices: PriceList
) -> None:
    page = write_page(
        told(
            a_job("FAILED", ended=240, error=(8, "no room | here\nnow")),
            a_job("SUCCEEDED", attempt=2, created=300, started=360, ended=3960),
        ),
        prices,
    )

    assert "| 1 | us-central1 | no capacity | 4 min 0 s | no | 2026-01-01 12:00:00 |" in page
    assert "- attempt 1, us-central1: " in page
    assert "no room \\| here now\n" in page
    assert "| 2 | us-central1 | completed | 1 min 0 s | 1 h 0 min | 2026-01-01 12:05:00 |" in page
    assert "- attempt 2: `projects/123/locations/us-central1/customJobs/4002` ([job](" in page
    assert "- worker pool 0: 1 replica on n1-standard-4" in page
    assert "USD 2.00 to 2.17, at list prices of 2026-10-07" in page
    assert "https://console.cloud.google.com/" in page
    assert "As of" not in page


LIVE = {
    "an image": "![x](https://evil.example/x.png)",
    "a link": "[press here](https://evil.example)",
    "a link by reference": "[press here][1] [1]: https://evil.example",
    "an address": "see https://evil.example or www.evil.example or a@evil.example",
    "an address in brackets": "<https://evil.example>",
    "a tag": "<img src=x onerror=y>",
    "a name in bold": "File x.py, in __init__ of *y* and ~~z~~",
    "code": "`x` ``y``",
    "an entity": "&lt;b&gt; &amp;",
    "an escape": "\\[x](y) \\\\*z*",
}


@pytest.mark.parametrize("text", LIVE.values(), ids=LIVE)
def test_what_a_replica_says_is_shown_as_it_was_said(text: str) -> None:
    """Its words make no image, no link and no emphasis, and lose nothing."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    page = parser.parse(f"- attempt 1: {as_markdown(text)}")
    inline = [child for token in page for child in token.children or ()]

    assert {token.type for token in inline} == {"text"}
    assert "".join(token.content for token in inline) == f"attempt 1: {text}"
    assert "https://" not in as_markdown(text)


def test_no_words_on_a_page_show_a_password_in_an_address() -> None:
    text = "cannot reach postgres://scott:hunter2@db/forecasts"

    assert as_markdown(text) == "cannot reach postgres\\://…\\@db/forecasts"


def test_a_replicas_words_and_the_runs_name_are_dead_text(
    told: Build, a_job: Build, a_run: Build
) -> None:
    run = replace(a_run(), name="![n](https://evil.example)")
    message = "exited with a non-zero status of 7: ![x](https://evil.example/x.png)"
    chronicle = told(a_job("FAILED", ended=60, error=(3, message)), run=run)

    assert "!\\[x\\](https\\://evil" in write_page(chronicle, None)
    assert "![n](https://evil.example) (" in headline(chronicle)


def test_a_shell_is_linked_while_its_job_lives(told: Build, a_job: Build) -> None:
    shells = {"workerpool0-0": "abc.aiplatform-notebook.googleusercontent.com"}
    live = write_page(told(a_job(started=60, web_access_uris=shells)), None)
    ended = a_job("SUCCEEDED", started=60, ended=600, web_access_uris=shells)

    assert "- [workerpool0-0](https://abc.aiplatform-notebook.googleusercontent.com)" in live
    assert "Web shells" not in write_page(told(ended), None)


def test_an_emulators_jobs_have_no_pages_in_the_console(told: Build, a_job: Build) -> None:
    assert "console.cloud" not in write_page(told(a_job()), None, has_console=False)


def test_the_folder_of_the_launch_records_is_named_once_there_is_one(
    told: Build, a_job: Build, a_run: Build
) -> None:
    folder = "gs://staging/team/launches/a-run"
    page = write_page(told(a_job(), run=a_run(records=folder)), None)
    html = MarkdownIt().render(page)

    assert html.count(f"<strong>Launch records</strong>: {folder}/") == 1
    assert "Launch records" not in write_page(told(a_job()), None)


def test_the_headline_is_one_sentence(told: Build, a_job: Build) -> None:
    assert headline(told(a_job(started=60))) == (
        "Flow run keen-otter (Running): 1 attempt, the last one in us-central1: running."
    )
    assert headline(told()) == "Flow run keen-otter (Running): no attempt yet."


def test_the_packaged_list_is_dated_and_says_where_it_is_from() -> None:
    prices = read_prices(None)

    assert prices.day >= date(2026, 10, 7)
    assert prices.source
    assert prices.machines["us-central1", "n1-standard-4"].per_hour == pytest.approx(0.2185, 1e-3)
    assert prices.machines["us-central1", "n1-standard-8"].derived


def test_a_list_of_ones_own_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({**LIST, "currency": "EUR"}))
    prices = read_prices(str(path))

    assert (prices.currency, len(prices.machines), len(prices.accelerators)) == ("EUR", 1, 1)


def test_a_list_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError) as caught:
        read_prices(str(tmp_path / "none.json"))

    assert "none.json cannot be read" in str(caught.value)
    assert "PREFECT_INTEGRATIONS_VERTEX_PRICES" in str(caught.value)


WRONG: dict[str, tuple[object, str]] = {
    "no list": ({"date": "2026-10-07"}, "it has no list of prices"),
    "no date": ({"prices": []}, "its date is None"),
    "no object": ({**LIST, "prices": [3]}, "prices[0] is 3"),
    "no place": ({**LIST, "prices": [{"machine_type": "x", "per_hour": 1}]}, "needs a location"),
    "both": (
        {**LIST, "prices": [{"location": "l", "machine_type": "x", "accelerator_type": "y"}]},
        "a machine_type or an accelerator_type",
    ),
    "a text": (
        {**LIST, "prices": [{"location": "l", "machine_type": "x", "per_hour": "1"}]},
        "prices[0].per_hour is '1'",
    ),
    "below zero": (
        {**LIST, "prices": [{"location": "l", "machine_type": "x", "per_hour": -1}]},
        "prices[0].per_hour is -1",
    ),
}


@pytest.mark.parametrize(("content", "fault"), WRONG.values(), ids=WRONG)
def test_a_wrong_list_is_refused_with_the_entry_at_fault(content: object, fault: str) -> None:
    with pytest.raises(SetupError) as caught:
        parse_prices(json.dumps(content), "a.json")

    assert fault in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[" * 100_000], ids=["cut off", "too deep"])
def test_a_list_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="it is not JSON"):
        parse_prices(text, "a.json")
