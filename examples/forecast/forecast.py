"""Forecast monthly tourism, score it on what happened, and write the results.

An ordinary Prefect flow: it runs the same on a laptop (`python forecast.py`), as a Vertex AI
CustomJob through a work pool, and on many replicas of one. It forecasts series of the 2010 tourism
forecasting competition with five models, picks one for each series on a backtest inside its past,
and scores all of them on the 24 months that the competition withheld.

Each replica forecasts its share and leaves a file with it; the leader merges the files into the
results, which are the same to the last bit however many replicas there were.
"""

import base64
import json
import os
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import output
import parts
import units
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from pydantic import Field
from results import MODEL_NAMES, Contest, Entry, ModelName
from series import HORIZON, choose_names
from units import DivideBy, Unit

from prefect_vertex import replica

# The models' matrices are small: with a BLAS thread a core each fit takes three times as long, and
# the pool's processes already fill the cores. And how many threads add up decides the last bits.
os.environ.update(
    dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

_LOG_LINES = 6


@task(cache_policy=NO_CACHE)
def forecast_share(share: list[Unit]) -> list[Entry]:
    """Run this replica's units, as many at once as it has slots; none fails the others."""
    logger = get_run_logger()
    me = replica.current()
    results: list[replica.UnitResult[Entry]] = []

    def note(result: replica.UnitResult[Entry]) -> None:
        results.append(result)
        done, total = len(results), len(share)
        me.progress(done, total)
        if not result.ok:
            unit = share[result.index]
            logger.warning("%s on %s failed: %s", unit.model, unit.series, result.error)
        if done * _LOG_LINES // total > (done - 1) * _LOG_LINES // total:
            logger.info("forecast %d of %d series and models", done, total)

    me.progress(0, len(share))
    done = replica.map_slots(units.run, share, weight=units.weight, on_result=note)
    return [units.entry_of(*each) for each in zip(share, done, strict=True)]


@task(retries=2, retry_delay_seconds=5, cache_policy=NO_CACHE)
def write_results(target: str, files: dict[str, bytes]) -> list[str]:
    """Write the files below a folder or gs:// URI; again, if a bucket does not answer."""
    return output.write_files(target, files)


write_part = write_results.with_options(name="write_part")


@task(retries=2, retry_delay_seconds=5, cache_policy=NO_CACHE)
def read_parts(places: list[str]) -> list[bytes]:
    """Read what the replicas have written; again, if a bucket does not answer."""
    return [output.read_file(place) for place in places]


@flow(name="forecast")
def forecast(
    series: Annotated[int, Field(ge=1, le=366)] | Literal["all"] = 24,
    models: Annotated[list[ModelName], Field(min_length=1)] | None = None,
    output_dir: str | None = None,
    divide_by: DivideBy = "series",
) -> dict[str, Any]:
    """Forecast 24 months of each series with each model, and compare with what happened.

    Args:
        series: How many of the 366 series, evenly spread over them, or "all".
        models: Which models take part; all five if not given.
        output_dir: Folder or gs://bucket/prefix for the results, which every replica can reach.
            If not given, below the job's checkpoint directory, or `output` where there is none.
        divide_by: What several replicas divide among them: "series", each with all models, or
            "models", each with all series.

    Returns:
        What `accuracy.json` holds, and where the files are; on a replica that is not the leader
        where its part is.
    """
    logger = get_run_logger()
    me = replica.current()
    names = choose_names(series)
    taking_part = [model for model in MODEL_NAMES if models is None or model in models]
    share = units.share_of(me, names, taking_part, divide_by)
    logger.info(
        "replica %d of %d, %d at once: %d of %d forecasts of %d series with %s",
        me.rank,
        me.world_size,
        me.slots,
        len(share),
        len(names) * len(taking_part),
        len(names),
        ", ".join(taking_part),
    )
    target = output_dir or output.default_target()
    file = f"parts/{me.rank}-of-{me.world_size}.parquet"
    written = write_part(target, {file: parts.as_parquet(forecast_share(share))})
    places = me.gather(written[0], "parts")
    if places is None:
        return {"files": written}
    contests = parts.merge(read_parts(places), names, taking_part)
    return _report(contests, target)


def _report(contests: list[Contest], target: str) -> dict[str, Any]:
    """What the leader alone does: one accuracy table, one picture, the files."""
    # Late: the other replicas need neither, nor what they import.
    import picture
    import report

    logger = get_run_logger()
    rows = report.accuracy_by_model(contests)
    logger.info(
        "accuracy over %d months of %d series:\n%s",
        HORIZON,
        len(contests),
        report.as_markdown(rows),
    )
    image = picture.draw(contests)
    summary: dict[str, Any] = {"series": len(contests), "months": HORIZON, "accuracy": rows}
    files = {
        "accuracy.json": json.dumps(summary, indent=2).encode() + b"\n",
        "accuracy.parquet": report.as_parquet(report.accuracy_by_series(contests)),
        "forecasts.parquet": report.as_parquet(report.forecasts(contests)),
        "forecasts.png": image,
    }
    written = write_results(target, files)
    _publish(rows, report.COLUMNS, image)
    for path in written:
        logger.info("wrote %s", path)
    return {**summary, "files": written}


def _publish(rows: Sequence[dict[str, Any]], columns: dict[str, str], image: bytes) -> None:
    """Show table and picture on the flow run's page."""
    create_table_artifact(
        key="forecast-accuracy",
        table=[
            {heading: _rounded(row[field]) for field, heading in columns.items()} for row in rows
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
