"""The host as the router of a bridge: packets pass it, and leave it under the host's address. Blocking.

By the command iptables and nothing else: where Docker runs, the chain FORWARD drops what is not let through in that
very chain, packets between two ports of one bridge included (``bridge-nf-call-iptables``). Each bridge has a chain of
its own in two tables, so that its rules are replaced and removed as a whole.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from ipaddress import ip_interface
from pathlib import Path

from zun.domain.errors import NetworkSetupFailed

BRIDGE_PREFIX = "zbr"
"""Names of our bridges begin so."""
_OTHERS = (f"{BRIDGE_PREFIX}+", "br-+", "docker+")
"""Bridges of other networks: ours and Docker's. Networks do not reach each other."""
_HOOKS = (("filter", "FORWARD"), ("nat", "POSTROUTING"))
_FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
_SECONDS = 20


def open_up(bridge: str, address: str) -> None:
    """Containers on ``bridge`` (whose gateway has ``address``, with prefix) reach each other and, as the host, what the
    host reaches. Raises NetworkSetupFailed, OSError."""
    chain = chain_of(bridge)
    _run(["iptables-restore", "--noflush", "-w", "5"], _rules(chain, bridge, str(ip_interface(address).network)))
    for table, hook in _HOOKS:
        jump = [hook, "-j", chain]
        if not _succeeds(table, "-C", *jump):
            _run(["iptables", "-w", "5", "-t", table, "-I", *jump])
    if _FORWARDING.read_text().strip() != "1":
        _FORWARDING.write_text("1")


def close_down(bridge: str) -> None:
    """Its rules are gone. Not there is success. Forwarding stays on: others may count on it by now."""
    if shutil.which("iptables") is None:
        return
    chain = chain_of(bridge)
    for table, hook in _HOOKS:
        while _succeeds(table, "-D", hook, "-j", chain):
            pass
        if _succeeds(table, "-F", chain):
            _succeeds(table, "-X", chain)


def chain_of(bridge: str) -> str:
    """Name of the bridge's chains."""
    return f"ZUN-{bridge}"


def _rules(chain: str, bridge: str, subnet: str) -> str:
    out = [f"-A {chain} -i {bridge} -o {bridge} -j ACCEPT"]
    out += [f"-A {chain} -o {bridge} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"]
    for other in _OTHERS:
        out += [f"-A {chain} -i {bridge} -o {other} -j DROP", f"-A {chain} -i {other} -o {bridge} -j DROP"]
    out += [f"-A {chain} -i {bridge} -j ACCEPT"]
    masked = f"-A {chain} -s {subnet} ! -o {bridge} -j MASQUERADE"
    lines = ["*filter", f":{chain} - [0:0]", *out, "COMMIT", "*nat", f":{chain} - [0:0]", masked, "COMMIT", ""]
    return "\n".join(lines)


def _succeeds(table: str, *arguments: str) -> bool:
    command = ["iptables", "-w", "5", "-t", table, *arguments]
    return subprocess.run(command, capture_output=True, timeout=_SECONDS).returncode == 0


def _run(command: Sequence[str], text: str = "") -> None:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_SECONDS)
    except FileNotFoundError as error:
        raise NetworkSetupFailed(
            f"{command[0]} is not on this host; a bridge of our own needs it (apt-get install iptables)."
        ) from error
    except subprocess.TimeoutExpired as error:
        raise NetworkSetupFailed(f"{command[0]} did not end within {_SECONDS} seconds.") from error
    if done.returncode:
        raise NetworkSetupFailed(f"{command[0]} refused: {done.stderr.strip()[:300]}")
