"""What in the source is no message, and why: whatever falls under no rule here is one.

A rule names a module, a call, a name, or, where nothing else tells, the text itself.  Lines at INFO
and DEBUG and what commands print while all goes well need no entry in the docs: there is nothing
to do about them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

LEAST_WORDS: Final = 3
"""Shorter texts are names, keys and pieces; what is raised, logged or found needs one word."""

OTHER_FOLDERS: Final = ("emulator", "testing")
"""Not what users run their flows with."""

SILENT_MODULES: Final = {
    "chronicle/page.py": "the artifact: headings, a table and sums, which report no fault",
    "chronicle/svg.py": "elements of a drawing",
    "chronicle/timeline.py": "the legend of a drawing",
    "cli/app.py": "titles of commands",
    "cli/examples.py": "commands in help texts",
    "delivery/packing.py": "packs our own bootstrap; only our own build can fail",
    "delivery/slimming.py": "the same",
    "lifecycle/wordings.py": "patterns of Vertex AI's own sentences",
    "template/form.py": "titles and examples of the pool's form",
    "template/variables.py": "the pool's form",
}
"""Modules whose texts are no messages, and what they are instead."""

REMEDY: Final = re.compile(
    r"(?:_?(?:[a-z]+_)*(?:advice|fix|hints?|mend|resolution)"
    r"|_(?:form|shape|reference|send_anyway|whole_file))$",
    re.IGNORECASE,
)
"""Names of texts that stand behind a message and say what to do: part of it, not another."""

REMEDY_FUNCTIONS: Final = frozenset({"_image_hint", "_mend"})
"""Functions that return such texts."""

QUIET_NAMES: Final = frozenset(
    {
        *("check", "description", "_description", "_display_name", "help"),
        *("prog", "setting", "start", "title", "url"),
        *("_GUARDIAN", "_KEEPER", "_QUOTE_FUNCTION", "_REGIONS", "_TRACEBACK_LINES"),
        *("App", "ArgumentParser", "Field", "add_argument", "cast", "compile", "parser"),
        "wait_until",
        *("removeprefix", "startswith", "endswith", "partition"),
    }
)
"""Names of texts that label something, and of calls whose texts no user sees as a message."""

PROGRESS: Final = frozenset(
    {"debug", "info", "_info", "_log", "ok", "print", "status", "tell", "_tell", "working"}
)
"""Calls that say that all goes as it should: INFO and DEBUG, `doctor`'s ok, a command's steps."""

PIECE_CALLS: Final = frozenset(
    {"_about_private", "_unfit", "_wrong", "about_grant", "ask_google", "mending", "translated"}
)
"""Calls whose texts fill a gap of a message, which stands where the called function is."""

LOUD_CALLS: Final = frozenset(
    {
        *("append", "critical", "die", "error", "exception", "failed", "say", "unchecked"),
        *("warning", "Diagnosis", "Exhausted", "GiveUp"),
    }
)
"""Calls whose texts are messages however short they are, as those of `raise` are."""

ONE_ARGUMENT: Final = {"_affinity": 0, "failed": 1, "unchecked": 1, "warning": 1}
"""Calls of which only this argument is a message; the others name it, or say what to do."""

TABLES_WITH_REMEDIES: Final = frozenset({"_EXPLANATION", "_SUMMARY"})
"""Of each tuple in these the last text is a remedy."""

PIECES: Final[Mapping[str, tuple[str, ...]]] = {
    "names of what messages are about": (
        "API key's secret",
        "Cloud Storage",
        "Google's token service …",
        "PREFECT_API_URL in the job",
        "The credentials block's service_account_info",
        "The key in …",
        "Timeline of flow run …",
        "Vertex AI in …",
        "<the bootstrap of prefect-vertex …, … characters; see --full>",
        "attempt … of flow run …, launched …",
        "include_files of flow …",
        "staging_bucket (of stage-code: --bucket)",
        "the base job template of then (sha256 …)",
        "the folder of its file",
        "Work pool …",
        "a machine without a name",
        "a person's account",
        "after last word",
        "deleted flow run …",
        "no state yet",
        "no work pool",
        "not set",
        "parameter or reduction servers",
        "stopped after its run had ended",
        "the Cloud Quotas API",
        "the credentials block",
        "the primary replica",
        "the time allowed",
        "the whole job",
        "the worker's account",
        "the worker's account, …,",
        "this machine (ADC)",
        "this machine's account",
        "this replica's account",
        "user:$(gcloud config get account)",
        '(resource.labels.job_id=(…) AND timestamp>="…")',
    ),
    "what is expected or given instead": (
        "0, which is no limit",
        "a list of texts",
        "a number without end",
        "a text or a list of texts",
        "gs://bucket or gs://bucket/folder",
    ),
    "ends of messages that stand with their beginnings": (
        ", and only the bootstrap could unpack more",
        "(if nobody did that, it was out of memory)",
        "(its tag was not read: …)",
        "; the closest is ….",
        "; …: it needs … there",
        "are not in any order",
        "has no GPU.",
        "has ….",
        "have equal keys",
        "is a TPU host",
        "is not a mapping",
        "it did not answer",
        "looking for its job",
        "names no secret",
        "no reason given",
        "not tried.",
        "without a word",
        "… (the closest is …).",
    ),
    "what was attempted, of messages that begin with Could not": (
        "learn the pool's places",
        "load Google credentials",
        "poll for flow runs",
        "reach Vertex AI in …",
        "send a heartbeat",
    ),
    "what Prefect says, to be recognised": ("Retrying on remote infrastructure",),
    "what Python says, to be recognised": (
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
        "Traceback (most recent call last):",
    ),
    "good news": (
        "CustomJob … succeeded.",
        "The same again: …",
        "Found machines in … after … s, with attempt ….",
        "The replica's machine has started.",
        "is getting its machines",
        "the Prefect API is asked with what … holds",
        "… files of … are in …",
    ),
    "lines of the script that `plan --format gcloud` prints": (
        '*) echo "Name a candidate, 1 to …." >&2; exit 2 ;;',
        ': "${…:?its value is not printed: set it}"',
        'case "${1:-1}" in',
    ),
}
"""Texts that are no messages by themselves, by what they are."""
