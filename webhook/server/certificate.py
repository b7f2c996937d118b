"""The TLS context in force: it follows the certificate's files and keeps the last good pair."""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING

import structlog

import certs
from webhook.server.reload import RETRY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

log = structlog.get_logger()

_Stamp = tuple[tuple[int, int, int], ...]


class ServingCertificate:
    """A certificate and its key on disk, and the context made from the last good pair.

    Args:
        certificate: PEM, the serving certificate first.
        key: PEM, without a passphrase.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = (certificate, key)
        self._stamp: _Stamp | None = None
        self._context: ssl.SSLContext | None = None
        self._failed_at = 0.0
        self.expires: datetime | None = None
        self.fault = ""
        self.on_reload: Callable[[str], None] | None = None

    def context(self) -> ssl.SSLContext:
        """The context for a new connection; two stat calls where the files are as they were.

        Raises:
            OSError: There was no good pair yet.
        """
        stamp = self._look()
        if stamp != self._stamp or self._context is None or self._is_worth_a_retry():
            self._load(stamp)
        if self._context is None:
            raise ssl.SSLError(f"no usable certificate: {self.fault}")
        return self._context

    def _is_worth_a_retry(self) -> bool:
        return bool(self.fault) and time.monotonic() - self._failed_at >= RETRY_SECONDS

    def _look(self) -> _Stamp | None:
        """Times, inodes and sizes: a swapped link changes the inode, a file written in place its time.

        A clock's tick is some milliseconds long: only the size tells a file that was emptied from one that is written.
        """
        try:
            stats = [path.stat() for path in self._paths]
        except OSError:
            return None
        return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in stats)

    def _load(self, stamp: _Stamp | None) -> None:
        try:
            context, expires = self._read()
        except Exception as error:  # noqa: BLE001  # whatever it is, the last good pair must go on
            if self._look() == stamp:  # else it was read in the middle of a swap: the next caller reads again
                self._stamp, self._failed_at = stamp, time.monotonic()
                self._say_fault(str(error))
            return
        first = self._context is None
        self._stamp, self._context, self.expires, self.fault = stamp, context, expires, ""
        if not first:
            self._count("success")
            log.info("certificate loaded", expires=expires.isoformat())

    def _read(self) -> tuple[ssl.SSLContext, datetime]:
        certificate, key = self._paths
        expires = certs.expiry_of(certificate.read_bytes())
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key, password=_refuse_passphrase)
        return context, expires

    def _say_fault(self, fault: str) -> None:
        if fault == self.fault:
            return
        self.fault = fault
        self._count("error")
        files = [str(path) for path in self._paths]
        log.error("certificate not loaded, the last good pair stays", fault=fault, files=files)

    def _count(self, result: str) -> None:
        if self.on_reload is not None:
            self.on_reload(result)


def _refuse_passphrase() -> str:
    """OpenSSL would otherwise ask on the terminal, and wait."""
    raise ValueError("the key is encrypted: store it without a passphrase")
