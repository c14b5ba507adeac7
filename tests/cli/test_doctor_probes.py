"""The probes ask the right resource, and their answers end where they should; Google is a fake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio
import pytest
from prefect.client.schemas.objects import FlowRun, WorkPool

from prefect_vertex.cli.doctor.about_project import ACT_AS, JOB_PERMISSIONS, Caller
from prefect_vertex.cli.doctor.asking import Asking
from prefect_vertex.cli.doctor.finding import Finding, Verdict, ok
from prefect_vertex.cli.doctor.place import Place
from prefect_vertex.cli.doctor.probes import SKIPPED, checks_of, run_checks
from prefect_vertex.cli.doctor.project_probes import (
    ask_act_as,
    ask_api,
    ask_log_writer,
    ask_permissions,
)
from prefect_vertex.cli.doctor.resource_probes import ask_bucket, ask_image, ask_secret
from prefect_vertex.cli.doctor.site import Site
from prefect_vertex.cli.subject import NOBODY, Subject
from prefect_vertex.errors import SetupError
from prefect_vertex.planning.spec import Target
from prefect_vertex.vertex.gateways import Gateways
from prefect_vertex.vertex.rest import GoogleRest, RestAnswer, read_answer

pytestmark = pytest.mark.anyio

FLOWS = "flows@p.iam.gserviceaccount.com"
AGENT = "serviceAccount:service-42@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
IMAGE = "europe-west4-docker.pkg.dev/images/flows/forecast:3"
REPOSITORY = "v1/projects/images/locations/europe-west4/repositories/flows"
SECRET = "projects/vault/secrets/key"
KEY = "pnu_a-key-that-nobody-may-see"
PLACE = Place(
    target=Target("p", "europe-west4"),
    service_account=FLOWS,
    images=(IMAGE,),
    buckets=("staging",),
    secret=f"{SECRET}/versions/latest",
)


class FakeGoogle(GoogleRest):
    """Answers by service and path; everything else is not found."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    def can_ask(self, service: str) -> bool:
        return True

    async def ask(self, service: str, path: str, **request: Any) -> RestAnswer:
        self.asked.append(f"{service}/{path}")
        body = self.answers.get(f"{service}/{path}")
        if callable(body):
            body = body(request)
        if body is None:
            return read_answer(404, {"error": {"message": f"{path} not found."}})
        return read_answer(200, body)


def granted(role: str, member: str) -> dict[str, Any]:
    return {"bindings": [{"role": role, "members": [member]}]}


