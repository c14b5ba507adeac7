"""What an allow policy says of one member, as far as a reader of policies can tell.

Nobody but the member itself can ask IAM what it may do, so a job's account is looked up in the
policies of the resource and its project. A binding that is there is certain; one that is not may
still come from a group, a custom role, a folder or the organization.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from prefect_vertex.vertex.rest import RestAnswer


class Grant(Enum):
    """What the policies that could be read say."""

    GRANTED = "granted"
    CONDITIONAL = "granted under a condition"
    NOT_SEEN = "not seen"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a member is to have.

    Attributes:
        member: As a policy writes it, `serviceAccount:…`.
        role: The least role that gives it: what a command grants.
        roles: Others that give it too.
    """

    member: str
    role: str
    roles: Collection[str] = ()


BASIC = ("roles/owner",)
BUCKET_READERS = ("roles/storage.objectAdmin", "roles/storage.admin")
CODE_AGENT = "roles/aiplatform.customCodeServiceAgent"
"""The role that Google gives the custom code service agent in its own project: Cloud Storage, logs
and Artifact Registry there.  Its list of permissions was not looked up: a policy that names it
counts as one that names the role itself, which at worst turns a warning into OK."""


def grant_of(wanted: Wanted, answers: Sequence[RestAnswer]) -> Grant:
    """What policies, as they were answered, say of a member.

    Args:
        wanted: Who, and what.
        answers: The policy of the resource, of its project, …; those that were refused say nothing.
    """
    roles = {wanted.role, *wanted.roles, *BASIC}
    found = [
        bool(binding.get("condition"))
        for answer in answers
        if answer.ok
        for binding in _bindings(answer.body)
        if binding.get("role") in roles and _has(binding.get("members"), wanted.member)
    ]
    if found:
        return Grant.CONDITIONAL if all(found) else Grant.GRANTED
    # One that cannot be read may be the one that has it.
    return Grant.NOT_SEEN if all(answer.ok for answer in answers) else Grant.UNREADABLE


def is_mentioned(member: str, answer: RestAnswer) -> bool:
    """Whether a policy names a member at all."""
    return any(_has(binding.get("members"), member) for binding in _bindings(answer.body))


def _bindings(policy: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    bindings = policy.get("bindings")
    found = bindings if isinstance(bindings, list) else []
    return [each for each in found if isinstance(each, Mapping)]


def _has(members: object, member: str) -> bool:
    listed = members if isinstance(members, list) else []
    return bool({member, "allUsers", "allAuthenticatedUsers"} & {str(each) for each in listed})
