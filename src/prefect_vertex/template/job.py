"""From a rendered configuration to the CustomJob's parts: what its variables say beside `job_spec`.

`JobFields` are those parts of a configuration; `job_parts` lays them over its job spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, Field

from prefect_vertex.errors import PlanError, SchedulingError
from prefect_vertex.planning.fields import without_nulls
from prefect_vertex.planning.pools import merged_pools
from prefect_vertex.planning.scheduling import longest_wait, parse_strategy
from prefect_vertex.template.render import is_unset

ENCRYPTION_SPEC_TEMPLATE: dict[str, Any] = {"kms_key_name": "{{ encryption_spec_key }}"}


_WAIT = "max_wait_duration"


class JobFields(BaseModel):
    """Parts of a configuration that go into the CustomJob beside, or over, its job spec.

    `encryption_spec` is the CustomJob's own, which stands beside `job_spec` there too.
    """

    encryption_spec: dict[str, Any] = Field(
        default_factory=dict,
        json_schema_extra={"template": ENCRYPTION_SPEC_TEMPLATE},
    )
    restart_job_on_worker_restart: bool | None = None
    max_wait_duration: str | float | None = None
    worker_pools: list[dict[str, Any] | None] = Field(default_factory=list, repr=False)
    job_spec_patch: list[dict[str, Any]] = Field(default_factory=list, repr=False)


class Rendered(Protocol):
    """What is read of a configuration."""

    job_spec: dict[str, Any]
    strategy: Any
    encryption_spec: dict[str, Any]
    restart_job_on_worker_restart: bool | None
    max_wait_duration: str | float | None
    worker_pools: list[dict[str, Any] | None]

    @property
    def others_wait(self) -> bool:
        """Whether its `max_wait_duration`, if it has one, is meant for other candidates."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParts:
    """A CustomJob's parts as the template and the variables say together.

    Attributes:
        job_spec: As it was rendered, with the variables laid over it.
        encryption_spec: An EncryptionSpec; empty: Google's own keys.
    """

    job_spec: dict[str, Any]
    encryption_spec: dict[str, Any]


def job_parts(values: Rendered) -> JobParts:
    """Lay the variables over the rendered job spec; nothing is changed.

    An encryption spec inside `job_spec` is taken too: that is where templates of prefect-gcp's
    worker have room for one.

    Raises:
        PlanError: Two parts contradict each other.
    """
    job_spec = dict(values.job_spec)
    inside = _encryption(job_spec.pop("encryption_spec", None) or {})
    beside = _encryption(values.encryption_spec)
    if inside and beside and inside != beside:
        raise PlanError(
            "encryption_spec stands in job_spec and beside it, and the two differ.",
            variable="encryption_spec_key",
            hint="Keep the one beside job_spec.",
        )
    if values.worker_pools:
        job_spec["worker_pool_specs"] = merged_pools(
            job_spec.get("worker_pool_specs"), values.worker_pools
        )
    job_spec["scheduling"] = _scheduling(values, job_spec.get("scheduling"))
    return JobParts(job_spec=job_spec, encryption_spec=beside or inside)


def _encryption(given: Any) -> Any:
    """Without what is not set; an emptied field of the form is not."""
    found = without_nulls(given)
    if isinstance(found, Mapping) and not str(found.get("kms_key_name", "x")).strip():
        return {key: value for key, value in found.items() if key != "kms_key_name"}
    return found


def _scheduling(values: Rendered, given: object) -> object:
    """What the scheduling options say wins; what is none is left to be refused."""
    if given is not None and not isinstance(given, Mapping):
        return given
    scheduling = {key: value for key, value in (given or {}).items() if not is_unset(value)}
    for name in ("restart_job_on_worker_restart", _WAIT):
        value = getattr(values, name)
        if value is not None:
            scheduling.setdefault(name, value)
    # "Wait for a GPU, else take another": only the candidate that can wait is told how long.
    if values.others_wait and not waits(values):
        scheduling.pop(_WAIT, None)
    return scheduling


def waits(values: Rendered) -> bool:
    """Whether a candidate waits for machines, with FLEX_START."""
    given = values.job_spec.get("scheduling")
    own = given.get("strategy") if isinstance(given, Mapping) else None
    strategy = values.strategy if is_unset(own) else own
    try:
        return strategy is not None and parse_strategy(strategy) == "FLEX_START"
    except SchedulingError:
        return False


def about_waits(rendered: Sequence[Rendered], titles: Sequence[str], limit: float) -> list[str]:
    """Candidates that may wait for so long that those after them come too late.

    Args:
        rendered: A run's candidates, in order.
        titles: How messages name them.
        limit: `capacity.max_wall_seconds`; 0: none.
    """
    found: list[str] = []
    for each, title in zip(rendered[:-1], titles, strict=False):
        if not limit or not waits(each):
            continue
        with suppress(PlanError):  # what is wrong there, the candidate's building says
            scheduling = job_parts(each).job_spec["scheduling"]
            wait = longest_wait(scheduling if isinstance(scheduling, Mapping) else {})
            if not wait or wait.total_seconds() >= limit:
                told = str(wait) if wait else "ever"
                found.append(
                    f"{title} may wait for {told} with FLEX_START, but "
                    f"capacity.max_wall_seconds is {limit:g}: after such a wait no other is tried."
                )
    return found


def names_wait(overrides: Mapping[str, Any]) -> bool:
    """Whether a candidate's own entry says how long to wait."""
    whole = overrides.get("scheduling")
    nested = whole.get(_WAIT) if isinstance(whole, Mapping) else None
    given = (nested, overrides.get(_WAIT), overrides.get(f"scheduling.{_WAIT}"))
    return not all(is_unset(value) for value in given)
