"""podgate fails, in every way that a server can: what is created, what is refused, how long it takes, what the user reads."""

from __future__ import annotations

import socketserver
import ssl
import threading
import time
from base64 import b64encode
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import orjson
import pytest

import certs
from tests.e2e.client import HOST, ApiError, Json, path_of, path_to
from tests.e2e.cluster import ALICE, Cluster
from tests.e2e.podgate import write_policies
from tests.e2e.registration import CONFIGURATIONS, FAIL, IGNORE, LATE, MUTATE
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import container, deployment, pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.e2e.podgate import Podgate

MUTATING_SECONDS, LATE_SECONDS, VALIDATING_SECONDS = 3, 2, 2
"""The timeouts of the entries, as the API server is told them."""
ALL_SECONDS = MUTATING_SECONDS + LATE_SECONDS + VALIDATING_SECONDS
"""What a creation takes where nobody answers: one call after the other."""
QUICK_SECONDS = 2.5
"""Nobody waited for a mutating call; the rest is for a machine that is busy."""
SLACK_SECONDS = 5

LABEL = "example.com/gate"
ENTRIES = (MUTATE, LATE, FAIL, IGNORE)


class Site(NamedTuple):
    """A podgate in front of two namespaces, whose policies differ in their failurePolicy alone."""

    cluster: Cluster
    podgate: Podgate
    strict: str
    lenient: str

    def try_to(self, create: Json, **query: str) -> Tried:
        """Create an object as one of its users."""
        started = time.monotonic()
        try:
            answer = self.cluster.client(ALICE).call(
                "POST", path_of(create["kind"], create["metadata"]["namespace"]), create, **query
            )
        except ApiError as error:
            return Tried(time.monotonic() - started, refused=error.message)
        return Tried(
            time.monotonic() - started,
            labels=answer.body["metadata"].get("labels") or {},
            warnings=answer.warnings,
        )

    def reads(self, create: Json) -> str:
        """What kubectl prints, with the port left out."""
        ran = self.cluster.kubectl("create", "-f", "-", user=ALICE, stdin=create)
        return (ran.err or ran.out).replace(str(self.podgate.port), "PORT").strip()

    def failed_open(self) -> dict[str, float]:
        """How often the API server let an object past, by entry."""
        counts: dict[str, float] = {}
        for line in self.cluster.metrics().splitlines():
            for entry in ENTRIES:
                if line.startswith(f'apiserver_admission_webhook_fail_open_count{{name="{entry}"'):
                    counts[entry] = counts.get(entry, 0) + float(line.rpartition(" ")[2])
        return counts


class Tried(NamedTuple):
    """How a creation went."""

    seconds: float
    refused: str = ""
    labels: Json = {}
    warnings: tuple[str, ...] = ()


def policy(name: str, failure_policy: str, *namespaces: str) -> Json:
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": name},
        "spec": {
            "mode": "enforce",
            "failurePolicy": failure_policy,
            "match": {"accelerators": {}, "namespaces": list(namespaces)},
            "rules": [
                {"name": "mark", "setFields": {"labels": {LABEL: name}}, "verify": "fail"},
                {"name": "cap", "limitAcceleratorCount": {"perPod": {"max": 8}}},
            ],
        },
    }


