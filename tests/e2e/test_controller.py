"""The controller on a real API server: certificates in Secrets, replicas that get them late, and no call that fails."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.request
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from certs.rotate import is_issued_by, split_bundle
from tests.e2e.addresses import own_address
from tests.e2e.client import HOST, ApiError, Json
from tests.e2e.cluster import ROOT
from tests.e2e.podgate import PROGRAM, SHIPPED, SITE, Podgate
from tests.e2e.registration import CONFIGURATIONS, FAIL, NAME, PATHS
from tests.e2e.waiting import stays, wait_for
from tests.e2e.workloads import pod
from tests.server.running import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.cluster import Cluster

CA, TLS, LEASE, PAUSE, SERVICE = "podgate-ca", "podgate-tls", "podgate-controller", "podgate-pause", "podgate"
#: One kubelet is quick, one is slow; the controller is told that they take eight seconds at most.
KUBELET_SECONDS = (0.5, 4.0)
WAITS = ("--api-server-lag", "3", "--secret-sync", "8")
CREATIONS_PER_SECOND = 24
CREATORS = 8


class Replica(Podgate):
    """One that serves what its kubelet brings."""

    def new_certificate(self) -> None:
        """It makes none."""

    def get(self, path: str) -> tuple[int, str]:
        """A GET by address; whose certificate it is, is the test's question."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        with urllib.request.urlopen(f"{self.url}{path}", timeout=5, context=context) as answer:
            return answer.status, answer.read().decode()

    def bring(self, data: dict[str, bytes]) -> None:
        """Swap the files in one step, as a kubelet does."""
        generation = self.folder / f"..{time.monotonic_ns()}"
        generation.mkdir()
        for name, value in data.items():
            (generation / name).write_bytes(value)
        link = self.folder / "..data_tmp"
        link.symlink_to(generation.name)
        link.replace(self.folder / "..data")
        for name in data:
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")


