"""`prefect-vertex doctor`: checks a pool end to end, and says what mends what is wrong."""

from __future__ import annotations

import json as json_module
import shlex
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import anyio
import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import WorkerStatus
from prefect.settings import PREFECT_API_URL

from prefect_vertex.cli.doctor.about_address import SET
from prefect_vertex.cli.doctor.about_pool import (
    PoolFacts,
    about_kind,
    about_template,
    about_workers,
    check_kind,
    drift_of,
    renewed_template,
)
from prefect_vertex.cli.doctor.finding import (
    Finding,
    Verdict,
    exit_code,
    failed,
    ok,
    tally,
    unchecked,
    warning,
)
from prefect_vertex.cli.plan import prefect_told
from prefect_vertex.cli.terminal import console, quiet, working
from prefect_vertex.cli.usage import WrongUseError
from prefect_vertex.errors import PlanError
from prefect_vertex.planning.addresses import shown_url, told
from prefect_vertex.runs.submitters import is_submitter
from prefect_vertex.settings import read_settings
from prefect_vertex.template import base_job_template

if TYPE_CHECKING:
    from prefect.client.orchestration import PrefectClient

    from prefect_vertex.cli.doctor.site import Site
    from prefect_vertex.cli.subject import Subject

_STYLES = {
    Verdict.OK: "green",
    Verdict.WARNING: "yellow",
    Verdict.FAILED: "bold red",
    Verdict.UNCHECKED: "dim",
}
_WIDTH = max(len(each.value) for each in Verdict)
_LOG_READING = "the log lines of jobs cannot be brought into Prefect."
_QUOTA_READING = "preflight_quota has no effect."


def doctor(
    *, pool: str = "", deployment: str = "", json: bool = False, template: bool = False
) -> int:
    """Check a work pool end to end: Prefect, Google Cloud, and what its jobs need.

    Nothing is changed, and no job is created. Each line is ok, a warning, failed, or not checked
    here and why; below it stands the one command that mends it. It is asked as the worker of this
    machine and profile would ask.

    The exit code is 1 if anything failed, 2 for options that mean nothing, else 0.

    Args:
        pool: The work pool, with the defaults of its form.
        deployment: A deployment instead, FLOW/NAME or its id, with its own job variables.
        json: Print one JSON object instead.
        template: Check nothing: print the pool's base job template brought up to this version,
            with its defaults and its own edits kept.
    """
    if bool(pool) == bool(deployment):
        raise WrongUseError("Name one of --pool and --deployment.")
    if template:
        if not pool or json:
            raise WrongUseError("--template takes --pool and nothing else.")
        print(json_module.dumps(anyio.run(_renewed, pool), indent=2, ensure_ascii=False))
        return 0
    with quiet(), working(f"Checking {pool or deployment}"):
        findings = anyio.run(_examine, pool, deployment)
    if json:
        report = {
            "pool": pool,
            "deployment": deployment,
            "counts": tally(findings),
            "findings": [each.as_json() for each in findings],
        }
        print(json_module.dumps(report, indent=2, ensure_ascii=False))
    else:
        show(findings)
    return exit_code(findings)


def show(findings: Sequence[Finding]) -> None:
    """Print findings for a person, each command on a line of its own."""
    out = console()
    width = max((len(each.check) for each in findings), default=0)
    for each in findings:
        out.print(each.verdict.value.ljust(_WIDTH), style=_STYLES[each.verdict], end="  ")
        out.print(f"{each.check.ljust(width)}  {each.text}")
        if each.fix:
            out.print(f"{' ' * _WIDTH}  {each.fix}", style="cyan")
    counts = (f"{count} {verdict}" for verdict, count in tally(findings).items() if count)
    out.print(f"\n{', '.join(counts)}")


async def _renewed(pool: str) -> dict[str, Any]:
    from prefect_vertex.cli.subject import for_pool

    with prefect_told():
        async with get_client() as client:
            found = (await for_pool(client, pool, {})).work_pool
    check_kind(found.name, found.type)
    return renewed_template(found.base_job_template, base_job_template())


async def _examine(pool: str, deployment: str) -> list[Finding]:
    url = PREFECT_API_URL.value()
    check = "Prefect API"
    if not url:
        return [failed(check, "PREFECT_API_URL is not set.", SET)]
    findings: list[Finding] = []
    try:
        async with get_client() as client:
            version = await client.api_version()
            findings.append(ok(check, f"{shown_url(url)} answers, version {version}."))
            await _examine_pool(client, pool, deployment, findings)
    except httpx.HTTPStatusError as error:
        findings.append(_refused(check, url, error))
    except httpx.InvalidURL:
        # What it says may be a part of the password.
        findings.append(failed(check, f"{shown_url(url)} is not the address of an API.", SET))
    except (httpx.HTTPError, RuntimeError, ValueError) as error:
        text = f"{shown_url(url)}: {type(error).__name__}: {told(error)}"
        findings.append(failed(check, text))
    return findings


