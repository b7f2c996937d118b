"""Is a pair good, at a given moment and for given names? A pure question; the answer is text for people."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from certs.pem import has_key, read_certificate, read_key, verify_issued_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from certs.issue import Pair

#: There are none, or what stands in their place cannot be read.
_NO_NAMES = (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError)


def expiry_of(certificate: bytes) -> datetime:
    """When a PEM certificate (the first of a chain) stops being valid.

    Raises:
        ValueError: It is no PEM certificate.
    """
    return read_certificate(certificate).not_valid_after_utc


def problems_of(
    pair: Pair, *, at: datetime, names: Sequence[str] = (), ca: bytes | None = None
) -> tuple[str, ...]:
    """Everything that would make a caller refuse the pair, or a server fail to start with it.

    Args:
        pair: The certificate (the first of a chain counts) and its key.
        at: The moment asked about; ask about a later one to look ahead.
        names: DNS names and IP addresses that callers use.
        ca: The PEM CA certificate that callers trust.
    """
    try:
        certificate = read_certificate(pair.certificate)
    except ValueError:
        return ("the certificate is not readable PEM",)
    return tuple(
        problem
        for problems in (
            _key_problems(certificate, pair.key),
            _time_problems(certificate, at),
            _name_problems(certificate, names),
            _issuer_problems(certificate, ca),
        )
        for problem in problems
    )


def _key_problems(certificate: x509.Certificate, key_pem: bytes) -> Iterator[str]:
    try:
        key = read_key(key_pem)
    except TypeError:
        yield "the key is encrypted: store it without a passphrase"
    except ValueError:
        yield "the key is not readable PEM"
    else:
        if not has_key(certificate, key):
            yield "the key does not belong to the certificate"


def _time_problems(certificate: x509.Certificate, at: datetime) -> Iterator[str]:
    if at < certificate.not_valid_before_utc:
        yield f"it is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    if at >= certificate.not_valid_after_utc:
        yield f"it expired on {certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"


def _name_problems(certificate: x509.Certificate, names: Sequence[str]) -> Iterator[str]:
    held = names_of(certificate)
    for name in names:
        if not any(_covers(pattern, name) for pattern in held):
            yield f"it is not for {name}, only for {', '.join(held) or 'no name at all'}"


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and IP addresses a certificate is for; a common name is none (Go does not read it)."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except _NO_NAMES:
        return ()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return (*names.get_values_for_type(x509.DNSName), *addresses)


def _covers(pattern: str, name: str) -> bool:
    pattern, name = _canonical(pattern), _canonical(name)
    if pattern.startswith("*."):  # one label, the leftmost: RFC 6125 section 6.4.3
        return "." in name and name.partition(".")[2] == pattern[2:]
    return pattern == name


def _canonical(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _issuer_problems(certificate: x509.Certificate, ca: bytes | None) -> Iterator[str]:
    if ca is None:
        return
    try:
        verify_issued_by(certificate, ca)
    except InvalidSignature:
        yield "it is not signed by the CA"
    except ValueError:  # another issuer's name, another kind of key, no PEM
        yield "it was not issued by the CA"
