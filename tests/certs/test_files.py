"""A folder with certificates is never seen half-written, and its keys are for their owner alone."""

from __future__ import annotations

import os
import stat
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

import certs
from certs import files

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime.now(UTC)
CA = certs.new_ca(now=NOW)


def write(folder: Path) -> certs.Pair:
    pair = certs.serving_pair(CA, names=["a.b"], now=NOW)
    certs.write_pairs(folder, ca=CA, serving=pair)
    return pair


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o022], ids=oct)
def test_keys_are_for_the_owner_alone_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write(tmp_path / "new")
    finally:
        os.umask(before)
    folder = tmp_path / "new"
    modes = {name: mode(folder / name) for name in ("tls.key", "ca.key", "tls.crt", "ca.crt")}
    assert modes == {"tls.key": 0o600, "ca.key": 0o600, "tls.crt": 0o644, "ca.crt": 0o644}
    assert mode(folder) & 0o077 == 0
    assert mode(folder / "..data") == 0o700


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert write(tmp_path) == certs.read_pair(tmp_path)
    assert certs.read_pair(tmp_path, files.CA_CERTIFICATE, files.CA_KEY) == CA


def test_a_new_pair_leaves_one_generation_and_no_temporary_file(tmp_path: Path) -> None:
    write(tmp_path)
    second = write(tmp_path)
    assert certs.read_pair(tmp_path) == second
    links = {path.name for path in tmp_path.iterdir() if path.is_symlink()}
    assert links == {"..data", "ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert len(list(tmp_path.iterdir())) == len(links) + 1


def test_plain_files_of_another_tool_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "tls.crt").write_text("old")
    (tmp_path / "tls.key").write_text("old")
    assert write(tmp_path) == certs.read_pair(tmp_path)


def test_a_failed_write_leaves_the_old_pair_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(
        files, "_sync_folder", lambda folder: (_ for _ in ()).throw(OSError(28, "No space left"))
    )
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path)
    assert certs.read_pair(tmp_path) == first
    assert sorted(tmp_path.iterdir()) == before


def test_a_reader_that_follows_the_folder_never_sees_a_crossed_pair(tmp_path: Path) -> None:
    """The pair is opened as one generation; while it is swapped 30 times no reader gets halves of two."""
    write(tmp_path)
    stop = threading.Event()
    crossed: list[str] = []
    read = [0]

    def follow() -> None:
        while not stop.is_set():
            try:
                generation = (tmp_path / "..data").resolve()
                pair = certs.read_pair(generation)
            except FileNotFoundError:
                continue  # swapped between the two reads: the next look finds the new generation
            certificate = x509.load_pem_x509_certificate(pair.certificate)
            key = serialization.load_pem_private_key(pair.key, password=None)
            if key.public_key() != certificate.public_key():
                crossed.append("crossed")
            read[0] += 1

    reader = threading.Thread(target=follow)
    reader.start()
    for _ in range(30):
        write(tmp_path)
    stop.set()
    reader.join(5)
    assert crossed == []
    assert read[0] > 5


@pytest.mark.parametrize("target", ["../elsewhere", ".."], ids=["a folder elsewhere", "the folder above"])
def test_a_generation_that_is_not_ours_is_not_removed(target: str, tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "certs", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("x")
    (folder / "..data").symlink_to(target)
    assert write(folder) == certs.read_pair(folder)
    assert (elsewhere / "kept").read_text() == "x"
