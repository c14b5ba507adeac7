"""Forecasts against actuals, one small panel a series."""

import io
from collections.abc import Sequence
from typing import Any, Final

import accuracy
import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from results import Contest
from series import PERIOD, FloatArray

MOST_PANELS: Final = 24

_COLUMNS: Final = 4
_PAST_MONTHS: Final = 36
# Inches, on paper as wide whatever the number of panels.
_WIDTH: Final = 14.6
_LEFT: Final = 0.66
_RIGHT: Final = 0.34
_HEAD: Final = 1.45
_FOOT: Final = 0.72
_INK: Final = "#1f2430"
_GREY: Final = "#8b93a1"
_RULE: Final = "#e3e6eb"
_PAST: Final = "#a9b1bd"
_FORECAST: Final = "#1769e0"
_BAND: Final = "#cfe0fb"
_AHEAD: Final = "#f6f8fb"
_STYLE: Final[Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.edgecolor": _RULE,
    "axes.linewidth": 0.8,
    "text.color": _INK,
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "xtick.labelcolor": _GREY,
    "ytick.labelcolor": _GREY,
}


def draw(contests: Sequence[Contest]) -> bytes:
    """A PNG of the chosen model's forecast for each series, at most 24 of them, evenly spread.

    Each panel has the last three years that the model saw, the two years that it forecast with the
    80 % interval, and what really happened.
    """
    shown = _spread(contests)
    columns = min(_COLUMNS, len(shown))
    rows = -(-len(shown) // columns)
    height = _HEAD + _FOOT + rows * (2.05 if columns == _COLUMNS else 2.8)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(_WIDTH, height), facecolor="white")
        FigureCanvasAgg(figure)
        panels = list(figure.subplots(rows, columns, squeeze=False).flat)
        figure.subplots_adjust(
            left=_LEFT / _WIDTH,
            right=1 - _RIGHT / _WIDTH,
            top=1 - _HEAD / height,
            bottom=_FOOT / height,
            wspace=0.23,
            hspace=0.4,
        )
        for place, axes in enumerate(panels):
            if place < len(shown):
                _panel(axes, shown[place], lowest=place + columns >= len(shown))
            else:
                axes.set_visible(False)
        _headline(figure, shown, len(contests))
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=144)
    return buffer.getvalue()


def _spread(contests: Sequence[Contest]) -> list[Contest]:
    panels = min(MOST_PANELS, len(contests))
    return [contests[(2 * place + 1) * len(contests) // (2 * panels)] for place in range(panels)]


def _panel(axes: Any, contest: Contest, *, lowest: bool) -> None:
    model, series = contest.chosen, contest.series
    forecast = contest.entries[model].fit.forecast
    past = series.train[-_PAST_MONTHS:]
    before = np.arange(1 - len(past), 1)
    ahead = np.arange(1, len(series.actual) + 1)

    axes.axvspan(0, ahead[-1], color=_AHEAD, linewidth=0, zorder=0)
    axes.fill_between(ahead, forecast.lower, forecast.upper, color=_BAND, linewidth=0, zorder=1)
    axes.plot(before, past, color=_PAST, linewidth=1.1, zorder=2)
    axes.plot(ahead, forecast.mean, color=_FORECAST, linewidth=2.1, zorder=3)
    # The actual values go on from the last one seen, so that the eye finds one line.
    axes.plot([0, *ahead], [past[-1], *series.actual], color=_INK, linewidth=1.1, zorder=4)

    error = accuracy.mase(series.actual, forecast.mean, series.train)
    axes.set_title(series.name, loc="left", fontsize=9.5, fontweight="bold", pad=5)
    axes.set_title(f"{model}  ·  MASE {error:.2f}", loc="right", fontsize=8, color=_GREY, pad=5)
    axes.set_xlim(-_PAST_MONTHS, ahead[-1])
    axes.set_ylim(0, _ceiling(past, series.actual, forecast.upper))
    axes.set_xticks(range(-_PAST_MONTHS, len(ahead) + 1, PERIOD))
    axes.xaxis.set_major_formatter(FuncFormatter(_years))
    first, *_, last = axes.get_xticklabels()
    first.set_horizontalalignment("left")
    last.set_horizontalalignment("right")
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(FuncFormatter(_short))
    axes.tick_params(length=0, labelsize=7.5, pad=3, labelbottom=lowest)
    axes.grid(axis="y", color=_RULE, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _ceiling(past: FloatArray, actual: FloatArray, upper: FloatArray) -> float:
    """A little above everything but an interval's far end, which may not squash the lines."""
    lines = max(past.max(), actual.max())
    return float(1.08 * max(lines, min(upper.max(), 1.6 * lines)))


def _years(month: float, _: Any) -> str:
    return f"{month / PERIOD:+.0f} y".replace("-", "\N{MINUS SIGN}") if month else "start"


def _short(value: float, _: Any) -> str:
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _headline(figure: Any, shown: Sequence[Contest], total: int) -> None:
    height = figure.get_figheight()
    left, right = _LEFT / _WIDTH, 1 - _RIGHT / _WIDTH
    size = f"{total}" if total == len(shown) else f"{len(shown)} of {total}"
    figure.text(
        left,
        1 - 0.42 / height,
        "Two years ahead, against what happened",
        fontsize=17,
        fontweight="bold",
        va="center",
    )
    figure.text(
        left,
        1 - 0.78 / height,
        f"{size} monthly series of the 2010 tourism forecasting competition, each with the model "
        "that did best on a backtest inside its past",
        fontsize=9.5,
        color=_GREY,
        va="center",
    )
    figure.text(
        left,
        0.24 / height,
        "Each series in its own, undisclosed unit. MASE below 1: closer than last year's values "
        "usually are one year on.",
        fontsize=8,
        color=_GREY,
        va="center",
    )
    figure.legend(
        handles=[
            Line2D([], [], color=_PAST, linewidth=1.6, label="seen by the model"),
            Line2D([], [], color=_INK, linewidth=1.6, label="actual"),
            Line2D([], [], color=_FORECAST, linewidth=2.4, label="forecast"),
            Patch(color=_BAND, label="80 % interval"),
        ],
        loc="center right",
        bbox_to_anchor=(right, 1 - 0.42 / height),
        ncols=4,
        frameon=False,
        fontsize=9,
        handlelength=1.6,
        columnspacing=1.6,
        borderaxespad=0,
    )
