"""etcd, API server, scheduler and controller manager as processes on free ports of this machine."""

from __future__ import annotations

import secrets
import subprocess
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import certs
from tests.e2e.client import HOST, ApiError, path_of
from tests.e2e.cluster import ADMIN, USERS, Cluster
from tests.e2e.waiting import wait_for
from tests.server.running import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.controlplane.build import Programs

START_SECONDS = 60
STOP_SECONDS = 3
LAST_LINES = 10
LINE_LENGTH = 300

ISSUER = "https://kubernetes.default.svc"
NAMES = (HOST, "localhost", "kubernetes.default.svc")
SERVICE_RANGE = "10.0.0.0/24"

ETCD, API_SERVER, CONTROLLERS, SCHEDULER = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
)

# There is no kubelet to report that nodes live, so that nobody may conclude that they do not.
WITHOUT = ("node-lifecycle-controller", "node-ipam-controller", "taint-eviction-controller")

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: None
  resources:
  - group: coordination.k8s.io
- level: Metadata
"""


@dataclass(slots=True)
class ControlPlane:
    """The processes of one cluster, and where they are.

    The API server keeps its port and its data when it is stopped and started again.

    Attributes:
        folder: certificates, kubeconfigs, data and the logs `NAME.log`.
        cluster: what runs, for tests.
    """

    programs: Programs
    folder: Path
    cluster: Cluster = field(init=False)
    _port: int = field(init=False, default_factory=free_port)
    _etcd: str = field(init=False, default_factory=lambda: f"http://{HOST}:{free_port()}")
    _processes: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)

    def start(self) -> None:
        """Start everything, and wait until pods can be made and bound."""
        self._prepare()
        self._start_etcd()
        self.start_api_server()
        for name in (CONTROLLERS, SCHEDULER):
            if self.programs.has(name):
                self._start(name, *self._client_options(name))
        self._wait_for_service_account()
        self.cluster.furnish()

    def _wait_for_service_account(self) -> None:
        """Without it nobody can make a pod in the namespace `default`."""
        admin = self.cluster.admin
        if not self.programs.has(CONTROLLERS):
            head = {"apiVersion": "v1", "kind": "ServiceAccount"}
            admin.create(head | {"metadata": {"name": "default", "namespace": "default"}})
        path = path_of("ServiceAccount", "default", "default")
        wait_for(lambda: admin.exists(path), "the default ServiceAccount", START_SECONDS)

    def stop(self) -> None:
        """Stop everything, callers before those who are called; also after a start that failed in the middle."""
        for name in (SCHEDULER, CONTROLLERS, API_SERVER, ETCD):
            self._stop(name)
        if hasattr(self, "cluster"):
            self.cluster.close()

    def start_api_server(self) -> None:
        """Start the API server, and wait until it is ready."""
        self._start(API_SERVER, *self._api_server_options())
        wait_for(
            lambda: self._is_ready() or self._has_ended(API_SERVER), "the API server is ready", START_SECONDS
        )

    def stop_api_server(self) -> None:
        """Stop it; who watches is cut off, in the end by force: it would wait a minute for them."""
        self._stop(API_SERVER)

    def kill_api_server(self) -> None:
        """It is gone in the middle of whatever it did."""
        process = self._processes.pop(API_SERVER)
        process.kill()
        process.wait()

    def stop_scheduler(self) -> None:
        """Pods stay where they are, and new ones stay pending."""
        self._stop(SCHEDULER)

    def start_scheduler(self) -> None:
        """Bind again."""
        self._start(SCHEDULER, *self._client_options(SCHEDULER))

    def logs(self) -> str:
        """The last lines of each process, with the file where the rest is."""
        paths = [self.folder / f"{name}.log" for name in (API_SERVER, CONTROLLERS, SCHEDULER)]
        return "\n".join(f"-- {path}\n{_last_lines(path)}" for path in paths if path.exists())

    def _prepare(self) -> None:
        now = datetime.now(UTC)
        ca = certs.new_ca(now=now)
        certs.write_pairs(self.folder, ca=ca, serving=certs.serving_pair(ca, names=NAMES, now=now))
        # Any pair will do that signs and is verified; another CA's is at hand.
        accounts = certs.new_ca(now=now)
        (self.folder / "service-account.key").write_bytes(accounts.key)
        (self.folder / "service-account.crt").write_bytes(accounts.certificate)
        (self.folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
        tokens = {user: secrets.token_hex(16) for user in USERS}
        self._write_tokens(tokens)
        self.cluster = Cluster(self._port, self.folder, self.folder / "ca.crt", tokens, self.programs)

    def _write_tokens(self, tokens: dict[str, str]) -> None:
        """In the format of --token-auth-file: token, user, uid, groups."""
        lines = (f'{token},"{user}","{user}","{",".join(USERS[user])}"\n' for user, token in tokens.items())
        (self.folder / "tokens.csv").write_text("".join(lines))

    def _start_etcd(self) -> None:
        peer = f"http://{HOST}:{free_port()}"
        options = {
            "name": "default",
            "data-dir": self.folder / "etcd",
            "listen-client-urls": self._etcd,
            "advertise-client-urls": self._etcd,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        self._start(ETCD, *(f"--{key}={value}" for key, value in options.items()), "--unsafe-no-fsync")
        wait_for(
            lambda: _answers(f"{self._etcd}/health") or self._has_ended(ETCD), "etcd answers", START_SECONDS
        )

    def _api_server_options(self) -> list[str]:
        options = {
            "etcd-servers": self._etcd,
            "secure-port": self._port,
            "bind-address": HOST,
            "advertise-address": HOST,
            "tls-cert-file": self.folder / "tls.crt",
            "tls-private-key-file": self.folder / "tls.key",
            "service-account-issuer": ISSUER,
            "service-account-key-file": self.folder / "service-account.crt",
            "service-account-signing-key-file": self.folder / "service-account.key",
            "service-cluster-ip-range": SERVICE_RANGE,
            "token-auth-file": self.folder / "tokens.csv",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            # Webhooks by service reach the endpoints themselves: there is no kube-proxy.
            "enable-aggregator-routing": "true",
            "endpoint-reconciler-type": "none",
            "audit-policy-file": self.folder / "audit-policy.yaml",
            "audit-log-path": self.folder / "audit.log",
            "profiling": "false",
        }
        return [f"--{key}={value}" for key, value in options.items()]

    def _client_options(self, name: str) -> list[str]:
        options = [
            f"--kubeconfig={self.cluster.kubeconfig(ADMIN)}",
            "--leader-elect=false",
            "--secure-port=0",
        ]
        if name == CONTROLLERS:
            options += [
                f"--service-account-private-key-file={self.folder / 'service-account.key'}",
                f"--root-ca-file={self.folder / 'ca.crt'}",
                "--use-service-account-credentials",
                f"--controllers=*,{','.join(f'-{each}' for each in WITHOUT)}",
            ]
        return options

    def _start(self, name: str, *options: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            # In a group of its own: Ctrl-C at a terminal is for pytest, which then stops everything in order.
            self._processes[name] = subprocess.Popen(
                [str(self.programs.path(name)), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                process_group=0,
            )

    def _stop(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _is_ready(self) -> bool:
        try:
            return self.cluster.admin.get("/readyz") is not None
        except ApiError:
            return False

    def _has_ended(self, name: str) -> bool:
        """False, or an error with its last words: there is nothing to wait for any more."""
        code = self._processes[name].poll()
        if code is not None:
            log = self.folder / f"{name}.log"
            raise RuntimeError(f"{name} ended with exit code {code}; {log}:\n{_last_lines(log)}")
        return False


@contextmanager
def running_control_plane(programs: Programs, folder: Path) -> Iterator[ControlPlane]:
    """A control plane that is stopped at the end, however the end comes."""
    plane = ControlPlane(programs, folder)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _last_lines(path: Path) -> str:
    lines = path.read_text(errors="replace").splitlines()[-LAST_LINES:]
    return "\n".join(line[:LINE_LENGTH] for line in lines)
