"""Its environment, and how it speaks and ends."""

from __future__ import annotations

import os
import re
import sys
import urllib.error
from typing import Any, NoReturn

env = os.environ


def say(message: object, file: Any = None) -> None:
    """Print one line; the platform keeps log entries by line."""
    print("prefect-vertex:", " ".join(str(message).split()), file=file or sys.stdout, flush=True)


def die(code: int, message: object) -> NoReturn:
    """End the replica with one line that says why."""
    say(message, sys.stderr)
    sys.exit(code)


def reason(error: BaseException) -> str:
    """Return the shortest text that still says what went wrong."""
    # http.client quotes the header that it refuses, which may be the key.
    text = re.split(" b['\"]", str(getattr(error, "reason", "") or error))[0]
    text = text or type(error).__name__
    return f"HTTP {error.code} {text}" if isinstance(error, urllib.error.HTTPError) else text
