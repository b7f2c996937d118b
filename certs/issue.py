"""Make a CA and a serving certificate that Go's and OpenSSL's verifiers accept.

The clock is an argument. Only the keys and the serial numbers are random.

What the verifiers ask for:

- Go (the API server) reads names from the subject alternative names alone, never from the common name.
- OpenSSL's strict mode (the default from Python 3.13 on) wants a key identifier on both certificates,
  critical basic constraints and a critical key usage on the CA.
- An ECDSA key signs and nothing else: ``digitalSignature`` is the serving certificate's whole key usage.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs.pem import has_key, read_certificate, read_key

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The CA is in the webhook configuration; changing it is a cluster-wide write, so it is made to be rare.
CA_LIFETIME = timedelta(days=3650)

#: Long enough that a week without anybody looking is harmless, short enough that renewal is practised.
SERVING_LIFETIME = timedelta(days=90)

#: A node's clock may be behind ours. The same five minutes as the cluster's own signer takes
#: (kubernetes:pkg/controller/certificates/signer/signer.go).
BACKDATE = timedelta(minutes=5)

_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*", re.IGNORECASE)
_DNS_NAME_LENGTH = 253  # RFC 1035 section 2.3.4, without the root's dot


class IssueError(ValueError):
    """A certificate cannot be made as asked; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, both PEM; the key is not shown with the pair."""

    certificate: bytes
    key: bytes = field(repr=False)


def service_names(service: str, namespace: str) -> tuple[str, ...]:
    """The names under which the cluster reaches a Service.

    The API server asks for ``NAME.NAMESPACE.svc`` (kubernetes/apiserver:pkg/util/webhook/client.go).
    """
    name = f"{service}.{namespace}.svc"
    return name, f"{name}.cluster.local"


def new_ca(*, now: datetime, lifetime: timedelta = CA_LIFETIME) -> Pair:
    """A self-signed CA that may sign serving certificates and no further CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named("podgate CA")
    builder = (
        _builder(subject, subject, key, now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def serving_pair(
    ca: Pair, *, names: Sequence[str], now: datetime, lifetime: timedelta = SERVING_LIFETIME
) -> Pair:
    """A serving certificate signed by ``ca``.

    Args:
        ca: The signer, as `new_ca` made it.
        names: DNS names and IP addresses, the ones callers use.
        now: The moment it is made; it is valid from `BACKDATE` before.
        lifetime: How long it is valid; never longer than the CA.

    Raises:
        IssueError: No name, a name that is neither a DNS name nor an address, or a CA that cannot sign.
    """
    if not names:
        raise IssueError("a serving certificate needs at least one DNS name or IP address")
    signer, signer_key = _signer(ca)
    until = min(now + lifetime, signer.not_valid_after_utc)
    if until <= now:
        raise IssueError(f"the CA expired on {signer.not_valid_after_utc:%Y-%m-%d}: make a new one")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_named("podgate"), signer.subject, key, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False
        )
    )
    return _pair(builder.sign(signer_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signer(ca: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        certificate, key = read_certificate(ca.certificate), read_key(ca.key)
    except (ValueError, TypeError) as error:
        raise IssueError("the CA's certificate or key is not readable PEM") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise IssueError("the CA's key is not an ECDSA key, the only kind made here: make a new CA")
    if not has_key(certificate, key):
        raise IssueError("the CA's key does not belong to its certificate: make a new CA")
    return certificate, key


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    if len(name) > _DNS_NAME_LENGTH or not _DNS_NAME.fullmatch(name):
        raise IssueError(f"{name!r} is neither a DNS name nor an IP address")
    return x509.DNSName(name.lower())


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate=certificate.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )
