"""Certificates for test servers, self-signed or signed by a test authority."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    certificate: Path
    key: Path


def make_certificate(
    folder: Path,
    name: str,
    names: str,
    authority: Certificate | None = None,
    *,
    begins: datetime = NOW - 3 * DAY,
    ends: datetime = NOW + 2 * DAY,
) -> Certificate:
    """Create a certificate, self-signed without an authority.

    Args:
        name: the common name of the subject, and the name of the files.
        names: subject alternative names, such as `DNS:a.test,IP:127.0.0.1`. "": the certificate
            is an authority. "-": there are none.
        begins: start of the validity period; `ends`: its end.
    """
    files = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    key = signer = ec.generate_private_key(ec.SECP256R1())
    subject = issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    if authority is not None:
        issuer = x509.load_pem_x509_certificate(authority.certificate.read_bytes()).subject
        loaded = serialization.load_pem_private_key(authority.key.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        signer = loaded
    builder = (
        x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    )
    if names.strip("-"):
        pairs = [each.split(":", 1) for each in names.split(",")]
        entries = [
            x509.IPAddress(ip_address(text)) if kind == "IP" else x509.DNSName(text)
            for kind, text in pairs
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(entries), critical=False)
    pem = serialization.Encoding.PEM
    files.certificate.write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(pem))
    files.key.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
