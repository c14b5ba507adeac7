"""The words of the walk: how far an attempt had come, why it came to nothing, where to go next."""

from __future__ import annotations

from enum import Enum
from typing import Final


class When(Enum):
    """How far the attempt had come."""

    AT_CREATE = "at create"
    """The create was refused: there is no job."""
    BEFORE_START = "before its container started"
    AFTER_START = "after its container may have started"


class Scope(Enum):
    """Where to try next, and whether this candidate is tried again."""

    HOP_COME_BACK = "hop-come-back"
    """No room now, on machines or in the network: the next candidate, and this one again in a
    later pass."""
    HOP_NEVER_BACK = "hop-never-back"
    """Not allowed that much here: the next candidate, and never this one again."""
    HOP = "hop"
    """A fault of the image here: the next candidate; a later pass may find it mended."""
    OTHER_PROJECT = "other-project"
    """A right is missing: no candidate of this project with these credentials any more."""
    STOP = "stop"
    """Wrong request, or cancelled: no candidate is tried any more."""
    SAME_LATER = "same-later"
    """Too many API calls: the same candidate, later; it is no attempt."""
    AGAIN_THEN_HOP = "again-then-hop"
    """Internal error: the same candidate once more, then the next one."""
    NEXT_AS_RESTART = "next-as-restart"
    """Preempted or rescheduled: the next candidate, counted as a restart."""


class RefusalReason(Enum):
    """Why an attempt came to nothing, in the words that a user reads."""

    NO_ROOM = "no machines free now"
    UNKNOWN = "no reason that is known, taken as no machines free now"
    QUOTA = "the quota does not allow that much here"
    NOT_HERE = "something that it needs is not in this location"
    WRONG_REQUEST = "the request is wrong"
    ACCESS = "a permission is missing"
    RATE = "too many API requests a minute"
    INTERNAL = "an internal error of Vertex AI"
    AILING = "Vertex AI fails here now"
    """Its creates came to nothing, twice, and no word of it says why."""
    PREEMPTED = "the machines were taken back"
    RESCHEDULED = "its container put the flow run back"
    NETWORK = "a fault of the network here"
    IMAGE = "the image could not be read here"
    CONTAINER = "the container failed"
    TIME_LIMIT = "the maximum run time was reached"
    ENDED = "the job failed after its container had started"
    CANCELLED = "cancelled"


SCOPE_OF: Final[dict[RefusalReason, Scope]] = {
    RefusalReason.NO_ROOM: Scope.HOP_COME_BACK,
    RefusalReason.UNKNOWN: Scope.HOP_COME_BACK,
    RefusalReason.QUOTA: Scope.HOP_NEVER_BACK,
    RefusalReason.NOT_HERE: Scope.HOP_NEVER_BACK,
    RefusalReason.WRONG_REQUEST: Scope.STOP,
    RefusalReason.ACCESS: Scope.OTHER_PROJECT,
    RefusalReason.RATE: Scope.SAME_LATER,
    RefusalReason.INTERNAL: Scope.AGAIN_THEN_HOP,
    RefusalReason.AILING: Scope.HOP_COME_BACK,
    RefusalReason.PREEMPTED: Scope.NEXT_AS_RESTART,
    RefusalReason.RESCHEDULED: Scope.NEXT_AS_RESTART,
    RefusalReason.NETWORK: Scope.HOP_COME_BACK,
    RefusalReason.IMAGE: Scope.HOP,
    RefusalReason.CONTAINER: Scope.STOP,
    RefusalReason.TIME_LIMIT: Scope.STOP,
    RefusalReason.ENDED: Scope.STOP,
    RefusalReason.CANCELLED: Scope.STOP,
}
"""Total over the reasons."""
