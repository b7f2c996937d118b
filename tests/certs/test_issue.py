"""Certificates are proven by handshakes and verifiers, not by reading their fields back."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import certs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

NOW = datetime.now(UTC)
NAMES = (*certs.service_names("podgate", "podgate-system"), "127.0.0.1", "::1", "gate.example.org")


@pytest.fixture(scope="module")
def ca() -> certs.Pair:
    return certs.new_ca(now=NOW)


def serve_once(listener: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = listener.accept()
    with connection, context.wrap_socket(connection, server_side=True) as tls:
        tls.sendall(b"hello")


@pytest.fixture
def port(ca: certs.Pair, tmp_path: Path) -> Iterator[int]:
    """A TLS server on loopback with a pair from our CA; it takes one connection."""
    certs.write_pairs(tmp_path, ca=ca, serving=certs.serving_pair(ca, names=NAMES, now=NOW))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)
        thread = threading.Thread(target=run_quietly, args=(listener, context))
        thread.start()
        yield listener.getsockname()[1]
        thread.join(5)


def run_quietly(listener: socket.socket, context: ssl.SSLContext) -> None:
    """The refused client of a test is a failed handshake here."""
    try:
        serve_once(listener, context)
    except OSError:
        return


def strict_client(ca: certs.Pair) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=ca.certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def greet(port: int, context: ssl.SSLContext, name: str) -> bytes:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=5) as connection,
        context.wrap_socket(connection, server_hostname=name) as tls,
    ):
        return tls.recv(5)


@pytest.mark.parametrize("name", ["evil.example.org", "podgate.other.svc", "podgate", "127.0.0.2"])
def test_a_strict_client_refuses_a_name_it_was_not_made_for(name: str, port: int, ca: certs.Pair) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=r"mismatch|doesn't match|not valid for"):
        greet(port, strict_client(ca), name)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("podgate.podgate-system.svc", id="what the API server asks for"),
        pytest.param("podgate.podgate-system.svc.cluster.local", id="the full service name"),
        pytest.param("gate.example.org", id="a further DNS name"),
        pytest.param("127.0.0.1", id="an IPv4 address"),
        pytest.param("::1", id="an IPv6 address"),
    ],
)
def test_a_strict_client_accepts_each_name(name: str, port: int, ca: certs.Pair) -> None:
    assert greet(port, strict_client(ca), name) == b"hello"


def test_a_client_refuses_it_under_another_ca_of_the_same_name(port: int) -> None:
    other = certs.new_ca(now=NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        greet(port, strict_client(other), NAMES[0])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_openssl_verifies_it_strictly(ca: certs.Pair, tmp_path: Path) -> None:
    certs.write_pairs(tmp_path, ca=ca, serving=certs.serving_pair(ca, names=NAMES, now=NOW))
    verify = [
        *("openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", NAMES[0]),
        *("-CAfile", str(tmp_path / "ca.crt"), str(tmp_path / "tls.crt")),
    ]
    result = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, f"{tmp_path}/tls.crt: OK")


def test_cryptographys_own_web_verifier_accepts_it(ca: certs.Pair) -> None:
    serving = certs.serving_pair(ca, names=NAMES, now=NOW)
    store = x509.verification.Store([x509.load_pem_x509_certificate(ca.certificate)])
    verifier = x509.verification.PolicyBuilder().store(store).build_server_verifier(x509.DNSName(NAMES[0]))
    chain = verifier.verify(x509.load_pem_x509_certificate(serving.certificate), [])
    assert len(chain) == 2


def test_lifetimes(ca: certs.Pair) -> None:
    """Ten years and ninety days, both valid already for a clock that is five minutes behind."""
    serving = x509.load_pem_x509_certificate(certs.serving_pair(ca, names=NAMES, now=NOW).certificate)
    authority = x509.load_pem_x509_certificate(ca.certificate)
    now = NOW.replace(microsecond=0)
    for certificate, days in ((authority, 3650), (serving, 90)):
        assert certificate.not_valid_before_utc == now - timedelta(minutes=5)
        assert certificate.not_valid_after_utc == now + timedelta(days=days)


def test_a_serving_certificate_does_not_outlive_its_ca(ca: certs.Pair) -> None:
    late = NOW + timedelta(days=3640)
    assert certs.expiry_of(certs.serving_pair(ca, names=NAMES, now=late).certificate) == certs.expiry_of(
        ca.certificate
    )


def test_an_expired_ca_signs_nothing(ca: certs.Pair) -> None:
    with pytest.raises(certs.IssueError, match=r"the CA expired on .*: make a new one"):
        certs.serving_pair(ca, names=NAMES, now=NOW + timedelta(days=3651))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-a.svc",
        "a..b",
        "a_b.svc",
        "a b",
        "x" * 64,
        ".".join(["a" * 63] * 4),
        "*",
        "a.*.b",
        "127.0.0.1:8443",
    ],
)
def test_a_name_that_no_certificate_can_hold(name: str, ca: certs.Pair) -> None:
    with pytest.raises(certs.IssueError, match="is neither a DNS name nor an IP address"):
        certs.serving_pair(ca, names=[name], now=NOW)


def test_no_name_at_all(ca: certs.Pair) -> None:
    with pytest.raises(certs.IssueError, match="needs at least one DNS name or IP address"):
        certs.serving_pair(ca, names=[], now=NOW)


def test_a_ca_whose_key_is_another_ones(ca: certs.Pair) -> None:
    crossed = certs.Pair(ca.certificate, certs.new_ca(now=NOW).key)
    with pytest.raises(certs.IssueError, match="the CA's key does not belong to its certificate"):
        certs.serving_pair(crossed, names=NAMES, now=NOW)


def pem_of(key: PrivateKeyTypes, encryption: serialization.KeySerializationEncryption | None = None) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption or serialization.NoEncryption(),
    )


def test_a_ca_that_cannot_be_read(ca: certs.Pair) -> None:
    own = serialization.load_pem_private_key(ca.key, None)
    encrypted = pem_of(own, serialization.BestAvailableEncryption(b"passphrase"))
    for broken in (
        certs.Pair(b"no", ca.key),
        certs.Pair(ca.certificate, b""),
        certs.Pair(ca.certificate, encrypted),
    ):
        with pytest.raises(certs.IssueError, match=r"^the CA's certificate or key is not readable PEM$"):
            certs.serving_pair(broken, names=NAMES, now=NOW)


def test_a_ca_of_another_kind_of_key(ca: certs.Pair) -> None:
    foreign = pem_of(rsa.generate_private_key(public_exponent=65537, key_size=2048))
    with pytest.raises(certs.IssueError, match=r"^the CA's key is not an ECDSA key, .*: make a new CA$"):
        certs.serving_pair(certs.Pair(ca.certificate, foreign), names=NAMES, now=NOW)


def test_a_pair_in_a_message_does_not_show_its_key(ca: certs.Pair) -> None:
    assert "CERTIFICATE" in repr(ca)
    assert "PRIVATE" not in repr(ca)
