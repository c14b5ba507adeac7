"""The claim: a replica runs its command once in an attempt."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
from typing import Any

from prefect_vertex.delivery.bootstrap.basics import die, env, reason, say
from prefect_vertex.delivery.bootstrap.prefect_api import api, host
from prefect_vertex.delivery.bootstrap.web import (
    ABSENT,
    NETWORK,
    REFUSED,
    RETRY_SECONDS,
    persist,
    status,
)

CONFLICT = 409
FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def send(path: str, body: Any) -> Any:
    """Ask the Prefect API once; a server that guards against CSRF wants its own token back."""
    try:
        return api(path, body)
    except urllib.error.HTTPError as error:
        if b"CSRF" not in error.read():
            raise
    client = os.urandom(8).hex()
    token = json.loads(api("/csrf-token?client=" + client))["token"]
    return api(path, body, {"Prefect-Csrf-Token": token, "Prefect-Csrf-Client": client})


def ask(path: str, body: Any = None) -> Any:
    """Return what the Prefect API answers; 404 and 409 as numbers, any other refusal is the end.

    It has answered before: a server that is away since is waited for while it may be upgraded.
    """
    try:
        return json.loads(persist(lambda: send(path, body), 5 * RETRY_SECONDS) or "null")
    except (*NETWORK, ValueError) as error:
        code = status(error)
        if code in (ABSENT, CONFLICT):
            return code
        hint = "; check its key or auth string" if code in REFUSED else ""
        die(74, f"cannot claim this start from the Prefect API at {host()}: {reason(error)}{hint}")


def attempt_key(kind: str, rest: str) -> str:
    """Return where something is said once about this attempt; empty where nothing can be."""
    run, attempt = env.get("PREFECT__FLOW_RUN_ID"), env.get("PREFECT_VERTEX_ATTEMPT")
    if not (env.get("PREFECT_API_URL") and run and attempt):
        return ""
    return f"/flow_runs/{run}/input/prefect-vertex-{kind}-a{attempt}{rest}"


def claim_path(replica: str) -> str:
    """Return where this replica's start is claimed; empty where starts are not."""
    path = attempt_key("start", f"-{'r' * replica.isdecimal()}{replica}")
    return path if env.get("PREFECT_VERTEX_GUARD") != "0" else ""


def put(path: str, value: Any) -> Any:
    """Say something once: a flow run input, which the server keeps for the first who asks."""
    inputs, _, key = path.rpartition("/")
    return ask(inputs, {"key": key, "value": json.dumps(value)})


def look(replica: str) -> None:
    """End before the user's setup runs, if it can be seen already that it ran before."""
    path = claim_path(replica)
    try:
        holder = path and json.loads(api(path))
    except (*NETWORK, ValueError):
        return  # no claim yet, or the way to the API is what the setup prepares
    if holder:
        judge(replica, holder, None)


def claim(replica: str) -> None:
    """Claim this start, or end: a replica runs its command once in an attempt.

    A claim is a flow run input: the server creates it for the first who asks, and refuses the
    others. It outlives the container, whose file system a restart replaces.
    """
    path = claim_path(replica)
    if path:
        # The nonce tells one's own claim, the answer to which was lost, from another's.
        own = {"nonce": os.urandom(16).hex(), "job": env.get("CLOUD_ML_JOB_ID", "")}
        judge(replica, ask(path) if put(path, own) in (ABSENT, CONFLICT) else own, own)


def is_unstarted() -> bool:
    """Whether the flow run still waits for its process, once the Prefect API answers again."""
    seen: Any = claim_path("") and ask("/flow_runs/" + env["PREFECT__FLOW_RUN_ID"])
    return seen not in ("", ABSENT) and str(seen["state_type"]) == "PENDING"


def judge(replica: str, holder: Any, own: Any) -> None:
    """Return if the command is to run; end if another start holds the claim, or the run is over."""
    run = env["PREFECT__FLOW_RUN_ID"]
    seen = ask("/flow_runs/" + run)
    if ABSENT in (holder, seen):
        why = "it was deleted, or PREFECT_API_URL is another server or workspace's"
        die(74, f"the Prefect API at {host()} knows no flow run {run}: {why}; nothing was run")
    state = seen["state_type"]
    # Its own start is the first: of a second one Prefect may have put the run back meanwhile.
    if state in FINAL or state in (("CANCELLING",) if holder == own else ("SCHEDULED", "PAUSED")):
        say(f"flow run {run} is {state.lower()}: replica {replica} has nothing to run")
        sys.exit(0)
    if holder != own:
        job = holder["job"]
        what = "was started again; the first start ended without a word"
        if job != env.get("CLOUD_ML_JOB_ID", ""):
            what = f"had started in CustomJob {job}; nothing was run"
        die(75, f"replica {replica} of attempt {env['PREFECT_VERTEX_ATTEMPT']} {what}")
