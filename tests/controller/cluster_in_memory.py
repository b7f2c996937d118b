"""A cluster's objects in memory, with resourceVersions, and calls that a test may delay, refuse or stop at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from webhook.cluster import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]


class Cluster:
    """What is stored, by path.

    Attributes:
        writes: Paths written, in order.
        on_write: Called after each write with its path and the object.
    """

    def __init__(self) -> None:
        self._objects: dict[str, bytes] = {}
        self._version = 0
        self.writes: list[str] = []
        self.on_write: Callable[[str, Json], None] = lambda _path, _object: None

    def find(self, path: str) -> Json | None:
        found = self._objects.get(path)
        return None if found is None else dict(orjson.loads(found))

    def __getitem__(self, path: str) -> Json:
        found = self.find(path)
        if found is None:
            raise ApiError(f"GET {path}: not found", status=404, reason="NotFound")
        return found

    def put(self, path: str, body: Json) -> Json:
        """Store whatever it is."""
        self._version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._version)}
        stored = {**body, "metadata": metadata}
        self._objects[path] = orjson.dumps(stored)
        self.writes.append(path)
        self.on_write(path, stored)
        return self[path]

    def remove(self, path: str) -> None:
        self._objects.pop(path, None)

    def below(self, path: str) -> list[Json]:
        return [self[each] for each in sorted(self._objects) if each.rpartition("/")[0] == path]


class FakeApi:
    """The calls of `webhook.cluster.Api` that the controller makes.

    Args:
        cluster: The objects.
        before: Called before each call takes effect, with its method and path; may raise.
        after: Called when it has taken effect, before its answer arrives; may raise, as a lost answer does.
    """

    server = "https://fake"

    def __init__(
        self,
        cluster: Cluster,
        before: Callable[[str, str], None] = lambda _method, _path: None,
        after: Callable[[str, str], None] = lambda _method, _path: None,
    ) -> None:
        self.cluster = cluster
        self.before = before
        self.after = after

    def get(self, path: str, **query: str | int) -> Json:
        del query
        self.before("GET", path)
        found = self.cluster[path]
        self.after("GET", path)
        return found

    def find(self, path: str) -> Json | None:
        self.before("GET", path)
        found = self.cluster.find(path)
        self.after("GET", path)
        return found

    def create(self, path: str, body: Json, *, dry_run: bool = False) -> Json:
        del dry_run
        self.before("POST", path)
        full = f"{path}/{body['metadata']['name']}"
        if self.cluster.find(full) is not None:
            raise ApiError(f"POST {path}: already exists", status=409, reason="AlreadyExists")
        stored = self.cluster.put(full, body)
        self.after("POST", path)
        return stored

    def update(self, path: str, body: Json, *, dry_run: bool = False) -> Json:
        del dry_run
        self.before("PUT", path)
        if self.cluster[path]["metadata"]["resourceVersion"] != body["metadata"].get("resourceVersion"):
            raise ApiError(f"PUT {path}: conflict", status=409, reason="Conflict")
        stored = self.cluster.put(path, body)
        self.after("PUT", path)
        return stored

    def pages(self, path: str, *, limit: int = 500, **query: str | int) -> Iterator[Json]:
        del limit, query
        self.before("LIST", path)
        yield {"items": self.cluster.below(path)}
