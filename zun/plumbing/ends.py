"""The container's ends: moved into a network namespace and given what the port says; taken out again. Blocking.

What an engine does in the namespace meanwhile is not undone, and nothing here waits for it.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from ipaddress import ip_interface
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from zun.plumbing import links
from zun.plumbing.netns import inside, outside
from zun.plumbing.vif import Vif

LOG = logging.getLogger(__name__)

_NO_DAD = 0x02
_LOOPBACK = 1
_PATIENT_ASKS = 30
"""Times (about a second each) that a neighbour is asked for its MAC before a packet fails: Neutron's agent may let the
first packets through only some seconds after the container began."""


class EndLost(Exception):
    """The container's end is nowhere to be found: the pair has to be made anew."""


def connect(vif: Vif, name: str, namespace: int, former: int | None) -> None:
    """The end is in ``namespace`` with its addresses and routes: under ``name``, the next free one if that is taken, or
    the one that it has there already. ``former``: the namespace it may still be in. Repeating it is harmless. Raises
    EndLost, NetlinkError, OSError."""
    with inside(namespace), IPRoute() as ip:
        found = links.find_marked(ip, links.mark_of(vif))
        if found is None:
            _bring(vif, _free(ip, name), namespace, former)
            found = links.find_marked(ip, links.mark_of(vif))
        if found is None:
            raise EndLost(vif.port_id)
        index, name = found
        _settings(vif, name)
        ip.link("set", index=_LOOPBACK, state="up")
        ip.link("set", index=index, mtu=vif.mtu, state="up")
        for address in vif.addresses:
            _add_address(ip, index, address)
        for route in vif.routes:
            _add_route(ip, index, route.destination, route.gateway)


def take_out(vifs: Sequence[tuple[str, str]], namespace: int) -> None:
    """Ends given as (port id, name on the host) leave ``namespace`` and wait on the host, down. Absent is success."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        with inside(namespace), IPRoute() as ip:
            for port_id, spare in vifs:
                found = links.find_marked(ip, f"zun {port_id}")
                if found is not None:
                    _move(ip, found[0], home, spare)
    finally:
        os.close(home)


def present(namespace: int) -> dict[str, str]:
    """Ports (id -> device name) whose ends are in ``namespace``."""
    with inside(namespace), IPRoute() as ip:
        found = ((link.get("ifalias") or "", str(link.get("ifname"))) for link in ip.get_links())
        return {alias.removeprefix("zun "): name for alias, name in found if alias.startswith("zun ")}


def _bring(vif: Vif, name: str, namespace: int, former: int | None) -> None:
    """From the host, or from the container's former namespace, into this one."""
    with outside(), IPRoute() as ip:
        waiting = links.find(ip, vif.spare)
        if waiting is not None:
            _move(ip, waiting, namespace, name)
            return
    if former is None:
        return
    with inside(former), IPRoute() as ip:
        found = links.find_marked(ip, links.mark_of(vif))
        if found is not None:
            _move(ip, found[0], namespace, name)


def _free(ip: IPRoute, name: str) -> str:
    taken = {str(link.get("ifname")) for link in ip.get_links()}
    number = int(name.removeprefix("eth"))
    while f"eth{number}" in taken:
        number += 1
    return f"eth{number}"


def _move(ip: IPRoute, index: int, namespace: int, name: str) -> None:
    """Down first: no packet leaves under the old addresses."""
    ip.link("set", index=index, state="down")
    ip.link("set", index=index, net_ns_fd=namespace, ifname=name)


def _settings(vif: Vif, name: str) -> None:
    neighbours = {4: Path(f"/proc/sys/net/ipv4/neigh/{name}"), 6: Path(f"/proc/sys/net/ipv6/neigh/{name}")}
    (neighbours[4] / "mcast_solicit").write_text(str(_PATIENT_ASKS))
    if not vif.ipv6:
        return
    conf = Path(f"/proc/sys/net/ipv6/conf/{name}")
    if not conf.exists():
        raise OSError(errno.EAFNOSUPPORT, "the kernel of this host has no IPv6")
    (neighbours[6] / "mcast_solicit").write_text(str(_PATIENT_ASKS))
    (conf / "accept_dad").write_text("0")
    (conf / "disable_ipv6").write_text("0")  # engines switch IPv6 off in what they have not set up themselves


def _add_address(ip: IPRoute, index: int, text: str) -> None:
    interface = ip_interface(text)
    more = {"flags": _NO_DAD} if interface.version == 6 else {}
    try:
        ip.addr("add", index=index, address=str(interface.ip), prefixlen=interface.network.prefixlen, **more)
    except NetlinkError as error:
        if error.code != errno.EEXIST:
            raise


def _add_route(ip: IPRoute, index: int, destination: str, gateway: str) -> None:
    """A gateway outside the interface's subnets is taken to be on the link, as Neutron permits it."""
    try:
        ip.route("replace", dst=destination, gateway=gateway, oif=index)
    except NetlinkError as error:
        if error.code not in (errno.ENETUNREACH, errno.EHOSTUNREACH):
            raise
        ip.route("replace", dst=destination, gateway=gateway, oif=index, flags=["onlink"])