@pytest.fixture
def site(
    cluster: Cluster,
    add_namespace: Callable[..., str],
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> Site:
    strict, lenient = add_namespace("strict"), add_namespace("lenient")
    # Of kube-system too: that nothing is held up there must not be owed to the policy.
    folder = write_policies(
        tmp_path / "policies",
        policy("strict", "Fail", strict, "kube-system"),
        policy("lenient", "Ignore", lenient, "kube-system"),
    )
    podgate = start_podgate((folder,), facts=False)
    register(podgate)
    return Site(cluster, podgate, strict, lenient)


@contextmanager
def stopped(site: Site) -> Iterator[None]:
    site.podgate.stop()
    yield
    site.podgate.start()


@contextmanager
def hanging(site: Site) -> Iterator[None]:
    site.podgate.freeze()
    yield
    site.podgate.thaw()


@contextmanager
def wrong_ca(site: Site) -> Iterator[None]:
    """In caBundle is a CA that signed nothing here."""
    write_ca(site, b64encode(certs.new_ca(now=datetime.now(UTC)).certificate).decode())
    wait_for(lambda: "x509" in site.try_to(gpu_pod(site.strict), dryRun="All").refused, "the CA is in force")
    yield
    write_ca(site, site.podgate.ca_bundle)
    wait_for(lambda: not site.try_to(gpu_pod(site.strict), dryRun="All").refused, "the CA is back in force")


def write_ca(site: Site, bundle: str) -> None:
    for kind, name in CONFIGURATIONS:
        stored = site.cluster.admin.read(kind, "", name)
        for entry in stored["webhooks"]:
            if entry["name"].endswith("podgate.dev") and "caBundle" in entry["clientConfig"]:
                entry["clientConfig"]["caBundle"] = bundle
        site.cluster.admin.update(stored)


def gpu_pod(namespace: str, name: str = "gpu") -> Json:
    return pod(name, namespace, gpus=1)


class Fault(NamedTuple):
    """A way to fail.

    Attributes:
        last: how long a creation that is called for takes, at least.
        reason: what the API server says after the URL.
    """

    inside: Callable[[Site], AbstractContextManager[None]]
    last: int
    reason: str


FAULTS = {
    "stopped": Fault(stopped, 0, f"dial tcp {HOST}:PORT: connect: connection refused"),
    "hanging": Fault(hanging, ALL_SECONDS, "context deadline exceeded"),
    "wrong CA in caBundle": Fault(
        wrong_ca,
        0,
        "tls: failed to verify certificate: x509: certificate signed by unknown authority (possibly because of "
        '"x509: ECDSA verification failure" while trying to verify candidate authority certificate "podgate CA")',
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_an_outage_refuses_what_a_policy_with_fail_concerns_and_nothing_else(
    site: Site, fault: Fault
) -> None:
    site.cluster.admin.create(gpu_pod(site.strict, "earlier"))
    before = site.failed_open()
    with fault.inside(site):
        refused = site.try_to(gpu_pod(site.strict))
        assert refused.refused.replace(str(site.podgate.port), "PORT") == (
            f'Internal error occurred: failed calling webhook "{FAIL}": failed to call webhook: '
            f'Post "https://{HOST}:PORT/validate/fail?timeout=2s": {fault.reason}'
        )
        let_past = site.try_to(gpu_pod(site.lenient))
        assert (let_past.refused, LABEL in let_past.labels, let_past.warnings) == ("", False, ())
        for tried in (refused, let_past):
            assert fault.last <= tried.seconds < fault.last + SLACK_SECONDS
        after = site.failed_open()
        assert_nothing_else_is_held_up(site)
    rise = {entry: after.get(entry, 0) - before.get(entry, 0) for entry in ENTRIES}
    assert rise == {MUTATE: rise[MUTATE], LATE: rise[LATE], FAIL: 0, IGNORE: 1}
    assert min(rise[MUTATE], rise[LATE]) >= 2
    for namespace, name in ((site.strict, "strict"), (site.lenient, "lenient")):
        again = site.try_to(gpu_pod(namespace, "again"))
        assert (again.refused, again.labels.get(LABEL)) == ("", name)
        assert again.seconds < QUICK_SECONDS
        assert "at most 8 per pod" in site.try_to(pod("greedy", namespace, gpus=9)).refused


def assert_nothing_else_is_held_up(site: Site) -> None:
    """Plain pods, kube-system, and pods that are there already, whatever becomes of them."""
    started = time.monotonic()
    for namespace in (site.strict, site.lenient):
        assert not site.try_to(pod("plain", namespace)).refused
    assert not site.try_to(gpu_pod("kube-system"), dryRun="All").refused
    user, path = site.cluster.client(ALICE), path_of("Pod", site.strict, "earlier")
    user.patch(path, {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]}})
    site.cluster.admin.patch(f"{path}/status", {"status": {"message": "still reported"}})
    user.patch(path, {"metadata": {"finalizers": None}})
    user.delete(path, gracePeriodSeconds=0)
    assert not site.cluster.admin.exists(path)
    assert time.monotonic() - started < QUICK_SECONDS


def test_what_kubectl_prints_in_an_outage(site: Site) -> None:
    site.podgate.stop()
    assert site.reads(gpu_pod(site.strict)) == (
        'Error from server (InternalError): error when creating "STDIN": Internal error occurred: '
        f'failed calling webhook "{FAIL}": failed to call webhook: '
        f'Post "https://{HOST}:PORT/validate/fail?timeout=2s": dial tcp {HOST}:PORT: connect: connection refused'
    )
    assert site.reads(gpu_pod(site.lenient)) == "pod/gpu created"
    assert site.reads(pod("plain", site.strict)) == "pod/plain created"


def test_the_audit_log_says_what_was_let_past(site: Site) -> None:
    site.podgate.stop()
    site.try_to(gpu_pod(site.lenient, "unseen"))
    found = {
        key: value
        for event in site.cluster.audit_events(resource="pods", namespace=site.lenient, name="unseen")
        for key, value in (event.get("annotations") or {}).items()
        if key.startswith("failed-open.")
    }
    assert sorted(found.values()) == [IGNORE, LATE, MUTATE]


def test_what_a_controller_makes_comes_by_itself_after_the_outage(site: Site) -> None:
    """Its author sees why in the meantime; a Deployment that is only scaled or deleted makes no call."""
    admin = site.cluster.admin
    made = deployment("server", site.strict, {"containers": [container(gpus=1)]}, replicas=0)
    admin.create(made)
    admin.create(deployment("leaves", site.strict, {"containers": [container(gpus=1)]}, replicas=0))
    site.podgate.stop()
    new = site.try_to(deployment("late", site.strict, {"containers": [container(gpus=1)]}))
    assert f'failed calling webhook "{FAIL}"' in new.refused, "its author is told at once"
    admin.patch(path_to(made, "scale"), {"spec": {"replicas": 2}})
    admin.delete(path_of("Deployment", site.strict, "leaves"))
    [*reasons] = wait_for(lambda: site.cluster.events(site.strict, "FailedCreate"), "an event says why")
    assert all(f'failed calling webhook "{FAIL}"' in reason for reason in reasons)
    assert site.cluster.admin.items("Pod", site.strict) == []
    site.podgate.start()
    pods = wait_for(lambda: two(site.cluster.admin.items("Pod", site.strict)), "both pods are there", 60)
    assert {each["metadata"]["labels"][LABEL] for each in pods} == {"strict"}


def two(found: list[Json]) -> list[Json]:
    return found if len(found) == 2 else []


def http(body: bytes, status: str = "200 OK", *headers: str, length: int | None = None) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", *headers]
    return "\r\n".join([*head, "Connection: close", "", ""]).encode() + body


def as_json(body: Json) -> bytes:
    return http(orjson.dumps(body), "200 OK", "Content-Type: application/json")


def review(request: Json, **response: object) -> Json:
    """A review that lets the object past, but for what is given."""
    answer = {"uid": request["uid"], "allowed": True} | response
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}


