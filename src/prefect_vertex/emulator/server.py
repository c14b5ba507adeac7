"""The emulator as a whole: a gRPC server on the loopback interface, its jobs, and their end."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import grpc.aio

from prefect_vertex.emulator import supervisor
from prefect_vertex.emulator.api_error import ApiError
from prefect_vertex.emulator.bell import Bell
from prefect_vertex.emulator.call_log import CallLog
from prefect_vertex.emulator.chance import Chance
from prefect_vertex.emulator.front import Front
from prefect_vertex.emulator.job import EmulatedJob
from prefect_vertex.emulator.log_book import LogBook
from prefect_vertex.emulator.log_service import LogService
from prefect_vertex.emulator.names import parse_job_name, parse_parent
from prefect_vertex.emulator.profiles import FAST, Behaviour, Timings
from prefect_vertex.emulator.quota_service import QuotaService
from prefect_vertex.emulator.quotas import Quotas
from prefect_vertex.emulator.rates import UNLIMITED, RateLimits, Rates
from prefect_vertex.emulator.record import Lag
from prefect_vertex.emulator.script import Faults
from prefect_vertex.emulator.secrets import Secrets, SecretServer
from prefect_vertex.emulator.seeds import Seed, seeded
from prefect_vertex.emulator.service import JobService
from prefect_vertex.emulator.store import JobStore
from prefect_vertex.emulator.surroundings import Echo, Surroundings, search_path

_HOST: Final = "127.0.0.1"
_OPTIONS: Final = (
    # An unmasked page of jobs is some megabytes; a second server on one port is a mistake.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)


class Emulator:
    """A local Vertex AI JobService, as an asynchronous context manager.

    Plaintext gRPC, no credentials, loopback only.  Leaving the context ends every process that its
    jobs have started and removes its scratch directory.

    Args:
        port: Port to listen on; 0 for a free one.
        timings: How long things take; `FAST` by default.
        behaviour: What to do where the service is unknown.
        rates: How many calls a minute are let through; by default all.
        seed: Where ids, host names and durations are drawn from; None for other ones each time.
        replica_env: What the platform puts into every replica's environment beside its own
            variables, such as STORAGE_EMULATOR_HOST.  The addresses of what the emulator itself
            serves are there anyway.
        data: Where jobs keep their files, left in place at the end; None for a temporary directory.
        echo: Called with (source, line) for each output line and state change.

    Attributes:
        faults: The script of what goes wrong.
        rates: The meters of calls a minute; its `limits` may be set at any time.
        quotas: What jobs may hold at once; its limits may be set at any time.
        lag: How far lists are behind; may be changed at any time.
        logs: What Cloud Logging knows of the jobs; its `delay_seconds` may be changed at any time.
        calls: Every call that came.
        secrets: What replicas can read from Secret Manager.
        chance: Where everything random comes from; its `seed` repeats it.
    """

    def __init__(  # noqa: PLR0913 - keywords only, each with a default
        self,
        *,
        port: int = 0,
        timings: Timings = FAST,
        behaviour: Behaviour | None = None,
        rates: RateLimits = UNLIMITED,
        seed: int | None = None,
        replica_env: Mapping[str, str] | None = None,
        data: Path | None = None,
        echo: Echo | None = None,
    ) -> None:
        self.marker = f"{secrets.token_hex(8)}/"
        self._port = port
        self._timings = timings
        self._behaviour = behaviour or Behaviour()
        self._replica_env = dict(replica_env or {})
        self._data = data
        self._echo = echo
        bell = Bell()
        self._bell = bell
        self.faults = Faults(bell.ring)
        self.quotas = Quotas(bell.ring)
        self.rates = Rates(rates)
        self.lag = Lag()
        self.calls = CallLog()
        self.chance = Chance(seed)
        self.logs = LogBook(timings.log_delay_seconds, self.chance.seed)
        self._store = JobStore()
        self._front = Front(self.calls, self.rates, self.faults, self._behaviour.project_numbers)
        self.secrets = Secrets(self._behaviour.project_numbers)
        self._secret_server = SecretServer(self.secrets)
        self._surroundings: Surroundings | None = None
        self._scratch: Path | None = None
        self._server: Any = None

    @property
    def address(self) -> str:
        """`host:port`, as VERTEX_AI_EMULATOR_HOST wants it."""
        return f"{_HOST}:{self._port}"

    @property
    def secrets_address(self) -> str:
        """`http://host:port`, as SECRET_MANAGER_EMULATOR_HOST wants it; empty when stopped."""
        return self._secret_server.address

    def jobs(self, parent: str = "") -> list[EmulatedJob]:
        """The jobs of `projects/*/locations/*`, or of all, newest first."""
        if not parent:
            return self._store.all_newest_first()
        place = parse_parent(parent, self._behaviour.project_numbers)
        return [job for job in self._store.all_newest_first() if job.record.name.place == place]

    @property
    def deleted_jobs(self) -> list[EmulatedJob]:
        """The jobs that were deleted, oldest deletion first."""
        return list(self._store.removed)

    def job(self, name: str) -> EmulatedJob:
        """The job of that resource name, with the project's id or number.

        Raises:
            LookupError: There is none.
        """
        try:
            return self._store.get(parse_job_name(name, self._behaviour.project_numbers))
        except ApiError as error:
            raise LookupError(f"no job {name}") from error

    def seed_jobs(self, *seeds: Seed) -> list[str]:
        """Put jobs there that run nothing; live ones stay as they are until cancelled or ended.

        Returns:
            Their names, each seed's newest first.

        Raises:
            ValueError: A seed makes no sense, or the emulator does not serve.
        """
        if self._surroundings is None:
            raise ValueError("the emulator has not been started")
        names = []
        for seed in seeds:
            try:
                place = parse_parent(seed.parent, self._behaviour.project_numbers)
            except ApiError as error:
                raise ValueError(error.message) from error
            for job in seeded(seed, place, self._surroundings):
                self._store.add(job)
                names.append(job.name)
        return names

    async def start(self) -> None:
        """Begin to serve.

        Raises:
            OSError: The port is taken, or the data directory cannot be made.
        """
        if self._port:
            await asyncio.to_thread(_check_port, self._port)
        self._server = grpc.aio.server(options=_OPTIONS)
        # At once, and 0 as it is: a free port that is looked for first can be another's by then.
        self._port = _bound(self._server, self._port)
        self._scratch = await asyncio.to_thread(self._make_scratch)
        self._secret_server.start()
        self._surroundings = surroundings = Surroundings(
            timings=self._timings,
            behaviour=self._behaviour,
            chance=self.chance,
            bell=self._bell,
            faults=self.faults,
            quotas=self.quotas,
            lag=self.lag,
            logs=self.logs,
            variables={
                "VERTEX_AI_EMULATOR_HOST": self.address,
                "CLOUD_LOGGING_EMULATOR_HOST": self.address,
                "CLOUD_QUOTAS_EMULATOR_HOST": self.address,
                "SECRET_MANAGER_EMULATOR_HOST": self._secret_server.address,
                **self._replica_env,
            },
            scratch=self._scratch,
            marker=self.marker,
            search_path=search_path(self._scratch, Path(sys.executable)),
            echo=self._echo,
        )
        self._server.add_generic_rpc_handlers(
            (
                QuotaService(self.quotas, self._front),
                LogService(self.logs, self._front, self._behaviour.project_numbers),
                # Last: it has an answer to everything.
                JobService(self._store, surroundings, self._front),
            )
        )
        await self._server.start()

    async def stop(self) -> None:
        """Stop serving and end everything that was started; harmless when done twice."""
        if self._server is not None:
            await self._server.stop(None)
            self._server = None
        self._front.close()
        try:
            await self._store.stop_all()
        finally:
            await asyncio.to_thread(self._secret_server.stop)
            await self._clean()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _clean(self) -> None:
        if self._scratch is None:
            return
        # Nothing should carry the marker any more; this is for a supervisor that was killed.
        await asyncio.to_thread(supervisor.kill_members, self.marker)
        if self._data is None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
        self._scratch = None

    def _make_scratch(self) -> Path:
        if self._data is None:
            # Resolved: on macOS the temporary directory is behind a symbolic link.
            return Path(tempfile.mkdtemp(prefix="vertex-emulator-")).resolve()
        self._data.mkdir(parents=True, exist_ok=True)
        return self._data.resolve()


def _bound(server: grpc.aio.Server, port: int) -> int:
    """The port that the server listens on from its start: the one given, or a free one for 0."""
    try:
        return server.add_insecure_port(f"{_HOST}:{port}")
    except RuntimeError as error:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE)) from error


def _check_port(port: int) -> None:
    """Raise OSError with the reason, which gRPC does not give, where the port cannot be had."""
    with socket.socket() as probe:
        # As the server will: connections that linger from an earlier one do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((_HOST, port))
