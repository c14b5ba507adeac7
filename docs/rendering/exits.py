"""The exit codes of a replica's container, as the diagnosis of a failed job reads them."""

from __future__ import annotations

from prefect_vertex.lifecycle.diagnosis import _EXPLANATION
from prefect_vertex.lifecycle.outcomes import EXIT_STATUS, TerminationReason
from rendering.markdown import code, page, table


def exits_page() -> str:
    """Every exit code that the product gives, or explains where the system gave it."""
    rows = [
        (code(status), reason.value, _sentence(what), resolution or "-")
        for status, (reason, what, resolution) in sorted(_EXPLANATION.items())
    ]
    return page(
        "# Exit codes of the container",
        "The bootstrap, which starts each replica, ends it with one line on standard error and "
        "one of the codes from 70 to 79; from then on the code is the command's own. Vertex AI "
        "puts it into the job's error, and the flow run's message explains it.",
        table(("code", "reason", "what happened", "what to do"), rows),
        "In a message, Vertex AI's own text stands below the advice.",
        "`128 + n` is an end by signal n. `0` without anything having run means that the flow run "
        "needs no start: it is over, or scheduled again. `prefect flow-run execute` itself exits "
        "with 0 also where the flow failed: what became of the flow is its flow run's state.",
        "A follower whose flow failed exits with 0 once Prefect knows of it; see "
        "[many replicas](replicas.md#how-it-ends).",
        "## Of the worker's own report",
        "Prefect's log shows a status for a crashed run's infrastructure. It is the container's, "
        "or where there is none: "
        + ", ".join(f"{code(status)} {names}" for status, names in _reported())
        + ", and `1` for every other [reason](events.md#reasons).",
    )


def _reported() -> list[tuple[int, str]]:
    by_status: dict[int, list[str]] = {}
    for reason, status in EXIT_STATUS.items():
        if status > 1 and reason is not TerminationReason.COMPLETED:
            by_status.setdefault(status, []).append(reason.value)
    return [(status, " or ".join(names)) for status, names in sorted(by_status.items())]


def _sentence(text: str) -> str:
    """What happened, as a sentence; a variable's name stays as it is."""
    first = text.partition(" ")[0]
    return f"{text if '_' in first else text[:1].upper() + text[1:]}."
