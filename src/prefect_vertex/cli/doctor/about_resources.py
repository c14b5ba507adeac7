"""What a job reads: its image, its buckets, the secret with the API's key."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from prefect_vertex.cli.doctor.about_bucket_place import about_bucket_place
from prefect_vertex.cli.doctor.about_project import (
    BAD_REQUEST,
    FORBIDDEN,
    NOT_FOUND,
    about_grant,
)
from prefect_vertex.cli.doctor.finding import Finding, failed, ok, unchecked, warning
from prefect_vertex.cli.doctor.policies import (
    BUCKET_READERS,
    CODE_AGENT,
    Wanted,
    grant_of,
    is_mentioned,
)
from prefect_vertex.vertex.rest import UNASKED, RestAnswer

_ARTIFACT = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+(?:\.[^/]+)?)/(?P<repository>[^/]+)/"
    r"(?P<package>[^:@]+)(?::(?P<tag>[^@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_GOOGLE_REGISTRY = re.compile(r"([a-z]+\.)?gcr\.io/")
BUCKET_PERMISSIONS = ("storage.objects.create", "storage.objects.get", "storage.objects.list")


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image in Artifact Registry."""

    location: str
    project: str
    repository: str
    package: str
    tag: str = "latest"
    digest: str = ""

    @property
    def repository_name(self) -> str:
        """The repository's resource name."""
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.repository}"

    @property
    def version_path(self) -> str:
        """The resource name of its tag or version, as a path."""
        package = self.package.replace("/", "%2F")
        kind = f"versions/{self.digest}" if self.digest else f"tags/{self.tag}"
        return f"{self.repository_name}/packages/{package}/{kind}"


def read_image(uri: str) -> Image | None:
    """The parts of an Artifact Registry image; None for any other registry's."""
    match = _ARTIFACT.fullmatch(uri)
    if match is None:
        return None
    return Image(
        location=match["location"],
        project=match["project"],
        repository=match["repository"],
        package=match["package"],
        tag=match["tag"] or "latest",
        digest=match["digest"] or "",
    )


def agent_of(project_number: str) -> str:
    """The agent that pulls every job's image, whatever account the job runs as."""
    return f"service-{project_number}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"


def about_image(
    uri: str,
    project: str,
    *,
    found: RestAnswer,
    project_number: str,
    policies: Sequence[RestAnswer],
) -> Finding:
    """Whether an image is there, and whether Vertex AI's own agent may pull it.

    Args:
        uri: The image.
        project: Where the job runs.
        found: The answer for its tag or digest.
        project_number: Of that project; empty where it is not known.
        policies: Of the repository, of its project, and of the job's, in this order.
    """
    check = "image"
    image = read_image(uri)
    if image is None:
        if not found.asked:
            return unchecked(check, f"{uri}: {found.problem}")
        return _about_other_registry(check, uri)
    if found.status == NOT_FOUND:
        return failed(
            check,
            f"{uri} is not there.",
            f"gcloud builds submit --tag {uri} --project {image.project}",
        )
    if not found.asked or not project_number:
        return unchecked(check, f"{uri}: {found.problem or 'the project has no number here.'}")
    member = f"serviceAccount:{agent_of(project_number)}"
    roles = [f"roles/artifactregistry.{each}" for each in ("writer", "repoAdmin", "admin")]
    if image.project == project:
        roles.append(CODE_AGENT)
    wanted = Wanted(member=member, role="roles/artifactregistry.reader", roles=roles)
    fix = (
        f"gcloud artifacts repositories add-iam-policy-binding {image.repository} "
        f'--location {image.location} --project {image.project} --member "{member}" '
        f"--role {wanted.role}"
    )
    own = policies[-1] if policies else UNASKED
    if own.ok and not is_mentioned(member, own):
        return warning(
            check,
            f"{agent_of(project_number)}, which pulls {uri}, is not seen in {project}: it comes "
            "with the first CustomJob, or by this command.",
            f"gcloud beta services identity create --service aiplatform.googleapis.com "
            f"--project {project}",
        )
    seen = "" if found.ok else f" (its tag was not read: {found.problem})"
    what = f"{agent_of(project_number)} may pull {uri}{seen}"
    relevant = policies[:2]
    return about_grant(check, grant_of(wanted, relevant), what, fix, relevant)


