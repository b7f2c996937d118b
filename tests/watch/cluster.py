"""A small API server for tests: collections that are listed in pages and watched, and faults on demand."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.cluster.scripted_server import Reply, Request, ScriptedServer, kubeconfig, status
from webhook.cluster import Api

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping
    from pathlib import Path

NAMESPACES = "/api/v1/namespaces"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"


class Collection:
    """The objects of one path, and the events that every open stream gets."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.events: list[tuple[int, str, dict[str, Any]]] = []

    def put(self, name: str, **fields: Any) -> None:
        self.version += 1
        metadata = {"name": name, "resourceVersion": str(self.version), **fields.pop("metadata", {})}
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = {"metadata": metadata, **fields}
        self.events.append((self.version, kind, self.objects[name]))

    def remove(self, name: str) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self.events.append((self.version, "DELETED", gone))


class FakeCluster:
    """Serves `Collection`s; ``fault`` answers instead, as long as it is set."""

    def __init__(self, *paths: str, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.collections: Mapping[str, Collection] = {path: Collection() for path in paths}
        self.fault: Callable[[Request, Reply], None] | None = None
        self.watch_fault: Callable[[Request, Reply], None] | None = None
        self.server = ScriptedServer(self._answer, port, tls)

    def __enter__(self) -> FakeCluster:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__()

    def restarted(self) -> FakeCluster:
        """Another server on the same port with the same objects: as the same one started again."""
        other = FakeCluster(port=self.server.port)
        other.collections = self.collections
        other.server.requests = self.server.requests
        return other

    def slow(self, seconds: float) -> Callable[[Request, Reply], None]:
        """A fault: the right answers, late."""

        def answer(request: Request, reply: Reply) -> None:
            reply.hang(seconds)
            self._answer_well(request, reply)

        return answer

    def _answer(self, request: Request, reply: Reply) -> None:
        fault = self.fault or (self.watch_fault if request.is_watch else None)
        (fault or self._answer_well)(request, reply)

    def _answer_well(self, request: Request, reply: Reply) -> None:
        collection = self.collections.get(request.path)
        if collection is None:
            reply.json(404, status(404, "NotFound", "the server could not find the requested resource"))
        elif request.is_watch:
            self._watch(request, reply, collection)
        else:
            _list(request, reply, collection)

    def _watch(self, request: Request, reply: Reply, collection: Collection) -> None:
        seen = int(request.query["resourceVersion"])
        reply.stream()
        while not reply.stopping.wait(0.005):
            if self.fault or self.watch_fault:
                reply.cut()
                return
            for version, kind, item in list(collection.events):
                if version > seen:
                    reply.event(kind, item)
                    seen = version


def _list(request: Request, reply: Reply, collection: Collection) -> None:
    start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
    items = list(collection.objects.values())
    more = {"continue": str(start + limit)} if start + limit < len(items) else {}
    metadata = {"resourceVersion": str(collection.version), **more}
    reply.json(200, {"kind": "List", "metadata": metadata, "items": items[start : start + limit]})


def in_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, daemon=True).start()


def connect(cluster: FakeCluster, folder: Path) -> Api:
    (folder / "kubeconfig").write_text(kubeconfig(cluster.server.url))
    return Api.connect(folder / "kubeconfig")


def refuse(code: int, reason: str, **headers: str) -> Callable[[Request, Reply], None]:
    return lambda _, reply: reply.json(code, status(code, reason, "no"), **headers)
