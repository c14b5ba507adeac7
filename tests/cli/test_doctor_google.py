"""What doctor says of answers of Google's that no emulator gives: roles, APIs, images, secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from prefect_vertex.cli.doctor.about_project import (
    ACT_AS,
    JOB_PERMISSIONS,
    READ_LOGS,
    Caller,
    about_act_as,
    about_api,
    about_credentials,
    about_location,
    about_log_writer,
    about_permissions,
)
from prefect_vertex.cli.doctor.about_resources import (
    BucketAnswers,
    about_bucket,
    about_image,
    about_secret,
    agent_of,
    read_image,
)
from prefect_vertex.cli.doctor.finding import Finding, Verdict
from prefect_vertex.errors import AccessDeniedError, ServiceVerdict
from prefect_vertex.planning.spec import Target
from prefect_vertex.vertex.rest import UNASKED, RestAnswer, read_answer

OK, WARNING, FAILED, UNCHECKED = Verdict.OK, Verdict.WARNING, Verdict.FAILED, Verdict.UNCHECKED
WORKER = Caller(project="p", account="worker@p.iam.gserviceaccount.com")
PERSON = Caller(project="p")
FLOWS = "flows@p.iam.gserviceaccount.com"
AGENT = f"serviceAccount:{agent_of('42')}"
IMAGE = "europe-west4-docker.pkg.dev/p/flows/team/forecast:3"
VERSION = "projects/p/secrets/prefect-api-key/versions/latest"
DENIED = read_answer(403, {"error": {"message": "Permission denied."}})
MISSING = read_answer(404, {"error": {"message": "Not found."}})
DISABLED = read_answer(
    403, {"error": {"message": "Not used before.", "details": [{"reason": "SERVICE_DISABLED"}]}}
)
EMPTY = read_answer(200, {})


def answer(**body: Any) -> RestAnswer:
    return read_answer(200, body)


def policy(*bindings: tuple[str, str], **more: Any) -> RestAnswer:
    """Role and member of each binding."""
    return answer(bindings=[{"role": r, "members": [m], **more} for r, m in bindings])


def short(finding: Finding) -> tuple[Verdict, str]:
    return finding.verdict, finding.fix


# --- the project ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caller", "key", "verdict", "fix"),
    [
        (WORKER, "", OK, ""),
        (PERSON, "", OK, ""),
        (None, "", UNCHECKED, ""),
        (AccessDeniedError("None."), "", FAILED, "gcloud auth application-default login"),
        (AccessDeniedError("None."), "block", FAILED, ""),
    ],
)
def test_credentials(caller: Any, key: str, verdict: Verdict, fix: str) -> None:
    assert short(about_credentials(caller, key)) == (verdict, fix)


@pytest.mark.parametrize(
    ("live", "verdict", "fix"),
    [
        (3, OK, ""),
        (
            AccessDeniedError("No.", verdict=ServiceVerdict(code="PERMISSION_DENIED")),
            FAILED,
            (
                "gcloud projects add-iam-policy-binding p --member "
                '"user:$(gcloud config get account)" --role roles/aiplatform.user --condition None'
            ),
        ),
        (
            AccessDeniedError(
                "No.", verdict=ServiceVerdict(code="PERMISSION_DENIED", reason="SERVICE_DISABLED")
            ),
            FAILED,
            "gcloud services enable aiplatform.googleapis.com --project p",
        ),
        (
            AccessDeniedError("No.", verdict=ServiceVerdict(code="UNAUTHENTICATED")),
            FAILED,
            "gcloud auth application-default login",
        ),
    ],
)
def test_a_location_answers_or_says_what_to_do(live: Any, verdict: Verdict, fix: str) -> None:
    assert short(about_location(Target("p", "us-central1"), live, PERSON)) == (verdict, fix)


@pytest.mark.parametrize(
    ("said", "verdict", "fix"),
    [
        (answer(state="ENABLED"), OK, ""),
        (
            answer(state="DISABLED"),
            FAILED,
            "gcloud services enable aiplatform.googleapis.com --project p",
        ),
        (DENIED, UNCHECKED, ""),
        (DISABLED, UNCHECKED, "gcloud services enable serviceusage.googleapis.com --project p"),
        (UNASKED, UNCHECKED, ""),
    ],
)
def test_the_api_is_enabled(said: RestAnswer, verdict: Verdict, fix: str) -> None:
    assert short(about_api("p", said)) == (verdict, fix)


def test_what_the_worker_lacks_is_named_with_the_role_that_has_it() -> None:
    held = answer(permissions=[*JOB_PERMISSIONS[:-1]])
    lacks, logs = about_permissions("p", held, WORKER, others={READ_LOGS: "no lines."})

    assert (lacks.verdict, logs.verdict) == (FAILED, WARNING)
    assert JOB_PERMISSIONS[-1] in lacks.text
    assert f'--member "serviceAccount:{WORKER.account}" --role roles/aiplatform.user' in lacks.fix
    assert "--role roles/logging.viewer" in logs.fix


def test_all_permissions_is_one_line() -> None:
    held = answer(permissions=[*JOB_PERMISSIONS, READ_LOGS])

    (found,) = about_permissions("p", held, WORKER, others={READ_LOGS: "no lines."})
    assert found.verdict is OK
    (unknown,) = about_permissions("p", DISABLED, WORKER, others={})
    assert short(unknown) == (
        UNCHECKED,
        "gcloud services enable cloudresourcemanager.googleapis.com --project p",
    )


GRANT_ACT_AS = (
    f"gcloud iam service-accounts add-iam-policy-binding {FLOWS} "
    f'--member "serviceAccount:{WORKER.account}" --role roles/iam.serviceAccountUser --project p'
)


@pytest.mark.parametrize(
    ("account", "said", "verdict", "fix"),
    [
        ("", UNASKED, OK, ""),
        (FLOWS, answer(permissions=[ACT_AS]), OK, ""),
        (FLOWS, EMPTY, FAILED, GRANT_ACT_AS),
        (FLOWS, DENIED, FAILED, GRANT_ACT_AS),
        (FLOWS, MISSING, FAILED, "gcloud iam service-accounts create flows --project p"),
        (FLOWS, DISABLED, UNCHECKED, "gcloud services enable iam.googleapis.com --project p"),
        (FLOWS, UNASKED, UNCHECKED, ""),
    ],
)
def test_jobs_may_run_as_their_account(
    account: str, said: RestAnswer, verdict: Verdict, fix: str
) -> None:
    assert short(about_act_as(account, said, WORKER)) == (verdict, fix)


@pytest.mark.parametrize(
    ("account", "said", "verdict"),
    [
        ("", [], OK),
        (FLOWS, [policy(("roles/logging.logWriter", f"serviceAccount:{FLOWS}"))], OK),
        (FLOWS, [policy(("roles/editor", f"serviceAccount:{FLOWS}"))], OK),
        (FLOWS, [policy(("roles/viewer", f"serviceAccount:{FLOWS}"))], WARNING),
        (FLOWS, [policy(("roles/logging.logWriter", "serviceAccount:x"))], WARNING),
        (
            FLOWS,
            [policy(("roles/logging.logWriter", f"serviceAccount:{FLOWS}"), condition={"a": 1})],
            UNCHECKED,
        ),
        (FLOWS, [DENIED], UNCHECKED),
    ],
)
def test_what_no_policy_shows_is_a_warning_and_never_a_failure(
    account: str, said: list[RestAnswer], verdict: Verdict
) -> None:
    """A group, a custom role or a folder may give it."""
    assert about_log_writer("p", account, said).verdict is verdict


# --- the image ------------------------------------------------------------------------------------


def test_an_image_s_parts_are_read_from_its_name() -> None:
    image = read_image(IMAGE)
    assert image is not None
    assert image.version_path == (
        "projects/p/locations/europe-west4/repositories/flows/packages/team%2Fforecast/tags/3"
    )
    pinned = read_image(f"us-docker.pkg.dev/p/r/i@sha256:{'a' * 64}")
    assert pinned is not None
    assert pinned.version_path.endswith(f"/packages/i/versions/sha256:{'a' * 64}")
    assert read_image("python:3.12") is None


READER = policy(("roles/artifactregistry.reader", AGENT))
OF_AGENT = policy(("roles/aiplatform.customCodeServiceAgent", AGENT))
NOBODY = policy(("roles/viewer", "user:a@b.c"))


@pytest.mark.parametrize(
    ("uri", "project", "found", "policies", "verdict", "fix"),
    [
        pytest.param(IMAGE, "p", EMPTY, [NOBODY, OF_AGENT, OF_AGENT], OK, "", id="own project"),
        pytest.param(IMAGE, "q", EMPTY, [READER, NOBODY, OF_AGENT], OK, "", id="granted"),
        pytest.param(
            IMAGE,
            "q",
            EMPTY,
            [NOBODY, OF_AGENT, OF_AGENT],
            WARNING,
            "gcloud artifacts repositories add-iam-policy-binding flows --location europe-west4 "
            f'--project p --member "{AGENT}" --role roles/artifactregistry.reader',
            id="another project",
        ),
        pytest.param(
            IMAGE,
            "p",
            MISSING,
            [],
            FAILED,
            f"gcloud builds submit --tag {IMAGE} --project p",
            id="no such image",
        ),
        pytest.param(
            IMAGE,
            "p",
            EMPTY,
            [NOBODY, NOBODY, NOBODY],
            WARNING,
            "gcloud beta services identity create --service aiplatform.googleapis.com --project p",
            id="no agent yet",
        ),
        pytest.param(IMAGE, "p", UNASKED, [], UNCHECKED, "", id="emulator"),
        pytest.param("docker.io/library/python:3", "p", EMPTY, [], WARNING, "", id="elsewhere"),
        pytest.param("gcr.io/p/i:1", "p", EMPTY, [], UNCHECKED, "", id="gcr.io"),
    ],
)
def test_the_image_is_there_for_the_agent_that_pulls_it(
    uri: str,
    project: str,
    found: RestAnswer,
    policies: list[RestAnswer],
    verdict: Verdict,
    fix: str,
) -> None:
    """Vertex AI's own agent pulls, whatever account the job runs as."""
    said = about_image(uri, project, found=found, project_number="42", policies=policies)

    assert short(said) == (verdict, fix)