def _about_other_registry(check: str, uri: str) -> Finding:
    if _GOOGLE_REGISTRY.match(uri):
        return unchecked(check, f"{uri}: of Google's registries only *-docker.pkg.dev is asked.")
    return warning(
        check,
        f"{uri} is in no registry of Google's: it has to be public, as Vertex AI logs in nowhere.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAnswers:
    """What Cloud Storage said of a bucket.

    Attributes:
        bucket: Its metadata.
        permissions: Those of BUCKET_PERMISSIONS that the caller has.
        policies: Its own and its project's.
    """

    bucket: RestAnswer
    permissions: RestAnswer = UNASKED
    policies: Sequence[RestAnswer] = field(default_factory=tuple)


def about_bucket(
    name: str,
    *,
    locations: Sequence[str],
    project: str,
    account: str,
    answers: BucketAnswers,
    member: str,
) -> Iterator[Finding]:
    """Whether a bucket is there, near the job, and open to those who need it.

    Args:
        name: The bucket.
        locations: Where jobs that use it run.
        project: Theirs.
        account: Whom they run as.
        answers: What was asked.
        member: Whoever deploys from this machine, as a command writes it.
    """
    check = f"bucket {name}"
    found = answers.bucket
    if found.status == NOT_FOUND:
        create = f"gcloud storage buckets create gs://{name} --location {locations[0]}"
        yield failed(check, f"There is no bucket {name}.", f"{create} --project {project}")
        return
    fix = _bind_bucket(name, member)
    if found.ok:
        yield about_bucket_place(check, name, found, locations)
    elif found.status == FORBIDDEN:
        yield unchecked(check, f"Its location: {found.problem}", "")
    else:
        yield unchecked(check, found.problem)
    yield from _about_own_access(check, answers.permissions, fix)
    if account:
        wanted = Wanted(
            member=f"serviceAccount:{account}",
            role="roles/storage.objectUser",
            roles=BUCKET_READERS,
        )
        policies = answers.policies
        yield about_grant(
            check,
            grant_of(wanted, policies),
            f"{account} may read and write it",
            _bind_bucket(name, wanted.member),
            policies,
        )


def _about_own_access(check: str, answer: RestAnswer, fix: str) -> Iterator[Finding]:
    if not answer.ok:
        yield unchecked(check, f"Access from this machine: {answer.problem}")
        return
    held = answer.body.get("permissions") or ()
    missing = [each for each in BUCKET_PERMISSIONS if each not in held]
    if missing:
        text = f"This machine's account lacks {', '.join(missing)}: it cannot stage code."
        yield warning(check, text, fix)
    else:
        yield ok(check, "This machine's account may stage code there.")


def _bind_bucket(name: str, member: str) -> str:
    return (
        f'gcloud storage buckets add-iam-policy-binding gs://{name} --member "{member}" '
        "--role roles/storage.objectUser"
    )


def about_secret(
    version: str, account: str, *, read: RestAnswer, policies: Sequence[RestAnswer]
) -> Finding:
    """Whether a job may read the API's key.

    Args:
        version: `projects/P/secrets/S/versions/V`.
        account: Whom the job runs as.
        read: The answer to an access from here; what it holds is not looked at.
        policies: Of the secret and of its project.
    """
    check = "API key's secret"
    _, project, _, secret, _, number = version.split("/")
    name = shlex.quote(secret)
    if not read.asked:
        return unchecked(check, f"{version}: {read.problem}")
    if read.status == NOT_FOUND:
        return failed(
            check,
            f"{version} is not there.",
            f"gcloud secrets create {name} --data-file - --project {project}",
        )
    if read.status == BAD_REQUEST:
        return failed(
            check,
            f"{version}: {read.problem}",
            f"gcloud secrets versions enable {number} --secret {name} --project {project}",
        )
    wanted = Wanted(
        member=f"serviceAccount:{account}",
        role="roles/secretmanager.secretAccessor",
        roles=("roles/secretmanager.admin",),
    )
    fix = (
        f"gcloud secrets add-iam-policy-binding {name} --project {project} "
        f'--member "{wanted.member}" --role {wanted.role}'
    )
    if read.ok and not any(each.asked for each in policies):
        return ok(check, f"{version} is there and readable from here.")
    what = f"{account} may read {version}"
    return about_grant(check, grant_of(wanted, policies), what, fix, policies)
