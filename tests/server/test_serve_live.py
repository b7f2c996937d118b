"""`podgate serve --live` as its own process, against an API server over TLS on loopback."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from click.testing import CliRunner

from tests.cluster.scripted_server import kubeconfig
from tests.server.running import ROOT, Running, eventually, post, worker_of
from tests.server.test_bodies import resident
from tests.watch.cluster import NAMESPACES, FakeCluster, refuse
from webhook.cli.serve import command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PAUSES = "/api/v1/namespaces/podgate-system/configmaps"
POLICY = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: no-privileged
spec:
  mode: enforce
  failurePolicy: Fail
  match:
    workspaces: [vision]
  rules:
  - name: r
    forbidBypass:
      privileged: true
"""
VISION = {"labels": {"kubesphere.io/workspace": "vision"}}


def review(namespace: str, text: str = "") -> bytes:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace, "annotations": {"text": text}},
        "spec": {"containers": [{"name": "c", "image": "i", "securityContext": {"privileged": True}}]},
    }
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": namespace,
        "name": "p",
        "userInfo": {"username": "ann"},
        "object": pod,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def is_allowed(gateway: Running, namespace: str) -> bool:
    code, answer = gateway.post(review(namespace), "/validate?timeout=2s")
    assert code == 200
    return bool(answer["response"]["allowed"])


@pytest.fixture
def cluster(folder: Path) -> Iterator[FakeCluster]:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    with FakeCluster(NAMESPACES, PAUSES, tls=tls) as cluster:
        cluster.collections[NAMESPACES].put("a", metadata=VISION)
        cluster.collections[NAMESPACES].put("b")
        yield cluster


@pytest.fixture
def serve_live(cluster: FakeCluster, folder: Path, serve: Callable[..., Running]) -> Callable[..., Running]:
    def run(**more: Any) -> Running:
        (folder / "policies" / "a.yaml").write_text(POLICY)
        config = json.loads(kubeconfig(cluster.server.url, token="sesame"))
        config["clusters"][0]["cluster"]["certificate-authority"] = str(folder / "ca.crt")
        (folder / "kubeconfig").write_text(json.dumps(config))
        options = ("--live", "--kubeconfig", str(folder / "kubeconfig"))
        gateway = serve(*options, policies=folder / "policies", **more)
        eventually(lambda: gateway.get("/readyz")[0] == 200, 15)
        return gateway

    return run


@pytest.fixture
def gateway(serve_live: Callable[..., Running]) -> Running:
    return serve_live()


def test_reviews_know_the_cluster(cluster: FakeCluster, gateway: Running) -> None:
    assert {request.path for request in cluster.server.requests} == {NAMESPACES, PAUSES}
    assert not is_allowed(gateway, "a")
    assert is_allowed(gateway, "b")
    cluster.collections[NAMESPACES].put("b", metadata=VISION)
    eventually(lambda: not is_allowed(gateway, "b"))
    assert gateway.metric('podgate_facts_synced{kind="Namespace"}') == 1
    eventually(lambda: len(cluster.server.requests) == 4)
    for _ in range(20):
        is_allowed(gateway, "a")
    assert len(cluster.server.requests) == 4, "a review asks the API server nothing"
    log = gateway.log()
    assert "facts known" in log
    assert "sesame" not in log
    assert "Traceback" not in log
    assert "Warning" not in log


def test_a_namespace_of_a_moment_ago_is_awaited_and_holds_no_other_review_up(
    cluster: FakeCluster, gateway: Running
) -> None:
    eventually(lambda: gateway.metric('podgate_facts_age_seconds{kind="Namespace"}') == 0)
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(is_allowed(gateway, "late")))
    waiting.start()
    time.sleep(0.1)
    began = time.monotonic()
    client = gateway.client()
    for _ in range(5):
        assert post(client, review("b"), "/validate?timeout=2s")[1]["response"]["allowed"]
    client.close()
    assert time.monotonic() - began < 0.4
    assert not found, "it still waits"
    cluster.collections[NAMESPACES].put("late", metadata=VISION)
    waiting.join(5)
    assert found == [False]


def test_one_that_never_comes_is_an_error_in_time(gateway: Running) -> None:
    began = time.monotonic()
    assert not is_allowed(gateway, "never")  # failurePolicy: Fail
    assert time.monotonic() - began < 1.6


FEW_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (150, 150))"


def test_reviews_that_wait_leave_places_for_others(serve_live: Callable[..., Running]) -> None:
    """Anybody can ask about a namespace that there is not: who waits for it cannot give way."""
    gateway = serve_live(before=FEW_FILES)  # 50 connections
    body = review("never")
    head = b"POST /validate?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    waiting = []
    for _ in range(70):
        began = time.monotonic()
        waiting.append(gateway.tls())
        waiting[-1].sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert time.monotonic() - began < 1
    assert is_allowed(gateway, "b")
    assert not is_allowed(gateway, "a")
    for connection in waiting:
        connection.close()


def test_large_reviews_that_wait_do_not_fill_the_memory(gateway: Running) -> None:
    """Sixty of 5 MiB, as objects and as bytes, would be 600 MiB."""
    body = review("never", "a" * 5 * 1024 * 1024)
    head = b"POST /validate?timeout=30s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    before = resident(gateway)
    held = [gateway.tls() for _ in range(60)]
    for connection in held:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert not is_allowed(gateway, "a")
    assert resident(gateway) - before < 200 * 1024 * 1024
    for connection in held:
        connection.close()


