"""What `problems_of` says, near misses first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import certs
from certs.check import names_of
from tests.certs.strange import of_an_unknown_curve, of_no_version

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
NAMES = ("podgate.ns.svc", "*.gate.example.org", "10.0.0.7", "fd00::7")
CA = certs.new_ca(now=NOW)
PAIR = certs.serving_pair(CA, names=NAMES, now=NOW)
ENCRYPTED = serialization.load_pem_private_key(PAIR.key, None).private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.BestAvailableEncryption(b"passphrase"),
)


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(NOW, id="when made"),
        pytest.param(NOW - timedelta(minutes=5), id="for a clock five minutes behind"),
        pytest.param(NOW + timedelta(days=90, seconds=-1), id="a second before the end"),
    ],
)
def test_a_good_pair_has_no_problem(at: datetime) -> None:
    assert (
        certs.problems_of(PAIR, at=at, names=("PODGATE.ns.svc", "a.gate.example.org"), ca=CA.certificate)
        == ()
    )


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        (NOW - timedelta(minutes=5, seconds=1), "it is not valid before 2026-12-01 11:55 UTC"),
        (NOW + timedelta(days=90), "it expired on 2027-03-01 12:00 UTC"),
    ],
    ids=["a second too early", "the moment it ends"],
)
def test_outside_its_time(at: datetime, problem: str) -> None:
    assert certs.problems_of(PAIR, at=at) == (problem,)


@pytest.mark.parametrize(
    "name",
    ["podgate.other.svc", "podgate", "gate.example.org", "a.b.gate.example.org", "10.0.0.8", "fd00::8"],
)
def test_a_name_it_is_not_for(name: str) -> None:
    only = "podgate.ns.svc, *.gate.example.org, 10.0.0.7, fd00::7"
    assert certs.problems_of(PAIR, at=NOW, names=(name,)) == (f"it is not for {name}, only for {only}",)


def test_an_address_is_compared_as_an_address() -> None:
    assert certs.problems_of(PAIR, at=NOW, names=("fd00:0:0::7",)) == ()


@pytest.mark.parametrize(
    ("pair", "problem"),
    [
        pytest.param(certs.Pair(b"no", PAIR.key), "the certificate is not readable PEM", id="no certificate"),
        pytest.param(
            certs.Pair(of_no_version(PAIR.certificate), PAIR.key),
            "the certificate is not readable PEM",
            id="a certificate of no version",
        ),
        pytest.param(
            certs.Pair(of_an_unknown_curve(PAIR.certificate), PAIR.key),
            "the key does not belong to the certificate",
            id="a certificate of an unknown curve",
        ),
        pytest.param(
            certs.Pair(PAIR.certificate, of_an_unknown_curve(PAIR.key)),
            "the key is not readable PEM",
            id="a key of an unknown curve",
        ),
        pytest.param(certs.Pair(PAIR.certificate, b"no"), "the key is not readable PEM", id="no key"),
        pytest.param(certs.Pair(PAIR.certificate, b""), "the key is not readable PEM", id="an empty key"),
        pytest.param(
            certs.Pair(PAIR.certificate, ENCRYPTED),
            "the key is encrypted: store it without a passphrase",
            id="a key with a passphrase",
        ),
        pytest.param(
            certs.Pair(PAIR.certificate, CA.key),
            "the key does not belong to the certificate",
            id="another key",
        ),
    ],
)
def test_a_pair_no_server_can_start_with(pair: certs.Pair, problem: str) -> None:
    assert certs.problems_of(pair, at=NOW) == (problem,)


def test_an_unrelated_ca_of_the_same_name() -> None:
    other = certs.new_ca(now=NOW)
    assert certs.problems_of(PAIR, at=NOW, ca=other.certificate) == ("it is not signed by the CA",)


@pytest.mark.parametrize(
    "ca",
    [b"no", of_no_version(CA.certificate), of_an_unknown_curve(CA.certificate)],
    ids=["no certificate", "of no version", "of an unknown curve"],
)
def test_a_ca_that_verifies_nothing(ca: bytes) -> None:
    assert certs.problems_of(PAIR, at=NOW, ca=ca) == ("it was not issued by the CA",)


def test_names_that_stand_there_twice() -> None:
    """A fault of whoever made it, and no reason to end with an error."""
    twice = x509.load_pem_x509_certificate(PAIR.certificate)
    der = twice.public_bytes(serialization.Encoding.DER)
    key_usage, names = bytes.fromhex("0603551d0f"), bytes.fromhex("0603551d11")
    assert names_of(x509.load_der_x509_certificate(der.replace(key_usage, names))) == ()


def test_several_problems_are_said_at_once() -> None:
    late = NOW + timedelta(days=100)
    assert len(certs.problems_of(certs.Pair(PAIR.certificate, CA.key), at=late, names=("x.y",))) == 3
