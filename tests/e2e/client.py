"""A raw client of the API server: JSON in, JSON out, every answer as it came.

Tests use this and not the program's own client, so that a fault of that one cannot hide itself.
"""

from __future__ import annotations

import http.client
import re
import ssl
import threading
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Json = dict[str, Any]

HOST = "127.0.0.1"
CALL_SECONDS = 30.0
"""More than the longest timeout of a webhook that a test registers (10 s), twice."""

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

KINDS: Mapping[str, tuple[str, str, bool]] = {
    "Pod": ("/api/v1", "pods", True),
    "Namespace": ("/api/v1", "namespaces", False),
    "Node": ("/api/v1", "nodes", False),
    "Event": ("/api/v1", "events", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Secret": ("/api/v1", "secrets", True),
    "Service": ("/api/v1", "services", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "ResourceQuota": ("/api/v1", "resourcequotas", True),
    "PersistentVolume": ("/api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "Deployment": ("/apis/apps/v1", "deployments", True),
    "ReplicaSet": ("/apis/apps/v1", "replicasets", True),
    "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "DaemonSet": ("/apis/apps/v1", "daemonsets", True),
    "Job": ("/apis/batch/v1", "jobs", True),
    "CronJob": ("/apis/batch/v1", "cronjobs", True),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices", True),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "StorageClass": ("/apis/storage.k8s.io/v1", "storageclasses", False),
    "Certificate": ("/apis/cert-manager.io/v1", "certificates", True),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "MutatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "mutatingwebhookconfigurations",
        False,
    ),
    "ValidatingWebhookConfiguration": (
        "/apis/admissionregistration.k8s.io/v1",
        "validatingwebhookconfigurations",
        False,
    ),
}
"""Where objects of a kind are: the group's path, the resource, and whether it is in a namespace."""


def path_of(kind: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """The path of an object, or of its collection where there is no name."""
    prefix, resource, is_namespaced = KINDS[kind]
    within = f"/namespaces/{namespace}" if is_namespaced and namespace else ""
    return prefix + within + "".join(f"/{part}" for part in (resource, name, subresource) if part)


def path_to(thing: Mapping[str, Any], subresource: str = "") -> str:
    """The path of this object."""
    metadata = thing["metadata"]
    return path_of(thing["kind"], metadata.get("namespace", ""), metadata["name"], subresource)


class ApiError(Exception):
    """The API server said no.

    Attributes:
        status: the code; 0 where there was no answer.
        body: the Status object.
    """

    def __init__(self, status: int, body: Json) -> None:
        self.status = status
        self.body = body
        self.reason: str = body.get("reason", "")
        self.message: str = body.get("message", "")
        super().__init__(f"{status} {self.reason}: {self.message}")

    @property
    def causes(self) -> list[Json]:
        """`details.causes`."""
        found: list[Json] = (self.body.get("details") or {}).get("causes") or []
        return found


class Answer(NamedTuple):
    """What came back of a call that succeeded."""

    body: Json
    warnings: tuple[str, ...]


class Client:
    """Calls as one user; every thread has its own connection, which is kept.

    Attributes:
        server: the URL.
        token: the bearer token.
    """

    def __init__(self, port: int, ca: Path, token: str) -> None:
        self.port = port
        self.server = f"https://{HOST}:{port}"
        self.token = token
        self._ca = ca
        self._own = threading.local()
        self._all: set[http.client.HTTPSConnection] = set()

    def call(
        self, method: str, path: str, body: Any = None, *, content: str = "application/json", **query: Any
    ) -> Answer:
        """One call.

        Raises:
            ApiError: the answer is no success, or there is none (status 0).
        """
        words = {key: str(value) for key, value in query.items() if value is not None}
        target = f"{path}?{urlencode(words)}" if words else path
        data = None if body is None else orjson.dumps(body)
        try:
            status, headers, answer = self._exchange(method, target, data, content)
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(0, {"reason": "NoAnswer", "message": repr(error)}) from error
        found = _json(answer)
        if status >= 300:
            raise ApiError(status, found)
        return Answer(found, _warnings(headers))

    def get(self, path: str, **query: Any) -> Json:
        """An object or a list."""
        return self.call("GET", path, **query).body

    def items(self, kind: str, namespace: str = "", **query: Any) -> list[Json]:
        """The objects of a kind, with `kind` and `apiVersion`, which lists leave out."""
        found = self.get(path_of(kind, namespace), **query)
        head = {"apiVersion": found["apiVersion"], "kind": kind}
        return [head | item for item in found["items"]]

    def read(self, kind: str, namespace: str, name: str) -> Json:
        """One object as it is stored."""
        return self.get(path_of(kind, namespace, name))

    def create(self, thing: Mapping[str, Any], **query: Any) -> Json:
        """POST an object; `dryRun="All"` tries it only."""
        return self.call("POST", _collection(thing), thing, **query).body

    def update(self, thing: Mapping[str, Any], subresource: str = "", **query: Any) -> Json:
        """PUT an object."""
        return self.call("PUT", path_to(thing, subresource), thing, **query).body

    def apply(self, thing: Mapping[str, Any], manager: str = "e2e", **query: Any) -> Json:
        """Server-side apply, forced."""
        query = {"fieldManager": manager, "force": "true"} | query
        return self.call("PATCH", path_to(thing), thing, content=APPLY_PATCH, **query).body

    def patch(self, path: str, change: Any, *, content: str = MERGE_PATCH, **query: Any) -> Json:
        """A patch of any sort; a merge patch where nothing is said."""
        return self.call("PATCH", path, change, content=content, **query).body

    def delete(self, path: str, **query: Any) -> None:
        """Delete; what is gone already is fine."""
        try:
            self.call("DELETE", path, **query)
        except ApiError as error:
            if error.status != 404:
                raise

    def replace(self, thing: Mapping[str, Any]) -> Json:
        """Make the cluster hold exactly this object of its name, also where fields may not change."""
        self.delete(path_to(thing))
        return self.create(thing)

    def exists(self, path: str) -> bool:
        """Whether something is there."""
        try:
            self.get(path)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _exchange(
        self, method: str, target: str, data: bytes | None, content: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = self._connection()
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json",
            "Content-Type": content,
        }
        try:
            connection.request(method, target, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except BaseException:
            self.close()
            raise

    def _connection(self) -> http.client.HTTPSConnection:
        """This thread's connection; a server that was restarted has closed it, which shows before anything is sent."""
        connection: http.client.HTTPSConnection | None = getattr(self._own, "connection", None)
        if connection is not None and _is_closed(connection):
            self.close()
            connection = None
        if connection is None:
            context = ssl.create_default_context(cafile=str(self._ca))
            connection = http.client.HTTPSConnection(HOST, self.port, timeout=CALL_SECONDS, context=context)
            self._own.connection = connection
            self._all.add(connection)
        return connection

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._own, "connection", None)
        if connection is not None:
            connection.close()
            self._all.discard(connection)
            self._own.connection = None

    def close_all(self) -> None:
        """Close the connections of all threads, also of those that are gone."""
        while self._all:
            self._all.pop().close()


def _is_closed(connection: http.client.HTTPSConnection) -> bool:
    """Whether the other side has closed an idle connection: then there is something to read."""
    if connection.sock is None:
        return False  # it connects at the next request
    connection.sock.settimeout(0)
    try:
        return connection.sock.recv(1) is not None
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        connection.sock.settimeout(CALL_SECONDS)


def _collection(thing: Mapping[str, Any]) -> str:
    return path_of(thing["kind"], thing["metadata"].get("namespace", ""))


def _json(data: bytes) -> Json:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {"message": data.decode(errors="replace")}
    return found if isinstance(found, dict) else {"message": str(found)}


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def _warnings(headers: http.client.HTTPMessage) -> tuple[str, ...]:
    """The texts of the Warning headers (RFC 7234 section 5.5), which are UTF-8 and read as Latin-1."""
    lines = [line.encode("latin-1").decode() for line in headers.get_all("Warning") or []]
    return tuple(re.sub(r"\\(.)", r"\1", text) for line in lines for text in _WARNING.findall(line))
