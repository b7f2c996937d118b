"""Another team's mutating webhook, over HTTPS in a thread of the test: what it patches is the test's."""

from __future__ import annotations

import http.server
import ssl
import threading
from base64 import b64encode
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

import orjson

import certs
from tests.e2e.client import HOST, Json
from tests.e2e.nodes import GPU
from tests.e2e.registration import LATE_NAME, NAME, put_in_force, take_out_of_force

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.cluster import Cluster

Patch: TypeAlias = Callable[[Json], list[Json]]
"""The JSON Patch for an object; [] leaves it as it is."""

EARLIER, LATER, LAST = "earlier.example.com", "later.example.com", "zzzz.example.com"
"""Configurations are called in the order of their names: these before ours, between our two, and after both."""
assert EARLIER < NAME < LATER < LATE_NAME < LAST


def gives(resources: Json) -> Patch:
    """What every pod of one container without a GPU is given."""

    def patch(thing: Json) -> list[Json]:
        (container,) = thing["spec"]["containers"]
        is_done = GPU in container["resources"].get("limits", {})
        return [] if is_done else [{"op": "add", "path": "/spec/containers/0/resources", "value": resources}]

    return patch


one_gpu = gives({"limits": {GPU: "1"}, "requests": {GPU: "1"}})


class Neighbour:
    """A webhook that runs.

    Attributes:
        objects: every object that it was called for, as it came.
    """

    def __init__(self, folder: Path, patch: Patch) -> None:
        folder.mkdir(parents=True)
        now = datetime.now(UTC)
        ca = certs.new_ca(now=now)
        certs.write_pairs(folder, ca=ca, serving=certs.serving_pair(ca, names=[HOST], now=now))
        self.ca_bundle = b64encode(ca.certificate).decode()
        self.objects: list[Json] = []
        self._patch = patch
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._server = http.server.ThreadingHTTPServer((HOST, 0), self._handler())
        # Without a handshake at accept: whoever is slow holds up its own thread alone.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._thread = threading.Thread(target=self._server.serve_forever, name=folder.name, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://{HOST}:{self._server.server_address[1]}/"

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Answer nobody any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, review: Json) -> Json:
        request = review["request"]
        self.objects.append(request["object"])
        answer: Json = {"uid": request["uid"], "allowed": True}
        operations = self._patch(request["object"])
        if operations:
            answer |= {"patchType": "JSONPatch", "patch": b64encode(orjson.dumps(operations)).decode()}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"  # the API server keeps its connections
            disable_nagle_algorithm = True  # head and body are written apart: the second would wait 40 ms

            def do_POST(self) -> None:
                review = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = orjson.dumps(answer(review))
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *words: object) -> None:
                """Nothing: pytest shows what is wrong."""

        return Handler


@contextmanager
def neighbour(
    cluster: Cluster,
    folder: Path,
    patch: Patch,
    *,
    name: str = LATER,
    reinvocation: Literal["Never", "IfNeeded"] = "Never",
    resource: str = "pods",
) -> Iterator[Neighbour]:
    """A webhook beside ours, in force inside, for the creation of objects of the core group.

    Args:
        cluster: where.
        folder: for its certificate; made.
        patch: the JSON Patch for an object; [] leaves it as it is.
        name: of its configuration: `EARLIER`, `LATER` or `LAST`.
        reinvocation: whether it is called again when another has changed the object after it.
        resource: of the objects.
    """
    running = Neighbour(folder, patch)
    running.start()
    configuration = _configuration(running, name, reinvocation, resource)
    try:
        put_in_force(cluster, configuration)
        yield running
    finally:
        take_out_of_force(cluster, configuration)
        running.stop()


def _configuration(running: Neighbour, name: str, reinvocation: str, resource: str) -> Json:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{resource}.{name}",
                "clientConfig": {"url": running.url, "caBundle": running.ca_bundle},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": [resource],
                    }
                ],
                "failurePolicy": "Fail",
                "reinvocationPolicy": reinvocation,
                "sideEffects": "None",
                "timeoutSeconds": 5,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
