"""Which network addresses a request may go to.

A tool server chooses the address of its endpoint, so a public one must not be able to point this process at
what only this process can reach. Addresses that are not public are refused, on the address that is connected
to, unless the configuration names their host.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from torpor.core.errors import Refused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

LOOPBACK = "localhost"
"""Stands for every name and address of this machine itself."""

_PRIVATE_ENDINGS = (".localhost", ".local", ".internal", ".lan", ".home.arpa")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Blocked(OSError):
    """The name leads to an address that requests may not go to."""


def host_of(url: str) -> str:
    """The host of a URL in lower case, without brackets; empty if there is none."""
    try:
        return (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return ""


def origin_of(url: str) -> tuple[str, str, int]:
    """Scheme, host and port of a URL."""
    parts = urlsplit(url)
    return parts.scheme.lower(), host_of(url), parts.port or (443 if parts.scheme.lower() == "https" else 80)


def literal(host: str) -> Address | None:
    """The address that a host is written as, or None for a name."""
    try:
        return ipaddress.ip_address(host.split("%", 1)[0])
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host, as written, is this machine."""
    address = literal(host)
    return host == LOOPBACK or host.endswith(".localhost") or bool(address and _inner(address).is_loopback)


def is_public(address: Address) -> bool:
    """Whether an address can be reached from everywhere, also when it is wrapped in another."""
    inner = _inner(address)
    special = inner.is_multicast or inner.is_reserved or getattr(inner, "is_site_local", False)
    return inner.is_global and not special


def reach(url: str, hosts: Iterable[str] = ()) -> frozenset[str]:
    """The hosts that may be private for a server at ``url``: its own if it looks so, and ``hosts``."""
    own = host_of(url)
    address = literal(own)
    private = not is_public(address) if address else "." not in own or own.endswith(_PRIVATE_ENDINGS)
    named = {host.rstrip(".").lower() for host in hosts} | ({own} if private else set())
    return frozenset(named | ({LOOPBACK} if any(map(is_loopback, named)) else set()))


def check_url(url: str, *, allow_http: bool, what: str) -> None:
    """Raise ``Refused`` unless this is an absolute https URL, or an http one to this machine itself."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise Refused(f"{what} is not a URL.") from None
    host = host_of(url)
    if parts.scheme not in ("http", "https") or not host or any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise Refused(f"{what} must be an absolute http or https URL.")
    if parts.username is not None or parts.password is not None:
        raise Refused(f"{what} must not hold credentials; give a token instead.")
    if parts.fragment:
        raise Refused(f"{what} must not have a fragment.")
    if parts.scheme == "http" and not (allow_http or is_loopback(host)):
        raise Refused(f"{what} must be https: {host} is not this machine (allow_http=True permits http).")


def check_literal(url: str, hosts: frozenset[str]) -> None:
    """Raise ``Blocked`` if the host is written as an address that requests may not go to."""
    host = host_of(url)
    address = literal(host)
    if address and not may_reach(host, address, hosts):
        raise Blocked(f"{host} is not a public address")


def may_reach(name: str, address: Address, hosts: frozenset[str]) -> bool:
    """Whether a request for a host, as written, may go to an address."""
    if is_public(address) or name in hosts:
        return True
    return LOOPBACK in hosts and is_loopback(name) and _inner(address).is_loopback


def _inner(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, however it is wrapped."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else address)
