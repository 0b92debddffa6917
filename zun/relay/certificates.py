"""A certificate authority of our own, for nothing but relays and proxies: made, and renewed before its end.

A relay's certificate serves only as a server's, a proxy's only as a client's: neither can stand in for the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LASTS = timedelta(days=3650)
LASTS = timedelta(days=365)
RENEWED = timedelta(days=60)
"""A certificate with less time left is made anew; the authority while it can still outlast what it signs."""

_BACKDATED = timedelta(minutes=10)
"""Clocks of two machines may differ so much."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and its key, PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Signed:
    """An authority's certificate and key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class Folder:
    """``ca.pem`` and ``ca.key``, and pairs that they sign; for its owner only (mode 0600 and 0700)."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.ca = root / "ca.pem"

    def relay(self, names: Sequence[str], now: datetime | None = None) -> Pair:
        """The pair of a relay that is reached under each of ``names`` (hosts or addresses). Blocks. Raises OSError."""
        return self._pair("relay", "zun relay", names, ExtendedKeyUsageOID.SERVER_AUTH, now)

    def proxy(self, now: datetime | None = None) -> Pair:
        """The pair that a proxy shows. As ``relay``."""
        return self._pair("proxy", "zun-wsproxy", (), ExtendedKeyUsageOID.CLIENT_AUTH, now)

    def named(self, stem: str, names: Sequence[str]) -> Pair:
        """A relay's pair in files of another name: of another node."""
        return self._pair(stem, "zun relay", names, ExtendedKeyUsageOID.SERVER_AUTH, None)

    def _pair(
        self, stem: str, subject: str, names: Sequence[str], usage: x509.ObjectIdentifier, now: datetime | None
    ) -> Pair:
        moment = now or datetime.now(UTC)
        pair = Pair(self._root / f"{stem}.pem", self._root / f"{stem}.key")
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._lock():
            authority = self._authority(moment)
            if not _fits(pair, authority.certificate, names, moment):
                key = ec.generate_private_key(ec.SECP256R1())
                made = _leaf(authority, subject, names, usage, key, moment)
                _write(pair.key, _pem(key))
                _write(pair.certificate, made.public_bytes(serialization.Encoding.PEM))
        return pair

    def _authority(self, now: datetime) -> Signed:
        path = self._root / "ca.key"
        with contextlib.suppress(FileNotFoundError, ValueError):
            key = serialization.load_pem_private_key(path.read_bytes(), None)
            found = x509.load_pem_x509_certificate(self.ca.read_bytes())
            same = isinstance(key, ec.EllipticCurvePrivateKey) and key.public_key() == found.public_key()
            if (
                same
                and found.not_valid_after_utc - now > LASTS + RENEWED
                and isinstance(key, ec.EllipticCurvePrivateKey)
            ):
                return Signed(found, key)
        key = ec.generate_private_key(ec.SECP256R1())
        made = _root(key, now)
        _write(path, _pem(key))
        _write(self.ca, made.public_bytes(serialization.Encoding.PEM))
        return Signed(made, key)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        """The proxy's process may make its pair at the same time."""
        descriptor = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _fits(pair: Pair, authority: x509.Certificate, names: Sequence[str], now: datetime) -> bool:
    """Is there one, of this authority and for these names, with time left, and its key?"""
    try:
        found = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
        key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
        found.verify_directly_issued_by(authority)
    except (OSError, ValueError, TypeError, InvalidSignature):
        return False
    if key.public_key() != found.public_key() or found.not_valid_after_utc - now <= RENEWED:
        return False
    try:
        known = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return not names
    return set(known) == {_general(name) for name in names}


def _root(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    # A name of its own each time: one that follows must not be taken for the former by what keeps both.
    name = _name(f"zun relay authority {now:%Y-%m-%d %H:%M:%S}")
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = _builder(name, name, key.public_key(), now, AUTHORITY_LASTS)
    builder = builder.add_extension(x509.BasicConstraints(True, 0), critical=True).add_extension(usage, critical=True)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())


def _leaf(
    authority: Signed,
    subject: str,
    names: Sequence[str],
    usage: x509.ObjectIdentifier,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
) -> x509.Certificate:
    issuer = authority.certificate
    builder = _builder(_name(subject), issuer.subject, key.public_key(), now, LASTS)
    builder = builder.add_extension(x509.BasicConstraints(False, None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    builder = builder.add_extension(signer, critical=False)
    if names:
        unique = list(dict.fromkeys(_general(name) for name in names))
        builder = builder.add_extension(x509.SubjectAlternativeName(unique), critical=False)
    return builder.sign(authority.key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, lasts: timedelta
) -> x509.CertificateBuilder:
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - _BACKDATED).not_valid_after(now + lasts)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(path: Path, data: bytes) -> None:
    """Mode 0600, whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