class Controller:
    """One `podgate controller`."""

    def __init__(self, site: Site, name: str) -> None:
        self.port = free_port()
        self.path = site.folder / f"{name}.log"
        words = ["--namespace", site.own, "--kubeconfig", str(site.cluster.kubeconfig()), "--enforce"]
        words += ["--policies", str(SHIPPED), "--policies", str(SITE), "--bind", f"{HOST}:{self.port}"]
        with self.path.open("ab") as log:
            self.process = subprocess.Popen(
                [*PROGRAM, "controller", *words, *WAITS],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(20)

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://{HOST}:{self.port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    @property
    def leads(self) -> bool:
        try:
            return self.metric("podgate_controller_leader") == 1
        except OSError:
            return False

    def log(self) -> list[Json]:
        return [orjson.loads(line) for line in self.path.read_bytes().splitlines() if line.startswith(b"{")]


class Site:
    """podgate's own namespace, with a Service whose endpoints are processes on an address of this machine."""

    def __init__(self, cluster: Cluster, own: str, work: str, folder: Path, stack: ExitStack) -> None:
        self.cluster, self.own, self.work, self.folder = cluster, own, work, folder
        self._stack = stack
        self.replicas: list[Replica] = []
        self._stop = threading.Event()
        stack.callback(self._stop.set)
        port = {"name": "https", "port": 443, "protocol": "TCP"}
        head = {"metadata": {"name": SERVICE, "namespace": own}, "apiVersion": "v1", "kind": "Service"}
        cluster.admin.create({**head, "spec": {"ports": [port]}})

    def controller(self, name: str) -> Controller:
        started = Controller(self, name)
        self._stack.callback(started.end, signal.SIGKILL)
        return started

    def add_replica(self, delay: float) -> None:
        """One more endpoint, with a kubelet of its own that takes so many seconds."""
        number = len(self.replicas)
        replica = Replica(self.folder / f"replica-{number}", options=())
        replica.options = ["--bind", f"0.0.0.0:{replica.port}"]
        self.replicas.append(replica)
        replica.bring(wait_for(lambda: self.secret(TLS), "the serving pair"))
        threading.Thread(target=self._bring, args=(replica, delay), daemon=True).start()
        replica.start()
        self._stack.callback(replica.end)
        self.cluster.admin.create(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": f"{SERVICE}-{number}",
                    "namespace": self.own,
                    "labels": {"kubernetes.io/service-name": SERVICE},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
                "ports": [{"name": "https", "port": replica.port, "protocol": "TCP"}],
            }
        )

    def _bring(self, replica: Replica, delay: float) -> None:
        last = self.secret(TLS)
        while not self._stop.wait(0.2):
            try:
                data = self.secret(TLS)
            except ApiError:
                continue
            if data != last and not self._stop.wait(delay):
                replica.bring(data)
                last = data

    def secret(self, name: str) -> dict[str, bytes]:
        data = self.cluster.admin.read("Secret", self.own, name)["data"]
        return {key: b64decode(value) for key, value in data.items()}

    def configuration(self, kind: str, name: str = NAME) -> Json:
        return self.cluster.admin.read(kind, "", name)

    def entries(self) -> list[Json]:
        return [
            entry
            for which in CONFIGURATIONS
            for entry in self.configuration(*which)["webhooks"]
            if entry["name"].endswith(".podgate.dev")
        ]

    def bundles(self) -> list[tuple[bytes, ...]]:
        return [
            split_bundle(b64decode(entry["clientConfig"].get("caBundle", ""))) for entry in self.entries()
        ]

    def signer(self) -> bytes:
        return self.secret(CA)["ca.crt"]

    def served(self) -> list[bytes]:
        return [ssl.get_server_certificate((HOST, replica.port)).encode() for replica in self.replicas]

    def is_settled(self) -> bool:
        """One CA is trusted everywhere, and every replica serves a pair of it."""
        signer = self.signer()
        return all(held == (signer,) for held in self.bundles()) and all(
            is_issued_by(served, signer) for served in self.served()
        )

    def blocks(self) -> bool:
        return any(entry["name"] == FAIL and entry["failurePolicy"] == "Fail" for entry in self.entries())

    def try_pod(self) -> Json:
        return self.cluster.admin.create(pod("load", self.work, gpus=1), dryRun="All")

    @contextmanager
    def load(self) -> Iterator[list[str]]:
        """Creations, one after the other at an even pace; gives what went wrong. There were enough of them, at the end."""
        faults: list[str] = []
        stop, done = threading.Event(), []

        begun = time.monotonic()

        def create() -> None:
            """Each at its time, however long the one before took."""
            due = begun
            while not stop.wait(due - time.monotonic()):
                faults.extend(self._fault())
                done.append(due)
                due += CREATORS / CREATIONS_PER_SECOND

        with ThreadPoolExecutor(CREATORS) as pool:
            creating = [pool.submit(create) for _ in range(CREATORS)]
            try:
                yield faults
            finally:
                stop.set()
        for each in creating:
            each.result()
        assert len(done) / (time.monotonic() - begun) > 20, "there were at least 20 creations a second"

    def _fault(self) -> list[str]:
        try:
            made = self.try_pod()
        except ApiError as error:
            return [f"{datetime.now(UTC):%H:%M:%S} {error}"]
        return (
            []
            if "podgate.dev/policies" in made["metadata"]["annotations"]
            else ["a pod without its mutation"]
        )


@pytest.fixture
def site(cluster: Cluster, add_namespace: Callable[..., str], tmp_path: Path) -> Iterator[Site]:
    """No controller yet and no replica."""
    with ExitStack() as stack:
        yield Site(cluster, add_namespace("own"), add_namespace("work"), tmp_path, stack)


@pytest.fixture
def running(site: Site) -> Site:
    """Two replicas that serve what a first controller made; `Fail` is in force."""
    with_controller = site.controller("first")
    for delay in KUBELET_SECONDS:
        site.add_replica(delay)
    wait_for(site.blocks, "Fail is in force", 40)
    wait_for(site.is_settled, "one CA", 40)
    assert with_controller.end() == 0
    return site


def test_a_first_start_makes_everything_and_blocks_only_when_a_review_succeeds(site: Site) -> None:
    controller = site.controller("first")
    wait_for(lambda: site.secret(TLS), "the serving pair")
    wait_for(lambda: all(held == (site.signer(),) for held in site.bundles()), "the configurations")
    assert not site.blocks(), "nothing answers yet"
    assert set(site.secret(CA)) == {"ca.crt", "ca.key", "trusted.crt"}
    assert "ca.key" not in site.secret(TLS)
    for delay in KUBELET_SECONDS:
        site.add_replica(delay)
    wait_for(site.blocks, "Fail is in force", 40)
    wait_for(lambda: not site._fault(), "a pod is mutated")
    before = controller.metric("podgate_controller_writes_total{")
    versions = [site.configuration(*which)["metadata"]["resourceVersion"] for which in CONFIGURATIONS]
    stays(lambda: controller.metric("podgate_controller_writes_total{") == before, "nothing is written", 13)
    assert versions == [site.configuration(*which)["metadata"]["resourceVersion"] for which in CONFIGURATIONS]


