"""One kind, listed and watched for as long as the program runs.

The client library's informer asks again at once when it is refused: thousands of times a second on a steady 403.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import structlog

from webhook.cluster import ApiError
from webhook.watch.pace import Pace
from webhook.watch.resources import Object, name_of

if TYPE_CHECKING:
    from webhook.cluster import Api
    from webhook.watch.resources import Resource

log = structlog.get_logger()

#: Events between two moments at which others get their turn: some 20 µs each, so that a review waits a millisecond.
BATCH = 50
#: Items of a page between two such moments.
PAGE_BATCH = 100
#: Any time above 0: `gevent.sleep(0)` goes on some fifty times before it looks who is ready.
_A_MOMENT = 1e-6

#: Failures in a row after which everything is listed again: an etcd that was restored from a backup, or another cluster under
#: the same address, would never send what it had before.
RELIST_AFTER = 3

_DICE = random.SystemRandom()

Spawn = Callable[[Callable[[], None]], Any]
Count = Callable[[str, str, str], None]
"""Counts a request: kind, verb (``list`` or ``watch``) and the status, ``none`` where there was no answer."""


class Health(StrEnum):
    """How a kind stands."""

    STARTING = "starting"
    FOLLOWED = "followed"
    FAILING = "failing"


class Follower:
    """Follows one resource.

    Args:
        api: The cluster.
        resource: What is followed.
        changed: Called after each change of `objects` or `health`.
        count: Counts requests.
        pace: How often.

    Attributes:
        objects: By name, what is kept of each object; replaced by a list, changed in place by events.
        synced: Whether it was listed at least once.
        health: How it stands.
        fault: What is wrong, "" if nothing is.
        status: The HTTP status of the fault, 0 where there was no answer.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource,
        changed: Callable[[], None] = lambda: None,
        count: Count = lambda *_: None,
        pace: Pace | None = None,
    ) -> None:
        self._api = api
        self.resource = resource
        self._changed = changed
        self._count = count
        self._pace = pace or Pace()
        self._stopped = threading.Event()
        self._arrived = threading.Condition()
        self._handle: Any = None
        self._started = self._left = time.monotonic()
        self._version: str | None = None
        self._failures = 0
        self._retry_after: float | None = None
        self._open = False
        self.objects: dict[str, Object] = {}
        self.synced = False
        self.health = Health.STARTING
        self.fault = ""
        self.status = 0

    @property
    def settled(self) -> bool:
        """Whether it was listed, or has been tried for long enough to count as unknown.

        Twice 404 is enough: most clusters have no KubeSphere, and no start should wait for it.
        """
        is_absent = self.status == 404 and self._failures > 1
        return self.synced or is_absent or time.monotonic() - self._started >= self._pace.deadline

    @property
    def age(self) -> float:
        """Seconds since the objects were last known to be right: 0 while the stream is open."""
        return 0.0 if self._open else time.monotonic() - self._left

    def start(self, spawn: Spawn) -> None:
        """Begin.

        Args:
            spawn: Runs what it is given beside the caller: ``gevent.spawn``, or the start of a thread.
        """
        self._started = self._left = time.monotonic()
        self._handle = spawn(self.run)

    def stop(self) -> None:
        """End: a greenlet at once, a thread at the next sign of life from the server."""
        self._stopped.set()
        kill = getattr(self._handle, "kill", None)
        if kill:
            kill(block=False)

    def run(self) -> None:
        """Follow until stopped; an error of ours is logged and counts as a failure."""
        while not self._stopped.is_set():
            self._stopped.wait(self.step())

    def step(self) -> float:
        """One list or one stream.

        Returns:
            Seconds until the next.
        """
        began = time.monotonic()
        self._retry_after = None
        try:
            if self._version is None:
                self._list()
            else:
                self._watch(self._version)
        except ApiError as error:
            if not self._stopped.is_set():
                self._failed(error)
        except Exception:  # the greenlet must live as long as the worker
            log.exception("a watch failed: this is a bug", kind=self.resource.kind)
            self._version = None
            self._failed(ApiError("podgate has a bug: see its log"))
        finally:
            self._closed()
        return self._pace.wait(
            self._failures,
            elapsed=time.monotonic() - began,
            draw=_DICE.random(),
            status=self.status,
            retry_after=self._retry_after,
        )

    def await_object(self, name: str, seconds: float) -> Object | None:
        """An object that may be on its way; None if it does not come in time.

        Args:
            name: Its name.
            seconds: How long to wait at most.
        """
        with self._arrived:
            self._arrived.wait_for(lambda: name in self.objects, seconds)
            return self.objects.get(name)

    def _list(self) -> None:
        objects: dict[str, Object] = {}
        version = ""
        with self._counted("list"):
            for page in self._api.pages(self.resource.path, **self.resource.selector):
                version = version or _version_of(page)
                if not version:  # taken for an empty list, it would make everything absent
                    place = f"{self._api.server} GET {self.resource.path}"
                    raise ApiError(f"{place}: the answer is no list: is this an API server?")
                self._take_page(page, objects)
        self._version = version
        with self._arrived:
            self.objects = objects
            self._arrived.notify_all()
        self.synced = True
        self._is_right()
        self._changed()

    def _take_page(self, page: Mapping[str, Any], objects: dict[str, Object]) -> None:
        items = page.get("items")
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if name := name_of(item):
                objects[name] = self.resource.reduce(item)
            if index % PAGE_BATCH == PAGE_BATCH - 1:
                time.sleep(_A_MOMENT)

    def _watch(self, version: str) -> None:
        with self._counted("watch"):
            events = self._api.watch(
                self.resource.path,
                resource_version=version,
                timeout_seconds=self._pace.watch_seconds(_DICE.random()),
                silence_seconds=self._pace.silence,
                **self.resource.selector,
            )
        opened = time.monotonic()
        self._open = True
        self._is_right()
        heard = 0
        for heard, event in enumerate(events, 1):
            self._failures = 0
            self._apply(event)
            if heard % BATCH == 0:
                time.sleep(_A_MOMENT)
        if heard or time.monotonic() - opened >= self._pace.brief:
            self._failures = 0
        else:
            self._failures += 1

    def _apply(self, event: Mapping[str, Any]) -> None:
        """Take one event: ADDED, MODIFIED, DELETED or BOOKMARK; others are of a later time."""
        item = event.get("object")
        self._version = _version_of(item) or self._version
        kind, name = event.get("type"), name_of(item)
        if not name or not isinstance(item, Mapping) or kind not in ("ADDED", "MODIFIED", "DELETED"):
            return
        with self._arrived:
            if kind == "DELETED":
                self.objects.pop(name, None)
            else:
                self.objects[name] = self.resource.reduce(item)
                self._arrived.notify_all()
        self._changed()

    def _counted(self, verb: str) -> _Counted:
        return _Counted(self._count, self.resource.kind, verb)

    def _closed(self) -> None:
        if self._open:
            self._open = False
            self._left = time.monotonic()

    def _is_right(self) -> None:
        """The server answered: what is kept is what it has."""
        self._left = time.monotonic()
        self.fault, self.status = "", 0
        if self.health is not Health.FOLLOWED:
            was, self.health = self.health, Health.FOLLOWED
            said = "facts known" if was is Health.STARTING else "facts right again"
            log.info(said, kind=self.resource.kind, objects=len(self.objects))

    def _failed(self, error: ApiError) -> None:
        was_watching = self._version is not None
        self._failures += 1
        self._retry_after = error.retry_after
        if error.status == 410 or self._failures >= RELIST_AFTER:
            self._version = None
        if self.health is Health.FOLLOWED and (self._failures == 1 or (error.status == 410 and was_watching)):
            return  # streams end in many ways, and a list is asked for anew: what follows tells whether anything is wrong
        is_news = self.health is not Health.FAILING or error.status != self.status
        self.health, self.fault, self.status = Health.FAILING, error.message, error.status
        if is_news:
            served = "the last state" if self.synced else "unknown"
            log.warning("facts not followed", kind=self.resource.kind, error=error.message, served=served)
        self._changed()


class _Counted:
    """Counts what is done in it as one request."""

    def __init__(self, count: Count, kind: str, verb: str) -> None:
        self._count = count
        self._kind = kind
        self._verb = verb

    def __enter__(self) -> None: ...

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        code = "200"
        if error is not None:
            status = error.status if isinstance(error, ApiError) else 0
            code = str(status) if status else "none"
        self._count(self._kind, self._verb, code)


def _version_of(thing: Any) -> str:
    metadata = thing.get("metadata") if isinstance(thing, Mapping) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    return version if isinstance(version, str) else ""
