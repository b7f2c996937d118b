"""Hand over from one CA to the next so that no call fails: what to do next, from what is seen and from the clock.

The order, each step only when the one before is known to have arrived everywhere:

1. A new CA, the *signer*, is made and *trusted* beside the old one: every caBundle gets both.
2. Once every API server must have seen those (`Waits.api_server`), a serving pair signed by it is stored.
3. Once every replica serves a pair of the signer (each is looked at), the old CA is trusted no longer.

So at each moment every caBundle in force holds the CA of every certificate that any replica may serve. All state is in
the objects that `Seen` is read from. Whoever reads them and does the step that `next_step` names, may be stopped before or
after any write, and whoever comes next goes on from there.

Two may even do so at once, if they write by resourceVersion, and read in this order: first the caBundles, then the serving
pair, then the `Authority`. What they derive is then never older than what they replace.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization

from certs.check import problems_of
from certs.issue import Pair, new_ca
from certs.pem import read_certificate, verify_issued_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: A CA that is renewed by itself can be short-lived: two years, so that the hand-over is no rare event, and long enough
#: that what it signs in its last third is never cut short.
SIGNER_LIFETIME = timedelta(days=730)

#: Renewed when two thirds of its life are over, as the kubelet's own certificates are at 70 to 90 %: a third is left for
#: somebody to notice that renewal fails.
RENEWED_AT = 2 / 3

#: An API server that lost its watch lists again after at most 30 s, doubled by jitter
#: (kubernetes/client-go:tools/cache/reflector.go); usually a caBundle is in force within a second. And half as long again,
#: by which the clocks of two controllers that follow each other may differ.
API_SERVER_LAG = timedelta(seconds=90)

#: A kubelet looks at a pod's volumes each 60 s, with jitter up to 90 s (kubernetes:pkg/kubelet/kubelet.go), and its cached
#: Secret may be a minute old. Replicas that are seen are asked; this is for one that is starting and is not seen yet.
SECRET_SYNC = timedelta(seconds=150)

#: A replica that cannot be reached for this long after the new pair was stored, four times `SECRET_SYNC`, either has it
#: by now or is gone with its node; the API server does not reach it either.
SILENCE = timedelta(seconds=600)

#: Base64 has no dash, so that a bundle of beginnings alone is read once. One with headers is none to Go either.
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")


@dataclass(frozen=True, slots=True)
class Waits:
    """How long what is stored may take to arrive."""

    api_server: timedelta = API_SERVER_LAG
    secret_sync: timedelta = SECRET_SYNC
    silence: timedelta = SILENCE


@dataclass(frozen=True, slots=True)
class Stamp:
    """Since when something, named by its fingerprint, is known to be so."""

    fingerprint: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs and who is trusted.

    Attributes:
        signer: The newest CA; only it signs.
        trusted: PEM certificates of the CAs for every caBundle, the signer's first.
        in_force: Since when every caBundle holds `trusted`; counts only if it names its fingerprint.
        stored: Since when the serving pair is stored; counts only if it names its fingerprint.
        asked: Somebody wants a new CA now.
    """

    signer: Pair
    trusted: tuple[bytes, ...]
    in_force: Stamp | None = None
    stored: Stamp | None = None
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands in the cluster, read in the order of the fields.

    Attributes:
        bundles: The CAs of each webhook's caBundle.
        serving: The stored serving pair.
        published: The CAs that are stored beside it.
        authority: None where there is none yet.
        names: DNS names and addresses that the serving certificate must be for.
        replicas: The certificate that each replica serves (PEM), None for one that does not answer; None as a whole
            where nobody has looked.
    """

    bundles: tuple[tuple[bytes, ...], ...]
    serving: Pair | None
    published: tuple[bytes, ...]
    authority: Authority | None
    names: tuple[str, ...]
    replicas: tuple[bytes | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoreAuthority:
    """Store this authority."""

    authority: Authority
    reason: str


@dataclass(frozen=True, slots=True)
class StoreServing:
    """Store a new serving pair, signed by the signer, with the trusted CAs beside it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Store the trusted CAs beside the serving pair, which stays."""


@dataclass(frozen=True, slots=True)
class LookAtReplicas:
    """Fill `Seen.replicas` and ask again."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be done yet.

    Attributes:
        reason: For people.
        until: When it is worth another look; None where that is not known.
    """

    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Rest:
    """All is as it should be."""


Step = StoreAuthority | StoreServing | Publish | LookAtReplicas | Wait | Rest


def next_step(seen: Seen, *, now: datetime, waits: Waits) -> Step:
    """The one thing to do next.

    Args:
        seen: What stands in the cluster.
        now: Read after `seen`, so that a stamp is never earlier than what it says.
        waits: How long things take to arrive.
    """
    authority = seen.authority
    if authority is None:
        return StoreAuthority(_new_authority(_known(seen), now), "there is no CA yet")
    if reason := _signer_is_due(authority, now):
        return StoreAuthority(_new_authority(authority.trusted, now), reason)
    if foreign := _issuer_not_trusted(seen, authority):
        return StoreAuthority(
            replace(authority, trusted=(*authority.trusted, foreign)), "the stored pair has another CA"
        )
    if reason := _serving_is_due(seen, authority, now):
        return _serving_step(seen, authority, reason, now, waits)
    if seen.published != authority.trusted:
        return Publish()
    return _stamp_step(seen, authority, now) or _last_step(seen, authority, now, waits)


def phase(authority: Authority | None, serving: Pair | None) -> str:
    """Where a hand-over is: ``none``, ``steady``, ``trusting`` (step 1) or ``serving`` (step 3)."""
    if authority is None or serving is None:
        return "none"
    if len(authority.trusted) == 1:
        return "steady"
    return "serving" if is_issued_by(serving.certificate, authority.signer.certificate) else "trusting"


def split_bundle(bundle: bytes) -> tuple[bytes, ...]:
    """The certificates in PEM text, each as PEM of its own, without those that cannot be read.

    Go passes over them, too (crypto/x509:cert_pool.go, AppendCertsFromPEM), and trusts the others.
    """
    found = []
    for block in _CERTIFICATE.findall(bundle):
        try:
            found.append(read_certificate(block).public_bytes(serialization.Encoding.PEM))
        except ValueError:
            continue
    return tuple(found)


def fingerprint(certificates: Iterable[bytes]) -> str:
    """A short name for these PEM certificates in this order."""
    return hashlib.sha256(b"".join(certificates)).hexdigest()[:16]


def is_issued_by(certificate: bytes, ca: bytes) -> bool:
    """Whether the CA's key signed the certificate (both PEM); False where one is not readable."""
    try:
        verify_issued_by(read_certificate(certificate), ca)
    except (InvalidSignature, ValueError):
        return False
    return True