# --- the bucket -----------------------------------------------------------------------------------

ALL = ["storage.objects.create", "storage.objects.get", "storage.objects.list"]


def bucket(
    answers: BucketAnswers, *locations: str, account: str = ""
) -> Mapping[Verdict, list[Finding]]:
    found: dict[Verdict, list[Finding]] = {}
    for each in about_bucket(
        "b",
        locations=locations or ("us-central1",),
        project="p",
        account=account,
        answers=answers,
        member="user:me",
    ):
        found.setdefault(each.verdict, []).append(each)
    return found


EAST_AND_WEST = {"dataLocations": ["US-EAST1", "US-WEST1"]}


@pytest.mark.parametrize(
    ("body", "locations", "is_near"),
    [
        ({"location": "US-CENTRAL1"}, ("us-central1",), True),
        ({"location": "US"}, ("us-central1", "us-east1"), True),
        ({"location": "EU"}, ("europe-west4",), True),
        ({"location": "EU"}, ("us-central1",), False),
        ({"location": "EU"}, ("europe-west2",), False),
        ({"location": "EU"}, ("europe-west4", "europe-west6"), False),
        ({"location": "EUR7"}, ("europe-west2",), True),
        ({"location": "EUROPE-WEST4"}, ("europe-west4", "us-central1"), False),
        ({"location": "NAM4"}, ("us-central1", "us-east1"), True),
        ({"location": "EUR4"}, ("europe-west4", "us-central1"), False),
        ({"location": "ASIA1"}, ("asia-northeast1", "us-central1"), False),
        ({"location": "US", "customPlacementConfig": EAST_AND_WEST}, ("us-east1",), True),
        ({"location": "US", "customPlacementConfig": EAST_AND_WEST}, ("us-central1",), False),
    ],
)
def test_a_bucket_far_from_its_jobs_is_a_warning(
    body: dict[str, Any], locations: tuple[str, ...], *, is_near: bool
) -> None:
    found = bucket(
        BucketAnswers(bucket=answer(**body), permissions=answer(permissions=ALL)), *locations
    )

    assert (WARNING not in found) == is_near
    if not is_near:
        far = locations[-1]
        fix = f"gcloud storage buckets create gs://b-{far} --location {far}"
        assert fix in found[WARNING][0].fix


