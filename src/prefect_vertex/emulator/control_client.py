"""The other end of `control`, for tests and benchmarks; standard library only, blocking."""

from __future__ import annotations

import dataclasses
import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

from prefect_vertex.emulator.faults import Fault
from prefect_vertex.emulator.seeds import Seed

_SECONDS: Final = 60.0


class ControlError(Exception):
    """The emulator would not; the message says why."""


class ControlClient:
    """Speaks to the control port of an emulator in another process.

    Args:
        address: What it printed, `http://host:port`.
    """

    def __init__(self, address: str) -> None:
        self._address = address.rstrip("/")
        # A proxy that the environment names is not meant for this machine.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, action: str, **arguments: Any) -> Any:
        """Perform one of `control.Actions`.

        Raises:
            ControlError: It was refused.
            OSError: The emulator does not answer.
        """
        request = urllib.request.Request(  # noqa: S310 - http to this machine
            f"{self._address}/{action}",
            data=json.dumps(arguments).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request, timeout=_SECONDS) as response:
                return json.load(response)["result"]
        except urllib.error.HTTPError as error:
            with error:
                raise ControlError(json.load(error)["error"]) from error
        except http.client.HTTPException as error:
            raise ControlError(f"{self._address} is no control port of an emulator") from error

    def add_faults(self, *faults: Fault) -> None:
        """Append to the script."""
        self.call("add_faults", faults=[dataclasses.asdict(fault) for fault in faults])

    def assert_all_faults_used(self) -> None:
        """Fail if something scripted never happened; faults for every time do not count.

        Raises:
            AssertionError: Naming them.
        """
        unused = [fault for fault in self.call("remaining_faults") if fault["times"]]
        if unused:
            raise AssertionError(f"Scripted faults that never happened: {unused}")

    def seed_jobs(self, *seeds: Seed) -> Sequence[str]:
        """Put jobs there that run nothing; their names."""
        names: Sequence[str] = self.call(
            "seed_jobs", seeds=[dataclasses.asdict(seed) for seed in seeds]
        )
        return names
