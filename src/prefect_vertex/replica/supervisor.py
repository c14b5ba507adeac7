"""`python -m prefect_vertex.replica.supervisor CONFIG`: brings the code, becomes the engine.

Prefect's own workspace supervisor, but the deployment is the leader's: a follower's run has none.
"""

from __future__ import annotations

import sys
from typing import Any
from uuid import UUID

from prefect_vertex.replica.membership import Membership
from prefect_vertex.replica.seams import supervise


async def leader_deployment(client: Any) -> Any:
    """The deployment of the leader's run, which brings the code for all replicas."""
    leader = await client.read_flow_run(UUID(Membership.read().leader_id))
    if leader.deployment_id is None:
        raise ValueError(f"Flow run {leader.id} has no deployment; replicas need one for the code.")
    return await client.read_deployment(leader.deployment_id)


if __name__ == "__main__":
    raise SystemExit(supervise(sys.argv[1:], leader_deployment))