def test_a_dual_region_that_is_not_known_here_is_not_judged() -> None:
    """Google may add one; a warning would be as wrong as an ok."""
    here = answer(location="EUR9", locationType="dual-region")
    found = bucket(BucketAnswers(bucket=here, permissions=answer(permissions=ALL)))

    assert [each.text for each in found[UNCHECKED]] == [
        "In eur9, a dual-region whose two regions are not known here."
    ]


def test_a_bucket_that_is_not_there_is_created_where_the_job_runs() -> None:
    found = bucket(BucketAnswers(bucket=MISSING), "europe-west4", account=FLOWS)

    assert list(found) == [FAILED]
    assert found[FAILED][0].fix == (
        "gcloud storage buckets create gs://b --location europe-west4 --project p"
    )


def test_a_bucket_is_open_to_who_stages_and_to_the_job() -> None:
    here = answer(location="US-CENTRAL1")
    users = policy(("roles/storage.objectUser", f"serviceAccount:{FLOWS}"))
    open_to_both = BucketAnswers(
        bucket=here, permissions=answer(permissions=ALL), policies=(users, NOBODY)
    )
    closed = BucketAnswers(bucket=here, permissions=EMPTY, policies=(NOBODY, NOBODY))

    assert list(bucket(open_to_both, account=FLOWS)) == [OK]
    own, jobs = bucket(closed, account=FLOWS)[WARNING]
    assert '--member "user:me" --role roles/storage.objectUser' in own.fix
    assert f'--member "serviceAccount:{FLOWS}" --role roles/storage.objectUser' in jobs.fix


