"""The drawn timeline: what stands in it, and that it stays small and legal."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import datetime
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from prefect_vertex.chronicle.chronicle import Start, Stay
from prefect_vertex.chronicle.svg import COLOURS, GREY, RED, as_picture, draw
from prefect_vertex.chronicle.timeline import MAX_ATTEMPTS, MAX_ROWS, Stage, lay_out
from prefect_vertex.lifecycle.run import RunState

At = Callable[[float], datetime]
Build = Callable[..., Any]
SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - our own


def drawn(chronicle: Any, title: str = "A title") -> ET.Element:
    return parsed(draw(lay_out(chronicle), title=title, description="A description"))


def contrast(colour: str, ground: str) -> float:
    """WCAG 2.1's contrast ratio."""

    def light(text: str) -> float:
        parts = [int(text[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(colour), light(ground)))
    return (high + 0.05) / (low + 0.05)


def test_each_replica_has_its_own_start(told: Build, a_job: Build, machines: Build, at: At) -> None:
    states = [Stay(state=RunState.PENDING, name="Provisioning", entered_at=at(30))]
    starts = [Start(1, 0, at(80)), Start(1, 1, at(95))]
    job = a_job(started=100, machines=machines(2))
    (lane,) = lay_out(told(job, states=states, starts=starts)).lanes

    assert [row.label for row in lane.rows] == ["workerpool0-0", "workerpool1-0"]
    for row, begin in zip(lane.rows, (80, 95), strict=True):
        assert [(bar.stage, bar.begin) for bar in row.bars] == [
            (Stage.QUEUED, at(0)),
            (Stage.PROVISIONING, at(30)),
            (Stage.RUNNING, at(begin)),
        ]
        assert row.bars[-1].end == at(3600)


def test_many_replicas_are_one_row_for_each_pool(
    told: Build, a_job: Build, machines: Build, at: At
) -> None:
    """From the first start of the group to its last some of it runs."""
    starts = [Start(1, rank, at(100 + rank)) for rank in range(50)]
    job = a_job(started=100, machines=machines(50))
    (lane,) = lay_out(told(job, starts=starts)).lanes
    primary, others = lane.rows

    assert (primary.label, others.label) == ("workerpool0-0", "workerpool1, all 49")
    assert [(bar.stage, bar.begin) for bar in others.bars] == [
        (Stage.QUEUED, at(0)),
        (Stage.STARTING, at(101)),
        (Stage.RUNNING, at(149)),
    ]


def test_a_start_before_its_job_is_drawn_from_the_job_on(
    told: Build, a_job: Build, machines: Build, at: At
) -> None:
    """By another clock a group may have begun before its job was created."""
    starts = [Start(1, 1, at(-20)), Start(1, 2, at(-5))]
    (lane,) = lay_out(told(a_job(machines=machines(40)), starts=starts)).lanes
    bars = [bar for row in lane.rows for bar in row.bars]

    assert bars
    assert all(at(0) <= bar.begin < bar.end for bar in bars)


def test_a_drawing_is_small_whatever_it_shows(told: Build, a_job: Build, machines: Build) -> None:
    """The number of replicas is one that only a request could hold."""
    jobs = [
        a_job(
            "FAILED", attempt=number, created=number, ended=number + 0.5, machines=machines(2**60)
        )
        for number in range(1, 300)
    ]
    timeline = lay_out(told(*jobs))

    assert len(timeline.lanes) == MAX_ATTEMPTS + 1
    assert "287 more attempts" in timeline.lanes[3].title
    assert sum(len(lane.rows) for lane in timeline.lanes) <= MAX_ROWS
    assert len(draw(timeline, title="x", description="y")) < 30_000


def test_a_failed_attempt_is_marked_where_it_ended(told: Build, a_job: Build) -> None:
    root = drawn(told(a_job("FAILED", ended=1800, error=(8, "x")), a_job(attempt=2, created=1900)))
    marks = [each for each in root.iter(f"{SVG}rect") if each.get("fill") == RED]

    assert len(marks) == 2  # the attempt's and the legend's
    assert float(marks[0].get("x", "")) == pytest.approx(148 + (760 - 148 - 28) / 2 - 2, abs=0.2)


def test_a_screen_reader_is_told_what_is_drawn(told: Build, a_job: Build) -> None:
    root = drawn(told(a_job()), title="A <b> & \x00 title")

    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title desc"
    assert [root.findtext(f"{SVG}{name}") for name in ("title", "desc")] == [
        "A <b> &  title",
        "A description",
    ]


def test_nothing_is_drawn_outside_the_picture(told: Build, a_job: Build, machines: Build) -> None:
    root = drawn(told(a_job("SUCCEEDED", started=60, ended=600, machines=machines(4))))
    width, height = (float(root.get(side, "")) for side in ("width", "height"))
    for rect in root.iter(f"{SVG}rect"):
        left, top = float(rect.get("x", "")), float(rect.get("y", ""))
        assert left >= 0
        assert left + float(rect.get("width", "")) <= width
        assert 0 <= top <= height - float(rect.get("height", ""))


@pytest.mark.parametrize("ground", ["#ffffff", "#1b1b1b", "#e9e9e9", "#26272b"])
@pytest.mark.parametrize(
    ("colour", "least"),
    [(GREY, 3.3), (RED, 3.3), *((COLOURS[each], 1.6) for each in Stage)],
)
def test_colours_stand_out_on_light_and_dark(colour: str, least: float, ground: str) -> None:
    """The drawing has no ground of its own; the last two are Prefect's."""
    assert contrast(colour, ground) >= least


def test_the_same_story_is_the_same_picture(told: Build, a_job: Build) -> None:
    one, other = (draw(lay_out(told(a_job())), title="x", description="y") for _ in range(2))

    assert one == other
    head, _, data = as_picture(one).partition(",")
    assert head.endswith("](data:image/svg+xml;base64")
    assert base64.b64decode(data.removesuffix(")"), validate=True).decode() == one


def test_a_run_that_has_taken_no_time_is_drawn(told: Build, a_job: Build, at: At) -> None:
    assert drawn(told(a_job("QUEUED"), now=at(0))) is not None
