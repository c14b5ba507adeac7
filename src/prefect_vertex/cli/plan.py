"""`prefect-vertex plan`: what the worker would submit, for people to read or to run themselves.

It reads the pool, the deployment and their blocks through the Prefect API, and asks nothing of
Google: what the worker learns from its credentials is taken from their files. Only `--quota` asks,
and `--from gs://…`, which reads what was launched from the staging bucket, and Prefect not at all.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
import httpx
from cyclopts import Parameter
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL

from prefect_vertex._version import __version__
from prefect_vertex.cli.gcloud import gcloud_script
from prefect_vertex.cli.identity import known_identity
from prefect_vertex.cli.subject import WithNobody, for_deployment, for_flow_run, for_pool
from prefect_vertex.cli.usage import WrongUseError
from prefect_vertex.errors import PlanError, SetupError
from prefect_vertex.planning.addresses import told
from prefect_vertex.planning.launches import Bootstrap
from prefect_vertex.planning.relaunch import bootstrap_marker, elided
from prefect_vertex.template import CredentialValues, VertexJobConfiguration
from prefect_vertex.template.secrets import about_plain_keys

if TYPE_CHECKING:
    from prefect_vertex.planning.plan import JobPlan

WORKER_NAME = "prefect-vertex-plan"
"""Stands for the worker's name, which is a label on the job."""

# A placeholder begins as JSON does: Prefect's `{{ … }}`, and ours, as in `{region}-docker.pkg.dev`.
_JSON = re.compile(r"\s*(?:[\[\"]|\{(?!\{|\w+\}))")
_TEXTS = ("env.", "labels.")


def plan(  # noqa: PLR0913 - keywords only, each an option
    *,
    pool: str = "",
    deployment: str = "",
    flow_run: str = "",
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    job_variable: Sequence[str] = (),
    output_format: Annotated[Literal["json", "gcloud"], Parameter(name="--format")] = "json",
    quota: bool = False,
    full: bool = False,
) -> None:
    """Print what the worker would submit, or has submitted; nothing is submitted here.

    Google is not asked, but for --quota and --from gs://….

    One request for each candidate, as the worker of this machine and profile would send it, but
    for the bootstrap's source. Beside it, as `resource_plan`, what a replica of the first pool and
    one of its workers run at once; that is not sent. Values of secrets are masked. Warnings go to
    stderr.

    Args:
        pool: Plan for any run of this work pool.
        deployment: Plan for a run of this deployment: FLOW/NAME, or its id.
        flow_run: Plan for this flow run, by its id.
        from_: Print what was launched, by its launch record: gs://… or a file; with json a mapping,
            which also tells what has changed since, and the command that starts the same again.
        job_variable: name=value, above what the pool and the deployment say; JSON values are
            understood, env.NAME=value sets one entry. Repeatable.
        output_format: json, a list of CreateCustomJobRequests; or gcloud, a shell script that
            creates the job (for several candidates, the one whose number it is given).
        quota: Do ask Google, for the projects' quotas, and show them as a table on stderr; with
            json the output is then a mapping of `requests` and `quota`. Limits, not what is free.
        full: With json, print the bootstrap's source too, and so requests that can be sent as they
            are; without it a marker stands in its place. A script always has all of it.
    """
    chosen = sum([bool(pool), bool(deployment), bool(flow_run), from_ is not None])
    if not chosen:
        raise WrongUseError("Name one of --pool, --deployment, --flow-run and --from.")
    if chosen > 1:
        raise WrongUseError("Name only one of --pool, --deployment, --flow-run and --from.")
    if from_ is not None:
        from prefect_vertex.cli.recorded import show_record

        if job_variable or quota:
            raise WrongUseError("--from goes with neither --job-variable nor --quota.")
        if not from_.strip():
            raise WrongUseError("--from names no launch record.")
        show_record(from_, output_format, full=full)
        return
    given = parse_job_variables(job_variable)
    rewritten = rewritten_texts(job_variable, given)
    what, plans, warnings, credentials = anyio.run(_plans, pool, deployment, flow_run, given)
    for line in dict.fromkeys([*rewritten, *warnings]):
        sys.stderr.write(f"warning: {line}\n")
    requests = [json.loads(each.as_json()) for each in plans]
    shown = [
        {
            **(request if full else without_bootstrap(request)),
            "resource_plan": [of_pool.as_json() for of_pool in each.resources],
        }
        for request, each in zip(requests, plans, strict=True)
    ]
    output: Any = shown
    if quota:
        from prefect_vertex.cli.quota import quota_json, quota_table, read_quotas

        found = anyio.run(read_quotas, plans, credentials)
        sys.stderr.write(quota_table(found))
        output = {"requests": shown, "quota": quota_json(found)}
    if output_format == "json":
        print(json.dumps(output, indent=2, ensure_ascii=False))
        return
    from prefect_vertex.planning.plan import MASK

    print(gcloud_script(requests, notes=_notes(what, flow_run, plans), mask=MASK), end="")