def test_two_hand_overs_under_load_the_second_with_a_killed_leader(running: Site) -> None:
    """Every creation succeeds and is mutated, with `failurePolicy: Fail` in force."""
    controllers = [running.controller(name) for name in ("a", "b")]
    wait_for(lambda: any(each.leads for each in controllers), "one leads", 45)
    first = running.signer()
    with running.load() as faults:
        rotate(running)
        wait_for(lambda: running.signer() != first and running.is_settled(), "a new CA", 60)
        second = running.signer()
        words = ("annotate", "secret", CA, "podgate.dev/rotate=now")
        assert running.cluster.kubectl(*words, namespace=running.own).code == 0
        wait_for(lambda: any(len(held) == 2 for held in running.bundles()), "the middle of a hand-over", 30)
        leader = next(each for each in controllers if each.leads)
        leader.end(signal.SIGKILL)
        wait_for(lambda: running.signer() != second and running.is_settled(), "another CA", 90)
        time.sleep(3)
    assert faults == []
    other = next(each for each in controllers if each is not leader)
    assert other.leads
    assert first not in (running.signer(), second)


def test_only_the_leader_writes_and_gives_the_lease_back(running: Site) -> None:
    controllers = [running.controller(name) for name in ("a", "b")]
    wait_for(lambda: any(each.leads for each in controllers), "one leads", 45)
    stays(lambda: sum(each.leads for each in controllers) <= 1, "at most one leads", 5)
    leader = next(each for each in controllers if each.leads)
    other = next(each for each in controllers if each is not leader)
    assert leader.end() == 0
    wait_for(lambda: other.leads, "the other takes over at once", 12)
    assert [line["event"] for line in other.log()].count("leading") == 1


def test_what_somebody_changes_is_repaired_and_what_he_adds_stays(running: Site) -> None:
    running.controller("a")
    admin = running.cluster.admin
    stored = running.configuration("ValidatingWebhookConfiguration")
    foreign = {**stored["webhooks"][0], "name": "theirs.example.org", "failurePolicy": "Ignore"}
    stored["metadata"]["labels"]["theirs"] = "stays"
    stored["metadata"]["annotations"]["example.org/theirs"] = "stays"
    stored["webhooks"][0]["timeoutSeconds"] = 30
    stored["webhooks"][0]["clientConfig"]["caBundle"] = ""
    admin.update({**stored, "webhooks": [foreign, *stored["webhooks"]]})
    wait_for(
        lambda: (
            all(held == (running.signer(),) for held in running.bundles())
            and running.configuration("ValidatingWebhookConfiguration")["webhooks"][1]["timeoutSeconds"] != 30
        ),
        "it is repaired",
        30,
    )
    repaired = running.configuration("ValidatingWebhookConfiguration")
    assert repaired["metadata"]["labels"]["theirs"] == "stays"
    assert repaired["metadata"]["annotations"]["example.org/theirs"] == "stays"
    assert "theirs.example.org" in [entry["name"] for entry in repaired["webhooks"]]
    for path in PATHS:
        admin.delete(path)
    wait_for(lambda: all(map(admin.exists, PATHS)), "they are there again", 20)


def test_nothing_is_repaired_during_a_pause(running: Site) -> None:
    admin = running.cluster.admin
    head: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap"}
    until = datetime.now(UTC) + timedelta(seconds=30)
    data = {"until": f"{until:%Y-%m-%dT%H:%M:%SZ}", "reason": "a test"}
    admin.create({**head, "metadata": {"name": PAUSE, "namespace": running.own}, "data": data})
    controller = running.controller("a")
    wait_for(lambda: any(line["event"].startswith("paused") for line in controller.log()), "it pauses", 20)
    for path in PATHS:
        admin.delete(path)
    stays(lambda: not any(map(admin.exists, PATHS)), "they are away", 12)
    wait_for(lambda: all(map(admin.exists, PATHS)), "the pause ends by itself", 45)


def rotate(site: Site) -> None:
    """As an administrator does it, where podgate is at hand."""
    words = [
        "controller",
        "--rotate",
        "--namespace",
        site.own,
        "--kubeconfig",
        str(site.cluster.kubeconfig()),
    ]
    subprocess.run(
        [*PROGRAM, *words],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=20,
    )