def _new_authority(trusted: Iterable[bytes], now: datetime) -> Authority:
    signer = new_ca(now=now, lifetime=SIGNER_LIFETIME)
    return Authority(signer, (signer.certificate, *(ca for ca in trusted if not _is_over(ca, now))))


def _known(seen: Seen) -> tuple[bytes, ...]:
    """Every CA that the cluster holds of ours: where our own record is lost, none of them may be dropped."""
    every = (ca for bundle in (seen.published, *seen.bundles) for ca in bundle)
    return tuple(dict.fromkeys(every))


def _signer_is_due(authority: Authority, now: datetime) -> str:
    problems = problems_of(authority.signer, at=now)
    if problems:
        return f"the CA is of no use: {'; '.join(problems)}"
    if len(authority.trusted) > 1:
        return ""  # one hand-over after the other
    if authority.asked:
        return "a new CA was asked for"
    return "two thirds of the CA's life are over" if _is_due(authority.signer.certificate, now) else ""


def _issuer_not_trusted(seen: Seen, authority: Authority) -> bytes | None:
    """The CA of the stored pair, where a caBundle trusts it and we do not: the pair is somebody else's, and in use."""
    if seen.serving is None:
        return None
    issuers = (ca for ca in _known(seen) if is_issued_by(seen.serving.certificate, ca))
    return next((ca for ca in issuers if ca not in authority.trusted), None)


