"""The gang: no replica runs user code before all are there."""

from __future__ import annotations

import time

from prefect_vertex.delivery.bootstrap.basics import die, env
from prefect_vertex.delivery.bootstrap.claims import ask, attempt_key, judge, put
from prefect_vertex.delivery.bootstrap.web import ABSENT


def gather(replica: str, size: int) -> None:
    """Check in, and wait until all `size` replicas have; end if the run is over or one is late.

    A job whose machines came only in part can then be given up safely. Check-ins are flow run
    inputs; rank 0 counts them, the others look for what it writes then. They name the job: should
    the attempt have two by mistake, one gathers, and the replicas of the other learn of it.
    """
    own = {"job": env.get("CLOUD_ML_JOB_ID", "")}
    gang, here = attempt_key("gang", ""), attempt_key("here", f"-j{own['job']}-r")
    if not (gang and env.get("PREFECT_VERTEX_GANG")):
        return
    inputs, _, prefix = here.rpartition("/")
    limit = float(env.get("PREFECT_VERTEX_GANG_SECONDS", "inf"))
    begun = time.monotonic()
    put(here + replica, own)
    while True:
        holder = ask(gang)
        judge(replica, own if holder == ABSENT else holder, own)
        if holder != ABSENT:
            return
        waited = time.monotonic() - begun
        if replica == "0" or waited > limit:
            found = ask(inputs + "/filter", {"prefix": prefix, "limit": size})
            keys = [each["key"] for each in found]
            late = [rank for rank in range(size) if f"{prefix}{rank}" not in keys]
            if not late:
                put(gang, own)
                continue
            if waited > limit:
                die(79, f"only {len(keys)} of {size} replicas after {limit:g} s, not ranks {late}")
        # Many replicas, and long waits, must not keep the server busy.
        time.sleep(min(1 + size / 16 + waited / 20, 15))
