"""A timeline as SVG, for any background: it has none of its own, and colours that suit both.

Prefect's pages have a light and a dark theme of their own, which an image cannot ask for, so there
is one set of colours.  Texts have a contrast of 3.3:1 and more on both themes (#e9e9e9 and #26272b
in 3.9.1) and about 4:1 on white and on nearly black; no colour has much more on both.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from xml.sax.saxutils import escape

from prefect_vertex.chronicle.timeline import Bar, Lane, Row, Stage, Timeline

WIDTH = 760
"""As wide as the column in which Prefect shows an image, so that texts keep their size."""

GREY = "#7b7b7b"
RED = "#e24045"
COLOURS = {
    Stage.QUEUED: "#8b93a1",
    Stage.PROVISIONING: "#d98a1f",
    Stage.STARTING: "#7fc8a9",
    Stage.RUNNING: "#2f9e6e",
}

_LEFT, _RIGHT, _TOP = 148, 28, 56
_ROW, _BAR, _TITLE, _GAP = 20, 12, 24, 12
_MAX_TITLE = 92
_TICKS = 6
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_ILLEGAL = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def draw(timeline: Timeline, *, title: str, description: str) -> str:
    """The drawing, the same for the same timeline.

    Args:
        timeline: What to draw.
        title: What a screen reader calls it.
        description: What it says instead of the drawing.
    """
    return "\n".join(_Drawing(timeline).lines(title, description)) + "\n"


def as_picture(svg: str) -> str:
    """The drawing as a picture in Markdown; Prefect's pages strip SVG that stands there as such."""
    data = base64.b64encode(svg.encode()).decode()
    return f"![What each replica did and when](data:image/svg+xml;base64,{data})"


class _Drawing:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        # A drawing of no time at all still has a width.
        self._seconds = max(1.0, (timeline.end - timeline.begin).total_seconds())
        self._marks: list[float] = []
        self._height = (
            _TOP + sum(_height(lane) for lane in timeline.lanes) + _GAP * len(timeline.lanes) + 32
        )

    def lines(self, title: str, description: str) -> Iterator[str]:
        yield (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self._height}" '
            f'width="{WIDTH}" height="{self._height}" role="img" aria-labelledby="title desc" '
            f'font-family="Inter, system-ui, sans-serif" font-size="13" fill="{GREY}">'
        )
        yield f'<title id="title">{_text(title)}</title>'
        yield f'<desc id="desc">{_text(description)}</desc>'
        yield from self._axis()
        y = _TOP
        for lane in self._timeline.lanes:
            yield from self._lane(lane, y)
            y += _height(lane) + _GAP
        yield from _legend(self._height - 16)
        yield "</svg>"

    def _axis(self) -> Iterator[str]:
        begin = self._timeline.begin
        yield f'<text x="0" y="16">from {begin:%Y-%m-%d %H:%M:%S} UTC</text>'
        step = next(
            (each for each in _STEPS if self._seconds / each <= _TICKS), self._days_a_step() * 86400
        )
        for number in range(int(self._seconds // step) + 1):
            seconds = number * step
            x = self._x(begin + timedelta(seconds=seconds))
            self._marks.append(x)
            yield (
                f'<text x="{x}" y="{_TOP - 20}" text-anchor="middle" font-size="12">'
                f"{_span(seconds)}</text>"
            )

    def _days_a_step(self) -> int:
        return int(self._seconds / 86400 / _TICKS) + 1

    def _lane(self, lane: Lane, y: int) -> Iterator[str]:
        colour = f' fill="{RED}"' if lane.failed_at is not None else ""
        title = lane.title if len(lane.title) <= _MAX_TITLE else f"{lane.title[: _MAX_TITLE - 1]}…"
        yield f'<text x="0" y="{y + 14}" font-weight="600"{colour}>{_text(title)}</text>'
        y += _TITLE
        bottom = y + _ROW * len(lane.rows) - (_ROW - _BAR) + 4
        for x in self._marks if lane.rows else ():
            yield (
                f'<line x1="{x}" y1="{y - 4}" x2="{x}" y2="{bottom}" '
                f'stroke="{GREY}" stroke-opacity="0.4"/>'
            )
        for row in lane.rows:
            yield from self._row(row, y)
            y += _ROW
        if lane.failed_at is not None and lane.rows:
            x, height = self._x(lane.failed_at), _ROW * len(lane.rows) - (_ROW - _BAR)
            top = y - _ROW * len(lane.rows)
            yield f'<rect x="{x - 2}" y="{top}" width="4" height="{height}" fill="{RED}"/>'

    def _row(self, row: Row, y: int) -> Iterator[str]:
        yield (
            f'<text x="{_LEFT - 12}" y="{y + 11}" text-anchor="end" font-size="12">'
            f"{_text(row.label)}</text>"
        )
        for bar in row.bars:
            yield self._bar(bar, y)

    def _bar(self, bar: Bar, y: int) -> str:
        x, width = self._x(bar.begin), max(1.5, self._x(bar.end) - self._x(bar.begin))
        seconds = (bar.end - bar.begin).total_seconds()
        return (
            f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2" '
            f'fill="{COLOURS[bar.stage]}">'
            f"<title>{bar.stage.value}, {_span(round(seconds))}</title></rect>"
        )

    def _x(self, moment: datetime) -> float:
        part = (moment - self._timeline.begin).total_seconds() / self._seconds
        return round(_LEFT + (WIDTH - _LEFT - _RIGHT) * part, 1)


def _legend(y: int) -> Iterator[str]:
    x = _LEFT
    for stage in Stage:
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" fill="{COLOURS[stage]}"/>'
        yield f'<text x="{x + 18}" y="{y}" font-size="12">{stage.value}</text>'
        x += 36 + 7 * len(stage.value)
    yield f'<rect x="{x}" y="{y - 10}" width="4" height="12" fill="{RED}"/>'
    yield f'<text x="{x + 10}" y="{y}" font-size="12">failed</text>'


def _height(lane: Lane) -> int:
    return _TITLE + _ROW * len(lane.rows)


def _span(seconds: float) -> str:
    """A length of time in its largest fitting unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:g} {unit}" if seconds % size == 0 else _mixed(seconds)
    return f"{seconds:g} s"


def _mixed(seconds: float) -> str:
    hours, rest = divmod(int(seconds), 3600)
    minutes, last = divmod(rest, 60)
    parts = [f"{hours} h"] if hours else []
    parts += [f"{minutes} min"] if minutes else []
    parts += [f"{last} s"] if last and not hours else []
    return " ".join(parts)


def _text(text: str) -> str:
    """Text that XML can hold."""
    return escape(_ILLEGAL.sub("", text))
