"""Replicas are looked at over real TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

import certs
from tests.controller.cluster_in_memory import Cluster, FakeApi
from tests.controller.parts import NAMES, NAMESPACE
from webhook.controller import replicas
from webhook.controller.replicas import (
    PROBE_UID,
    Replica,
    faults_of,
    probe_review,
    replicas_of_service,
    replicas_of_url,
    served_certificates,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from webhook.cluster import Api

from datetime import UTC, datetime

NOW = datetime.now(UTC)
CA = certs.new_ca(now=NOW)
OTHER = certs.new_ca(now=NOW)
NAME = NAMES[0]
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"

GOOD = {"response": {"uid": PROBE_UID, "allowed": True}}


class QuietServer(HTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust us goes away in the handshake."""


@contextmanager
def serving(folder: Path, ca: certs.Pair, status: int = 200, body: bytes = b"") -> Iterator[Replica]:
    """A replica with a pair of the CA, which answers every POST so."""
    folder.mkdir()
    certs.write_pairs(folder, ca=ca, serving=certs.serving_pair(ca, names=NAMES, now=NOW))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert review == probe_review()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    with QuietServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Replica("127.0.0.1", server.server_port)
        server.shutdown()
        thread.join(5)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Replica]]:
    with ExitStack() as stack:
        count = 0

        def one(ca: certs.Pair = CA, status: int = 200, body: Any = GOOD) -> Replica:
            nonlocal count
            count += 1
            data = body if isinstance(body, bytes) else orjson.dumps(body)
            return stack.enter_context(serving(tmp_path / str(count), ca, status, data))

        yield one


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Replica]:
    """Takes connections and says nothing."""
    monkeypatch.setattr(replicas, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Replica("127.0.0.1", listener.getsockname()[1])


def closed() -> Replica:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Replica("127.0.0.1", listener.getsockname()[1])


def test_what_each_serves(start: Callable[..., Replica], silent: Replica) -> None:
    """Also a certificate that nobody would trust: which one it is, is the question."""
    found = served_certificates([start(CA), closed(), silent, start(OTHER)], NAME)
    assert [found[1], found[2]] == [None, None]
    for certificate, ca in ((found[0], CA), (found[3], OTHER)):
        assert certificate is not None
        assert certs.problems_of(certs.Pair(certificate, b""), at=NOW, ca=ca.certificate) == (
            "the key is not readable PEM",
        )


def test_a_review_that_succeeds_everywhere(start: Callable[..., Replica]) -> None:
    assert faults_of([start(), start()], NAME, "/validate/fail", CA.certificate) == ()


def test_one_that_is_not_ready_is_not_asked(start: Callable[..., Replica]) -> None:
    assert faults_of([start(), closed()._replace(ready=False)], NAME, "/x", CA.certificate) == ()


def test_none_ready() -> None:
    assert faults_of([closed()._replace(ready=False)], NAME, "/x", CA.certificate) == ("no replica is ready",)


def test_an_unreadable_bundle(start: Callable[..., Replica]) -> None:
    for bundle in (b"", b"garbage", b"\xff"):
        assert faults_of([start()], NAME, "/x", bundle) == (
            "the caBundle holds no certificate that can be read",
        )


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        pytest.param(500, GOOD, "HTTP 500", id="a fault of ours"),
        pytest.param(200, b"garbage", "the answer is no JSON", id="garbage"),
        pytest.param(200, b"[]", "the answer is no AdmissionReview of ours", id="a list"),
        pytest.param(
            200,
            {"response": {"uid": "other", "allowed": True}},
            "the answer is no AdmissionReview of ours",
            id="another uid",
        ),
        pytest.param(
            200, {"response": {"uid": PROBE_UID}}, "the answer is no AdmissionReview of ours", id="no verdict"
        ),
    ],
)
def test_an_answer_of_no_use(start: Callable[..., Replica], status: int, body: Any, expected: str) -> None:
    replica = start(CA, status, body)
    assert faults_of([replica], NAME, "/x", CA.certificate) == (f"{replica}: {expected}",)


def test_a_denial_is_an_answer(start: Callable[..., Replica]) -> None:
    denied = {"response": {"uid": PROBE_UID, "allowed": False}}
    assert faults_of([start(CA, 200, denied)], NAME, "/x", CA.certificate) == ()


def test_one_that_the_bundle_does_not_trust(start: Callable[..., Replica]) -> None:
    good, bad = start(), start(OTHER)
    (fault,) = faults_of([good, bad], NAME, "/x", CA.certificate)
    assert fault.startswith(f"{bad}: ")
    assert "CERTIFICATE_VERIFY_FAILED" in fault


def test_one_for_another_name(start: Callable[..., Replica]) -> None:
    (fault,) = faults_of([start()], "evil.example.org", "/x", CA.certificate)
    assert "Hostname mismatch" in fault


def slice_of(number: int, addresses: list[str], **more: Any) -> tuple[str, dict[str, Any]]:
    body: dict[str, Any] = {
        "metadata": {"name": f"podgate-{number}"},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": 8443}, {"name": "metrics", "port": 8080}],
        "endpoints": [{"addresses": addresses, "conditions": {"ready": True}}],
    }
    return f"{SLICES}/podgate-{number}", {**body, **more}


def test_endpoints_of_the_service_by_the_name_of_its_port() -> None:
    cluster = Cluster()
    ports = [{"name": "metrics", "port": 8080}, {"name": "https", "port": 443}]
    service = f"/api/v1/namespaces/{NAMESPACE}/services/podgate"
    cluster.put(service, {"metadata": {"name": "podgate"}, "spec": {"ports": ports}})
    endpoints = [
        {"addresses": ["10.0.0.3"], "conditions": {"ready": False}},
        {"addresses": ["10.0.0.2"], "conditions": {}},
        {"addresses": ["10.0.0.9"]},
        {"addresses": None},
        None,
    ]
    for path, body in (
        slice_of(1, [], endpoints=endpoints),
        slice_of(2, ["fd00::2"], addressType="IPv6"),
        slice_of(3, ["podgate.example.org"], addressType="FQDN"),
        slice_of(4, ["10.0.0.4"], ports=[{"name": "other", "port": 1}]),
        slice_of(5, ["10.0.0.5"], ports=None, endpoints=None),
    ):
        cluster.put(path, body)
    found = replicas_of_service(cast("Api", FakeApi(cluster)), NAMESPACE, "podgate", 443)
    assert found == (
        Replica("10.0.0.2", 8443),
        Replica("10.0.0.3", 8443, ready=False),
        Replica("10.0.0.9", 8443),
        Replica("fd00::2", 8443),
    )
    assert str(found[3]) == "[fd00::2]:8443"


def test_a_single_port_needs_no_name() -> None:
    cluster = Cluster()
    service = f"/api/v1/namespaces/{NAMESPACE}/services/podgate"
    cluster.put(service, {"metadata": {"name": "podgate"}, "spec": {"ports": [{"port": 443}]}})
    cluster.put(*slice_of(1, ["10.0.0.2"], ports=[{"name": "", "port": 8443}]))
    found = replicas_of_service(cast("Api", FakeApi(cluster)), NAMESPACE, "podgate", 443)
    assert found == (Replica("10.0.0.2", 8443),)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("https://127.0.0.1:9443", (Replica("127.0.0.1", 9443),), id="an address"),
        pytest.param("https://[::1]/base", (Replica("::1", 443),), id="the port of https"),
        pytest.param("https://nowhere.invalid:9443", (), id="a name that is none"),
    ],
)
def test_a_url(url: str, expected: tuple[Replica, ...]) -> None:
    assert replicas_of_url(url) == expected