def without_bootstrap(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request for people: eight thousand characters of it are the same in every job."""
    from prefect_vertex.delivery.packing import packed_bootstrap

    known = Bootstrap.of(packed_bootstrap())
    return elided(request, known, bootstrap_marker(__version__, known.characters))


def parse_job_variables(texts: Sequence[str]) -> dict[str, Any]:
    """Read `name=value` as `prefect deployment run --job-variable` does: JSON, else plain text.

    Raises:
        PlanError: One has no name, or begins as JSON and is none.
    """
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise PlanError(f"--job-variable {text!r} is not name=value.")
        try:
            found[name] = json.loads(value)
        except ValueError as error:
            if _JSON.match(value) and not name.startswith(_TEXTS):
                raise PlanError(
                    f"--job-variable {name} is not the JSON that it begins as: {error}.",
                    variable=name,
                ) from error
            found[name] = value
    return found


def rewritten_texts(texts: Sequence[str], found: Mapping[str, Any]) -> list[str]:
    """A warning for each value of env and labels that is another text once it was read as JSON.

    Prefect reads it so too, so this is what the run would get: `1.10` becomes 1.1, `true` True.
    """
    given = {name: value for name, _, value in (text.partition("=") for text in texts)}
    return [
        f"--job-variable {name} is read as JSON, as Prefect does, and becomes another text: write "
        f"{name}='\"…\"' to keep what you wrote."
        for name, value in given.items()
        if name.startswith(_TEXTS)
        and isinstance(found[name], bool | int | float)
        and str(found[name]) != value
    ]


def _notes(what: str, flow_run: str, plans: Sequence[JobPlan]) -> list[str]:
    """What the script's reader should know: above all, what gcloud does in another way."""
    from prefect_vertex.vertex.channel import emulator_address

    notes = [f"Made by `prefect-vertex plan` for {what}. Running it creates a CustomJob."]
    if not flow_run:
        notes.append("No flow run stands behind it: the job starts, finds none and ends.")
        notes.append("`--flow-run ID` plans for one that exists.")
    if any(each.candidate.credentials_key for each in plans):
        notes.append("The worker would use a credentials block; gcloud uses its own account.")
    if emulator_address():
        notes.append("gcloud knows no emulator: the job is created in Vertex AI itself.")
    if len(plans) > 1:
        notes.append(f"{len(plans)} candidates: name one by its number, by default 1.")
    return notes


async def _plans(
    pool: str, deployment: str, flow_run: str, given: Mapping[str, Any]
) -> tuple[str, list[JobPlan], list[str], list[CredentialValues]]:
    """The plan of each candidate, what the user should know, and the candidates' credentials."""
    with prefect_told():
        async with get_client() as client:
            if pool:
                found = await for_pool(client, pool, given)
            elif deployment:
                found = await for_deployment(client, deployment, given)
            else:
                found = await for_flow_run(client, flow_run, given)
            configuration = await VertexJobConfiguration.resolve_for_flow_run(
                found.flow_run,
                client=WithNobody(client),  # type: ignore[arg-type] # as much of it as is used
                work_pool=found.work_pool,
                worker_name=WORKER_NAME,
                deployment=found.deployment,
            )
    plans = planned(configuration)
    return (
        found.what,
        plans,
        [
            *found.warnings,
            *configuration.warnings,
            *(line for each in plans for line in each.warnings),
            *filter(None, [about_plain_keys(each.candidate.secret_env for each in plans)]),
            *about_meetings(plans),
        ],
        [each.credential_values() for each in configuration.rendered],
    )


def planned(
    configuration: VertexJobConfiguration,
    known: Mapping[str, tuple[str, str]] | None = None,
) -> list[JobPlan]:
    """Plan what the worker plans for a first attempt.

    Args:
        configuration: Resolved for a flow run.
        known: Project and service account by the key of credentials; of others their files are
            read.

    Raises:
        PlanError: A mistake in the job variables.
        SetupError: A file of credentials is not readable.
    """
    from prefect_vertex.delivery.packing import packed_bootstrap
    from prefect_vertex.planning.plan import build_plan

    if configuration.fault is not None:
        raise configuration.fault
    identities = dict(known or {})
    for one in configuration.rendered:
        with one.judging():
            credentials = one.credential_values()
            if credentials.key not in identities:
                identities[credentials.key] = known_identity(credentials)
    spec = configuration.run_spec(identities=identities)
    bootstrap = packed_bootstrap()
    plans = []
    for one, each in zip(configuration.rendered, spec.candidates, strict=True):
        with one.judging():
            plans.append(build_plan(spec, each, attempt=1, bootstrap=bootstrap))
    return plans


def about_meetings(plans: Sequence[JobPlan]) -> list[str]:
    """A warning where several replicas run the flow and have no bucket to meet in, each once.

    Said beforehand only: a run whose flow calls neither barrier nor gather needs no bucket.
    """
    from prefect_vertex.planning.gang import COUNTED_POOLS

    found = []
    for each in plans:
        pools = each.request.custom_job.job_spec.worker_pool_specs
        first = {entry.name: entry.value for pool in pools[:1] for entry in pool.container_spec.env}
        if first.get("PREFECT_VERTEX_REPLICAS") == "flow" and not each.candidate.staging_folder:
            count = sum(pool.replica_count for pool in pools[:COUNTED_POOLS])
            found.append(
                f"{count} replicas run the flow without staging_bucket: barrier and gather fail. "
                "Set it if the flow calls them."
            )
    return list(dict.fromkeys(found))


@contextmanager
def prefect_told() -> Iterator[None]:
    """Tell the Prefect API's trouble in one line.

    Without an address Prefect's client would start a server of its own, which no job can reach.
    """
    if not PREFECT_API_URL.value():
        raise SetupError("PREFECT_API_URL is not set.", hint="Set it to the API of a server.")
    try:
        yield
    except httpx.InvalidURL:
        # What it says may be a part of the password, so not even a cause is kept.
        raise SetupError(
            "PREFECT_API_URL is not the address of an API.",
            hint="Write it as https://HOST/api.",
        ) from None
    except httpx.HTTPError as error:
        raise SetupError(
            f"The Prefect API did not answer as it should: {type(error).__name__}: {told(error)}",
            hint="Set PREFECT_API_URL to a server that runs.",
        ) from error
