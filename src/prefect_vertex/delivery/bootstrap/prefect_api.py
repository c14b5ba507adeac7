"""The Prefect API: asked the way Prefect itself would ask it."""

from __future__ import annotations

import base64
import json
import socket
import urllib.parse
from typing import Any

from prefect_vertex.delivery.bootstrap.basics import die, env, reason, say
from prefect_vertex.delivery.bootstrap.web import (
    NETWORK,
    REFUSED,
    TRANSIENT,
    is_local,
    persist,
    request,
    status,
    tls,
)


def api(path: str, body: Any = None, more: Any = ()) -> Any:
    """Ask the Prefect API, with the credentials and the trust that Prefect itself would use."""
    headers = json.loads(env.get("PREFECT_CLIENT_CUSTOM_HEADERS") or "{}")
    headers.update(more)
    url = urllib.parse.urlsplit(env["PREFECT_API_URL"].rstrip("/") + path)
    # httpx, unlike urllib, takes a name and password from the address, before all else.
    named, _, place = url.netloc.rpartition("@")
    key, auth = env.get("PREFECT_API_KEY"), env.get("PREFECT_API_AUTH_STRING")
    auth = urllib.parse.unquote(named) or auth
    if auth:
        headers["Authorization"] = "Basic " + base64.b64encode(auth.encode()).decode()
    elif key:
        headers["Authorization"] = "Bearer " + key
    unsafe = env.get("PREFECT_API_TLS_INSECURE_SKIP_VERIFY", "").lower()
    trust = tls(
        env.get("PREFECT_API_SSL_CERT_FILE"), unsafe not in ("1", "true", "t", "yes", "y", "on")
    )
    if body:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body).encode()
    with request(url._replace(netloc=place).geturl(), headers, body, trust) as answer:
        return answer.read()


def host() -> str:
    """Name the Prefect API in messages: its address may hold a password."""
    return urllib.parse.urlsplit(env["PREFECT_API_URL"]).hostname or "PREFECT_API_URL"


def check_api() -> None:
    """See that the Prefect API answers from here: otherwise the run would never leave Pending."""
    if not env.get("PREFECT_API_URL"):
        return
    try:
        persist(lambda: api("/health"))
    except (*NETWORK, ValueError) as error:
        code = status(error)
        if code in REFUSED:
            say(f"the Prefect API at {host()} refuses this container's key or auth string: {code}")
        if code not in TRANSIENT:
            return  # whatever it says, it is there
        if is_local(error) or isinstance(error, ValueError):
            die(78, f"Prefect's API settings are unusable in this container: {reason(error)}")
        try:
            address = f"{host()} is {socket.getaddrinfo(host(), None)[0][4][0]}"
        except OSError as problem:
            address = f"{host()} does not resolve: {problem}"
        die(74, f"the Prefect API does not answer from here: {reason(error)} ({address})")
