"""A cluster in memory behind real HTTP: objects by path, resourceVersions, dry runs, and answers that a test replaces."""

from __future__ import annotations

import json
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import yaml

from tests.cluster.scripted_server import Reply, Request, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Json = dict[str, Any]

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/gate.podgate.dev"
LATE = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/zzz.gate.podgate.dev"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations/gate.podgate.dev"
SYSTEM = "/api/v1/namespaces/podgate-system"
PAUSE = f"{SYSTEM}/configmaps/podgate-pause"
LAST_SEGMENT = re.compile(r"[^/]+$")


class FakeCluster:
    """Use as a context manager.

    Attributes:
        objects: by path, as they are stored.
        refused: paths (or beginnings of paths) and the status that is answered.
        answers: by method and path, what is answered in place of the store's own way.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.refused: dict[str, int] = {}
        self.answers: dict[tuple[str, str], Callable[[Json], tuple[int, Json]]] = {}
        self._version = 100
        self.server = ScriptedServer(self._answer)

    def __enter__(self) -> FakeCluster:
        self.server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.__exit__(*_)

    def kubeconfig(self, folder: Path) -> Path:
        """A file for `--kubeconfig`."""
        named = "fake"
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": named,
            "clusters": [{"name": named, "cluster": {"server": self.server.url}}],
            "users": [{"name": named, "user": {"token": "t"}}],
            "contexts": [{"name": named, "context": {"cluster": named, "user": named}}],
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(body))
        return path

    def put(self, path: str, thing: Json) -> None:
        """Store an object, whoever wrote it."""
        self._version += 1
        stored = deepcopy(thing)
        name = LAST_SEGMENT.search(path)
        metadata = {"name": name.group() if name else ""} | stored.get("metadata", {})
        stored["metadata"] = metadata | {"resourceVersion": str(self._version)}
        self.objects[path] = stored

    @property
    def writes(self) -> list[tuple[str, str]]:
        """Method and path of everything that was to change something, in order."""
        asked = self.server.requests
        return [
            (each.method, each.path) for each in asked if each.method != "GET" and "review" not in each.path
        ]

    def _answer(self, request: Request, reply: Reply) -> None:
        for start, status in self.refused.items():
            if request.path.startswith(start):
                reply.json(status, _status(status, f"{request.path} is refused by the test"))
                return
        body = json.loads(request.body) if request.body else {}
        special = self.answers.get((request.method, request.path))
        status, answer = special(body) if special else self._stored(request, body)
        reply.json(status, answer)

    def _stored(self, request: Request, body: Json) -> tuple[int, Json]:
        dry = "dryRun" in request.query
        if request.method == "POST":
            return self._create(request.path, body, dry=dry)
        found = self.objects.get(request.path)
        if request.method == "GET":
            return self._read(request.path)
        if found is None:
            return 404, _status(404, f"{request.path} not found", "NotFound")
        if request.method == "DELETE":
            if not dry:
                del self.objects[request.path]
            return 200, _status(200, "")
        return self._update(request, found, body, dry=dry)

    def _read(self, path: str) -> tuple[int, Json]:
        if path in self.objects:
            return 200, self.objects[path]
        if self._is_object(path):
            return 404, _status(404, f"{path} not found", "NotFound")
        return 200, self._list(path)

    def _update(self, request: Request, found: Json, body: Json, *, dry: bool) -> tuple[int, Json]:
        if request.method == "PATCH":
            body = _merged(found, body)
        elif body["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            return 409, _status(409, "the object has been modified", "Conflict")
        if not dry:
            self.put(request.path, body)
        return 200, self.objects[request.path]

    def _create(self, path: str, body: Json, *, dry: bool) -> tuple[int, Json]:
        name = body.get("metadata", {}).get("name", "generated")
        if f"{path}/{name}" in self.objects:
            return 409, _status(409, f"{name} already exists", "AlreadyExists")
        if not dry:
            self.put(f"{path}/{name}", body)
        return 201, body

    def _is_object(self, path: str) -> bool:
        """Whether a path is of one object: those of collections end with the plural of a kind."""
        return not path.endswith("s") or path.endswith(("/podgate-tls", "/podgate-policies"))

    def _list(self, path: str) -> Json:
        below = {key: each for key, each in self.objects.items() if key.rpartition("/")[0] == path}
        everywhere = [
            each
            for key, each in self.objects.items()
            if "/namespaces/" in key and _without_namespace(key) == path
        ]
        return {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": [*below.values(), *everywhere]}


def _without_namespace(path: str) -> str:
    """The collection over all namespaces that an object belongs to."""
    return re.sub(r"/namespaces/[^/]+(/[^/]+)/[^/]+$", r"\1", path)


def _merged(stored: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(stored) if isinstance(stored, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


def _status(code: int, message: str, reason: str = "") -> Json:
    names = {403: "Forbidden", 404: "NotFound", 409: "Conflict"}
    return {
        "kind": "Status",
        "status": "Success" if code < 400 else "Failure",
        "code": code,
        "message": message,
        "reason": reason or names.get(code, ""),
    }