def held(*permissions: str) -> Any:
    """Of those that are asked about, the ones that are held."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        wanted = request.get("body") or request.get("params") or {}
        return {"permissions": [each for each in wanted["permissions"] if each in permissions]}

    return answer


@pytest.fixture
def asking() -> Asking:
    """All that a pool needs is there and granted."""
    gateways = Gateways(submissions_per_minute=1, reads_per_minute=1, environ={})
    found = Asking(gateways)
    found.callers[""] = Caller(project="p", account="worker@p.iam.gserviceaccount.com")
    found.rest = FakeGoogle(
        {
            "serviceusage/v1/projects/p/services/aiplatform.googleapis.com": {"state": "ENABLED"},
            "cloudresourcemanager/v3/projects/p": {"name": "projects/42"},
            "cloudresourcemanager/v3/projects/p:testIamPermissions": held(*JOB_PERMISSIONS),
            "cloudresourcemanager/v3/projects/p:getIamPolicy": {
                "bindings": [
                    {"role": "roles/logging.logWriter", "members": [f"serviceAccount:{FLOWS}"]},
                    {"role": "roles/aiplatform.customCodeServiceAgent", "members": [AGENT]},
                ]
            },
            "cloudresourcemanager/v3/projects/images:getIamPolicy": {},
            "cloudresourcemanager/v3/projects/vault:getIamPolicy": {},
            f"iam/v1/projects/-/serviceAccounts/{FLOWS}:testIamPermissions": held(ACT_AS),
            f"artifactregistry/{REPOSITORY}/packages/forecast/tags/3": {"name": "3"},
            f"artifactregistry/{REPOSITORY}:getIamPolicy": granted(
                "roles/artifactregistry.reader", AGENT
            ),
            "storage/storage/v1/b/staging": {"location": "EUROPE-WEST4", "projectNumber": "42"},
            "storage/storage/v1/b/staging/iam/testPermissions": held(
                "storage.objects.create", "storage.objects.get", "storage.objects.list"
            ),
            "storage/storage/v1/b/staging/iam": granted(
                "roles/storage.objectUser", f"serviceAccount:{FLOWS}"
            ),
            f"secretmanager/v1/{SECRET}/versions/latest:access": {"payload": {"data": KEY}},
            f"secretmanager/v1/{SECRET}:getIamPolicy": granted(
                "roles/secretmanager.secretAccessor", f"serviceAccount:{FLOWS}"
            ),
        }
    )
    return found


async def all_of(asking: Asking) -> list[Finding]:
    return [
        *await ask_api(asking, PLACE),
        *await ask_permissions(asking, PLACE, {}),
        *await ask_act_as(asking, PLACE),
        *await ask_log_writer(asking, PLACE),
        *await ask_image(asking, IMAGE, PLACE),
        *await ask_bucket(asking, "staging", PLACE, [PLACE]),
        *await ask_secret(asking, PLACE),
    ]


async def test_a_project_where_all_is_granted_is_all_ok(asking: Asking) -> None:
    found = await all_of(asking)

    assert {each.verdict for each in found} == {Verdict.OK}, found
    assert KEY not in json.dumps([each.as_json() for each in found])


async def test_what_several_checks_need_is_asked_once(asking: Asking) -> None:
    await all_of(asking)

    assert isinstance(asking.rest, FakeGoogle)
    asked = asking.rest.asked
    assert len(asked) == len(set(asked))


async def test_an_empty_project_is_told_without_any_error(asking: Asking) -> None:
    """Every check says something of its own, and none that all is well."""
    asking.rest = FakeGoogle({})
    found = await all_of(asking)

    assert Verdict.OK not in {each.verdict for each in found}
    assert all(each.text for each in found)


@pytest.mark.parametrize(
    ("owner", "verdict"),
    [("42", Verdict.OK), ("77", Verdict.WARNING), ("", Verdict.UNCHECKED)],
    ids=["the job's project", "another project", "not known"],
)
async def test_who_may_use_a_bucket_is_said_by_the_project_that_owns_it(
    asking: Asking, owner: str, verdict: Verdict
) -> None:
    """A role in the job's own project is worth nothing in another one's bucket."""
    assert isinstance(asking.rest, FakeGoogle)
    policies = "cloudresourcemanager/v3/projects"
    asking.rest.answers |= {
        "storage/storage/v1/b/staging": {"location": "EUROPE-WEST4", "projectNumber": owner},
        "storage/storage/v1/b/staging/iam": {},
        f"{policies}/p:getIamPolicy": granted("roles/storage.admin", f"serviceAccount:{FLOWS}"),
        f"{policies}/77:getIamPolicy": {},
    }

    found = await ask_bucket(asking, "staging", PLACE, [PLACE])

    assert found[-1].verdict is verdict, found[-1]


async def test_what_nobody_has_the_credentials_to_ask_is_skipped_by_name(asking: Asking) -> None:
    """Of the place whose credentials could be loaded, everything is asked."""
    elsewhere = replace(PLACE, target=Target("q", "us-east1", "a-block"), buckets=("other",))
    pool = WorkPool(name="pool", type="vertex-custom-job", default_queue_id=NOBODY)
    subject = Subject(what="pool", flow_run=FlowRun(flow_id=NOBODY), work_pool=pool)
    site = Site(subject=subject, credentials=(), places=(PLACE, elsewhere))
    checks = list(checks_of(asking, site, [elsewhere.target], {}))
    names = [name for name, _ in checks]
    lacking = {"Vertex AI in us-east1", "API in q", "roles in q", "bucket other", "quotas"}
    found = [each for name, probe in checks if name in lacking for each in await probe()]

    assert {each.check for each in found} == lacking
    assert {(each.verdict, each.text) for each in found} == {(Verdict.UNCHECKED, SKIPPED)}
    assert {"API in p", "roles in p", "bucket staging"} <= set(names)


async def test_a_check_that_breaks_or_hangs_keeps_no_other_from_its_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Findings come in the order of the checks."""

    async def breaks() -> list[Finding]:
        raise SetupError("It is broken.")

    async def hangs() -> list[Finding]:
        await anyio.sleep_forever()
        return []

    async def is_at_fault() -> list[Finding]:
        raise KeyError("a key")

    async def works() -> list[Finding]:
        return [ok("works", "Fine.")]

    monkeypatch.setattr("prefect_vertex.cli.doctor.probes.SECONDS", 0.01)
    checks = [("breaks", breaks), ("hangs", hangs), ("at fault", is_at_fault), ("works", works)]
    found = await run_checks(checks)

    assert [each.check for each in found] == ["breaks", "hangs", "at fault", "works"]
    assert [each.verdict for each in found] == [*[Verdict.UNCHECKED] * 3, Verdict.OK]
    assert (found[0].text, found[2].text) == ("It is broken.", "KeyError: 'a key'")
