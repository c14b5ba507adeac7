"""The words of Vertex AI's refusals, found whole and in any order.

A text is judged as its words: lower case, without punctuation, compound names taken apart
(`CustomModelTrainingT4GPUs`, `RESOURCE_POOL_EXHAUSTED`).  So `iam` is not found in `Miami`, and a
quota is one whether it "is exceeded", "exceeds limits" or stands before or after its figures.  Of a
resource's name only the kinds count: what a user has called a project or network says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

Predicate = Callable[[str], bool]
"""Judges a text that `words_of` has taken apart."""

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_BETWEEN: Final = re.compile(r"[^a-z0-9]+")
_QUOTA: Final = frozenset({"quota", "quotas"})
_TOO_MUCH: Final = frozenset(
    {"exceed", "exceeds", "exceeded", "exceeding", "limit", "limits", "insufficient"}
)
_CALLS: Final = frozenset({"request", "requests", "call", "calls", "query", "queries"})
_A_TIME: Final = re.compile(r"\bper (minute|second|hour|day|[0-9]+ seconds)\b")
_IMAGE: Final = frozenset({"image", "images"})
_RESOURCE: Final = re.compile(
    r"(?://[\w.-]+/)?\b(?P<path>(?:projects|folders|organizations)(?:/[\w.~%:+-]+)+)"
)
_REGION: Final = r"[a-z]+ (?:north|south|east|west|central)+\d+(?: [a-z]\b)?"
"""A region's or a zone's name, without its hyphens."""
_PLACE: Final = rf"(?:regions?|locations?|zones?|{_REGION})"
_HERE: Final = rf"(?:in|for) (?:this |the (?:following )?)?{_PLACE}"
_OWN_EXIT: Final = re.compile(
    r"\bThe replica workerpool\d+-\d+ (?:exited|ran out)\b|\bnon-?zero (?:exit )?(?:status|code)\b",
    re.IGNORECASE,
)


def words_of(text: str) -> str:
    """The text's words, one space between them."""
    told = _RESOURCE.sub(_kinds, text)
    return _BETWEEN.sub(" ", _HUMP.sub(" ", told).lower()).strip()


def _kinds(name: re.Match[str]) -> str:
    """The kinds in a resource's name: `projects zones` of `projects/p/zones/us-central1-a`."""
    kinds, parts = [], name["path"].split("/")
    while parts:
        kinds.append(parts.pop(0))
        if parts and kinds[-1] != "global":
            del parts[0]
    return f" {' '.join(kinds)} "


def first_line(text: str) -> str:
    """The service's own sentence; what follows it may be a container's output."""
    return text.strip().partition("\n")[0]


def is_container_end(text: str) -> bool:
    """Whether the service's own sentence says that a replica ended by itself.

    Whatever stands further down is that replica's, quotas, stockouts and all.
    """
    return _OWN_EXIT.search(first_line(text)) is not None


def _says(*phrases: str) -> Predicate:
    """Whether one of these stands in the text; each a regular expression of whole words."""
    pattern = re.compile(rf"\b(?:{'|'.join(phrases)})\b")
    return lambda words: pattern.search(words) is not None


_is_image_trouble: Final = _says(
    "pull",
    "pulling",
    "pulled",
    "granted access",
    "not found",
    "does not exist",
    "manifest unknown",
    "manifest for .*",
    "unauthorized",
    "denied",
)
_is_network: Final = _says("networks?", "subnetworks?", "subnets?", "vpc", "ip addresses", "ip")
_is_used_up: Final = _says("exhausted", "no free", "free blocks", "not enough", "ran out")
_is_absent: Final = _says("not found", "notfound", "does not exist")
_is_not_available_here: Final = _says(f"not (?:currently |yet )?available {_HERE}")
_is_for_now: Final = _says("now", "later", "moment", "at this time", "currently", "temporarily")
_is_rate_sentence: Final = _says("rate limit exceeded", "rate exceeded", "too many requests")
_is_short: Final = _says("no quota", "not enough quota")

