"""Examples at the end of each command's `--help`; a test runs the parser over every one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_LINES: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "prefect-vertex demo",
        "prefect-vertex doctor --pool vertex-forecast",
        "prefect-vertex jobs --pool vertex-forecast",
        "prefect-vertex --install-completion",
    ),
    "emulator start": (
        "prefect-vertex emulator start --bucket my-staging-bucket",
        "prefect-vertex emulator start --port 0 --storage-port 0 --clock lifelike",
        "prefect-vertex emulator start --data .emulator --secret prefect-api-key=key.txt",
    ),
    "stage-code": (
        "prefect-vertex stage-code --bucket my-staging-bucket",
        "prefect-vertex stage-code examples/forecast --bucket gs://my-bucket/team --json",
    ),
    "bundle-storage": (
        "prefect-vertex bundle-storage vertex-forecast --bucket my-staging-bucket",
        "prefect-vertex bundle-storage vertex-forecast --bucket gs://my-bucket/team",
    ),
    "plan": (
        "prefect-vertex plan --pool vertex-forecast --job-variable region=europe-west4",
        "prefect-vertex plan --deployment forecast/nightly --format gcloud > create.sh",
        "prefect-vertex plan --deployment forecast/nightly --quota",
        "prefect-vertex plan --from gs://my-bucket/launches/FLOW_RUN_ID/a1.json",
    ),
    "doctor": (
        "prefect-vertex doctor --pool vertex-forecast",
        "prefect-vertex doctor --deployment forecast/nightly --json",
        "prefect-vertex doctor --pool vertex-forecast --template > template.json",
    ),
    "jobs": (
        "prefect-vertex jobs --pool vertex-forecast",
        "prefect-vertex jobs --pool vertex-forecast --since 7d --json",
        "prefect-vertex jobs --pool vertex-forecast --settle --yes",
        "prefect-vertex jobs --pool vertex-forecast --cancel brave-otter",
        "prefect-vertex jobs --pool vertex-forecast --delete-older-than 30d --yes",
    ),
    "demo": (
        "prefect-vertex demo",
        "prefect-vertex demo --series all --output results --keep",
    ),
}

EXAMPLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Two blanks at the end of a line keep it one where the help is Markdown.
        command: "  \n".join(["Examples:", *lines])
        for command, lines in _LINES.items()
    }
)
"""By command; the empty one is the whole program's."""
