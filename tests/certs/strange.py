"""Certificates and keys that are well-formed PEM, and that the library refuses in ways of its own."""

from __future__ import annotations

import base64
import textwrap

_VERSION_3 = bytes([0xA0, 3, 2, 1, 2])
_P256 = bytes.fromhex("06082a8648ce3d030107")
_PRIME239V3 = bytes.fromhex("06082a8648ce3d030106")


def of_no_version(certificate: bytes) -> bytes:
    """The certificate as one of X.509 version 6, which there is not."""
    return _changed(certificate, _VERSION_3, bytes([0xA0, 3, 2, 1, 5]))


def of_an_unknown_curve(pem: bytes) -> bytes:
    """A certificate or key as one on a curve that the library does not know."""
    return _changed(pem, _P256, _PRIME239V3)


def _changed(pem: bytes, old: bytes, new: bytes) -> bytes:
    first, *lines, last = pem.decode().strip().splitlines()
    der = base64.b64decode("".join(lines))
    assert old in der
    lines = textwrap.wrap(base64.b64encode(der.replace(old, new, 1)).decode(), 64)
    return "\n".join([first, *lines, last, ""]).encode()
