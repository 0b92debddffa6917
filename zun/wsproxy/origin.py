"""Who may open a session from where: Origin, and what balancers say of their clients. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Sequence
from urllib.parse import urlsplit

_FITS = {"ws": ("ws", "http"), "wss": ("wss", "https")}

NOT_VALID = "Origin header not valid."
OTHER_HOST = "Origin header does not match this host."
OTHER_SCHEME = "Origin header protocol does not match this host."
"""The texts that operators know."""


def refusal(
    origins: Sequence[str], host: str | None, allowed: Collection[str], base_scheme: str, forwarded: str | None
) -> str | None:
    """Why a page of this Origin may open no session here; None if it may, or if no browser asks (S4.11).

    ``host`` is the Host header, ``allowed`` the operator's list, ``forwarded`` the scheme that a trusted balancer
    tells. Host names are compared, without ports: the stock client sends the text ``None`` for one.
    """
    if not origins:
        return None
    name, scheme = (None, "") if len(origins) > 1 else _split(origins[0])
    if name is None:
        return NOT_VALID
    if name != host_name(host) and name not in {entry.strip().lower() for entry in allowed}:
        return OTHER_HOST
    if (forwarded or scheme) not in _FITS[base_scheme]:
        return OTHER_SCHEME
    return None


def _split(origin: str) -> tuple[str | None, str]:
    """Host name and scheme, in small letters."""
    try:
        parts = urlsplit(origin)
        return (parts.hostname or None), parts.scheme.lower()
    except ValueError:
        return None, ""


def host_name(host: str | None) -> str | None:
    """Of a Host header, in small letters, without port and brackets; None where it names none."""
    if not host:
        return None
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


class Balancers:
    """Those whose ``X-Forwarded-*`` headers are believed."""

    def __init__(self, trusted: Sequence[str]) -> None:
        self._networks = [ipaddress.ip_network(entry.strip(), strict=False) for entry in trusted]

    def trusts(self, address: str) -> bool:
        """Is this one of them?"""
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in network for network in self._networks if network.version == mapped.version)

    def client(self, peer: str, forwarded_for: Sequence[str]) -> str:
        """Where the request comes from: the last one before our balancers."""
        address = peer
        hops = [hop.strip() for line in forwarded_for for hop in line.split(",") if hop.strip()]
        while hops and self.trusts(address):
            address = hops.pop()
        return address

    def scheme(self, peer: str, forwarded_proto: Sequence[str]) -> str | None:
        """The client's, where a trusted balancer tells it."""
        if not self.trusts(peer) or not forwarded_proto:
            return None
        return forwarded_proto[-1].rpartition(",")[2].strip().lower() or None
