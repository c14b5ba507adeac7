"""What Secret Manager keeps for this replica: the key or auth string of the Prefect API."""

from __future__ import annotations

import base64
import json
from typing import Any

from prefect_vertex.delivery.bootstrap.basics import die, env, reason, say
from prefect_vertex.delivery.bootstrap.google import ask_google, google_address, mending
from prefect_vertex.delivery.bootstrap.web import NETWORK, persist

MANAGER = "SECRET_MANAGER_EMULATOR_HOST"


def fetch_secrets() -> None:
    """Export the Prefect API's key or auth string, before anything asks that API."""
    for name in ("API_KEY", "API_AUTH_STRING"):
        version = env.get(f"PREFECT_VERTEX_{name}_SECRET")
        if version:
            env["PREFECT_" + name] = read_secret(version)


def read_secret(version: str) -> str:
    """Return what `version` holds: one line of text, without the white space around it."""
    base = google_address(MANAGER, "https://secretmanager.googleapis.com")
    try:
        found, content = persist(lambda: access_secret(f"{base}/v1/{version}:access"))
    except NETWORK as error:
        role = "roles/secretmanager.secretAccessor"
        hint = mending(error, "correct prefect_api_key_secret, or add the version", role)
        die(77, f"cannot read {version} from {base}: {reason(error)}{complaint(error)}{hint}")
    text = str(content, "utf-8", "replace").strip()
    # A key with a line end in it would be refused much later, and shown in that message.
    if not text or not text.isprintable() or "\ufffd" in text:
        die(77, f"{found} does not hold one line of UTF-8 text: nothing was run")
    say(f"the Prefect API is asked with what {found} holds")
    return text


def access_secret(url: str) -> Any:
    """Ask once; return the version's full name and its content.

    An answer that is damaged, or is not Secret Manager's, counts as none.
    """
    with ask_google(url, MANAGER, 77, "read the Prefect API's secret") as answer:
        body = answer.read()
    try:
        found = json.loads(body)
        payload = found["payload"]
        content = base64.b64decode(payload.get("data", ""))
        checksum = crc32c(content)
        if int(payload.get("dataCrc32c", checksum)) == checksum:
            return found["name"], content
        problem = "the checksum of the answer is wrong"
    except (ValueError, LookupError, TypeError, AttributeError):
        problem = "the answer is not Secret Manager's"
    raise ConnectionError(problem)


def crc32c(content: bytes) -> int:
    """Return the Castagnoli checksum, which the standard library lacks."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (crc & 1) * 0x82F63B78
    return crc ^ 0xFFFFFFFF


def complaint(error: Any) -> str:
    """Return the words of a refusal: the API may be off there, or the version disabled."""
    try:
        return f": {json.loads(error.read())['error']['message']}"
    except (ValueError, LookupError, TypeError, AttributeError, *NETWORK):
        return ""