# --- the secret -----------------------------------------------------------------------------------

ACCESSOR = policy(("roles/secretmanager.secretAccessor", f"serviceAccount:{FLOWS}"))


@pytest.mark.parametrize(
    ("read", "policies", "verdict", "fix"),
    [
        (EMPTY, [ACCESSOR, NOBODY], OK, ""),
        (DENIED, [ACCESSOR, NOBODY], OK, ""),
        (EMPTY, [UNASKED], OK, ""),
        (
            EMPTY,
            [NOBODY, NOBODY],
            WARNING,
            (
                "gcloud secrets add-iam-policy-binding prefect-api-key --project p "
                f'--member "serviceAccount:{FLOWS}" --role roles/secretmanager.secretAccessor'
            ),
        ),
        (
            MISSING,
            [],
            FAILED,
            "gcloud secrets create prefect-api-key --data-file - --project p",
        ),
        (
            read_answer(400, {"error": {"message": "It is in DISABLED state."}}),
            [],
            FAILED,
            "gcloud secrets versions enable latest --secret prefect-api-key --project p",
        ),
        (UNASKED, [], UNCHECKED, ""),
    ],
)
def test_the_job_s_account_may_read_the_key(
    read: RestAnswer, policies: list[RestAnswer], verdict: Verdict, fix: str
) -> None:
    """Whether this machine may is beside the point."""
    assert short(about_secret(VERSION, FLOWS, read=read, policies=policies)) == (verdict, fix)
