"""HTTP by the standard library: one request, repeated while the network fails."""

from __future__ import annotations

import errno
import http.client
import importlib.util
import ssl
import time
import urllib.request
from typing import Any, Callable  # noqa: UP035 - dropped by `packing`, unlike collections.abc

RETRY_SECONDS = 60
TIMEOUT_SECONDS = 10
REFUSED = (401, 403)
ABSENT = 404
TRANSIENT = (408, 429, 500, 502, 503, 504)
LOCAL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG, errno.ENOENT)
NETWORK = (OSError, http.client.HTTPException)


def persist(action: Callable[[], Any], seconds: int = RETRY_SECONDS) -> Any:
    """Return what `action` returns, repeating it for `seconds` after the network first failed."""
    deadline = 0.0
    pause = 0.25
    while True:
        try:
            return action()
        except NETWORK as error:
            # Not since its begin: a download may break after minutes.
            deadline = deadline or time.monotonic() + seconds
            permanent = status(error) not in TRANSIENT or is_local(error)
            if permanent or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 5)


def status(error: BaseException) -> int:
    """Return the HTTP status of a refusal, or that of an unavailable server for any other error."""
    return getattr(error, "code", 503)


def is_local(error: BaseException) -> bool:
    """Whether the fault lies with this machine, so that no repetition mends it."""
    return getattr(error, "errno", 0) in LOCAL


def request(url: str, headers: dict[str, str], body: bytes | None, *handlers: Any) -> Any:
    """Open `url`, posting the body if there is one; a redirect gets none of the headers."""
    wanted = urllib.request.Request(url, body)  # noqa: S310 - the job's own addresses
    for name, value in {"User-Agent": "prefect-vertex", **headers}.items():
        wanted.add_unredirected_header(name, value)
    return urllib.request.build_opener(*handlers).open(wanted, timeout=TIMEOUT_SECONDS)


def tls(cafile: str | None = None, verify: bool = True) -> Any:  # noqa: FBT001, FBT002 - packed by position
    """Trust `cafile`, or the system's authorities and certifi's: some images have only those."""
    context = ssl.create_default_context(cafile=cafile)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not cafile and importlib.util.find_spec("certifi"):
        context.load_verify_locations(__import__("certifi").where())
    return urllib.request.HTTPSHandler(context=context)
