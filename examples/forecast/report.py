"""Contests as tables: accuracy by model, accuracy by series, and the forecasts themselves."""

import io
from collections.abc import Sequence
from typing import Any, Final

import accuracy
import numpy as np
import pandas as pd
from results import Contest, Fit, ModelName

CHOSEN: Final = "Best on backtest"
"""Name of the row that scores, for each series, the model that its backtest chose."""

COLUMNS: Final = {
    "model": "Model",
    "chosen_for": "Chosen for",
    "mape": "MAPE %",
    "smape": "sMAPE %",
    "mase": "MASE",
    "coverage_80": "In 80 % interval %",
    "fit_warnings": "Fit warnings",
    "failed_fits": "Failed fits",
}
"""Fields of a row of the accuracy table, with their headings."""


def accuracy_by_model(contests: Sequence[Contest]) -> list[dict[str, Any]]:
    """One row a model, in the order of the models, and the backtest's choice as the last.

    Measures are means over series. Fits are counted twice a series, on the backtest and on the
    whole estimation sample; a failed one has seasonal naive's forecast in its place.
    """
    models = list(contests[0].entries)
    rows = [_row(model, contests, [(each, model) for each in contests]) for model in models]
    chosen = _row(CHOSEN, contests, [(each, each.chosen) for each in contests])
    return [*rows, chosen]


def _row(
    name: str, contests: Sequence[Contest], entries: Sequence[tuple[Contest, ModelName]]
) -> dict[str, Any]:
    scores = [_scores(contest, contest.entries[model].fit) for contest, model in entries]
    fits = [
        fit
        for contest, model in entries
        for fit in (contest.entries[model].fit, contest.entries[model].trial)
    ]
    return {
        "model": name,
        "chosen_for": sum(name in (each.chosen, CHOSEN) for each in contests),
        **{measure: float(np.mean([score[measure] for score in scores])) for measure in scores[0]},
        "fit_warnings": sum(fit.warnings for fit in fits),
        "failed_fits": sum(fit.failure is not None for fit in fits),
    }


def _scores(contest: Contest, fit: Fit) -> dict[str, float]:
    actual, forecast = contest.series.actual, fit.forecast
    return {
        "mape": accuracy.mape(actual, forecast.mean),
        "smape": accuracy.smape(actual, forecast.mean),
        "mase": accuracy.mase(actual, forecast.mean, contest.series.train),
        "coverage_80": accuracy.coverage(actual, forecast.lower, forecast.upper),
    }


def accuracy_by_series(contests: Sequence[Contest]) -> pd.DataFrame:
    """One row for each series and model, with the backtest's MASE and what a failed fit said."""
    return pd.DataFrame.from_records(
        [
            {
                "series": contest.series.name,
                "model": model,
                "chosen": model == contest.chosen,
                "backtest_mase": entry.trial.mase,
                **_scores(contest, entry.fit),
                "fit_warnings": entry.fit.warnings + entry.trial.warnings,
                "failure": entry.fit.failure or entry.trial.failure,
            }
            for contest in contests
            for model, entry in contest.entries.items()
        ]
    ).astype({"failure": "string"})


def forecasts(contests: Sequence[Contest]) -> pd.DataFrame:
    """One row for each series, model and month ahead: forecast, 80 % interval and actual value."""
    return pd.concat(
        pd.DataFrame(
            {
                "series": contest.series.name,
                "model": model,
                "chosen": model == contest.chosen,
                "month": np.arange(1, len(contest.series.actual) + 1),
                "forecast": entry.fit.forecast.mean,
                "lower_80": entry.fit.forecast.lower,
                "upper_80": entry.fit.forecast.upper,
                "actual": contest.series.actual,
            }
        )
        for contest in contests
        for model, entry in contest.entries.items()
    ).reset_index(drop=True)


def as_parquet(table: pd.DataFrame) -> bytes:
    """The table as a Parquet file's bytes."""
    buffer = io.BytesIO()
    table.to_parquet(buffer, index=False)
    return buffer.getvalue()


def as_markdown(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of `accuracy_by_model` as a Markdown table, the least MASE of a model in bold."""
    least = min(row["mase"] for row in rows if row["model"] != CHOSEN)
    lines = [
        "| " + " | ".join(COLUMNS.values()) + " |",
        "| :-- |" + " --: |" * (len(COLUMNS) - 1),
    ]
    for row in rows:
        cells = {field: _cell(row[field]) for field in COLUMNS}
        if row["mase"] == least:
            cells["mase"] = f"**{cells['mase']}**"
        lines.append("| " + " | ".join(cells.values()) + " |")
    return "\n".join(lines)


def _cell(value: str | float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