def _refused(check: str, url: str, error: httpx.HTTPStatusError) -> Finding:
    status = error.response.status_code
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return failed(
            check,
            f"{shown_url(url)} refuses this profile's key or auth string ({status}).",
            "prefect cloud login" if "prefect.cloud" in url else "prefect config view",
        )
    return failed(check, f"{shown_url(url)} answered {status} to {error.request.url.path}.")


async def _examine_pool(
    client: PrefectClient, pool: str, deployment: str, findings: list[Finding]
) -> None:
    from prefect_vertex.cli.doctor.site import read_subject

    try:
        subject = await read_subject(client, pool, deployment)
    except PlanError as error:
        name = "deployment" if deployment else "work pool"
        quoted = shlex.quote(pool)
        fix = (
            "prefect deployment ls"
            if deployment
            else f"prefect work-pool create {quoted} --type vertex-custom-job"
        )
        findings.append(failed(name, error.message, fix))
        return
    work_pool = subject.work_pool
    listed = await client.read_workers_for_work_pool(work_pool.name)
    workers = [each for each in listed if not is_submitter(each.name)]
    facts = PoolFacts(
        name=work_pool.name,
        kind=work_pool.type,
        paused=bool(work_pool.is_paused),
        online=[each.name for each in workers if each.status is not WorkerStatus.OFFLINE],
        offline=[each.name for each in workers if each.status is WorkerStatus.OFFLINE],
    )
    drift = drift_of(work_pool.base_job_template, base_job_template())
    findings.append(kind := about_kind(facts))
    if kind.verdict is Verdict.FAILED:
        # What mends a pool of ours would overwrite this one's template.
        return
    findings += [about_template(facts, drift), about_workers(facts)]
    findings += await _examine_jobs(client, subject)


async def _examine_jobs(client: PrefectClient, subject: Subject) -> list[Finding]:
    """What its jobs need, in Google Cloud and from there."""
    from prefect_vertex.cli.doctor.about_project import READ_LOGS
    from prefect_vertex.cli.doctor.asking import Asking
    from prefect_vertex.cli.doctor.probes import checks_of, run_checks
    from prefect_vertex.cli.doctor.site import configured, credentials_of, site_of
    from prefect_vertex.cli.onlooker import looking_at
    from prefect_vertex.vertex.gateways import Gateways

    settings = read_settings()
    configuration = await configured(client, subject)
    gateways = Gateways(
        submissions_per_minute=settings.submissions_per_minute,
        reads_per_minute=settings.reads_per_minute,
    )
    try:
        asking = Asking(gateways)
        found = [await asking.credentials(each) for each in credentials_of(configuration)]
        known = {
            key: (each.project, each.account)
            for key, each in asking.callers.items()
            if each.project
        }
        site = await site_of(client, subject, configuration, known)
        targets = {each.target for each in site.places}
        async with looking_at(subject.work_pool, client, settings) as surroundings:
            targets |= surroundings.world().home()
        others = {READ_LOGS: _LOG_READING} if site.streams_output else {}
        if site.reads_quotas:
            others["cloudquotas.quotas.get"] = _QUOTA_READING
        checks = checks_of(asking, site, sorted(targets, key=str), others)
        lacking = any(each.verdict is Verdict.FAILED for each in found)
        return [
            *about_variables(site, lacks_credentials=lacking),
            *found,
            *await run_checks(list(checks)),
        ]
    finally:
        await gateways.aclose()


def about_variables(site: Site, *, lacks_credentials: bool = False) -> list[Finding]:
    """Whether the job variables lead to a job at all; if not, what is skipped for that.

    Args:
        site: What is checked.
        lacks_credentials: Whether some could not be loaded, which may be why there is no job.
    """
    check = "job variables"
    if site.fault is not None:
        from prefect_vertex.cli.doctor.probes import SKIPPED

        why = SKIPPED if lacks_credentials else "Skipped: without a job there is nothing to ask."
        return [failed(check, str(site.fault)), _skipped(why)]
    found = [warning(check, line) for line in site.warnings]
    if site.left:
        name = shlex.quote(site.subject.work_pool.name)
        lacks = " and no ".join(site.left)
        text = f"{name} names no {lacks}: each of its deployments has to; --deployment checks one."
        example = shlex.quote(site.example)
        fix = f"prefect-vertex doctor --deployment {example}" if site.example else ""
        found.append(warning(check, text, fix))
    if "region" in site.left:
        found.append(_skipped("Skipped: it depends on the region."))
    if found:
        return found
    if len(site.plans) == 1:
        return [ok(check, "They lead to a job.")]
    return [ok(check, f"They lead to a job at each of {len(site.plans)} candidates.")]


def _skipped(why: str) -> Finding:
    """One line for all the checks that need to know a job."""
    return unchecked(
        "what a job needs",
        f"{why} (PREFECT_API_URL in the job, API, roles, act-as, job's log, image, bucket, "
        "API key's secret, quotas)",
    )
