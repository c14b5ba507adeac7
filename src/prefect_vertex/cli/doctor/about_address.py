"""PREFECT_API_URL from the container's point of view.

What can be said without being there: whose address it is. Nothing is said of firewalls, routes and
what a name means in another network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from prefect_vertex.cli.doctor.finding import Finding, failed, ok, unchecked, warning
from prefect_vertex.planning.addresses import shown_url

CHECK = "PREFECT_API_URL in the job"
SET = "prefect config set PREFECT_API_URL=https://HOST/api"

_PRIVATE_SUFFIXES = (
    *("local", "internal", "lan", "localdomain", "home.arpa", "corp", "home", "intranet"),
    *("svc", "cluster.local", "test"),
)
_OF_DOCKER = frozenset({"host.docker.internal", "gateway.docker.internal"})
# RFC 6598: what carriers and some overlay networks use; `is_private` leaves it out.
_SHARED = ip_network("100.64.0.0/10")

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What is known of the address that a job gets.

    Attributes:
        url: As the job gets it; empty: not set.
        addresses: What its name resolves to from here; empty: nothing, or not asked.
        answer: What `/health` answered from here: empty for a success, else what was wrong.
        emulated: The job's containers are processes on this machine.
        has_network: The job is peered with a network of the user's.
        has_interface: It has an interface in one (Private Service Connect).
        peered_domains: Domains whose names it resolves there.
    """

    url: str
    addresses: Sequence[str] = ()
    answer: str = ""
    emulated: bool = False
    has_network: bool = False
    has_interface: bool = False
    peered_domains: Sequence[str] = ()

    @property
    def host(self) -> str:
        """The host's name or address, lower case; empty if there is none."""
        try:
            return (urlsplit(self.url).hostname or "").rstrip(".")
        except ValueError:
            return ""

    @property
    def is_private_network(self) -> bool:
        """Whether the job can be in a network of the user's at all."""
        return self.has_network or self.has_interface


def about_address(reach: Reach) -> Finding:
    """Judge the address that a job gets."""
    if not reach.url:
        return failed(CHECK, "The job would get no PREFECT_API_URL.", SET)
    if not reach.host or urlsplit(reach.url).scheme not in {"http", "https"}:
        return failed(CHECK, f"{shown_url(reach.url)} is not the address of an API.", SET)
    if reach.emulated:
        if reach.answer:
            return failed(CHECK, f"{shown_url(reach.url)}: {reach.answer}", SET)
        return ok(CHECK, f"{shown_url(reach.url)}; the emulator's jobs run on this machine.")
    address = _literal(reach.host)
    if address is not None:
        return _about_number(reach, address)
    return _about_name(reach)


def _about_number(reach: Reach, address: Address) -> Finding:
    shown = shown_url(reach.url)
    if address.is_loopback or address.is_unspecified:
        return failed(
            CHECK, f"{shown} is this machine; in the job it is the container itself.", SET
        )
    if address.is_link_local:
        return failed(CHECK, f"{shown} is link-local: it is another machine in the job's VM.", SET)
    if _is_private(address):
        return _about_private(reach, f"{shown} is a private address")
    return _about_public(reach)


def _about_name(reach: Reach) -> Finding:
    host, shown = reach.host, shown_url(reach.url)
    if host == "localhost" or host.endswith(".localhost") or host in _OF_DOCKER:
        return failed(
            CHECK, f"{shown} is this machine; in the job it is the container itself.", SET
        )
    found = [each for text in reach.addresses if (each := _literal(text)) is not None]
    if found and all(each.is_loopback for each in found):
        return failed(CHECK, f"{shown} is this machine by its own hosts file.", SET)
    private = "." not in host or any(host.endswith(f".{each}") for each in _PRIVATE_SUFFIXES)
    if private:
        if reach.has_interface and not reach.has_network and not _is_peered(reach):
            return failed(
                CHECK,
                f"{shown} is a private name, and the job's psc_interface_config has no "
                f"dns_peering_configs for it: the name does not resolve in the job.",
                SET,
            )
        return _about_private(reach, f"{shown} is a private name")
    if found and all(_is_private(each) for each in found):
        return _about_private(reach, f"{shown} is a private address ({found[0]})")
    return _about_public(reach)


def _about_private(reach: Reach, what: str) -> Finding:
    if not reach.is_private_network:
        return failed(
            CHECK,
            f"{what}, and the job is in no network of yours: set network or psc_interface_config, "
            "or a public address.",
            SET,
        )
    how = "network" if reach.has_network else "psc_interface_config"
    return unchecked(CHECK, f"{what}; whether the job reaches it by its {how} is not seen here.")


def _about_public(reach: Reach) -> Finding:
    shown = shown_url(reach.url)
    if reach.answer:
        return warning(CHECK, f"{shown} is public, but from here: {reach.answer}", SET)
    if urlsplit(reach.url).scheme == "http":
        return warning(CHECK, f"{shown} is public and not encrypted: keys travel in clear.", SET)
    return ok(CHECK, f"{shown} is public and answers from here.")


def _is_peered(reach: Reach) -> bool:
    domains = [domain.strip(".").lower() for domain in reach.peered_domains]
    return any(reach.host == each or reach.host.endswith(f".{each}") for each in domains)


def _literal(host: str) -> Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def _is_private(address: Address) -> bool:
    shared = isinstance(address, IPv4Address) and address in _SHARED
    return (address.is_private or shared) and not address.is_loopback
