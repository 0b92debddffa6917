"""veth pairs on the host: made, found by their marks, attached to Linux bridges, removed. Blocking: for threads.

Marks are interface aliases: ``zun <owner> <container> <port>`` on the host's end, ``zun <port>`` on the other.
"""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from zun.plumbing.offload import tx_checksum_off
from zun.plumbing.vif import Vif

LOG = logging.getLogger(__name__)

_MARK = "zun"


@dataclass(frozen=True, slots=True)
class Tap:
    """A host's end that we made."""

    name: str
    container: str
    port_id: str


def mark_of(vif: Vif) -> str:
    """Alias of the container's end, wherever it is."""
    return f"{_MARK} {vif.port_id}"


def find(ip: IPRoute, name: str) -> int | None:
    """Index of a device by name."""
    link = _known(ip, name)
    return None if link is None else int(link["index"])


def _known(ip: IPRoute, name: str) -> Any | None:
    """What the kernel says of a device by name."""
    try:
        return ip.link("get", ifname=name)[0]
    except NetlinkError as error:
        if error.code != errno.ENODEV:
            raise
        return None


def find_marked(ip: IPRoute, alias: str) -> tuple[int, str] | None:
    """Index and name of a device by alias."""
    for link in ip.get_links():
        if link.get("ifalias") == alias:
            return int(link["index"]), str(link.get("ifname"))
    return None


def make_pair(vif: Vif) -> bool:
    """The pair exists, its host's end up; True when it had to be made. The container's end waits on the host, down, or
    is in a container already."""
    with IPRoute() as ip:
        return _pair(ip, vif)


def make_pair_on_bridge(vif: Vif) -> bool:
    """As ``make_pair``, and the host's end is a port of the Linux bridge, which is made if nobody has done so yet."""
    with IPRoute() as ip:
        bridge = _bridge(ip, vif.bridge)
        made = _pair(ip, vif, master=bridge)
        if not made:
            ip.link("set", index=find(ip, vif.tap), master=bridge)
        return made


def _pair(ip: IPRoute, vif: Vif, **more: int) -> bool:
    """``more``: what else is set of the host's end, with its mark."""
    if _whole(ip, vif.tap):
        return False
    peer = {"ifname": vif.spare, "address": vif.mac, "mtu": vif.mtu}
    ip.link("add", ifname=vif.tap, kind="veth", mtu=vif.mtu, peer=peer)
    try:
        tap, spare = find(ip, vif.tap), find(ip, vif.spare)
        ip.link("set", index=spare, ifalias=mark_of(vif))
        quiet(vif.tap)
        quiet(vif.spare)
        if not vif.checksum_offload:
            tx_checksum_off(vif.spare)
        # Last of all: a device without its mark is one whose maker died.
        mark = f"{_MARK} {vif.owner} {vif.container} {vif.port_id}"
        ip.link("set", index=tap, ifalias=mark, state="up", **more)
    except BaseException:
        _delete(ip, vif.tap)
        raise
    return True


def _whole(ip: IPRoute, tap: str) -> bool:
    """Is the device there, made to its end? It is up then; one half made is removed."""
    link = _known(ip, tap)
    if link is None:
        return False
    if not link.get("ifalias"):
        LOG.info("action=make-pair device=%s result=half made, removed", tap)
        _delete(ip, tap)
        return False
    if link.get("state") != "up":
        ip.link("set", index=link["index"], state="up")
    return True


def remove_pair(tap: str) -> None:
    """Both ends go, wherever the other one is. Gone is success."""
    with IPRoute() as ip:
        _delete(ip, tap)


def taps(owner: str) -> list[Tap]:
    """All host's ends made by ``owner``."""
    with IPRoute() as ip:
        return list(_taps(ip, owner))


def _bridge(ip: IPRoute, name: str) -> int:
    """Index of the Linux bridge, which is there and up afterwards."""
    link = _known(ip, name)
    if link is None:
        with _settled(errno.EEXIST):
            ip.link("add", ifname=name, kind="bridge", br_stp_state=0, br_forward_delay=0)
            quiet(name)
        link = ip.link("get", ifname=name)[0]
    if link.get("state") != "up":
        ip.link("set", index=link["index"], state="up")
    return int(link["index"])


def _taps(ip: IPRoute, owner: str) -> Iterator[Tap]:
    for link in ip.get_links():
        fields = (link.get("ifalias") or "").split(" ")
        if len(fields) == 4 and fields[:2] == [_MARK, owner]:
            yield Tap(str(link.get("ifname")), fields[2], fields[3])


def _delete(ip: IPRoute, name: str) -> None:
    index = find(ip, name)
    if index is not None:
        with _settled(errno.ENODEV):
            ip.link("del", index=index)


def quiet(device: str) -> None:
    """The host itself takes no part in the container's network: no IPv6 addresses of its own on these devices."""
    setting = Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6")
    try:
        setting.write_text("1")
    except FileNotFoundError:  # a kernel without IPv6
        LOG.debug("action=quiet device=%s result=no IPv6", device)


@contextlib.contextmanager
def _settled(code: int) -> Iterator[None]:
    """Somebody else was faster, or it is gone: both are what was wanted."""
    try:
        yield
    except NetlinkError as error:
        if error.code != code:
            raise
