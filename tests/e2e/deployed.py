"""What nodes do for podgate's own Deployments: their containers run as processes, with the shipped arguments and rights."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from base64 import b64decode
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from tests.e2e.addresses import own_address
from tests.e2e.client import HOST, ApiError, Json, path_of
from tests.e2e.cluster import ROOT
from tests.e2e.kubelet import one_round
from tests.e2e.podgate import PROGRAM, STOP_SECONDS
from tests.server.running import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.e2e.cluster import Cluster

NAMESPACE = "podgate-system"
WEBHOOK, CONTROLLER = "podgate", "podgate-controller"
ROUND_SECONDS = 0.3
MOUNTED = "/etc/podgate"
#: A kubelet brings a ConfigMap or a Secret as a folder; one that may be missing is then empty.
CONFIG_MAPS = {"policies": "podgate-policies", "site": "podgate-site"}
TLS = "podgate-tls"
SERVICE_LABEL = "kubernetes.io/service-name"


def endpoint_slice(port: int) -> Json:
    """One more endpoint of podgate's Service: a process of this machine."""
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "podgate-process", "namespace": NAMESPACE, "labels": {SERVICE_LABEL: WEBHOOK}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }


class Process:
    """A container that runs."""

    def __init__(
        self, arguments: list[str], words: list[str], log: Path, environment: Mapping[str, str]
    ) -> None:
        self.arguments = arguments
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [*PROGRAM, *arguments, *words],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                process_group=0,
            )

    def signal(self, number: int) -> None:
        """Tell the process and its workers."""
        os.killpg(self._process.pid, number)

    def end(self) -> None:
        """SIGTERM, and what does not heed it is killed."""
        if self._process.poll() is None:
            self.signal(signal.SIGCONT)
            self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._process.wait()


class Nodes:
    """Use as a context manager: while it lasts, Deployments of podgate's namespace run, one process for each.

    Attributes:
        port: of the webhook, on all addresses of this machine.
        health_port: of the controller.
    """

    def __init__(self, cluster: Cluster, folder: Path, environment: Mapping[str, str]) -> None:
        self.port, self.health_port = free_port(), free_port()
        self._slice = endpoint_slice(self.port)
        self._cluster, self._folder, self._environment = cluster, folder, environment
        self._running: dict[str, Process] = {}
        self._brought: dict[str, str] = {}
        self._lock = threading.Lock()
        for name in (*CONFIG_MAPS, "tls"):
            (folder / name).mkdir(parents=True)

    @contextmanager
    def at_work(self) -> Iterator[Nodes]:
        """Do what nodes do, again and again."""
        stopped = threading.Event()
        thread = threading.Thread(target=self._rounds, args=(stopped,), name="nodes", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            stopped.set()
            thread.join()
            for process in self._running.values():
                process.end()

    def _rounds(self, stopped: threading.Event) -> None:
        while not stopped.wait(ROUND_SECONDS):
            # The namespace may be gone, and objects change under our hands.
            with suppress(ApiError), self._lock:
                self._bring()
                for name in (WEBHOOK, CONTROLLER):
                    self._run(name)  # first: a pod is gone when its process is
                one_round(self._cluster, NAMESPACE)
        self._cluster.admin.close()

    def freeze(self) -> None:
        """The webhook hangs."""
        with self._lock:
            self._running[WEBHOOK].signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """The webhook goes on."""
        with self._lock:
            self._running[WEBHOOK].signal(signal.SIGCONT)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Nothing is brought and nothing started meanwhile: a kubelet may take a minute to bring a Secret."""
        with self._lock:
            yield

    def log(self, name: str) -> str:
        """What a Deployment's processes wrote, "" where none was started."""
        path = self._log(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _run(self, name: str) -> None:
        wanted = self._arguments(name)
        running = self._running.get(name)
        if running and running.arguments != wanted:
            self._running.pop(name).end()
        if wanted and name not in self._running:
            self._running[name] = self._start(name, wanted)

    def _arguments(self, name: str) -> list[str]:
        """What the Deployment says; nothing where it should not run, or waits in ContainerCreating."""
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
        if not self._cluster.admin.exists(path) or (name == WEBHOOK and TLS not in self._brought):
            return []
        deployment = self._cluster.admin.get(path)
        spec = deployment["spec"]
        if not spec["replicas"] or "deletionTimestamp" in deployment["metadata"]:
            return []
        (container,) = spec["template"]["spec"]["containers"]
        return [str(each).replace(MOUNTED, str(self._folder)) for each in container["args"]]

    def _start(self, name: str, arguments: list[str]) -> Process:
        user = self._cluster.add_service_account_user(NAMESPACE, name)
        if name == WEBHOOK:
            bind = f"0.0.0.0:{self.port}"
            self._cluster.admin.apply(self._slice)
        else:
            bind = f"{HOST}:{self.health_port}"
        words = [f"--kubeconfig={self._cluster.kubeconfig(user)}", f"--bind={bind}"]
        return Process(arguments, words, self._log(name), self._environment)

    def _bring(self) -> None:
        for folder, name in CONFIG_MAPS.items():
            path = path_of("ConfigMap", NAMESPACE, name)
            if self._cluster.admin.exists(path):
                thing = self._cluster.admin.get(path)
                self._write(folder, thing, {key: text.encode() for key, text in thing["data"].items()})
        path = path_of("Secret", NAMESPACE, TLS)
        if self._cluster.admin.exists(path):
            thing = self._cluster.admin.get(path)
            self._write("tls", thing, {key: b64decode(text) for key, text in thing["data"].items()})
        else:
            self._brought.pop(TLS, None)

    def _write(self, folder: str, thing: Json, files: Mapping[str, bytes]) -> None:
        """Each file in one step; a pair that does not fit for a moment is not taken by podgate."""
        name, version = thing["metadata"]["name"], thing["metadata"]["resourceVersion"]
        if self._brought.get(name) == version:
            return
        for key, data in files.items():
            scratch = self._folder / folder / f".{key}"
            scratch.write_bytes(data)
            scratch.replace(self._folder / folder / key)
        self._brought[name] = version
