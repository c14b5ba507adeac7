"""RunSpec: what a run asks for, once its job variables are rendered; the input of a plan.

It is made by `template.py` and holds plain values only, so that planning knows neither Prefect nor
pydantic.  A `Candidate` is one place to try: one rendering of the template, with its own region,
machine and strategy.  A run with failover has several; each is complete in itself, because a
candidate may override any job variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from prefect_vertex.planning.code import CodeReference


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """Who the job is for: what its labels carry, so that any worker can find it again."""

    flow_run_id: str
    flow_run_name: str
    work_pool_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    """Prefect's base labels, as Prefect spells them; user labels never overwrite them."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where jobs live: a project, a location, and the credentials that reach them."""

    project: str
    location: str
    credentials_key: str = ""

    @property
    def parent(self) -> str:
        """The parent of its CustomJobs."""
        return f"projects/{self.project}/locations/{self.location}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One place to try, rendered.

    Attributes:
        index: Its place in the walk, from 0.
        project: Google Cloud project id.
        location: Vertex AI location, which users call region.
        job_spec: A CustomJobSpec in snake_case as the template rendered it; a null is as good as
            absent.
        worker_count: Replicas in all: pool 0 gets one, pool 1 the rest.
        name: The user's part of the display name.
        labels: The user's own labels.
        env: Environment of every container, literal: what stands here is what the code sees. A
            pool's own entries win, and only those may refer to others with `$(NAME)`.
        command: What the container runs, as an argument list, behind the bootstrap, unless its
            pool has a command of its own.
        python_command: The interpreter that starts the bootstrap.
        setup_command: Lines of a shell script that runs before the command.
        encryption_spec: An EncryptionSpec in snake_case; empty: Google's own keys.
        job_spec_patch: RFC 6902 operations on the CustomJob in snake_case, last of all but for
            display name, identity labels and bootstrap.
        code: Staged code archive; None: the image or the pull steps bring the code.
        checkpoint_dir: `gs://…` where the flow run keeps checkpoints, the same in every attempt;
            empty: nowhere.
        staging_folder: `gs://…` where replicas meet and share values; empty: nowhere.
        replicas: What replicas but the first do: run the flow as flow runs of their own, or the
            command as it is.
        gang_start: Whether no replica begins before all have checked in.
        gang_seconds: How long they wait for each other, from which on the job is given up; None: as
            long as it takes.
        credentials_key: Which credentials reach it; opaque here, "" for the worker's own.
        validate_hardware: What an impossible machine and accelerator gets: an error or a warning.
        secret_env: Names in `env` whose values are never shown, though they are sent.
        hidden: Texts that are never shown wherever they stand: what secret fields of blocks hold,
            and secrets of Prefect's, sent or not.
        api_secrets: Secret Manager version by the name of the Prefect variable that it fills in the
            container; where there is one, no secret of Prefect's is sent.
    """

    index: int = 0
    project: str
    location: str
    job_spec: Mapping[str, Any] = field(repr=False)
    worker_count: int = 1
    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: Sequence[str] = ()
    python_command: Sequence[str] = ("python3",)
    setup_command: Sequence[str] = ()
    encryption_spec: Mapping[str, Any] = field(default_factory=dict)
    job_spec_patch: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    code: CodeReference | None = None
    checkpoint_dir: str = ""
    staging_folder: str = ""
    replicas: Literal["flow", "command"] = "flow"
    gang_start: bool = True
    gang_seconds: float | None = None
    credentials_key: str = ""
    validate_hardware: Literal["error", "warn"] = "error"
    secret_env: frozenset[str] = frozenset()
    hidden: frozenset[str] = field(default=frozenset(), repr=False)
    api_secrets: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> Target:
        """Where its job is created, listed and cancelled."""
        return Target(self.project, self.location, self.credentials_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """Everything that one run asks for: who it is, and where it may be tried, in order."""

    identity: RunIdentity
    candidates: tuple[Candidate, ...]
