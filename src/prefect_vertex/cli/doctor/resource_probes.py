"""Ask about what a job reads. Each is one question or a few; none decides anything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from prefect_vertex.capacity.meters import demand_of
from prefect_vertex.capacity.quota import preflight
from prefect_vertex.cli.doctor.about_quotas import about_quotas
from prefect_vertex.cli.doctor.about_resources import (
    BUCKET_PERMISSIONS,
    BucketAnswers,
    about_bucket,
    about_image,
    about_secret,
    read_image,
)
from prefect_vertex.cli.doctor.asking import Asking
from prefect_vertex.cli.doctor.finding import Finding, unchecked
from prefect_vertex.cli.doctor.place import Place
from prefect_vertex.vertex.channel import EMULATOR_VARIABLE
from prefect_vertex.vertex.quotas import EMULATOR_VARIABLE as QUOTAS_VARIABLE
from prefect_vertex.vertex.rest import UNASKED, RestAnswer

if TYPE_CHECKING:
    from prefect_vertex.planning.plan import JobPlan


async def ask_image(asking: Asking, uri: str, place: Place) -> list[Finding]:
    """The image, as the agent that pulls it sees it."""
    project, image = place.target.project, read_image(uri)
    if image is None or not asking.rest.can_ask("artifactregistry"):
        found = UNASKED if asking.emulated else RestAnswer()
        none: tuple[RestAnswer, ...] = ()
        return [about_image(uri, project, found=found, project_number="", policies=none)]
    found = await asking.ask("artifactregistry", f"v1/{image.version_path}", place)
    policy = f"v1/{image.repository_name}:getIamPolicy"
    policies = (
        await asking.ask("artifactregistry", policy, place),
        await asking.project_policy(image.project.replace("/", ":"), place),
        await asking.project_policy(project, place),
    )
    number = await asking.project_number(project, place)
    return [about_image(uri, project, found=found, project_number=number, policies=policies)]


async def ask_bucket(
    asking: Asking, name: str, place: Place, places: Sequence[Place]
) -> list[Finding]:
    """A bucket, for those who use it."""
    path = f"storage/v1/b/{name}"
    fields = {"fields": "location,locationType,customPlacementConfig,projectNumber"}
    bucket = await asking.ask("storage", path, place, params=fields)
    permissions = UNASKED
    policies: tuple[RestAnswer, ...] = (UNASKED,)
    if not asking.emulated:
        wanted = {"permissions": list(BUCKET_PERMISSIONS)}
        permissions = await asking.ask(
            "storage", f"{path}/iam/testPermissions", place, params=wanted
        )
        own = await asking.ask("storage", f"{path}/iam", place)
        policies = (own, await _policy_of_its_project(asking, bucket, place))
    users = [each for each in places if name in each.buckets]
    return list(
        about_bucket(
            name,
            locations=list(dict.fromkeys(each.target.location for each in users)),
            project=place.target.project,
            account=place.service_account,
            answers=BucketAnswers(bucket=bucket, permissions=permissions, policies=policies),
            member=asking.caller(place).member,
        )
    )


async def _policy_of_its_project(asking: Asking, bucket: RestAnswer, place: Place) -> RestAnswer:
    """The policy of the project that owns a bucket, which need not be the job's."""
    number, project = str(bucket.body.get("projectNumber", "")), place.target.project
    if not number:
        return RestAnswer(problem="the bucket's own project is not known.")
    if number == await asking.project_number(project, place):
        # By its id other checks ask for it too.
        return await asking.project_policy(project, place)
    return await asking.project_policy(number, place)


async def ask_secret(asking: Asking, place: Place) -> list[Finding]:
    """The secret with the Prefect API's key."""
    version = place.secret
    _, project, _, secret, *_ = version.split("/")
    answer = await asking.ask("secretmanager", f"v1/{version}:access", place)
    # What it holds goes no further than this line.
    read = RestAnswer(
        status=answer.status,
        problem=answer.problem,
        reason=answer.reason,
        asked=answer.asked,
    )
    policies: tuple[RestAnswer, ...] = (UNASKED,)
    if not asking.emulated:
        policies = (
            await asking.ask(
                "secretmanager", f"v1/projects/{project}/secrets/{secret}:getIamPolicy", place
            ),
            await asking.project_policy(project, place),
        )
    return [about_secret(version, place.service_account, read=read, policies=policies)]


async def ask_quotas(asking: Asking, plans: Sequence[JobPlan]) -> list[Finding]:
    """The quotas of all candidates' projects."""
    if asking.emulated and not os.environ.get(QUOTAS_VARIABLE):
        return [unchecked("quotas", f"{EMULATOR_VARIABLE} is set, {QUOTAS_VARIABLE} is not.")]
    places = [(each.candidate.project, each.candidate.credentials_key) for each in plans]
    readings = await asking.gateways.quotas.read(places)
    return list(about_quotas(preflight([demand_of(each) for each in plans], readings)))
