"""Google's services, asked in the name of the account that this replica runs as."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from typing import Any

from prefect_vertex.delivery.bootstrap.basics import die, env, reason
from prefect_vertex.delivery.bootstrap.web import (
    ABSENT,
    NETWORK,
    REFUSED,
    persist,
    request,
    status,
    tls,
)


def metadata(path: str) -> str:
    """Ask the metadata server about the account that this replica runs as; never by a proxy."""
    named = "metadata.google.internal"
    host = env.get("GCE_METADATA_HOST") or named
    url = "http://%s/computeMetadata/v1/instance/service-accounts/default/" + path
    direct = urllib.request.ProxyHandler({})
    headers = {"Metadata-Flavor": "Google"}
    try:
        answer = request(url % host, headers, None, direct)
    except urllib.error.URLError as error:
        if host != named or not isinstance(error.reason, socket.gaierror):
            raise
        answer = request(url % "169.254.169.254", headers, None, direct)
    with answer:
        return str(answer.read().decode())


def ask_token() -> str:
    """Return an access token; a metadata server that is not up yet counts as unreachable."""
    try:
        return str(json.loads(metadata("token"))["access_token"])
    except (ValueError, LookupError, urllib.error.HTTPError) as error:
        raise ConnectionError(reason(error)) from error


def identity() -> str:
    """Name account and scopes: with those a refusal can be mended."""
    try:
        return f"account {metadata('email')}, scopes {metadata('scopes')}"
    except NETWORK:
        return "this replica's account"


def mending(error: BaseException, absent: str, right: str) -> str:
    """Say what mends a refusal: something is absent, or this replica's account lacks a right."""
    if status(error) in REFUSED:
        return f"; {identity()}: it needs {right} there"
    return "; " + absent if status(error) == ABSENT else ""


def google_address(variable: str, real: str) -> str:
    """Return where a service is: its own address, or the one that `variable` names."""
    base = env.get(variable) or real
    return base.rstrip("/") if "://" in base else "http://" + base


def ask_google(url: str, variable: str, code: int, purpose: str) -> Any:
    """Open `url` as this replica's account; an emulator, which `variable` names, gets no token."""
    if env.get(variable):
        return request(url, {}, None)
    try:
        token = persist(ask_token)
    except NETWORK as error:
        die(code, f"no access token from the metadata server to {purpose}: {reason(error)}")
    return request(url, {"Authorization": "Bearer " + token}, None, tls())
