"""A local Vertex AI JobService that runs the jobs it is given; knows nothing of the worker."""

from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.profiles import CLOCKS, FAST, LIFELIKE, Behaviour, Timings
from prefect_vertex.emulator.server import Emulator

__all__ = ["CLOCKS", "FAST", "LIFELIKE", "Behaviour", "EmulatedJob", "Emulator", "Timings"]
