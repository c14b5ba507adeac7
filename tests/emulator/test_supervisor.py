"""Finding processes where there is no /proc."""

from __future__ import annotations

from prefect_vertex.emulator.supervisor import Process, parse_ps

LISTING = """\
    1     0 Ss   /sbin/launchd
  501     1 S    python3 -c import time VERTEX_EMULATOR_REPLICA=ab/1/workerpool0-0/ HOME=/x
  502   501 Z    (python3)
  503   501 R+   sh -c true A=1 VERTEX_EMULATOR_REPLICA=ab/1/workerpool0-1/
  504     1 S
"""


def test_listing_of_ps_is_read_without_zombies() -> None:
    """The columns are pid, parent and state; what follows is searched for the marker."""
    assert list(parse_ps(LISTING, "VERTEX_EMULATOR_REPLICA=ab/1/workerpool0-0/")) == [
        Process(1, 0, marked=False),
        Process(501, 1, marked=True),
        Process(503, 501, marked=False),
        Process(504, 1, marked=False),
    ]
