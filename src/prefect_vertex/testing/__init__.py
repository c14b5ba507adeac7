"""For tests, of this package and of yours: a clock that is moved by hand, and jobs in memory.

`FakeJobGateway` keeps the promises of `vertex.gateway.JobGateway`; the suite in `tests/contract`
holds it to them beside the emulator.  It runs nothing: a test says what becomes of a job.
"""

from prefect_vertex.testing.clock import ManualClock
from prefect_vertex.testing.gateway import FakeJobGateway

__all__ = ["FakeJobGateway", "ManualClock"]