is_stockout: Final = _says(
    "resources are insufficient",
    "insufficient resources?",
    "(?:does|do) not have enough resources",
    "not enough resources",
    "out of resources",
    "resource pool exhausted",
    "stockout",
    "(?:no|insufficient|out of|not enough|lack of) capacity",
    "capacity is (?:exhausted|not available|unavailable)",
)
is_sent_elsewhere: Final = _says(
    "try (?:a different|another) (?:region|zone|location|machine|accelerator)"
)
"""Weaker: a quota's refusal gives the same advice."""
is_exhausted: Final = _says("resources? (?:is |are |has been |have been )?exhausted")
"""Weaker than a stockout's own words: it is what the status of a quota is called as well."""
is_preemption: Final = _says("preempted", "preemption")
is_internal: Final = _says("internal error", "internal server error")
is_cancelled: Final = _says("canceled", "cancelled")
is_too_large: Final = _says("message larger than max")
is_elsewhere: Final = _says(
    "same regional location",
    f"not (?:currently |yet )?(?:supported|offered|enabled) {_HERE}",
    f"{_PLACE} (?:{_REGION} )?(?:does not|doesn t) (?:currently |yet )?(?:support|offer)",
    # An organisation's policy on where resources may be.
    "constraints gcp resource locations",
)
is_other_network: Final = _says("training on a new network", "training on another network")
is_wrong: Final = _says(
    "invalid argument",
    "unsupported accelerator",
    "no longer supported",
    "machine type .*not supported",
    "not supported for machine type",
    "must be in range",
    "list of found errors",
)
is_no_access: Final = _says(
    "permissions? .*denied",
    "(?:does|do) not have (?:the )?permissions?",
    "not authorized",
    "unauthorized",
    "unauthenticated",
    "no access token",
)
is_not_set_up: Final = _says(
    "has not been used in project",
    "(?:api|service) is (?:not enabled|disabled)",
    "billing .*(?:disabled|required|not enabled|closed|must be enabled|not active)",
    "(?:enable|set up|requires?|without) (?:a )?billing",
    "not supported for this project",
)
"""Of the whole project, whatever the code."""
is_no_right_to_act: Final = _says("permission to act as service account")


def is_quota(words: str) -> bool:
    """A quota of machines, in whatever order and number it is told."""
    found = set(words.split())
    return bool(found & _QUOTA and found & _TOO_MUCH) or _is_short(words)


def is_rate(words: str) -> bool:
    """A limit of calls in a time; no quota of machines has a time."""
    if _is_rate_sentence(words):
        return True
    counted = bool(set(words.split()) & _CALLS) or is_quota(words)
    return counted and _A_TIME.search(words) is not None


def is_loss_of_machines(words: str) -> bool:
    """What a job says that had its machines, and lost them or got no new ones."""
    if is_stockout(words) or is_preemption(words):
        return True
    return is_sent_elsewhere(words) and not is_quota(words)


def is_not_offered(words: str) -> bool:
    """What this place does not have, as far as the words tell that from what it has no more of."""
    return _is_not_available_here(words) and not _is_for_now(words)


def is_not_free(words: str) -> bool:
    """What this place may have, and does not have now."""
    return _is_not_available_here(words) and _is_for_now(words)


def is_missing_attachment(words: str) -> bool:
    """The network attachment, which is one region's, is not there."""
    return _says("network ?attachments?")(words) and _is_absent(words)


def is_network_fault(words: str) -> bool:
    """The network has no address left, or is not to be had for this job now."""
    return is_other_network(words) or bool(_is_network(words) and _is_used_up(words))


def is_image_fault(words: str) -> bool:
    """The container image is not there, or may not be read by Vertex AI's agent."""
    return bool(set(words.split()) & _IMAGE) and _is_image_trouble(words)