def _serving_is_due(seen: Seen, authority: Authority, now: datetime) -> str:
    if seen.serving is None:
        return "there is no serving pair yet"
    problems = problems_of(seen.serving, at=now, names=seen.names)
    if problems:
        return f"the serving pair is of no use: {'; '.join(problems)}"
    if not is_issued_by(seen.serving.certificate, authority.signer.certificate):
        return "there is a new CA"
    if _is_due(seen.serving.certificate, now):
        return "two thirds of the serving certificate's life are over"
    return ""


def _serving_step(seen: Seen, authority: Authority, reason: str, now: datetime, waits: Waits) -> Step:
    if not any(seen.bundles) and not _is_trusted(seen.serving, authority):
        return StoreServing(
            reason
        )  # no call can succeed, so none can fail; and the first pods wait for the pair
    stamp = _stamp_step(seen, authority, now, of_serving=False)
    if stamp:
        return stamp
    if authority.in_force is None:
        return Wait("every caBundle must hold the new CA first")
    until = authority.in_force.since + waits.api_server
    if now < until:
        return Wait("API servers may not have seen the new caBundle yet", until)
    return StoreServing(reason)


def _is_trusted(serving: Pair | None, authority: Authority) -> bool:
    return serving is not None and any(is_issued_by(serving.certificate, ca) for ca in authority.trusted)


def _stamp_step(seen: Seen, authority: Authority, now: datetime, *, of_serving: bool = True) -> Step | None:
    """Write down since when things are so, if they are and it is not yet written (or from a clock ahead of ours)."""
    in_force = None
    if _all_hold(seen.bundles, authority.trusted):
        in_force = _stamp(authority.in_force, fingerprint(authority.trusted), now)
    if in_force != authority.in_force:
        reason = "a caBundle lacks a CA" if in_force is None else "every caBundle holds the CAs"
        return StoreAuthority(replace(authority, in_force=in_force), reason)
    if not of_serving or seen.serving is None or len(authority.trusted) == 1:
        return None
    stored = _stamp(authority.stored, fingerprint([seen.serving.certificate]), now)
    if stored != authority.stored:
        return StoreAuthority(replace(authority, stored=stored), "the new serving pair is stored")
    return None


def _stamp(current: Stamp | None, name: str, now: datetime) -> Stamp:
    if current is not None and current.fingerprint == name and current.since <= now:
        return current
    return Stamp(name, now)


def _last_step(seen: Seen, authority: Authority, now: datetime, waits: Waits) -> Step:
    old = authority.trusted[1:]
    if not old or authority.stored is None:
        return Rest()
    without = StoreAuthority(
        replace(authority, trusted=authority.trusted[:1]), "every replica serves a pair of the new CA"
    )
    if all(_is_over(ca, now) for ca in old):
        return replace(without, reason="the old CA has expired")
    since = authority.stored.since
    if now < since + waits.secret_sync:
        return Wait("replicas may not have the new serving pair yet", since + waits.secret_sync)
    if seen.replicas is None:
        return LookAtReplicas()
    return _behind(seen.replicas, authority, since, now, waits) or without


def _behind(
    replicas: Sequence[bytes | None], authority: Authority, since: datetime, now: datetime, waits: Waits
) -> Wait | None:
    signer = authority.signer.certificate
    behind = sum(1 for served in replicas if served is not None and not is_issued_by(served, signer))
    if behind:
        return Wait(f"{behind} of {len(replicas)} replicas still serve a pair of another CA")
    silent = sum(1 for served in replicas if served is None)
    if silent and now < since + waits.silence:
        return Wait(f"{silent} of {len(replicas)} replicas do not answer", since + waits.silence)
    return None


def _all_hold(bundles: Iterable[Sequence[bytes]], trusted: Iterable[bytes]) -> bool:
    wanted = frozenset(trusted)
    return all(wanted <= frozenset(bundle) for bundle in bundles)


def _is_due(certificate: bytes, now: datetime) -> bool:
    read = read_certificate(certificate)
    life = read.not_valid_after_utc - read.not_valid_before_utc
    return now >= read.not_valid_before_utc + life * RENEWED_AT


def _is_over(certificate: bytes, now: datetime) -> bool:
    try:
        return now >= read_certificate(certificate).not_valid_after_utc
    except ValueError:
        return True
