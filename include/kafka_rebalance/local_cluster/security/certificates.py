"""Certificates: PEM files, which everybody reads, and key stores for Java."""

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_LIFE = timedelta(days=2)
STORE_PASSWORD = "of-the-key-store"


class Issued(NamedTuple):
    """PEM files of the certificate and of its private key (PKCS #8), and both as a PKCS #12 store."""

    certificate: Path
    key: Path
    store: Path


class Authority:
    """A certificate authority. Its own certificate is in `certificate`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.certificate = folder / f"{name}.pem"
        made = self._builder(self._name, self._key.public_key())
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        self.certificate.write_bytes(made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(self, name: str, addresses: Sequence[str] = (), *, password: str | None = None) -> Issued:
        """A certificate with this common name, for servers at these IP addresses. `password` encrypts its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_named(name), key.public_key())
        if addresses:
            names = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
        # Kafka 2.8 takes a PEM store only with a password, and Java 17 reads no such key as libraries encrypt it today.
        kept = BestAvailableEncryption(STORE_PASSWORD.encode())
        store = pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, kept)
        issued = Issued(*(self._folder / f"{name}{part}" for part in ("-certificate.pem", "-key.pem", ".p12")))
        for path, content in zip(issued, (certificate.public_bytes(Encoding.PEM), private, store), strict=True):
            path.write_bytes(content)
        return issued

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + _LIFE)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
