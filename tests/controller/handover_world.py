"""A cluster in which everything arrives late: API servers, kubelets, and controllers that stop between any two calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import greenlet  # type: ignore[import-untyped]  # gevent brings it

from certs.rotate import API_SERVER_LAG, SECRET_SYNC, is_issued_by, split_bundle
from tests.controller.cluster_in_memory import Cluster, FakeApi
from tests.controller.parts import CA_SECRET, LATE, MUTATING, START, TLS_SECRET, VALIDATING, reconciler
from webhook.controller.objects import CERTIFICATE, ROTATE, decoded, read_authority

if TYPE_CHECKING:
    from collections.abc import Callable

#: What the world needs at most: a little less than the controller waits.
LAG = API_SERVER_LAG - timedelta(seconds=10)
SYNC = SECRET_SYNC - timedelta(seconds=10)

issued = cache(is_issued_by)
bundle_of = cache(split_bundle)


@dataclass
class Replica:
    """What it serves, and how.

    Attributes:
        certificate: That it serves.
        answers: Whether a look at it gets an answer; the API server reaches it all the same.
        stuck: Its kubelet brings nothing any more.
        started: Whether it is an endpoint yet.
    """

    certificate: bytes
    answers: bool = True
    stuck: bool = False
    started: bool = True


@dataclass
class Versions:
    """What was stored, and since when: someone late may use any version that was in force within the delay."""

    delay: timedelta
    all: list[tuple[datetime, Any]] = field(default_factory=list)

    def add(self, now: datetime, value: Any) -> None:
        self.all.append((now, value))

    def possible(self, now: datetime) -> list[Any]:
        recent = [value for since, value in self.all if since > now - self.delay]
        before = [value for since, value in self.all if since <= now - self.delay]
        return [*before[-1:], *recent]


class Stepped:
    """A controller that reconciles again and again, one call of the API at a time. It has no Lease: the worst case."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._greenlet: Any = None

    def advance(self) -> None:
        """Do one call, and stop before the next takes effect."""
        if self._greenlet is None or self._greenlet.dead:
            self._greenlet = greenlet.greenlet(self._run)
        self._greenlet.switch()

    def finish(self, check: Callable[[], None]) -> None:
        """Go on to the end of the look."""
        self.advance()
        while not self._greenlet.dead:
            check()
            self.advance()

    def kill(self) -> None:
        if self._greenlet is not None and not self._greenlet.dead:
            self._greenlet.throw(greenlet.GreenletExit)
        self._greenlet = None

    def _run(self) -> None:
        def pause(_method: str, _path: str) -> None:
            greenlet.getcurrent().parent.switch()

        api = FakeApi(self._world.cluster, before=pause)
        reconciler(api, look=self._look, clock=lambda: self._world.now).reconcile()

    def _look(self) -> tuple[bytes | None, ...]:
        greenlet.getcurrent().parent.switch()
        return tuple(
            each.certificate if each.answers or each.stuck else None
            for each in self._world.replicas
            if each.started
        )


@cache
def _first_start() -> tuple[tuple[str, dict[str, Any]], ...]:
    """What a controller makes of an empty cluster."""
    cluster = Cluster()
    clock = {"now": START}
    once = reconciler(FakeApi(cluster), clock=lambda: clock["now"])
    for _ in range(3):
        once.reconcile()
        clock["now"] += timedelta(seconds=100)
    return tuple((path, cluster[path]) for path in (CA_SECRET, TLS_SECRET, MUTATING, LATE, VALIDATING))


class World:
    """Starts with everything in order and three replicas."""

    def __init__(self) -> None:
        self.now = START
        self.cluster = Cluster()
        self.bundles = {path: Versions(LAG) for path in (MUTATING, LATE, VALIDATING)}
        self.pairs = Versions(SYNC)
        self.replicas: list[Replica] = []
        self.cluster.on_write = self._stored
        for path, body in _first_start():
            self.cluster.put(path, body)
        self.replicas = [Replica(self._certificate()) for _ in range(3)]
        self.tick(3600)

    def _stored(self, path: str, body: dict[str, Any]) -> None:
        if path in self.bundles:
            held = [decoded(entry["clientConfig"].get("caBundle")) for entry in body["webhooks"]]
            self.bundles[path].add(self.now, held)
        elif path == TLS_SECRET:
            self.pairs.add(self.now, decoded(body["data"][CERTIFICATE]))

    def _certificate(self) -> bytes:
        return decoded(self.cluster[TLS_SECRET]["data"][CERTIFICATE])

    def tick(self, seconds: float) -> None:
        """Time passes; kubelets bring what they must have brought by now."""
        self.now += timedelta(seconds=seconds)
        possible = self.pairs.possible(self.now)
        for replica in self.replicas:
            if replica.certificate not in possible and not replica.stuck:
                replica.certificate = possible[0]

    def sync(self, number: int) -> None:
        """A kubelet brings the newest pair."""
        replica = self.replicas[number % len(self.replicas)]
        if not replica.stuck:
            replica.certificate = self._certificate()

    def stick(self, number: int) -> None:
        """A kubelet is stuck, or goes on."""
        replica = self.replicas[number % len(self.replicas)]
        replica.stuck = not replica.stuck

    def appear(self) -> None:
        """What was started becomes an endpoint."""
        for replica in self.replicas:
            replica.started = True

    def silence(self, number: int) -> None:
        replica = self.replicas[number % len(self.replicas)]
        replica.answers = not replica.answers

    def start_replica(self) -> None:
        """A new one mounts what is stored, and becomes an endpoint later."""
        if len(self.replicas) < 6:
            self.replicas.append(Replica(self._certificate(), started=False))

    def stop_replica(self) -> None:
        if len(self.replicas) > 1:
            self.replicas.pop(0)

    def unregister(self) -> None:
        """Somebody deletes the configurations."""
        for path, versions in self.bundles.items():
            self.cluster.remove(path)
            versions.add(self.now, [])

    def ask(self) -> None:
        """Somebody asks for a new CA, with kubectl."""
        secret = self.cluster[CA_SECRET]
        secret["metadata"].setdefault("annotations", {})[ROTATE] = "now"
        self.cluster.put(CA_SECRET, secret)

    def check(self) -> None:
        """No call can fail: whatever caBundle an API server uses holds the CA of whatever a replica serves."""
        served = {self._certificate(), *(each.certificate for each in self.replicas if each.started)}
        for path, versions in self.bundles.items():
            for held in versions.possible(self.now):
                for bundle in held:
                    for certificate in served:
                        assert any(issued(certificate, ca) for ca in bundle_of(bundle)), path

    @property
    def trusted(self) -> int:
        authority = read_authority(self.cluster[CA_SECRET])
        assert authority is not None
        return len(authority.trusted)

    def settle(self, check: Callable[[], None] = lambda: None) -> None:
        """One controller, forty minutes."""
        controller = Stepped(self)
        for _ in range(80):
            controller.finish(check)
            check()
            self.tick(30)
            check()
