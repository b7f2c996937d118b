"""Certificates in a folder, laid out as the kubelet lays out a Secret, so that a pair is swapped in one step.

``tls.crt`` and ``tls.key`` are links into ``..data``, itself a link to a folder with one generation of files.
Renaming a new ``..data`` over the old one changes all of them at once: a reader sees the old pair or the new
one, and a server that looks at modification times and inodes notices
(kubernetes:pkg/volume/util/atomic_writer.go).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from certs.issue import Pair

if TYPE_CHECKING:
    from collections.abc import Mapping

CA_CERTIFICATE, CA_KEY = "ca.crt", "ca.key"
CERTIFICATE, KEY = "tls.crt", "tls.key"

_DATA = "..data"
_FOLDER_MODE = 0o700
_KEY_MODE = 0o600
_CERTIFICATE_MODE = 0o644


def read_pair(folder: Path, certificate: str = CERTIFICATE, key: str = KEY) -> Pair:
    """The pair in ``folder``.

    Raises:
        OSError: A file is missing or cannot be read.
    """
    return Pair((folder / certificate).read_bytes(), (folder / key).read_bytes())


def write_pairs(folder: Path, *, ca: Pair, serving: Pair) -> None:
    """Put both pairs into ``folder``, all four files in one step.

    Raises:
        OSError: The folder or a file cannot be written; what was there before stays in force.
    """
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    _replace_generation(
        folder,
        {
            CA_CERTIFICATE: ca.certificate,
            CA_KEY: ca.key,
            CERTIFICATE: serving.certificate,
            KEY: serving.key,
        },
    )


def _replace_generation(folder: Path, files: Mapping[str, bytes]) -> None:
    generation = Path(tempfile.mkdtemp(prefix="..", dir=folder))
    try:
        for name, data in files.items():
            _write(generation / name, data)
        _sync_folder(generation)
        previous = _generation(folder)
        _link(folder / _DATA, generation.name)
    except BaseException:
        shutil.rmtree(generation, ignore_errors=True)
        raise
    for name in files:
        _link(folder / name, f"{_DATA}/{name}")
    _sync_folder(folder)
    if previous is not None:
        shutil.rmtree(previous, ignore_errors=True)


def _generation(folder: Path) -> Path | None:
    """The folder that ``..data`` names, if it is one of ours."""
    with suppress(OSError):
        name = str((folder / _DATA).readlink())
        if name.startswith("..") and "/" not in name and name != "..":
            return folder / name
    return None


def _link(place: Path, target: str) -> None:
    """Make ``place`` a link to ``target`` in one step, whatever it was before."""
    with suppress(OSError):
        if str(place.readlink()) == target:
            return
    temporary = place.with_name(f"{place.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(place)


def _write(path: Path, data: bytes) -> None:
    mode = _KEY_MODE if path.suffix == ".key" else _CERTIFICATE_MODE
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # whatever the umask says
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
