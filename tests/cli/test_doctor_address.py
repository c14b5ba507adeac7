"""PREFECT_API_URL as a container would see it: whose address it is, whatever it says here."""

from __future__ import annotations

from typing import Any

import pytest

from prefect_vertex.cli.doctor.about_address import Reach, about_address
from prefect_vertex.cli.doctor.finding import Verdict

NETWORK = {"has_network": True}
INTERFACE = {"has_interface": True}


@pytest.mark.parametrize(
    ("url", "known", "verdict", "says"),
    [
        ("", {}, Verdict.FAILED, "no PREFECT_API_URL"),
        ("prefect.example.com/api", {}, Verdict.FAILED, "not the address"),
        ("http://[bad/api", {}, Verdict.FAILED, "not the address"),
        ("http://localhost:4200/api", {}, Verdict.FAILED, "this machine"),
        ("http://127.0.0.1:4200/api", {}, Verdict.FAILED, "this machine"),
        ("http://[::1]:4200/api", {}, Verdict.FAILED, "this machine"),
        ("http://[::ffff:127.0.0.1]:4200/api", {}, Verdict.FAILED, "this machine"),
        ("http://0.0.0.0:4200/api", {}, Verdict.FAILED, "this machine"),
        ("http://127.0.0.1:4200/api", NETWORK, Verdict.FAILED, "this machine"),
        ("http://host.docker.internal:4200/api", {}, Verdict.FAILED, "this machine"),
        (
            "http://laptop.example.com/api",
            {"addresses": ["127.0.1.1"]},
            Verdict.FAILED,
            "hosts file",
        ),
        ("http://169.254.169.254/api", NETWORK, Verdict.FAILED, "link-local"),
        ("http://[fe80::1]/api", NETWORK, Verdict.FAILED, "link-local"),
        ("http://10.1.2.3/api", {}, Verdict.FAILED, "private address"),
        ("http://192.168.0.9/api", {}, Verdict.FAILED, "private address"),
        ("http://100.64.0.1/api", {}, Verdict.FAILED, "private address"),
        ("http://[fd00::1]/api", {}, Verdict.FAILED, "private address"),
        ("http://10.1.2.3/api", NETWORK, Verdict.UNCHECKED, "by its network"),
        ("http://10.1.2.3/api", INTERFACE, Verdict.UNCHECKED, "psc_interface_config"),
        ("http://prefect/api", {}, Verdict.FAILED, "private name"),
        ("http://prefect.internal/api", {}, Verdict.FAILED, "private name"),
        ("http://prefect.svc.cluster.local/api", {}, Verdict.FAILED, "private name"),
        ("http://prefect.internal/api", NETWORK, Verdict.UNCHECKED, "by its network"),
        ("http://prefect.internal/api", INTERFACE, Verdict.FAILED, "dns_peering_configs"),
        (
            "http://prefect.internal/api",
            {**INTERFACE, "peered_domains": ["internal."]},
            Verdict.UNCHECKED,
            "psc_interface_config",
        ),
        (
            "https://prefect.example.com/api",
            {"addresses": ["10.0.0.4"]},
            Verdict.FAILED,
            "private address (10.0.0.4)",
        ),
        ("https://prefect.example.com/api", {"answer": "no answer."}, Verdict.WARNING, "from here"),
        ("http://prefect.example.com/api", {}, Verdict.WARNING, "in clear"),
        ("http://34.1.2.3/api", {}, Verdict.WARNING, "in clear"),
        ("https://api.prefect.cloud/api/accounts/1/workspaces/2", {}, Verdict.OK, "public"),
        ("http://127.0.0.1:4200/api", {"emulated": True}, Verdict.OK, "this machine"),
        (
            "http://127.0.0.1:4200/api",
            {"emulated": True, "answer": "no answer."},
            Verdict.FAILED,
            "no answer",
        ),
    ],
)
def test_an_address_is_judged_by_whose_it_is(
    url: str, known: dict[str, Any], verdict: Verdict, says: str
) -> None:
    found = about_address(Reach(url=url, **known))

    assert (found.verdict, says in found.text) == (verdict, True), found.text
    assert bool(found.fix) == (verdict in {Verdict.FAILED, Verdict.WARNING})


def test_a_password_in_an_address_is_not_shown() -> None:
    found = about_address(Reach(url="http://me:hunter2@10.0.0.1/api"))

    assert "hunter2" not in found.text
    assert "10.0.0.1" in found.text
