"""What one replica leaves for the leader, as a Parquet file, and how the leader puts it together.

Numbers go through the file unchanged to the last bit, and everything is brought into the order of
series and models, so that the results do not depend on how many replicas there were.
"""

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from results import Contest, Entry, Fit, Forecast, ModelName, Trial, decide
from series import monthly_series

_SCHEMA: Final = pa.schema(
    {
        "series": pa.string(),
        "model": pa.string(),
        "backtest_mase": pa.float64(),
        "backtest_warnings": pa.int64(),
        "backtest_failure": pa.string(),
        "forecast": pa.list_(pa.float64()),
        "lower_80": pa.list_(pa.float64()),
        "upper_80": pa.list_(pa.float64()),
        "fit_warnings": pa.int64(),
        "failure": pa.string(),
    }
)
_NAMED_AT_MOST: Final = 5


class MergeError(Exception):
    """The replicas' parts together are not each series with each model, exactly once."""


def as_parquet(entries: Iterable[Entry]) -> bytes:
    """One row an entry; none for a replica that had nothing to do."""
    rows = [
        {
            "series": entry.series,
            "model": entry.model,
            "backtest_mase": entry.trial.mase,
            "backtest_warnings": entry.trial.warnings,
            "backtest_failure": entry.trial.failure,
            "forecast": entry.fit.forecast.mean.tolist(),
            "lower_80": entry.fit.forecast.lower.tolist(),
            "upper_80": entry.fit.forecast.upper.tolist(),
            "fit_warnings": entry.fit.warnings,
            "failure": entry.fit.failure,
        }
        for entry in entries
    ]
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), buffer)
    return buffer.getvalue()


def from_parquet(content: bytes) -> list[Entry]:
    """The entries of one part, as they were written."""
    return [
        Entry(
            row["series"],
            row["model"],
            Trial(row["backtest_mase"], row["backtest_warnings"], row["backtest_failure"]),
            Fit(
                Forecast(*(np.array(row[key]) for key in ("forecast", "lower_80", "upper_80"))),
                row["fit_warnings"],
                row["failure"],
            ),
        )
        for row in parquet.read_table(io.BytesIO(content)).to_pylist()
    ]


def merge(
    contents: Iterable[bytes], names: Sequence[str], models: Sequence[ModelName]
) -> list[Contest]:
    """All parts as contests, in the order of names and models, whatever that of the parts.

    Raises:
        MergeError: A series lacks a model, has one twice, or was not asked for.
    """
    entries = [entry for content in contents for entry in from_parquet(content)]
    found = Counter((entry.series, entry.model) for entry in entries)
    wanted = Counter((name, model) for name in names for model in models)
    if found != wanted:
        wrong = [
            f"{model} on {series} is there {found[series, model]} times instead of "
            f"{wanted[series, model]}"
            for series, model in sorted(found | wanted)
            if found[series, model] != wanted[series, model]
        ]
        more = f"; and {len(wrong) - _NAMED_AT_MOST} more" if len(wrong) > _NAMED_AT_MOST else ""
        raise MergeError("the replicas' parts: " + "; ".join(wrong[:_NAMED_AT_MOST]) + more)
    by_key = {(entry.series, entry.model): entry for entry in entries}
    return [
        decide(monthly_series()[name], [by_key[name, model] for model in models]) for name in names
    ]
