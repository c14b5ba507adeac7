"""Ports that are promised now and bound later."""

from __future__ import annotations

import socket

import pytest

from prefect_vertex.emulator import ports
from prefect_vertex.emulator.ports import free_ports

LOOPBACK = "127.0.0.1"


def test_ports_can_be_bound_and_are_all_different() -> None:
    found = free_ports(50)

    assert len(set(found)) == 50
    for port in found:
        with socket.create_server((LOOPBACK, port)):
            pass


def test_no_port_is_one_that_the_system_gives_by_itself() -> None:
    given = set()
    for _ in range(50):
        with socket.socket() as anybody:
            anybody.bind((LOOPBACK, 0))
            given.add(anybody.getsockname()[1])

    assert max(free_ports(50)) < min(given)


def test_a_port_in_use_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(ports, "_RANGE", range(port, port + 1))

    with (
        socket.create_server((LOOPBACK, port)),
        pytest.raises(OSError, match=r"1 free ports wanted on 127\.0\.0\.1, 0 found"),
    ):
        free_ports(1)

    assert free_ports(1) == [port]
