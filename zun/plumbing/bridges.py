"""Linux bridges of our own with the gateway's address, and bridges that others made with it. Blocking.

Ours are marked by their alias: ``zun-bridge <owner> <network>``.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from ipaddress import ip_interface
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from zun.plumbing import links
from zun.plumbing.first_address import first_address

_MARK = "zun-bridge"
_IFF_UP = 1


@dataclass(frozen=True, slots=True)
class Bridge:
    """A bridge that we made."""

    name: str
    network: str


def holding(address: str) -> str | None:
    """Name of the bridge that has this address (``10.0.0.1/24``), whoever made it."""
    wanted = ip_interface(address)
    with IPRoute() as ip:
        for row in ip.get_addr(address=str(wanted.ip)):
            if row["prefixlen"] != wanted.network.prefixlen:
                continue
            link = ip.link("get", index=row["index"])[0]
            if (link.get("linkinfo") or {}).get("kind") == "bridge":
                return str(link.get("ifname"))
    return None


def is_others(name: str, address: str) -> bool:
    """Is it a bridge, up and with this as its first IPv4 address, that we did not make? On the way of each capsule:
    read from the kernel's files, which takes a tenth of what netlink takes."""
    device = Path("/sys/class/net") / name
    try:
        if not (device / "bridge").exists() or not int((device / "flags").read_text(), 16) & _IFF_UP:
            return False
        if (device / "ifalias").read_text().startswith(f"{_MARK} "):
            return False
        return first_address(name) == ip_interface(address)
    except OSError as error:  # of files, and of a device that is gone, or has no address
        if error.errno not in (errno.ENOENT, errno.ENODEV, errno.EADDRNOTAVAIL):
            raise
        return False


def make(name: str, owner: str, network: str, address: str, mac: str, mtu: int) -> None:
    """It is there, up, with the gateway's address. A fixed MAC: else it follows the ports, and containers would look
    for the gateway anew. Raises NetlinkError, OSError."""
    interface = ip_interface(address)
    with IPRoute() as ip:
        index = links.find(ip, name)
        if index is None:
            ip.link("add", ifname=name, kind="bridge", address=mac, mtu=mtu, br_stp_state=0, br_forward_delay=0)
            index = links.find(ip, name)
        ip.link("set", index=index, ifalias=f"{_MARK} {owner} {network}")
        links.quiet(name)
        try:
            ip.addr("add", index=index, address=str(interface.ip), prefixlen=interface.network.prefixlen)
        except NetlinkError as error:
            if error.code != errno.EEXIST:
                raise
        ip.link("set", index=index, state="up")


def remove(name: str) -> None:
    """Gone is success."""
    with IPRoute() as ip:
        index = links.find(ip, name)
        if index is not None:
            ip.link("del", index=index)


def ours(owner: str) -> list[Bridge]:
    """All bridges made by ``owner``."""
    found = []
    with IPRoute() as ip:
        for link in ip.get_links():
            fields = (link.get("ifalias") or "").split(" ")
            if len(fields) == 3 and fields[:2] == [_MARK, owner]:
                found.append(Bridge(str(link.get("ifname")), fields[2]))
    return found
