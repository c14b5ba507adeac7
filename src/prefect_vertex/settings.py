"""Settings of the worker process, read once when it starts.

Set them as environment variables `PREFECT_INTEGRATIONS_VERTEX_<NAME>`, in `.env`, in `prefect.toml`
under `[integrations.vertex]` or in `pyproject.toml` under `[tool.prefect.integrations.vertex]`.
`prefect config set` knows only Prefect's own names.  They do not travel to the container.
"""

from __future__ import annotations

from prefect.settings.base import PrefectBaseSettings, build_settings_config
from pydantic import Field


class VertexSettings(PrefectBaseSettings):
    """What one worker process may do, and how often."""

    model_config = build_settings_config(("integrations", "vertex"))

    tick_seconds: float = Field(
        default=5.0,
        ge=1.0,
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
        description=(
            "How long the creation of one CustomJob is tried while Vertex AI does not answer or "
            "has no quota. A budget of time, so that an outage of minutes loses no run."
        ),
    )
    create_settle_seconds: float = Field(
        default=120.0,
        ge=0,
        description=(
            "After a create whose answer was lost: how long an empty look for its job settles "
            "nothing, because the list may lag and the create may still be under way."
        ),
    )
    sweep_seconds: float = Field(
        default=60.0,
        ge=1.0,
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
        description=(
            "How long a run whose worker is gone, with no job, is left alone before it goes back "
            "to Scheduled. Prefect itself takes 90 s to call a silent worker offline."
        ),
    )
    extra_locations: list[str] = Field(
        default_factory=list,
        description=(
            "Further locations to look for the pool's jobs in, as `europe-west4` or "
            "`projects/P/locations/L`. The template's, the runs' and the deployments' are known."
        ),
    )
