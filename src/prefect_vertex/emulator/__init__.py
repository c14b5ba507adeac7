"""A local Vertex AI JobService that runs the jobs it is given; knows nothing of the worker."""

from prefect_vertex.emulator.control import ControlServer
from prefect_vertex.emulator.control_client import ControlClient, ControlError
from prefect_vertex.emulator.faults import (
    CallFault,
    ErrorDelay,
    InternalError,
    OutOfMemory,
    Preemption,
    Restart,
    Stockout,
)
from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.profiles import CLOCKS, FAST, LIFELIKE, Behaviour, Timings
from prefect_vertex.emulator.quotas import QuotaLimit
from prefect_vertex.emulator.rates import DOCUMENTED, UNLIMITED, RateLimits
from prefect_vertex.emulator.seeds import Seed
from prefect_vertex.emulator.server import Emulator

__all__ = [
    "CLOCKS",
    "DOCUMENTED",
    "FAST",
    "LIFELIKE",
    "UNLIMITED",
    "Behaviour",
    "CallFault",
    "ControlClient",
    "ControlError",
    "ControlServer",
    "EmulatedJob",
    "Emulator",
    "ErrorDelay",
    "InternalError",
    "OutOfMemory",
    "Preemption",
    "QuotaLimit",
    "RateLimits",
    "Restart",
    "Seed",
    "Stockout",
    "Timings",
]