@pytest.mark.parametrize("fault", ["hangs", "refuses", "is gone"])
def test_reviews_go_on_while_the_api_server_fails(cluster: FakeCluster, gateway: Running, fault: str) -> None:
    if fault == "is gone":
        cluster.__exit__()
    else:
        cluster.fault = (lambda _, reply: reply.hang()) if fault == "hangs" else refuse(500, "InternalError")
    eventually(lambda: gateway.metric('podgate_facts_age_seconds{kind="Namespace"}') > 1, 10)
    client = gateway.client()
    slowest = 0.0
    for _ in range(100):
        began = time.monotonic()
        assert not post(client, review("a"), "/validate?timeout=2s")[1]["response"]["allowed"]
        slowest = max(slowest, time.monotonic() - began)
    client.close()
    assert slowest < 0.5
    assert gateway.get("/readyz")[0] == 200


def test_a_pause(cluster: FakeCluster, gateway: Running) -> None:
    soon = datetime.fromtimestamp(time.time() + 3, UTC)
    cluster.collections[PAUSES].put(
        "podgate-pause", data={"until": f"{soon:%Y-%m-%dT%H:%M:%SZ}", "by": "ann"}
    )
    eventually(lambda: is_allowed(gateway, "a"))
    assert gateway.metric("podgate_paused") == 1
    eventually(lambda: not is_allowed(gateway, "a"), 6)
    assert gateway.metric("podgate_paused") == 0
    eventually(lambda: "the pause is over" in gateway.log(), 6)


def test_a_large_cluster_holds_no_review_up(cluster: FakeCluster, gateway: Running) -> None:
    """5,000 namespaces, listed again while reviews go on."""
    namespaces = cluster.collections[NAMESPACES]
    note = {"note": "x" * 2000}
    for index in range(5000):
        namespaces.objects[f"n{index}"] = {"metadata": {"name": f"n{index}", "annotations": note}}
    cluster.watch_fault = refuse(410, "Expired")
    client = gateway.client()
    durations = []
    end = time.monotonic() + 5
    while time.monotonic() < end:
        began = time.monotonic()
        post(client, review("a"), "/validate?timeout=2s")
        durations.append(time.monotonic() - began)
        time.sleep(0.002)
    client.close()
    assert len(cluster.server.matching(NAMESPACES, watch=False)) > 11, "it was listed again"
    assert max(durations) < 0.5


def test_it_stops_in_time_and_without_a_word(gateway: Running) -> None:
    gateway.process.terminate()
    assert gateway.process.wait(6) == 0
    assert "Traceback" not in gateway.log()


def test_a_worker_that_replaces_another_answers_as_that_one_did(
    cluster: FakeCluster, folder: Path, gateway: Running
) -> None:
    """Policies of today, not those of the start; and no review is answered before the cluster is known."""
    (folder / "policies" / "a.yaml").write_text(POLICY.replace("vision", "speech"))
    cluster.collections[NAMESPACES].put("b", metadata={"labels": {"kubesphere.io/workspace": "speech"}})
    eventually(lambda: is_allowed(gateway, "a") and not is_allowed(gateway, "b"), 10)
    cluster.fault = cluster.slow(0.3)
    os.kill(worker_of(gateway), signal.SIGKILL)
    assert is_allowed(gateway, "a")
    assert not is_allowed(gateway, "b")
    assert gateway.log().count("not known") == 0


def test_several_workers_watch_each_for_itself(
    cluster: FakeCluster, folder: Path, gateway: Running, serve: Callable[..., Running]
) -> None:
    gateway.stop()
    before = len(cluster.server.matching(NAMESPACES, watch=True))
    (folder / "port").unlink()
    two = serve(
        "--live",
        "--kubeconfig",
        str(folder / "kubeconfig"),
        "--workers",
        "2",
        policies=folder / "policies",
    )
    eventually(lambda: len(cluster.server.matching(NAMESPACES, watch=True)) >= before + 2, 15)
    eventually(lambda: two.metric('podgate_api_requests_total{code="200",kind="Namespace",verb="list"}') == 2)
    for _ in range(6):
        assert not is_allowed(two, "a")


class TestOptions:
    def _said(self, folder: Path, *options: str) -> str:
        words = ["--policies", str(folder / "policies"), "--cert", str(folder / "tls.crt")]
        result = CliRunner().invoke(command, [*words, "--key", str(folder / "tls.key"), *options])
        assert result.exit_code == 2
        return result.output

    @pytest.mark.parametrize("option", ["--kubeconfig", "--context", "--namespace"])
    def test_a_cluster_that_is_not_watched(self, folder: Path, option: str) -> None:
        assert f"{option} says which cluster is watched: add --live" in self._said(folder, option, "x")

    def test_a_kubeconfig_that_is_not_there(self, folder: Path) -> None:
        assert "/none: no such file; name a kubeconfig with --kubeconfig" in self._said(
            folder, "--live", "--kubeconfig", "/none"
        )


def test_a_broken_kubeconfig_ends_the_start_with_one_line(folder: Path) -> None:
    (folder / "policies" / "a.yaml").write_text(POLICY)
    (folder / "kubeconfig").write_text("{}")
    options = ["--policies", "policies", "--cert", "tls.crt", "--key", "tls.key", "--bind", "127.0.0.1:0"]
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            "from webhook.cli.main import main; main()",
            "serve",
            "--live",
            "--kubeconfig",
            "kubeconfig",
            *options,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ended.returncode == 3
    assert "the cluster cannot be watched" in ended.stderr
    assert "kubeconfig: Invalid kube-config" in ended.stderr
    assert "Traceback" not in ended.stderr