PAGE = b"<html><body>Please log in</body></html>"
NO_PATCH = b64encode(b"no patch").decode()
GARBAGE: dict[str, tuple[Callable[[Json], bytes], str]] = {
    "nothing": (lambda _: b"", "EOF"),
    "no HTTP": (lambda _: b"\x00\x01garbage\r\n\r\n", "malformed HTTP"),
    "a login page": (lambda _: http(PAGE, "200 OK", "Content-Type: text/html"), "couldn't get version/kind"),
    "a redirect to nowhere": (
        lambda _: http(b"", "302 Found", "Location: https://127.0.0.1:1/"),
        "connection refused",
    ),
    "404": (lambda _: http(b"not here", "404 Not Found"), "the server could not find the requested resource"),
    "500": (lambda _: http(b"oops", "500 Internal Server Error"), "an error on the server"),
    "503": (lambda _: http(b"", "503 Service Unavailable"), "the server is currently unable to handle"),
    "503, and come again": (
        lambda _: http(b"", "503 Service Unavailable", "Retry-After: 1"),
        "context deadline exceeded",
    ),
    "429": (lambda _: http(b"", "429 Too Many Requests"), "too many requests"),
    "an empty body": (lambda _: http(b""), "0-length response with status code: 200"),
    "half a body": (lambda _: http(b'{"kind":', length=4096), "unexpected EOF"),
    "broken JSON": (lambda _: http(b'{"kind": "AdmissionReview"'), "unexpected end of JSON input"),
    "another object": (
        lambda _: as_json({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}),
        'no kind "Pod" is registered',
    ),
    "a review without a response": (
        lambda request: as_json({**review(request), "response": None}),
        "webhook response was absent",
    ),
    "the uid of another": (
        lambda request: as_json(review(request, uid="other")),
        "expected response.uid",
    ),
    "a review of another version": (
        lambda request: as_json({**review(request), "apiVersion": "admission.k8s.io/v9"}),
        'no kind "AdmissionReview" is registered for version "admission.k8s.io/v9"',
    ),
    "a patch that is none": (
        lambda request: as_json(review(request, patch=NO_PATCH, patchType="JSONPatch")),
        "validating webhook may not return response.patch",
    ),
}


