"""The project: its API, what the worker may do in it, and whom jobs run as."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from prefect_vertex.cli.doctor.finding import Finding, failed, ok, unchecked, warning
from prefect_vertex.cli.doctor.policies import Grant, Wanted, grant_of
from prefect_vertex.errors import PrefectVertexError, ServiceError
from prefect_vertex.planning.spec import Target
from prefect_vertex.vertex.rest import RestAnswer

API = "aiplatform.googleapis.com"
JOB_PERMISSIONS = (
    *("aiplatform.customJobs.create", "aiplatform.customJobs.get", "aiplatform.customJobs.list"),
    *("aiplatform.customJobs.cancel", "aiplatform.customJobs.delete"),
)
READ_LOGS = "logging.logEntries.list"
ACT_AS = "iam.serviceAccounts.actAs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks: the account of the worker on this machine.

    Attributes:
        project: Empty where the credentials name none.
        account: A service account's address; empty for a person's credentials.
    """

    project: str = ""
    account: str = ""

    @property
    def member(self) -> str:
        """As a command writes it: a person's own address is gcloud's to tell."""
        if self.account:
            return f"serviceAccount:{self.account}"
        return "user:$(gcloud config get account)"

    @property
    def shown(self) -> str:
        """For a sentence."""
        return self.account or "this machine's account"


def enable(project: str, api: str = API) -> str:
    """The command that enables an API."""
    return f"gcloud services enable {api} --project {project}"


def bind_project(project: str, member: str, role: str) -> str:
    """The command that grants a role in a project."""
    return (
        f'gcloud projects add-iam-policy-binding {project} --member "{member}" '
        f"--role {role} --condition None"
    )


def about_credentials(caller: Caller | PrefectVertexError | None, key: str) -> Finding:
    """Whether there are credentials, and whose.

    Args:
        caller: What they name, or why they cannot be had; None where none are needed.
        key: Of a block's credentials; empty for the machine's own.
    """
    check = "credentials"
    if caller is None:
        return unchecked(check, "VERTEX_AI_EMULATOR_HOST is set, and the emulator asks for none.")
    whose = "the credentials block" if key else "this machine (ADC)"
    if isinstance(caller, PrefectVertexError):
        return failed(check, str(caller), "" if key else "gcloud auth application-default login")
    where = f", project {caller.project}" if caller.project else ""
    who = caller.account or "a person's account"
    return ok(check, f"{who}, by {whose}{where}.")


def about_location(
    target: Target, live: int | PrefectVertexError, caller: Caller | None
) -> Finding:
    """Whether the JobService of a location answers.

    Args:
        target: Where.
        live: How many live jobs the pool has there, or why that was not answered.
        caller: Who asked; None: nobody in particular.
    """
    check = f"Vertex AI in {target.location}"
    if isinstance(live, int):
        jobs = "1 live job" if live == 1 else f"{live} live jobs"
        return ok(check, f"The JobService answers for {target.project}; {jobs} of this pool.")
    fix = ""
    if isinstance(live, ServiceError):
        if live.verdict.reason == "SERVICE_DISABLED":
            fix = enable(target.project)
        elif live.code == "PERMISSION_DENIED":
            member = (caller or Caller()).member
            fix = bind_project(target.project, member, "roles/aiplatform.user")
        elif live.code == "UNAUTHENTICATED" and not target.credentials_key:
            fix = "gcloud auth application-default login"
    return failed(check, str(live), fix)


def about_api(project: str, answer: RestAnswer) -> Finding:
    """Whether Vertex AI is enabled in a project."""
    check = f"API in {project}"
    if answer.ok:
        if answer.body.get("state") == "ENABLED":
            return ok(check, f"{API} is enabled.")
        return failed(check, f"{API} is not enabled.", enable(project))
    return unchecked(check, _why(answer), _fix_api(answer, project, "serviceusage"))


