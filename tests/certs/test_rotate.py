"""What a hand-over does next, from what is seen: one row a situation."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

import certs
from certs.rotate import (
    Authority,
    LookAtReplicas,
    Publish,
    Rest,
    Seen,
    Stamp,
    Step,
    StoreAuthority,
    StoreServing,
    Wait,
    Waits,
    fingerprint,
    is_issued_by,
    next_step,
    phase,
    split_bundle,
)
from tests.certs.strange import of_an_unknown_curve, of_no_version

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
NAMES = certs.service_names("podgate", "podgate-system")
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
WAITS = Waits()

OLD = certs.new_ca(now=NOW - 10 * DAY, lifetime=730 * DAY)
NEW = certs.new_ca(now=NOW, lifetime=730 * DAY)
OTHER = certs.new_ca(now=NOW)


def pair_of(ca: certs.Pair, now: datetime = NOW, names: tuple[str, ...] = NAMES) -> certs.Pair:
    return certs.serving_pair(ca, names=names, now=now)


OLD_PAIR = pair_of(OLD)
NEW_PAIR = pair_of(NEW)
ONE = (OLD.certificate,)
BOTH = (NEW.certificate, OLD.certificate)


def stamped(trusted: tuple[bytes, ...], ago: timedelta) -> Stamp:
    return Stamp(fingerprint(trusted), NOW - ago)


STEADY = Seen(
    bundles=(ONE, ONE),
    serving=OLD_PAIR,
    published=ONE,
    authority=Authority(OLD, ONE, in_force=stamped(ONE, 10 * DAY)),
    names=NAMES,
)
TRUSTED = replace(
    STEADY,
    bundles=(BOTH, BOTH),
    published=BOTH,
    authority=Authority(NEW, BOTH, in_force=stamped(BOTH, WAITS.api_server)),
)
SERVED = replace(
    TRUSTED,
    serving=NEW_PAIR,
    authority=Authority(
        NEW,
        BOTH,
        in_force=stamped(BOTH, DAY),
        stored=Stamp(fingerprint([NEW_PAIR.certificate]), NOW - WAITS.secret_sync),
    ),
)


def step(seen: Seen, now: datetime = NOW) -> Step:
    return next_step(seen, now=now, waits=WAITS)


def authority(seen: Seen) -> Authority:
    assert seen.authority is not None
    return seen.authority


def with_authority(seen: Seen, **changes: object) -> Seen:
    return replace(seen, authority=replace(authority(seen), **changes))  # type: ignore[arg-type]


def waiting(reason: str, seconds: float | None) -> Wait:
    return Wait(reason, None if seconds is None else NOW + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(STEADY, Rest(), id="all is well"),
        pytest.param(replace(STEADY, bundles=()), Rest(), id="no policy needs a webhook"),
        pytest.param(
            replace(STEADY, bundles=((*ONE, OTHER.certificate),)), Rest(), id="a caBundle holds one more"
        ),
        pytest.param(replace(STEADY, published=()), Publish(), id="ca.crt was removed"),
        pytest.param(
            TRUSTED, StoreServing("there is a new CA"), id="the new CA has been trusted long enough"
        ),
        pytest.param(
            with_authority(TRUSTED, in_force=stamped(BOTH, WAITS.api_server - SECOND)),
            waiting("API servers may not have seen the new caBundle yet", 1),
            id="the new CA was trusted a second too late",
        ),
        pytest.param(
            with_authority(replace(TRUSTED, bundles=(BOTH, ONE)), in_force=None),
            waiting("every caBundle must hold the new CA first", None),
            id="one of two caBundles lacks the new CA",
        ),
        pytest.param(
            replace(STEADY, bundles=(), serving=None),
            StoreServing("there is no serving pair yet"),
            id="the very first pair waits for nobody",
        ),
        pytest.param(
            replace(STEADY, serving=pair_of(OLD, NOW - 60 * DAY)),
            StoreServing("two thirds of the serving certificate's life are over"),
            id="renewal under the same CA needs no hand-over",
        ),
        pytest.param(
            replace(STEADY, serving=pair_of(OLD, NOW - 59 * DAY)), Rest(), id="a day before it is due"
        ),
        pytest.param(
            replace(STEADY, names=("gate.example.org",)),
            StoreServing(
                "the serving pair is of no use: it is not for gate.example.org, only for "
                "podgate.podgate-system.svc, podgate.podgate-system.svc.cluster.local"
            ),
            id="another name",
        ),
        pytest.param(
            with_authority(replace(TRUSTED, bundles=()), in_force=stamped(BOTH, WAITS.api_server - SECOND)),
            waiting("API servers may not have seen the new caBundle yet", 1),
            id="somebody deleted the configurations: API servers may go on with them for a while",
        ),
        pytest.param(
            replace(STEADY, bundles=((), ()), serving=None, published=()),
            StoreServing("there is no serving pair yet"),
            id="configurations without a caBundle trust nobody",
        ),
        pytest.param(
            with_authority(replace(STEADY, serving=None), in_force=stamped(ONE, SECOND)),
            waiting("API servers may not have seen the new caBundle yet", 89),
            id="the pair was deleted, and replicas may still serve it",
        ),
        pytest.param(SERVED, LookAtReplicas(), id="the new pair may have arrived"),
        pytest.param(
            replace(SERVED, replicas=(NEW_PAIR.certificate, OLD_PAIR.certificate)),
            waiting("1 of 2 replicas still serve a pair of another CA", None),
            id="one replica is behind",
        ),
        pytest.param(
            replace(SERVED, replicas=(NEW_PAIR.certificate, None)),
            waiting("1 of 2 replicas do not answer", (WAITS.silence - WAITS.secret_sync).total_seconds()),
            id="one replica is silent",
        ),
        pytest.param(
            with_authority(
                SERVED, stored=Stamp(fingerprint([NEW_PAIR.certificate]), NOW - WAITS.secret_sync + SECOND)
            ),
            waiting("replicas may not have the new serving pair yet", 1),
            id="the new pair was stored a second too late",
        ),
    ],
)
def test_what_comes_next(seen: Seen, expected: Step) -> None:
    assert step(seen) == expected


@pytest.mark.parametrize(
    ("seen", "reason", "trusted", "in_force", "stored"),
    [
        pytest.param(
            with_authority(TRUSTED, in_force=None),
            "every caBundle holds the CAs",
            BOTH,
            stamped(BOTH, 0 * DAY),
            None,
            id="both CAs have arrived",
        ),
        pytest.param(
            with_authority(TRUSTED, in_force=stamped(ONE, DAY)),
            "every caBundle holds the CAs",
            BOTH,
            stamped(BOTH, 0 * DAY),
            None,
            id="a stamp of another bundle counts for nothing",
        ),
        pytest.param(
            with_authority(TRUSTED, in_force=stamped(BOTH, -DAY)),
            "every caBundle holds the CAs",
            BOTH,
            stamped(BOTH, 0 * DAY),
            None,
            id="a stamp of tomorrow is begun anew",
        ),
        pytest.param(
            replace(TRUSTED, bundles=(BOTH, ONE)),
            "a caBundle lacks a CA",
            BOTH,
            None,
            None,
            id="somebody put an old caBundle back: the wait begins anew",
        ),
        pytest.param(
            with_authority(SERVED, stored=None),
            "the new serving pair is stored",
            BOTH,
            stamped(BOTH, DAY),
            Stamp(fingerprint([NEW_PAIR.certificate]), NOW),
            id="the new pair is stored",
        ),
        pytest.param(
            replace(SERVED, replicas=(NEW_PAIR.certificate,) * 3),
            "every replica serves a pair of the new CA",
            (NEW.certificate,),
            stamped(BOTH, DAY),
            authority(SERVED).stored,
            id="every replica serves the new pair",
        ),
        pytest.param(
            replace(
                with_authority(
                    SERVED, stored=Stamp(fingerprint([NEW_PAIR.certificate]), NOW - WAITS.silence)
                ),
                replicas=(NEW_PAIR.certificate, None),
            ),
            "every replica serves a pair of the new CA",
            (NEW.certificate,),
            stamped(BOTH, DAY),
            Stamp(fingerprint([NEW_PAIR.certificate]), NOW - WAITS.silence),
            id="a replica is silent for too long",
        ),
        pytest.param(
            replace(STEADY, serving=pair_of(OTHER), bundles=((*ONE, OTHER.certificate),)),
            "the stored pair has another CA",
            (*ONE, OTHER.certificate),
            stamped(ONE, 10 * DAY),
            None,
            id="certificates of somebody else are taken over",
        ),
    ],
)
def test_what_is_written_down(
    seen: Seen, reason: str, trusted: tuple[bytes, ...], in_force: Stamp | None, stored: Stamp | None
) -> None:
    result = step(seen)
    expected = replace(authority(seen), trusted=trusted, in_force=in_force, stored=stored)
    assert result == StoreAuthority(expected, reason)


@pytest.mark.parametrize(
    ("seen", "reason", "kept"),
    [
        pytest.param(
            Seen(bundles=(), serving=None, published=(), authority=None, names=NAMES),
            "there is no CA yet",
            (),
            id="the first start",
        ),
        pytest.param(
            replace(STEADY, authority=None),
            "there is no CA yet",
            ONE,
            id="our record was deleted: all stay trusted",
        ),
        pytest.param(
            with_authority(STEADY, asked=True), "a new CA was asked for", ONE, id="somebody asked for one"
        ),
        pytest.param(
            with_authority(STEADY, signer=certs.Pair(OLD.certificate, NEW.key)),
            "the CA is of no use: the key does not belong to the certificate",
            ONE,
            id="the CA's key is another's",
        ),
        pytest.param(
            with_authority(TRUSTED, signer=certs.Pair(NEW.certificate, b"")),
            "the CA is of no use: the key is not readable PEM",
            BOTH,
            id="the CA's key is lost in the middle of a hand-over",
        ),
    ],
)
def test_a_new_ca_is_trusted_beside_the_old(seen: Seen, reason: str, kept: tuple[bytes, ...]) -> None:
    result = step(seen)
    assert isinstance(result, StoreAuthority)
    assert result.reason == reason
    made = result.authority
    assert made.trusted == (made.signer.certificate, *kept)
    assert (made.in_force, made.stored, made.asked) == (None, None, False)
    assert certs.problems_of(made.signer, at=NOW) == ()
    assert certs.expiry_of(made.signer.certificate) == NOW + 730 * DAY


def test_a_ca_is_renewed_when_two_thirds_of_its_life_are_over() -> None:
    due = NOW - 10 * DAY + 730 * DAY * 2 / 3
    seen = replace(STEADY, serving=pair_of(OLD, due - DAY))
    assert step(seen, due - timedelta(minutes=5)) == Rest()
    result = step(seen, due)
    assert isinstance(result, StoreAuthority)
    assert result.reason == "two thirds of the CA's life are over"


def test_who_asks_again_in_the_middle_of_a_hand_over_waits_for_its_end() -> None:
    assert step(with_authority(TRUSTED, asked=True)) == StoreServing("there is a new CA")


def test_an_expired_ca_is_not_kept() -> None:
    later = NOW + 800 * DAY
    result = step(STEADY, later)
    assert isinstance(result, StoreAuthority)
    assert result.authority.trusted == (result.authority.signer.certificate,)


def test_an_old_ca_that_expires_is_waited_for_no_longer() -> None:
    old = certs.new_ca(now=NOW - 10 * DAY, lifetime=10 * DAY)
    both = (NEW.certificate, old.certificate)
    authority = Authority(NEW, both, stamped(both, DAY), Stamp(fingerprint([NEW_PAIR.certificate]), NOW))
    seen = Seen((both,), NEW_PAIR, both, authority, NAMES)
    assert step(seen) == StoreAuthority(
        replace(authority, trusted=(NEW.certificate,)), "the old CA has expired"
    )


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(replace(STEADY, authority=None), "none", id="no CA"),
        pytest.param(STEADY, "steady", id="steady"),
        pytest.param(TRUSTED, "trusting", id="trusting"),
        pytest.param(SERVED, "serving", id="serving"),
    ],
)
def test_the_phase(seen: Seen, expected: str) -> None:
    assert phase(seen.authority, seen.serving) == expected


def test_a_bundle_is_split_whatever_stands_between_its_certificates() -> None:
    assert split_bundle(b"# ours\r\n" + NEW.certificate + b"\n\n" + OLD.certificate) == BOTH


STRANGE = of_no_version(OTHER.certificate)


def test_what_a_bundle_holds_counts_beside_what_cannot_be_read() -> None:
    broken = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"
    assert split_bundle(NEW.certificate + STRANGE + broken + OLD.certificate) == BOTH


@pytest.mark.parametrize("bundle", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\n!\n", STRANGE])
def test_an_unreadable_bundle_holds_nothing(bundle: bytes) -> None:
    assert split_bundle(bundle) == ()


def test_a_bundle_of_beginnings_alone_is_read_once() -> None:
    began = time.thread_time()
    beginnings = b"-----BEGIN CERTIFICATE-----\n" * 30_000
    assert split_bundle(beginnings) == ()
    assert split_bundle(beginnings + NEW.certificate) == (NEW.certificate,)
    assert time.thread_time() - began < 0.5


def test_who_issued_it() -> None:
    assert is_issued_by(NEW_PAIR.certificate, NEW.certificate)
    assert not is_issued_by(NEW_PAIR.certificate, OLD.certificate)
    assert not is_issued_by(b"garbage", OLD.certificate)


@pytest.mark.parametrize("ca", [STRANGE, of_an_unknown_curve(OLD.certificate)], ids=["no version", "curve"])
def test_a_strange_ca_in_a_bundle_stops_nothing(ca: bytes) -> None:
    """Somebody else's mistake must not keep a certificate from being renewed."""
    assert next_step(replace(STEADY, bundles=((*ONE, ca), ONE)), now=NOW, waits=WAITS) == Rest()
