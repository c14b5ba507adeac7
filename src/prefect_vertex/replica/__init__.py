"""What user code sees of the replicas of its job; importing it loads neither Prefect nor Google.

from prefect_vertex import replica

me = replica.current()          # rank 0 of 1 outside a job
for item in me.shard(items):    # this replica's part
    ...
parts = me.gather(results, "results")
if me.is_leader:
    merge(parts)

first = replica.map_slots(work, items[:8])      # a process for each slot
rest = replica.map_slots(work, items[8:], profile=replica.measured_profile(first))
"""

from __future__ import annotations

from prefect_vertex.errors import ReplicaError
from prefect_vertex.planning.sizing import WorkProfile
from prefect_vertex.replica.pool import map_slots, measured_profile
from prefect_vertex.replica.shares import effective_worker_count
from prefect_vertex.replica.unit import UnitResult
from prefect_vertex.replica.view import Replica, current

__all__ = [
    "Replica",
    "ReplicaError",
    "UnitResult",
    "WorkProfile",
    "current",
    "effective_worker_count",
    "map_slots",
    "measured_profile",
]
