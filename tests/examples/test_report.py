from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import accuracy
import pandas as pd
import pytest
import report
from results import Contest, ModelName
from series import Series, monthly_series

QUICK: list[ModelName] = ["Seasonal naive", "Holt-Winters"]


@pytest.fixture(scope="module")
def contests(hold: Callable[[Series, list[ModelName]], Contest]) -> list[Contest]:
    return [hold(monthly_series()[name], QUICK) for name in ("M8", "M69", "M222")]


def test_there_is_a_row_for_each_model_and_the_backtests_choice_last(
    contests: list[Contest],
) -> None:
    rows = report.accuracy_by_model(contests)
    assert [row["model"] for row in rows] == [*QUICK, report.CHOSEN]
    assert [row["chosen_for"] for row in rows][-1] == 3
    assert sum(row["chosen_for"] for row in rows[:-1]) == 3


def test_a_measure_is_the_mean_over_series(contests: list[Contest]) -> None:
    scores = [
        accuracy.mase(
            each.series.actual,
            each.entries["Holt-Winters"].fit.forecast.mean,
            each.series.train,
        )
        for each in contests
    ]
    assert report.accuracy_by_model(contests)[1]["mase"] == pytest.approx(sum(scores) / 3)


def test_the_last_row_scores_what_the_backtest_chose(contests: list[Contest]) -> None:
    by_series = report.accuracy_by_series(contests)
    chosen = by_series[by_series["chosen"]]
    assert len(chosen) == 3
    assert report.accuracy_by_model(contests)[-1]["mape"] == pytest.approx(chosen["mape"].mean())


def test_warnings_and_failures_of_backtest_and_forecast_are_counted(
    contests: list[Contest],
) -> None:
    first = contests[0]
    entry = first.entries["Holt-Winters"]
    poor = replace(
        entry,
        trial=replace(entry.trial, warnings=2, failure="it broke"),
        fit=replace(entry.fit, warnings=2, failure="it broke"),
    )
    again = replace(first, entries={**first.entries, "Holt-Winters": poor})
    row = report.accuracy_by_model([again])[1]
    assert (row["fit_warnings"], row["failed_fits"]) == (4, 2)
    assert report.accuracy_by_series([again])["failure"].dropna().tolist() == ["it broke"]


def test_forecasts_in_parquet_have_a_row_for_each_series_model_and_month(
    contests: list[Contest],
) -> None:
    table = pd.read_parquet(io.BytesIO(report.as_parquet(report.forecasts(contests))))
    one = table[(table["series"] == "M69") & (table["model"] == "Holt-Winters")]
    assert len(table) == 3 * 2 * 24
    assert one["month"].tolist() == list(range(1, 25))
    assert one["actual"].tolist() == contests[1].series.actual.tolist()
    assert (
        one["forecast"].tolist() == contests[1].entries["Holt-Winters"].fit.forecast.mean.tolist()
    )
    assert table.groupby("series")["chosen"].sum().tolist() == [24, 24, 24]


def test_the_markdown_table_names_every_column_and_marks_the_best_model(
    naive_contests: Callable[[int], list[Contest]],
) -> None:
    heading, _, row, _ = report.as_markdown(
        report.accuracy_by_model(naive_contests(2))
    ).splitlines()
    assert all(name in heading for name in report.COLUMNS.values())
    assert row.startswith("| Seasonal naive | 2 |")
    assert "**" in row
