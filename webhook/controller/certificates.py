"""Where certificates come from: our own CA, cert-manager, or files. Each says what the caBundles are to hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import structlog

import certs
from certs.rotate import (
    LookAtReplicas,
    Publish,
    Rest,
    Seen,
    StoreAuthority,
    StoreServing,
    Wait,
    Waits,
    next_step,
    phase,
    split_bundle,
)
from webhook.controller.objects import (
    AUTHORITY_SECRET,
    SERVING_SECRET,
    authority_secret,
    read_authority,
    read_serving,
    serving_secret,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from certs.rotate import Authority, Step
    from webhook.cluster import Api
    from webhook.controller.writing import Writer

log = structlog.get_logger()

#: cert-manager/cert-manager:pkg/apis/certmanager/v1/types.go (WantInjectAnnotation): NAMESPACE/NAME of a Certificate.
INJECT_FROM = "cert-manager.io/inject-ca-from"


def _now() -> datetime:
    return datetime.now(UTC)


class CertificatesError(Exception):
    """What the caBundles are to hold cannot be said; the text says why and what to do."""


class Certificates(Protocol):
    """A source of certificates.

    Attributes:
        bundle: What every caBundle is to hold, PEM; empty where somebody else writes it.
        annotations: That the webhook configurations must have for it.
        expiries: When what is in use ends, by name.
        phase: Of a hand-over, see `certs.rotate.phase`.
    """

    bundle: bytes
    annotations: Mapping[str, str]
    expiries: Mapping[str, datetime]
    phase: str

    def step(self, bundles: tuple[tuple[bytes, ...], ...]) -> bool:
        """Do one thing that is due.

        Args:
            bundles: The CAs of each caBundle, read just before.

        Returns:
            Whether to read the caBundles again and call once more.
        """
        ...


class OwnCertificates:
    """A CA of our own and a serving pair, in two Secrets, renewed in time.

    Args:
        api: The cluster.
        writer: For the Secrets.
        namespace: Of the Secrets.
        names: That the serving certificate is for.
        waits: Of the hand-over.
        look: Gives the certificate that each replica serves.
        clock: The time of day.
    """

    def __init__(
        self,
        api: Api,
        writer: Writer,
        namespace: str,
        names: tuple[str, ...],
        waits: Waits,
        look: Callable[[], tuple[bytes | None, ...]],
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._api = api
        self._writer = writer
        self._namespace = namespace
        self._collection = f"/api/v1/namespaces/{namespace}/secrets"
        self._names = names
        self._waits = waits
        self._look = look
        self._clock = clock
        self._waiting = ""
        self.bundle = b""
        self.annotations: Mapping[str, str] = {}
        self.expiries: Mapping[str, datetime] = {}
        self.phase = "none"

    def step(self, bundles: tuple[tuple[bytes, ...], ...]) -> bool:
        """Read the Secrets, in the order that `certs.rotate` asks for, and do the next step.

        Raises:
            CertificatesError: The CA, which somebody else stored, cannot sign.
        """
        serving_object = self._api.find(f"{self._collection}/{SERVING_SECRET}")
        authority_object = self._api.find(f"{self._collection}/{AUTHORITY_SECRET}")
        serving, published = read_serving(serving_object)
        authority = read_authority(authority_object)
        seen = Seen(bundles, serving, published, authority, self._names)
        step = next_step(seen, now=self._clock(), waits=self._waits)
        if isinstance(step, LookAtReplicas):
            step = self._looked(seen)
        self._note(authority, serving, step)
        change = self._change(step, seen, serving_object, authority_object)
        if change is None:
            return False
        self._writer.store(self._collection, *change)
        return True  # also after a conflict: all is read again

    def _change(
        self,
        step: Step,
        seen: Seen,
        serving_object: Mapping[str, Any] | None,
        authority_object: Mapping[str, Any] | None,
    ) -> tuple[dict[str, Any], str] | None:
        """The Secret to store, and why."""
        authority, serving, reason = seen.authority, seen.serving, "the trusted CAs changed"
        if isinstance(step, StoreAuthority):
            return authority_secret(authority_object, self._namespace, step.authority), step.reason
        if authority is not None and isinstance(step, StoreServing):
            serving, reason = self._signed(authority.signer), step.reason
        if authority is None or serving is None or not isinstance(step, StoreServing | Publish):
            return None
        return serving_secret(serving_object, self._namespace, serving, authority.trusted), reason

    def _signed(self, signer: certs.Pair) -> certs.Pair:
        try:
            return certs.serving_pair(signer, names=self._names, now=self._clock())
        except certs.IssueError as error:
            raise CertificatesError(
                f"Secret {AUTHORITY_SECRET}: {error}: podgate controller --rotate"
            ) from error

    def _looked(self, seen: Seen) -> Step:
        return next_step(replace(seen, replicas=self._look()), now=self._clock(), waits=self._waits)

    def _note(self, authority: Authority | None, serving: certs.Pair | None, step: Step) -> None:
        self.bundle = b"".join(authority.trusted) if authority else b""
        self.phase = phase(authority, serving)
        pairs = {"ca": authority.signer if authority else None, "serving": serving}
        self.expiries = {name: _expiry(pair.certificate) for name, pair in pairs.items() if pair}
        waiting = step.reason if isinstance(step, Wait) else ""
        if waiting and waiting != self._waiting:
            until = step.until.isoformat() if isinstance(step, Wait) and step.until else None
            log.info("the hand-over waits", reason=waiting, until=until)
        if isinstance(step, Wait | Rest):
            self._waiting = waiting


class CertManagerCertificates:
    """cert-manager makes the pair and its CA injector writes the caBundles: they are left alone.

    Args:
        certificate: ``NAMESPACE/NAME`` of the Certificate.
    """

    def __init__(self, certificate: str) -> None:
        self.bundle = b""
        self.annotations: Mapping[str, str] = {INJECT_FROM: certificate}
        self.expiries: Mapping[str, datetime] = {}
        self.phase = "none"

    def step(self, bundles: tuple[tuple[bytes, ...], ...]) -> bool:
        """Nothing is due, ever."""
        del bundles
        return False


class FileCertificates:
    """The caBundles hold what a file says; who changes it sees to the hand-over: both CAs, then the pair, then one CA.

    Args:
        path: PEM certificates of one or more CAs.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.bundle = b""
        self.annotations: Mapping[str, str] = {}
        self.expiries: Mapping[str, datetime] = {}
        self.phase = "none"

    def step(self, bundles: tuple[tuple[bytes, ...], ...]) -> bool:
        """Read the file anew.

        Raises:
            CertificatesError: It cannot be read, or holds no certificate.
        """
        del bundles
        try:
            found = split_bundle(self._path.read_bytes())
        except OSError as error:
            raise CertificatesError(f"{self._path}: {error.strerror}") from error
        if not found:
            raise CertificatesError(f"{self._path}: holds no PEM certificate: give the CA's")
        self.bundle = b"".join(found)
        self.expiries = {"ca": min(map(_expiry, found))}
        return False


def _expiry(certificate: bytes) -> datetime:
    try:
        return certs.expiry_of(certificate)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)
