"""Following the files of a pair, look by look."""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import structlog.testing
from cryptography.hazmat.primitives import serialization

import certs
from tests.certs.strange import of_no_version
from tests.server.running import write_pair
from webhook.server.certificate import ServingCertificate
from webhook.server.reload import RETRY_SECONDS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def pair(folder: Path) -> ServingCertificate:
    return ServingCertificate(folder / "tls.crt", folder / "tls.key")


def test_the_context_is_kept_while_the_files_are(pair: ServingCertificate) -> None:
    first = pair.context()
    assert pair.context() is first
    assert first.minimum_version == ssl.TLSVersion.TLSv1_2
    assert pair.expires is not None


def test_a_new_pair_is_taken_at_once(pair: ServingCertificate, folder: Path, ca: certs.Pair) -> None:
    counted: list[str] = []
    pair.on_reload = counted.append
    first = pair.context()
    write_pair(folder, ca)
    assert pair.context() is not first
    assert counted == ["success"]


def test_a_pair_written_file_by_file_is_taken_when_it_is_whole(
    pair: ServingCertificate, folder: Path, ca: certs.Pair
) -> None:
    """Key first, certificate later: in between the old pair serves, and one line says why."""
    first = pair.context()
    new = certs.serving_pair(ca, names=["127.0.0.1"], now=datetime.now(UTC))
    for name, data in (("tls.key", new.key), ("tls.crt", new.certificate)):
        assert pair.context() is first
        (folder / name).unlink()
        (folder / name).write_bytes(data)
    with structlog.testing.capture_logs() as lines:
        assert pair.context() is not first
    assert (pair.fault, [line["event"] for line in lines]) == ("", ["certificate loaded"])


@pytest.mark.parametrize(
    ("name", "data", "fault"),
    [
        ("tls.crt", b"", "Unable to load PEM"),
        ("tls.key", b"", "PEM"),
        ("tls.key", None, "No such file"),
        ("tls.crt", None, "No such file"),
    ],
    ids=["an empty certificate", "an empty key", "no key", "no certificate"],
)
def test_a_fault_is_said_once_and_the_last_good_pair_stays(
    name: str, data: bytes | None, fault: str, pair: ServingCertificate, folder: Path
) -> None:
    first = pair.context()
    (folder / name).unlink()
    if data is not None:
        (folder / name).write_bytes(data)
    with structlog.testing.capture_logs() as lines:
        for _ in range(5):
            assert pair.context() is first
    assert fault in pair.fault
    assert [line["event"] for line in lines] == ["certificate not loaded, the last good pair stays"]


def test_a_strange_certificate_keeps_the_last_good_pair(pair: ServingCertificate, folder: Path) -> None:
    first = pair.context()
    strange = of_no_version((folder / "tls.crt").read_bytes())
    (folder / "tls.crt").unlink()
    (folder / "tls.crt").write_bytes(strange)
    assert pair.context() is first
    assert pair.fault == "5 is not a valid X509 version"


def test_a_file_that_is_written_within_the_tick_of_a_clock_in_which_it_was_emptied(
    pair: ServingCertificate, folder: Path
) -> None:
    pair.context()
    file = folder / "tls.crt"
    whole, then = file.read_bytes(), 1_700_000_000_000_000_000
    for data, fault in ((b"", True), (whole, False)):
        file.write_bytes(data)
        os.utime(file, ns=(then, then))
        pair.context()
        assert bool(pair.fault) is fault


def test_what_could_not_be_read_is_read_again_after_a_minute(
    pair: ServingCertificate, folder: Path, ca: certs.Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too many open files, or a permission: neither shows in a time or a size when it is mended."""

    def fails(_: bytes) -> datetime:
        readings.append(1)
        raise OSError(24, "Too many open files")

    readings: list[int] = []
    now = [1000.0]
    monkeypatch.setattr("webhook.server.certificate.time.monotonic", lambda: now[0])
    first = pair.context()
    write_pair(folder, ca)
    with monkeypatch.context() as patch:
        patch.setattr(certs, "expiry_of", fails)
        for later in (0, RETRY_SECONDS - 1, 1):
            now[0] += later
            assert pair.context() is first
    assert (len(readings), "Too many open files" in pair.fault) == (2, True)
    assert pair.context() is first
    now[0] += RETRY_SECONDS
    assert pair.context() is not first
    assert pair.fault == ""


def test_an_encrypted_key_is_refused_and_nobody_is_asked(pair: ServingCertificate, folder: Path) -> None:
    key = serialization.load_pem_private_key((folder / "tls.key").read_bytes(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"x"),
    )
    (folder / "tls.key").unlink()
    (folder / "tls.key").write_bytes(encrypted)
    with pytest.raises(ssl.SSLError, match="the key is encrypted: store it without a passphrase"):
        pair.context()
