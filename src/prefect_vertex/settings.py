"""Settings of the worker process, read once when it starts.

Set them as environment variables `PREFECT_INTEGRATIONS_VERTEX_<NAME>`, in `.env`, in `prefect.toml`
under `[integrations.vertex]` or in `pyproject.toml` under `[tool.prefect.integrations.vertex]`.
`prefect config set` knows only Prefect's own names.  They do not travel to the container.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping

from prefect.settings.base import PrefectBaseSettings, build_settings_config
from pydantic import Field, ValidationError
from pydantic_settings import SettingsError

from prefect_vertex.errors import SetupError

PREFIX = "PREFECT_INTEGRATIONS_VERTEX_"


class VertexSettings(PrefectBaseSettings):
    """What one worker process may do, and how often."""

    model_config = build_settings_config(("integrations", "vertex"))

    tick_seconds: float = Field(
        default=5.0,
        ge=1.0,
        le=86_400,
        description=(
            "Seconds between two looks at the pool's jobs. A run's job_watch_poll_interval can "
            "shorten it; pages of jobs lengthen it so that they take at most half of the reads."
        ),
    )
    submissions_per_minute: float = Field(
        default=30.0,
        gt=0,
        description=(
            "Creates and deletes a minute, for each project and location. Half of Vertex AI's "
            "documented 60, which everything in the project shares."
        ),
    )
    reads_per_minute: float = Field(
        default=300.0,
        gt=0,
        description=(
            "Other calls a minute, for each project and location. Half of Vertex AI's documented "
            "600, which everything in the project shares."
        ),
    )
    create_budget_seconds: float = Field(
        default=900.0,
        gt=0,
        le=86_400,
        description=(
            "How long the creation of one CustomJob is tried in one place while Vertex AI does not "
            "answer, or is asked too often. A budget of time, so that an outage of minutes loses "
            "no run. A create that is known to have left no job is sent once more there, and then "
            "in the next place."
        ),
    )
    create_settle_seconds: float = Field(
        default=120.0,
        ge=0,
        le=86_400,
        description=(
            "After a create whose answer was lost: how long an empty look for its job settles "
            "nothing, because the list may lag and the create may still be under way."
        ),
    )
    log_poll_seconds: float = Field(
        default=15.0,
        ge=10.0,
        description=(
            "Seconds between two reads of a project's log entries (stream_output): one query for "
            "all its jobs, and none while no run needs it. Cloud Logging takes 60 reads a minute "
            "for each project, people included."
        ),
    )
    sweep_seconds: float = Field(
        default=60.0,
        ge=1.0,
        le=86_400,
        description="Seconds between two reads of all of the pool's unfinished flow runs.",
    )
    lease_seconds: float = Field(
        default=300.0,
        ge=60,
        le=86_400,
        description=(
            "For how long the deployment's concurrency slot of a waiting run is renewed each time. "
            "Prefect frees a slot that nobody renews, and cancels the run when it starts."
        ),
    )
    requeue_grace_seconds: float = Field(
        default=30.0,
        ge=0,
        le=86_400,
        description=(
            "How long a run whose worker is gone, with no job, is left alone before it goes back "
            "to Scheduled. Prefect itself takes 90 s to call a silent worker offline."
        ),
    )
    unannounced_seconds: float = Field(
        default=180.0,
        ge=0,
        le=86_400,
        description=(
            "How long a run that became Pending may name no worker while others of the pool are "
            "online, before it goes back to Scheduled. With none but this one online, it goes "
            "back after requeue_grace_seconds."
        ),
    )
    extra_locations: list[str] = Field(
        default_factory=list,
        description=(
            "Further locations to look for the pool's jobs in, as `europe-west4` or "
            "`projects/P/locations/L`. The template's, the runs' and the deployments' are known."
        ),
    )
    prices: str | None = Field(
        default=None,
        description=(
            "Path of a JSON price list for the estimated cost in a run's `vertex-job` artifact, in "
            "the form of the package's `chronicle/prices.json`, which is used without it: list "
            "prices of a few machines, with their date. What a list does not cover is not priced."
        ),
    )


def read_settings() -> VertexSettings:
    """The settings of this process.

    Raises:
        SetupError: One of them is of the wrong kind; the line names all that are.
    """
    try:
        return VertexSettings()
    except ValidationError as error:
        faults = "; ".join(
            f"{_variable(str(fault['loc'][0]))}={fault['input']!r}: {fault['msg']}"
            for fault in error.errors()
        )
        raise SetupError(
            f"{faults}.",
            hint="Correct or unset it: in the environment, .env, prefect.toml or pyproject.toml.",
        ) from error
    except SettingsError as error:
        # A list that is not JSON is refused before it is looked at.
        field = re.search(r'field "(\w+)"', str(error))
        name = _variable(field[1] if field else "extra_locations")
        raise SetupError(
            f"{name}={os.environ.get(name, '')!r} is not a list.",
            hint='Write it as JSON, such as ["europe-west4"].',
        ) from error


def unknown_settings(environ: Mapping[str, str] | None = None) -> list[str]:
    """One line for each variable that looks like a setting of this product and is none."""
    known = [name.upper() for name in VertexSettings.model_fields]
    given = os.environ if environ is None else environ
    lines: list[str] = []
    for name in sorted(given):
        if name.upper().startswith(PREFIX) and (own := name.upper()[len(PREFIX) :]) not in known:
            # Compared without what all of them begin with, beside which the rest counts little.
            (closest,) = difflib.get_close_matches(own, known, n=1, cutoff=0.0)
            lines.append(f"{name} is no setting and has no effect. Did you mean {PREFIX}{closest}?")
    return lines


def _variable(field: str) -> str:
    return f"{PREFIX}{field.upper()}"
