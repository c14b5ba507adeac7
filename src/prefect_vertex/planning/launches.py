"""The launch record: what was launched, as one JSON object that can be launched again.

Pure. A record lies in the staging bucket under flow run and attempt, beside checkpoints and the
replicas' meeting place, and is written once. It holds no secret: the request is what a plan prints,
and parameters and job variables come here without theirs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from prefect_vertex.errors import PlanError
from prefect_vertex.planning.masking import MASK, masked, masked_data, secret_values

if TYPE_CHECKING:
    from prefect_vertex.planning.naming import ResourceName
    from prefect_vertex.planning.plan import JobPlan

KIND: Final = "prefect-vertex/launch"
VERSION: Final = 1
"""Of the record's form; a reader takes every version up to its own."""

FOLDER: Final = "launches"

MAX_PARAMETER_CHARACTERS: Final = 10_000
"""Of one parameter as JSON; a longer one is left out, and its length noted."""

MAX_PARAMETERS_CHARACTERS: Final = 100_000
"""Of all of them together; those that find no room any more are left out too."""


_MAY_SHOW: Final = ("job", "flow_run", "work_pool", "code", "candidate", "resource_plan")
"""Parts in which texts of users stand, beside the request, which comes without secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchFacts:
    """What a plan does not know of the run that it is for; nothing in it is secret.

    Attributes:
        deployment_id: Empty for a run that has none, as `deployment_name` then.
        parameters: The flow run's, by name.
        unjudged_parameters: Names of those that are left out, because no schema says whether the
            texts in them are secrets.
        job_variables: What the deployment and the run set, laid over each other; references to
            blocks and variables as they were written.
        template_sha256: Of the work pool's base job template, see `digest_of`.
        packages: Versions by distribution, of the worker's machine.
    """

    flow_run_id: str
    flow_run_name: str
    flow_name: str = ""
    deployment_id: str = ""
    deployment_name: str = ""
    work_pool_name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    unjudged_parameters: Sequence[str] = ()
    job_variables: Mapping[str, Any] = field(default_factory=dict, repr=False)
    template_sha256: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    """What tells the bootstrap's source from the rest of a command.

    Attributes:
        characters: Its length.
        sha256: Its digest.
    """

    characters: int
    sha256: str

    @classmethod
    def of(cls, source: str) -> Bootstrap:
        """The one that this source is."""
        return cls(characters=len(source), sha256=text_digest(source))


def digest_of(value: Any) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    return text_digest(json.dumps(value, sort_keys=True, separators=(",", ":"), default=str))


def text_digest(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def records_folder(staging_folder: str, flow_run_id: str) -> str:
    """`gs://…/launches/<flow run id>`: where the records of a run lie, one for each attempt."""
    return f"{staging_folder}/{FOLDER}/{flow_run_id}"


def record_uri(staging_folder: str, flow_run_id: str, attempt: int) -> str:
    """Where an attempt's record lies."""
    return f"{records_folder(staging_folder, flow_run_id)}/a{attempt}.json"


def build_record(
    plan: JobPlan,
    facts: LaunchFacts,
    *,
    job: ResourceName,
    created_at: datetime,
    candidates: Sequence[str],
    bootstrap: str,
) -> dict[str, Any]:
    """The record of one attempt; equal arguments give an equal one.

    Args:
        plan: What was sent.
        facts: Whose it was.
        job: The CustomJob that was created.
        created_at: When, by Vertex AI's clock.
        candidates: How messages name all of the run's candidates.
        bootstrap: The bootstrap's source in the plan.
    """
    request = json.loads(plan.as_json())
    kept, omitted = bounded(facts.parameters)
    known = Bootstrap.of(bootstrap)
    code = plan.candidate.code
    record: dict[str, Any] = {
        "kind": KIND,
        "version": VERSION,
        "created_at": created_at.astimezone(UTC).isoformat(),
        "attempt": plan.attempt,
        "job": {"resource_name": str(job), "display_name": plan.display_name},
        "flow_run": {
            "id": facts.flow_run_id,
            "name": facts.flow_run_name,
            "flow_name": facts.flow_name,
            "deployment_id": facts.deployment_id,
            "deployment_name": facts.deployment_name,
            "parameters": kept,
            "omitted_parameters": omitted,
            "unjudged_parameters": list(facts.unjudged_parameters),
            "job_variables": dict(facts.job_variables),
        },
        "work_pool": {"name": facts.work_pool_name, "template_sha256": facts.template_sha256},
        "code": {"uri": code.uri, "sha256": code.sha256} if code is not None else None,
        "packages": dict(sorted(facts.packages.items())),
        "candidate": {
            "number": plan.candidate.index + 1,
            "of": list(candidates),
            **_machines(request["custom_job"]["job_spec"]),
            "project": plan.target.project,
            "location": plan.target.location,
        },
        "resource_plan": [each.as_json() for each in plan.resources],
        "bootstrap": {"characters": known.characters, "sha256": known.sha256},
        "request": request,
    }
    # The request's secrets stand nowhere else either, such as in the name of the run.
    secrets = secret_values(plan.candidate)
    record |= {name: masked(record[name], secrets) for name in _MAY_SHOW}
    for name in ("parameters", "job_variables"):
        given = record["flow_run"][name]
        record["flow_run"][name] = {key: masked_data(given[key], secrets) for key in given}
    return record


