"""Look at every replica of the webhook: which certificate it serves, and whether it answers a review.

Replicas are the endpoints of the Service, by its EndpointSlices; with a URL, the addresses of its host.
"""

from __future__ import annotations

import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from certs.rotate import split_bundle
from webhook.controller.objects import items, mapping

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webhook.cluster import Api

#: For each of: connection, handshake, answer. The API server's own patience with us is 2 s; a busy replica is no silent one.
TIMEOUT_SECONDS = 5.0
#: Looks at once: three replicas are usual, a hundred take a minute if none of them answers.
LOOKS_AT_ONCE = 8
#: An answer to the probe has some hundred bytes.
MAX_ANSWER = 64 * 1024

PROBE_UID = "podgate-probe"


class Replica(NamedTuple):
    """Where a replica listens, and whether it is to get calls."""

    host: str
    port: int
    ready: bool = True

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def replicas_of_service(api: Api, namespace: str, service: str, port: int) -> tuple[Replica, ...]:
    """Every endpoint of the Service's port, ready or not, by address.

    Raises:
        ApiError: The Service or its EndpointSlices cannot be read.
    """
    name = _port_name(api.get(f"/api/v1/namespaces/{namespace}/services/{service}"), port)
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    pages = api.pages(path, labelSelector=f"kubernetes.io/service-name={service}")
    found = (one for page in pages for piece in items(page.get("items")) for one in _in_slice(piece, name))
    return tuple(sorted(set(found)))


def replicas_of_url(url: str) -> tuple[Replica, ...]:
    """The addresses of the URL's host; none where it has none."""
    parts = urlsplit(url)
    port = parts.port or 443
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError:
        return ()
    return tuple(sorted({Replica(str(address[0]), port) for *_, address in found}))


def served_certificates(replicas: Sequence[Replica], name: str) -> tuple[bytes | None, ...]:
    """The certificate (PEM) that each replica serves under the name; None for one that does not answer."""
    return _each(partial(_served, name=name), replicas)


def faults_of(replicas: Sequence[Replica], name: str, path: str, ca: bytes) -> tuple[str, ...]:
    """What an API server that trusts the CA would meet at each replica that is to get calls; one text a replica.

    Args:
        replicas: All; those that are not ready are not asked, but one must be.
        name: That the certificate must be for.
        path: Of the route, such as ``/validate/fail``.
        ca: The caBundle, PEM.
    """
    ready = [replica for replica in replicas if replica.ready]
    if not ready:
        return ("no replica is ready",)
    found = split_bundle(ca)
    if not found:  # with no CA at all the ssl module would trust the system's
        return ("the caBundle holds no certificate that can be read",)
    context = ssl.create_default_context(cadata=b"".join(found).decode())
    faults = _each(partial(_fault, name=name, path=path, context=context), ready)
    return tuple(fault for fault in faults if fault)


def probe_review() -> dict[str, Any]:
    """A review that has no effect: a dry run of a pod that asks for nothing."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": PROBE_UID, "namespace": PROBE_UID}}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": PROBE_UID,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "name": PROBE_UID,
            "namespace": PROBE_UID,
            "operation": "CREATE",
            "userInfo": {"username": PROBE_UID},
            "object": {**pod, "spec": {"containers": [{"name": "probe", "image": "probe"}]}},
            "dryRun": True,
        },
    }


def _port_name(service: Mapping[str, Any], port: int) -> str:
    """EndpointSlices name a port as its Service does, and have the number behind it (of the pod)."""
    ports = items(mapping(service.get("spec")).get("ports"))
    return next((str(each.get("name") or "") for each in ports if each.get("port") == port), "")


def _in_slice(piece: Mapping[str, Any], port_name: str) -> Iterator[Replica]:
    if piece.get("addressType") not in {"IPv4", "IPv6"}:
        return
    ports = [each.get("port") for each in items(piece.get("ports")) if (each.get("name") or "") == port_name]
    for endpoint in items(piece.get("endpoints")):
        ready = (
            mapping(endpoint.get("conditions")).get("ready") is not False
        )  # unknown counts as ready, says the API
        for address in endpoint.get("addresses") or ():
            yield from (Replica(str(address), port, ready) for port in ports if type(port) is int)


def _each(look: Any, replicas: Sequence[Replica]) -> tuple[Any, ...]:
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        return tuple(pool.map(look, replicas))


def _served(replica: Replica, name: str) -> bytes | None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # which one it is, is the question; nothing is sent
    try:
        with _connected(replica, name, context) as connection:
            certificate = connection.getpeercert(binary_form=True)
    except OSError:
        return None
    return ssl.DER_cert_to_PEM_cert(certificate).encode() if certificate else None


def _fault(replica: Replica, name: str, path: str, context: ssl.SSLContext) -> str:
    try:
        with _connected(replica, name, context) as connection:
            status, body = _post(connection, name, path)
    except (OSError, HTTPException) as error:
        return f"{replica}: {error}"
    return _answer_fault(replica, status, body)


@contextmanager
def _connected(replica: Replica, name: str, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    with (
        socket.create_connection((replica.host, replica.port), timeout=TIMEOUT_SECONDS) as connection,
        context.wrap_socket(connection, server_hostname=name) as tls,
    ):
        yield tls


def _post(connection: ssl.SSLSocket, name: str, path: str) -> tuple[int, bytes]:
    http = HTTPConnection(name)
    http.sock = connection
    http.request("POST", path, orjson.dumps(probe_review()), {"Content-Type": "application/json"})
    answer = http.getresponse()
    return answer.status, answer.read(MAX_ANSWER)


def _answer_fault(replica: Replica, status: int, body: bytes) -> str:
    if status != 200:
        return f"{replica}: HTTP {status}"
    try:
        response = mapping(mapping(orjson.loads(body)).get("response"))
    except ValueError:
        return f"{replica}: the answer is no JSON"
    if response.get("uid") != PROBE_UID or not isinstance(response.get("allowed"), bool):
        return f"{replica}: the answer is no AdmissionReview of ours"
    return ""
