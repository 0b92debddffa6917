"""A TLS door before the engine's socket, as dockerd has one that is given ``--tlsverify``."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.engine import SOCKET


@dataclass
class Pair:
    """A key and a certificate that is its own authority."""

    certificate: Path
    key: Path


def make_pair(folder: Path, name: str) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pair.key.write_bytes(key.private_bytes(encoding, form, serialization.NoEncryption()))
    return pair


@dataclass
class Endpoint:
    """A TLS door before the engine's socket; wants the client's certificate."""

    url: str
    server: Pair
    client: Pair
    _door: asyncio.Server
    _writers: list[asyncio.StreamWriter]

    @property
    def options(self) -> dict[str, str]:
        """Of ``[docker]``, for who is to be let in."""
        files = {"ca_file": self.server.certificate, "cert_file": self.client.certificate, "key_file": self.client.key}
        return {name: str(path) for name, path in files.items()}

    def cut(self) -> None:
        """All connections are lost, and nobody listens any more."""
        self._door.close()
        for writer in self._writers:
            writer.transport.abort()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    except (ConnectionError, ssl.SSLError):
        source.feed_eof()
    finally:
        target.close()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    up_reader, up_writer = await asyncio.open_unix_connection(SOCKET)
    await asyncio.gather(_copy(reader, up_writer), _copy(up_reader, writer))


@asynccontextmanager
async def docker_tls(folder: Path) -> AsyncIterator[Endpoint]:
    """Open meanwhile, on a free port."""
    server, client = make_pair(folder, "server"), make_pair(folder, "client")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(client.certificate))
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    writers: list[asyncio.StreamWriter] = []

    async def enter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await _forward(reader, writer)

    door = await asyncio.start_server(enter, "127.0.0.1", 0, ssl=context)
    try:
        yield Endpoint(f"tcp://127.0.0.1:{door.sockets[0].getsockname()[1]}", server, client, door, writers)
    finally:
        door.close()
        for writer in writers:
            writer.transport.abort()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)