class Liar:
    """An HTTPS server that answers every review with garbage, each time with that of the moment."""

    def __init__(self, folder: Path) -> None:
        now = datetime.now(UTC)
        ca = certs.new_ca(now=now)
        certs.write_pairs(folder, ca=ca, serving=certs.serving_pair(ca, names=[HOST], now=now))
        self.ca_bundle = b64encode(ca.certificate).decode()
        self.answer: Callable[[Json], bytes] = lambda _: b""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._server = socketserver.ThreadingTCPServer((HOST, 0), self._handler(context))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self._server.server_address[1]}"

    def __enter__(self) -> Liar:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self, context: ssl.SSLContext) -> type[socketserver.BaseRequestHandler]:
        owner = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    with context.wrap_socket(self.request, server_side=True) as tls:
                        tls.sendall(owner.answer(read_request(tls)))
                except OSError:
                    return  # whoever called is gone

        return Handler


def read_request(tls: ssl.SSLSocket) -> Json:
    """The request of a review that is POSTed."""
    with tls.makefile("rb") as stream:
        length = 0
        for line in iter(stream.readline, b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        found: Json = orjson.loads(stream.read(length))["request"]
        return found


def test_garbage_is_an_outage_and_never_an_answer(
    site: Site, register: Callable[..., None], tmp_path: Path
) -> None:
    with Liar(tmp_path / "liar") as liar:

        def point(configuration: Json) -> None:
            for entry in configuration["webhooks"]:
                entry["clientConfig"]["url"] = entry["clientConfig"]["url"].replace(
                    site.podgate.url, liar.url
                )
                entry["clientConfig"]["caBundle"] = liar.ca_bundle

        register(site.podgate, change=point)
        told: dict[str, str] = {}
        for number, (name, (answer, _)) in enumerate(GARBAGE.items()):
            liar.answer = answer
            refused = site.try_to(gpu_pod(site.strict))
            told[name] = refused.refused
            let_past = site.try_to(gpu_pod(site.lenient, f"gpu-{number}"))
            assert (let_past.refused, LABEL in let_past.labels) == ("", False), name
            assert max(refused.seconds, let_past.seconds) < ALL_SECONDS + SLACK_SECONDS, name
            assert_plain_pods_pass(site, number)
    assert all(f'failed calling webhook "{FAIL}"' in text for text in told.values())
    assert {name: text for name, text in told.items() if GARBAGE[name][1] not in text} == {}


def assert_plain_pods_pass(site: Site, number: int) -> None:
    plain = site.try_to(pod(f"plain-{number}", site.strict))
    assert not plain.refused
    assert plain.seconds < QUICK_SECONDS
