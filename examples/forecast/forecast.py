"""Forecast monthly tourism, score it on what happened, and write the results.

An ordinary Prefect flow: it runs the same on a laptop (`python forecast.py`) and as a Vertex AI
CustomJob through a work pool. It forecasts series of the 2010 tourism forecasting competition with
five models, picks one for each series on a backtest inside its past, and scores all of them on the
24 months that the competition withheld.
"""

import base64
import json
import math
import os
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import output
import report
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.futures import as_completed
from prefect.task_runners import ProcessPoolTaskRunner
from pydantic import Field
from results import MODEL_NAMES, Contest, ModelName
from series import HORIZON, choose_names, monthly_series

# The models' matrices are small: with a BLAS thread a core each fit takes three times as long, and
# the processes already fill the cores. Read when a process loads NumPy, so by the pool's processes.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

_LARGEST_CHUNK: Final = 8
_CHUNKS: Final = 12


@task(task_run_name="forecast from {names[0]}", cache_policy=NO_CACHE)
def forecast_chunk(names: list[str], models: list[ModelName]) -> list[Contest]:
    """Run the contest on a few series; a process of the pool does one chunk at a time."""
    # statsmodels takes seconds to import, which the flow's own process is spared.
    import contest

    return [contest.hold(monthly_series()[name], models) for name in names]


@task(retries=2, retry_delay_seconds=5, cache_policy=NO_CACHE)
def write_results(target: str, files: dict[str, bytes]) -> list[str]:
    """Write the files below a folder or gs:// URI; again, if a bucket does not answer."""
    return output.write_files(target, files)


@flow(name="forecast", task_runner=ProcessPoolTaskRunner())  # type: ignore[arg-type]  # its future type is narrower
def forecast(
    series: Annotated[int, Field(ge=1, le=366)] | Literal["all"] = 24,
    models: Annotated[list[ModelName], Field(min_length=1)] | None = None,
    output_dir: str | None = None,
) -> dict[str, Any]:
    """Forecast 24 months of each series with each model, and compare with what happened.

    Args:
        series: How many of the 366 series, evenly spread over them, or "all".
        models: Which models take part; all five if not given.
        output_dir: Folder or gs://bucket/prefix for the results. If not given, below the job's
            checkpoint directory, or `output` where there is none.

    Returns:
        What `accuracy.json` holds, and where the files are.
    """
    logger = get_run_logger()
    names = choose_names(series)
    taking_part = [model for model in MODEL_NAMES if models is None or model in models]
    logger.info("forecasting %d series with %s", len(names), ", ".join(taking_part))

    contests = _hold_contests(names, taking_part)
    rows = report.accuracy_by_model(contests)
    table = report.as_markdown(rows)
    logger.info("accuracy over %d months of %d series:\n%s", HORIZON, len(names), table)

    import picture  # late for the same reason as the models: the pool's processes do not draw

    image = picture.draw(contests)
    target = output_dir or output.default_target()
    summary: dict[str, Any] = {"series": len(names), "months": HORIZON, "accuracy": rows}
    files = {
        "accuracy.json": json.dumps(summary, indent=2).encode() + b"\n",
        "accuracy.parquet": report.as_parquet(report.accuracy_by_series(contests)),
        "forecasts.parquet": report.as_parquet(report.forecasts(contests)),
        "forecasts.png": image,
    }
    written = write_results(target, files)
    _publish(rows, image)
    for path in written:
        logger.info("wrote %s", path)
    return {**summary, "files": written}


def _hold_contests(names: Sequence[str], models: list[ModelName]) -> list[Contest]:
    """All contests in the order of the names, in chunks, with a log line as each is done."""
    logger = get_run_logger()
    size = min(_LARGEST_CHUNK, math.ceil(len(names) / _CHUNKS))
    chunks = [list(names[start : start + size]) for start in range(0, len(names), size)]
    by_name: dict[str, Contest] = {}
    for future in as_completed([forecast_chunk.submit(chunk, models) for chunk in chunks]):
        by_name |= {each.series.name: each for each in future.result()}
        logger.info("forecast %d of %d series", len(by_name), len(names))
    return [by_name[name] for name in names]


def _publish(rows: Sequence[dict[str, Any]], image: bytes) -> None:
    """Show table and picture on the flow run's page."""
    create_table_artifact(
        key="forecast-accuracy",
        table=[
            {heading: _rounded(row[field]) for field, heading in report.COLUMNS.items()}
            for row in rows
        ],
        description="Accuracy on the hold-out: means over series. Least is best, but for the "
        "interval, which is right at 80.",
    )
    create_markdown_artifact(
        key="forecast-picture",
        markdown="![forecasts against actuals](data:image/png;base64,"
        f"{base64.b64encode(image).decode()})",
        description="Forecasts of the models that the backtest chose, against actuals.",
    )


def _rounded(value: str | float) -> str | float:
    return round(value, 2) if isinstance(value, float) else value


if __name__ == "__main__":
    forecast()
