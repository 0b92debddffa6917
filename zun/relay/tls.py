"""TLS 1.3 between relays and proxies, each with a certificate that the other checks.

The files are those of ``[relay]``; where none are named and the whole product is on one machine, ones that are made in
its state directory.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from pathlib import Path
from typing import Any

from zun.relay.certificates import Folder, Pair

_EVERY = ("0.0.0.0", "::", "")  # noqa: S104 - listens on every address, is reached under none


class NoCertificates(Exception):
    """Files of ``[relay]`` are missing or cannot be used; the message says which and what to do."""


def address(conf: Any) -> str:
    """The host name or address of this node's relay, as proxies are told."""
    given: str = conf.relay.address or conf.relay.listen
    return given if given not in _EVERY else str(conf.my_ip)


def makes_its_own(conf: Any) -> bool:
    """Are certificates made in the state directory? Only where both ends read that."""
    return not conf.relay.ca_file and conf.transport_url.partition("://")[0] in ("local", "unix")


def relay_context(conf: Any, into: ssl.SSLContext | None = None) -> ssl.SSLContext:
    """For a node: its certificate, and a demand for the proxy's; ``into``: one in use gets the files anew. Blocks.
    Raises NoCertificates."""
    context = into or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.num_tickets = 0  # a session is one connection: nothing is resumed
    given = Pair(Path(conf.relay.cert_file or ""), Path(conf.relay.key_file or ""))
    return _loaded(conf, context, given, "cert_file", "key_file", relay=True)


def proxy_context(conf: Any) -> ssl.SSLContext:
    """For a proxy: shows its certificate, and demands a relay's for the name or address it connects to. Blocks. Raises
    NoCertificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    given = Pair(Path(conf.relay.client_cert_file or ""), Path(conf.relay.client_key_file or ""))
    return _loaded(conf, context, given, "client_cert_file", "client_key_file", relay=False)


def names(conf: Any) -> list[str]:
    """What a relay of one machine is reached under."""
    found = [address(conf), "localhost", "127.0.0.1", "::1", str(conf.my_ip), socket.gethostname()]
    return [name for name in dict.fromkeys(found) if name.isascii() and name not in _EVERY]


def _loaded(
    conf: Any, context: ssl.SSLContext, given: Pair, cert_option: str, key_option: str, *, relay: bool
) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if makes_its_own(conf):
        folder = Folder(Path(conf.state_path) / "relay")
        try:
            pair = folder.relay(names(conf)) if relay else folder.proxy()
        except OSError as error:
            raise NoCertificates(f"certificates of the relay cannot be made in {conf.state_path}: {error}") from error
        ca = folder.ca
    else:
        if not conf.relay.ca_file:
            raise NoCertificates("[relay]/ca_file is not set: with several machines the relay needs certificates")
        for option in (cert_option, key_option):
            if not conf.relay[option]:
                raise NoCertificates(f"[relay]/ca_file is set and {option} is not")
        pair, ca = given, Path(conf.relay.ca_file)
    for path, option in ((ca, "ca_file"), (pair.certificate, cert_option), (pair.key, key_option)):
        with _readable(option, path):
            path.read_bytes()
    with _readable(f"ca_file, {cert_option} or {key_option}", pair.certificate):
        context.load_verify_locations(cafile=str(ca))
        context.load_cert_chain(pair.certificate, pair.key)
    return context


@contextlib.contextmanager
def _readable(option: str, path: Path) -> Any:
    try:
        yield
    except (OSError, ssl.SSLError) as error:
        raise NoCertificates(f"[relay]/{option}: {path} cannot be used: {error}") from error