def about_permissions(
    project: str, answer: RestAnswer, caller: Caller, *, others: Mapping[str, str]
) -> list[Finding]:
    """What the worker's account may do in a project.

    Args:
        project: Which.
        answer: To testIamPermissions.
        caller: Who asked.
        others: Permissions that are good to have, with what goes without them.
    """
    check = f"roles in {project}"
    if not answer.ok:
        fix = _fix_api(answer, project, "cloudresourcemanager")
        return [unchecked(check, _why(answer), fix)]
    held = _held(answer)
    missing = [each for each in JOB_PERMISSIONS if each not in held]
    found = [
        failed(
            check,
            f"{caller.shown} lacks {', '.join(missing)}.",
            bind_project(project, caller.member, "roles/aiplatform.user"),
        )
        if missing
        else ok(check, f"{caller.shown} may create, read, cancel and delete CustomJobs.")
    ]
    roles = {
        READ_LOGS: "roles/logging.viewer",
        "cloudquotas.quotas.get": "roles/cloudquotas.viewer",
    }
    return found + [
        warning(
            check,
            f"{caller.shown} lacks {permission}: {without}",
            bind_project(project, caller.member, roles[permission]),
        )
        for permission, without in others.items()
        if permission not in held
    ]


def about_act_as(account: str, answer: RestAnswer, caller: Caller) -> Finding:
    """Whether the worker may have jobs run as their service account.

    Args:
        account: Whom jobs run as; empty: Vertex AI's own agent, which takes no permission.
        answer: To testIamPermissions on it.
        caller: Who asked.
    """
    check = "act-as"
    if not account:
        return ok(check, "Jobs run as Vertex AI's own agent, as service_account_name is not set.")
    fix = (
        f"gcloud iam service-accounts add-iam-policy-binding {account} "
        f'--member "{caller.member}" --role roles/iam.serviceAccountUser'
        f"{_project_flag(account)}"
    )
    if answer.ok:
        if ACT_AS in _held(answer):
            return ok(check, f"{caller.shown} may have jobs run as {account}.")
        return failed(check, f"{caller.shown} may not have jobs run as {account}.", fix)
    if answer.status == NOT_FOUND:
        name = account.partition("@")[0]
        create = f"gcloud iam service-accounts create {name}{_project_flag(account)}"
        return failed(check, f"There is no service account {account}.", create)
    if not answer.reason and answer.status == FORBIDDEN:
        return failed(check, f"{account}: {answer.problem}", fix)
    project = account.partition("@")[2].partition(".")[0]
    return unchecked(check, _why(answer), _fix_api(answer, project, "iam"))


def about_log_writer(project: str, account: str, policies: Sequence[RestAnswer]) -> Finding:
    """Whether what the job prints reaches Cloud Logging."""
    check = "job's log"
    if not account:
        return ok(check, "Vertex AI's own agent writes it.")
    wanted = Wanted(
        member=f"serviceAccount:{account}",
        role="roles/logging.logWriter",
        roles=("roles/logging.admin", "roles/editor"),
    )
    fix = bind_project(project, wanted.member, wanted.role)
    return about_grant(check, grant_of(wanted, policies), f"{account} may write it", fix, policies)


def about_grant(
    check: str, grant: Grant, what: str, fix: str, policies: Sequence[RestAnswer]
) -> Finding:
    """A finding for what policies say: what is not seen is not said to be missing.

    Args:
        check: Its name.
        grant: What the policies say.
        what: A sentence without its stop, true where it is granted.
        fix: The command that grants it.
        policies: As they were answered.
    """
    match grant:
        case Grant.GRANTED:
            return ok(check, f"{what}.")
        case Grant.CONDITIONAL:
            return unchecked(check, f"{what} under a condition, which is not judged here.")
        case Grant.NOT_SEEN:
            text = "The policies of the resource and its project do not show that"
            return warning(
                check, f"{text} {what}; a group, a custom role or a folder's policy may.", fix
            )
        case Grant.UNREADABLE:
            refused = next((each for each in policies if not each.ok), RestAnswer())
            return unchecked(
                check, f"Whether {what}: {_why(refused)}", fix if refused.asked else ""
            )


NOT_FOUND = 404
FORBIDDEN = 403
BAD_REQUEST = 400


def _held(answer: RestAnswer) -> Collection[str]:
    found = answer.body.get("permissions")
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def _why(answer: RestAnswer) -> str:
    return answer.problem or "there was no answer."


def _fix_api(answer: RestAnswer, project: str, service: str) -> str:
    if answer.reason == "SERVICE_DISABLED" and project:
        return enable(project, f"{service}.googleapis.com")
    return ""


def _project_flag(account: str) -> str:
    """` --project P` for `name@P.iam.gserviceaccount.com`."""
    domain = account.partition("@")[2]
    project, found, _ = domain.partition(".iam.")
    return f" --project {project}" if found else ""
