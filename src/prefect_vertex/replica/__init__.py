"""What user code sees of the replicas of its job; importing it loads neither Prefect nor Google.

from prefect_vertex import replica

me = replica.current()          # rank 0 of 1 outside a job
for item in me.shard(items):    # this replica's part
    ...
parts = me.gather(results, "results")
if me.is_leader:
    merge(parts)
"""

from __future__ import annotations

from prefect_vertex.errors import ReplicaError
from prefect_vertex.replica.pool import UnitResult, map_slots, measured_profile
from prefect_vertex.replica.shares import effective_worker_count
from prefect_vertex.replica.view import Replica, current

__all__ = [
    "Replica",
    "ReplicaError",
    "UnitResult",
    "current",
    "effective_worker_count",
    "map_slots",
    "measured_profile",
]
