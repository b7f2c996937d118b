"""Replicas behind a Service, started and ended as a Deployment and its kubelets do it (deploy/kustomize/base)."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import certs
from tests.e2e.addresses import own_address
from tests.e2e.client import path_of
from tests.e2e.podgate import PROGRAM, Podgate
from tests.e2e.registration import put_in_force, take_out_of_force
from webhook.cli.folders import read_folders
from webhook.policy import load_policy_set
from webhook.registration import Endpoint, webhook_configurations
from webhook.rules.base import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.e2e.cluster import Cluster

SERVICE = "podgate"
PRE_STOP_SECONDS = 10
"""How long a replica goes on after its endpoint is no longer ready, before the kubelet sends SIGTERM."""


class Replica(Podgate):
    """One behind a Service.

    Attributes:
        number: of its EndpointSlice.
    """

    def __init__(
        self, group: Replicas, number: int, policies: Sequence[Path], options: Sequence[str]
    ) -> None:
        self.host, self.number, self._group = own_address(), number, group
        super().__init__(group.folder / f"replica-{number}", policies, options)

    def new_certificate(self) -> None:
        """A pair of the CA that all replicas share."""
        names = [self.host, f"{SERVICE}.{self._group.namespace}.svc"]
        pair = certs.serving_pair(self._group.ca, names=names, now=datetime.now(UTC))
        certs.write_pairs(self.folder, ca=self._group.ca, serving=pair)


class Replicas:
    """A Service and the replicas behind it: the API server calls those that are ready, and keeps its connections.

    Each has an EndpointSlice of its own, since each has its own port. A context: it ends what is left, configurations first.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, folder: Path, program: Sequence[str] = PROGRAM
    ) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.program = program
        self.ca = certs.new_ca(now=datetime.now(UTC))
        self.running: list[Replica] = []
        self._started = 0
        self._ending = ThreadPoolExecutor(8)
        self._ends: list[Future[None]] = []
        self._now = threading.Event()
        self._configurations: list[dict[str, object]] = []
        port = {"name": "https", "port": 443, "protocol": "TCP"}
        head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVICE, "namespace": namespace}}
        cluster.admin.create({**head, "spec": {"ports": [port]}})

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        for configuration in self._configurations:
            take_out_of_force(self.cluster, configuration)
        self._now.set()
        self.remove(*self.running)
        self.wait_for_ends()
        self._ending.shutdown()

    def add(self, *policies: Path, options: Sequence[str] = ()) -> Replica:
        """Start a replica; it gets calls once it is ready."""
        self._started += 1
        replica = Replica(self, self._started, policies, options)
        replica.program = self.program
        replica.start()
        self._tell(replica, is_ready=True)
        self.running.append(replica)
        return replica

    def remove(self, *replicas: Replica) -> None:
        """Delete pods: endpoints first, and the processes when preStop is over; it does not wait for that."""
        for replica in replicas:
            self.running.remove(replica)
            self._tell(replica, is_ready=False)
            self._ends.append(self._ending.submit(self._end, replica))

    def wait_for_ends(self) -> None:
        """Until all processes that were to end have done so; an end that was none is an error here."""
        for each in wait(self._ends).done:
            each.result()
        self._ends.clear()

    def roll(self) -> None:
        """Replace one after the other (maxSurge 1, maxUnavailable 0): a new one is ready before an old one is told to go."""
        for old in list(self.running):
            self.add(*old.policies, options=old.options)
            self.remove(old)

    def register(self, *, enforce: bool) -> None:
        """Put the configurations for the first replica's policies in force, by Service."""
        loaded = load_policy_set(read_folders(self.running[0].policies), mode_ceiling=Mode.ENFORCE)
        endpoint = Endpoint(service=(self.namespace, SERVICE), ca_bundle=self.ca.certificate)
        found = webhook_configurations(loaded.policy_set, endpoint, enforce_failure_policy=enforce)
        for configuration in (each for each in found if each["webhooks"]):
            put_in_force(self.cluster, configuration)
            self._configurations.append(configuration)

    def _end(self, replica: Replica) -> None:
        self._now.wait(PRE_STOP_SECONDS)
        replica.end()
        self.cluster.admin.delete(path_of("EndpointSlice", self.namespace, _slice(replica)))

    def _tell(self, replica: Replica, *, is_ready: bool) -> None:
        """What the EndpointSlice controller says of a pod."""
        conditions = {"ready": is_ready, "serving": True, "terminating": not is_ready}
        self.cluster.admin.apply(
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {
                    "name": _slice(replica),
                    "namespace": self.namespace,
                    "labels": {"kubernetes.io/service-name": SERVICE},
                },
                "addressType": "IPv4",
                "endpoints": [{"addresses": [replica.host], "conditions": conditions}],
                "ports": [{"name": "https", "port": replica.port, "protocol": "TCP"}],
            }
        )


def _slice(replica: Replica) -> str:
    return f"{SERVICE}-{replica.number}"