def record_text(record: Mapping[str, Any]) -> str:
    """As it is kept: JSON for people too."""
    return json.dumps(record, indent=2, ensure_ascii=False, default=str) + "\n"


def bounded(parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """The parameters that are kept, and the length as JSON of each that is not."""
    kept: dict[str, Any] = {}
    omitted: dict[str, int] = {}
    room = MAX_PARAMETERS_CHARACTERS
    for name, value in parameters.items():
        length = len(json.dumps(value, ensure_ascii=False, default=str))
        if length > MAX_PARAMETER_CHARACTERS or length > room:
            omitted[name] = length
            continue
        kept[name] = value
        room -= length
    return kept, omitted


def _machines(job_spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the request asks for: the first pool's machine, and the replicas of all."""
    pools = [each for each in job_spec.get("worker_pool_specs", ()) if each]
    machine = pools[0].get("machine_spec", {}) if pools else {}
    return {
        "machine_type": machine.get("machine_type", ""),
        "accelerator_type": machine.get("accelerator_type", ""),
        "accelerator_count": machine.get("accelerator_count", 0),
        "strategy": job_spec.get("scheduling", {}).get("strategy", "STANDARD"),
        "replicas": sum(int(each.get("replica_count", 0)) for each in pools),
    }


# --- reading one ----------------------------------------------------------------------------------

_PARENT: Final = re.compile(r"projects/[^/]+/locations/[^/]+")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARTS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "attempt": int,
    "created_at": str,
    "job": Mapping,
    "flow_run": Mapping,
    "work_pool": Mapping,
    "code": (Mapping, type(None)),
    "packages": Mapping,
    "candidate": Mapping,
    "resource_plan": list,
    "bootstrap": Mapping,
    "request": Mapping,
}
_OF_THE_RUN: Final[Mapping[str, type | tuple[type, ...]]] = {
    **dict.fromkeys(("id", "name", "flow_name", "deployment_id", "deployment_name"), str),
    **dict.fromkeys(("parameters", "omitted_parameters", "job_variables"), Mapping),
}


def read_record(value: Any, where: str) -> dict[str, Any]:
    """A record, whose parts are there.

    Args:
        value: What was read.
        where: Its URI or path, for the message.

    Raises:
        PlanError: It is no launch record, or one of a later version.
    """
    if not isinstance(value, Mapping) or value.get("kind") != KIND:
        raise PlanError(
            f"{where} is not a launch record.",
            hint=f"The worker keeps them below staging_bucket: {FOLDER}/FLOW_RUN_ID/aATTEMPT.json.",
        )
    version = value.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise PlanError(f"{where} is not a whole launch record: its version is wrong.")
    if version > VERSION:
        raise PlanError(
            f"{where} is a launch record of version {version}; this prefect-vertex reads up to "
            f"version {VERSION}.",
            hint="Upgrade prefect-vertex.",
        )
    for parts, known in ((value, _PARTS), (value.get("flow_run"), _OF_THE_RUN)):
        for name, kind in known.items():
            if not isinstance(parts, Mapping) or not isinstance(parts.get(name, ...), kind):
                raise PlanError(f"{where} is not a whole launch record: its {name} is wrong.")
    run = value["flow_run"]
    lengths, unjudged = run["omitted_parameters"], run.get("unjudged_parameters", [])
    if not all(type(length) is int for length in lengths.values()):
        raise PlanError(f"{where} is not a whole launch record: its omitted_parameters is wrong.")
    if not isinstance(unjudged, list):
        raise PlanError(f"{where} is not a whole launch record: its unjudged_parameters is wrong.")
    _check_request(value["request"], where)
    return dict(value)


def _check_request(request: Mapping[str, Any], where: str) -> None:
    """See that it has what printing one takes."""
    job = request.get("custom_job")
    spec = job.get("job_spec") if isinstance(job, Mapping) else None
    pools = spec.get("worker_pool_specs") if isinstance(spec, Mapping) else None
    parent = request.get("parent")
    is_whole = (
        isinstance(parent, str)
        and _PARENT.fullmatch(parent) is not None
        and isinstance(job, Mapping)
        and isinstance(job.get("display_name"), str)
        and isinstance(job.get("labels", {}), Mapping)
        and isinstance(encryption := job.get("encryption_spec", {}), Mapping)
        and isinstance(encryption.get("kms_key_name", ""), str)
        and isinstance(pools, list)
        and all(_is_pool(each) for each in pools)
    )
    if not is_whole:
        raise PlanError(f"{where} is not a whole launch record: its request is wrong.")


def _is_pool(pool: Any) -> bool:
    return isinstance(pool, Mapping) and all(
        _is_task(pool.get(task, {})) for task in ("container_spec", "python_package_spec")
    )


def _is_task(task: Any) -> bool:
    """Whether its variables can be printed; the name of a masked one stands in a shell script."""
    env = task.get("env", []) if isinstance(task, Mapping) else None
    return isinstance(env, list) and all(
        isinstance(each, Mapping)
        and isinstance(name := each.get("name"), str)
        and (each.get("value") != MASK or _VARIABLE.fullmatch(name) is not None)
        for each in env
    )
