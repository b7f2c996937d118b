"""Read PEM text: whatever is wrong with it is a ``ValueError``.

The library has errors of its own, which are no ValueErrors, for a certificate of a version that there is none of, and for
keys and signatures of an algorithm that it does not know. Who looks at what others have written must pass over those, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


def read_certificate(pem: bytes) -> x509.Certificate:
    """The first certificate.

    Raises:
        ValueError: There is none that can be read.
    """
    try:
        return x509.load_pem_x509_certificate(pem)
    except x509.InvalidVersion as error:
        raise ValueError(str(error)) from error


def read_key(pem: bytes) -> PrivateKeyTypes:
    """A private key.

    Raises:
        ValueError: It cannot be read.
        TypeError: It is encrypted.
    """
    try:
        return serialization.load_pem_private_key(pem, password=None)
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error


def has_key(certificate: x509.Certificate, key: PrivateKeyTypes) -> bool:
    """Whether the certificate is for this key."""
    try:
        return bool(certificate.public_key() == key.public_key())
    except (ValueError, UnsupportedAlgorithm):
        return False


def verify_issued_by(certificate: x509.Certificate, ca: bytes) -> None:
    """Nothing, where the CA's key signed the certificate.

    Raises:
        InvalidSignature: Another key of that name did.
        ValueError: The CA has another name, cannot be read, or its key is of a kind that cannot be verified with.
    """
    try:
        certificate.verify_directly_issued_by(read_certificate(ca))
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from error
