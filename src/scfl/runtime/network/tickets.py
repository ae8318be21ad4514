"""Who gets onto the stream: a certificate that clients know beforehand, and tokens that work once.

The server makes a certificate for this training only and hands it out, with a token, inside a
message that somebody else authenticated (Flower, or whoever copied the file). A client trusts that
one certificate and no other. A token belongs to one client, is spent when it is shown, and every
accepted stream brings the next one: a token that was overheard or shown again opens nothing.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import ipaddress
import secrets
from dataclasses import dataclass, field

SERVER_NAME = "scfl-stream"


@dataclass(frozen=True)
class Ticket:
    """What a client needs to open its stream."""

    address: str
    certificate: str
    token: str = field(repr=False)


@dataclass
class Tokens:
    """Tokens that were given out, kept as checksums."""

    _owners: dict[bytes, str] = field(default_factory=dict, repr=False)

    def issue(self, owner: str) -> str:
        """A new token; those that this owner had before are worth nothing from now on."""
        self._owners = {digest: who for digest, who in self._owners.items() if who != owner}
        token = secrets.token_urlsafe(32)
        self._owners[_digest(token)] = owner
        return token

    def redeem(self, token: str) -> str | None:
        """Whose token it is, once."""
        return self._owners.pop(_digest(token), None)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


@dataclass(frozen=True)
class Certificate:
    """A key and its self-signed certificate, as PEM."""

    key: bytes = field(repr=False)
    certificate: bytes


def make_certificate(days: int = 90) -> Certificate:
    """A certificate of this training's own; clients are handed it, so no authority signs it."""
    from cryptography import x509  # noqa: PLC0415 - an optional extra
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SERVER_NAME)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName(SERVER_NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return Certificate(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        certificate.public_bytes(serialization.Encoding.PEM),
    )
