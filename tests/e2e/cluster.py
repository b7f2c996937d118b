"""The cluster as tests see it: users, kubectl, nodes, and the state to which every test returns it."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import yaml

from tests.e2e.client import ApiError, Client, Json, path_of, path_to
from tests.e2e.nodes import NODES
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import pod

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.e2e.controlplane.build import Programs

ROOT = Path(__file__).parents[2]
PREREQUISITES = ROOT / "policies" / "prerequisites"

ADMIN, ALICE, NODE = "admin", "alice", "system:node:h100-1"
USERS: Mapping[str, tuple[str, ...]] = {
    ADMIN: ("system:masters",),
    ALICE: ("data-science",),  # may edit in every namespace, as a member of a project does
    NODE: ("system:nodes",),
}
"""The users that a token is made for, with their groups."""

CLASS_KINDS = ("PriorityClass", "StorageClass")
WEBHOOK_KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
KUBECTL_SECONDS = 60


class Ran(NamedTuple):
    """What a program printed, and how it ended."""

    code: int
    out: str
    err: str


class Cluster:
    """A control plane that runs.

    Attributes:
        folder: kubeconfigs, logs and the audit log.
        admin: the client of the cluster's administrator.
    """

    def __init__(
        self, port: int, folder: Path, ca: Path, tokens: Mapping[str, str], programs: Programs
    ) -> None:
        self.port = port
        self.folder = folder
        self.ca = ca
        self.programs = programs
        self._tokens = dict(tokens)
        self._clients: dict[str, Client] = {}
        self.admin = self.client(ADMIN)

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.port}"

    def client(self, user: str) -> Client:
        """A client as one of `USERS`, or a ServiceAccount that `add_service_account_user` knows."""
        if user not in self._clients:
            self._clients[user] = Client(self.port, self.ca, self._tokens[user])
        return self._clients[user]

    def add_service_account_user(self, namespace: str, name: str) -> str:
        """Ask for a token of a ServiceAccount; gives the user's name, for `client`, `kubeconfig` and `kubectl`."""
        user = f"system:serviceaccount:{namespace}:{name}"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 7200},
        }
        path = path_of("ServiceAccount", namespace, name, "token")
        self._tokens[user] = self.admin.call("POST", path, request).body["status"]["token"]
        if user in self._clients:
            self._clients.pop(user).close_all()
        return user

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close_all()

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """A kubeconfig file of a user."""
        path = self.folder / f"kubeconfig-{user.replace(':', '-')}"
        if not path.exists():
            path.touch(mode=0o600)
        path.write_bytes(orjson.dumps(self._kubeconfig(user)))
        return path

    def _kubeconfig(self, user: str) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "e2e", "cluster": {"server": self.server, "certificate-authority": str(self.ca)}}
            ],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
            "current-context": "e2e",
        }

    def kubectl(
        self,
        *words: str,
        user: str = ADMIN,
        namespace: str = "",
        stdin: str | Mapping[str, Any] | None = None,
    ) -> Ran:
        """Run kubectl; a mapping as `stdin` is sent as a manifest, for `-f -`."""
        text = stdin if isinstance(stdin, str) or stdin is None else orjson.dumps(stdin).decode()
        command = [
            str(self.programs.path("kubectl")),
            *(["--namespace", namespace] if namespace else []),
            *words,
        ]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig(user)), "HOME": str(self.folder)}
        ran = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            env=environment,
            timeout=KUBECTL_SECONDS,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def furnish(self) -> None:
        """Everything that a test finds in the cluster, as it should be."""
        self._restore_nodes()
        for kind in CLASS_KINDS:
            if self._restore(kind, [each for each in prerequisites() if each["kind"] == kind]):
                self._wait_for_classes()
        self._restore_rights()

    def reset(self) -> None:
        """Take back what a test left in the whole cluster: webhooks first, since they may refuse the rest."""
        for kind in WEBHOOK_KINDS:
            self._restore(kind, [])
        self.furnish()

    def _restore_nodes(self) -> None:
        found = {each["metadata"]["name"]: each for each in self.admin.items("Node")}
        for name in found.keys() - {each["metadata"]["name"] for each in NODES}:
            self.admin.delete(path_of("Node", name=name))
        for node in NODES:
            self._restore_node(node, found.get(node["metadata"]["name"]))

    def _restore_node(self, node: Json, stored: Json | None) -> None:
        if stored is None:
            self.admin.create(node)
        # A node is born with a taint that a kubelet's first report takes away, and a cordon adds another.
        if stored is None or not _is_as_wanted(stored, node):
            spec = {"taints": node["spec"]["taints"] or None, "unschedulable": None}
            self.admin.patch(
                path_to(node), {"metadata": {"labels": node["metadata"]["labels"]}, "spec": spec}
            )
            self.admin.patch(path_to(node, "status"), {"status": node["status"]})

    def _restore(self, kind: str, wanted: Sequence[Json]) -> bool:
        """Exactly these objects of a kind; those of the system stay. Whether anything had to be done."""
        stored = {each["metadata"]["name"]: each for each in self.admin.items(kind)}
        names = {each["metadata"]["name"] for each in wanted}
        foreign = [name for name in stored.keys() - names if not name.startswith("system-")]
        lost = [each for each in wanted if not _holds(stored.get(each["metadata"]["name"]), each)]
        for name in foreign:
            self.admin.delete(path_of(kind, name=name))
        for thing in lost:
            self.admin.replace(thing)
        return bool(foreign or lost)

    def _wait_for_classes(self) -> None:
        """Until the API server's own plugins have heard of the priority classes, and of no other default."""
        for thing in (each for each in prerequisites() if each["kind"] == "PriorityClass"):
            self._wait_for_priority(thing["metadata"]["name"], thing["value"])
        self._wait_for_priority("", 0)

    def _restore_rights(self) -> None:
        self.admin.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": "e2e-alice-edits"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ALICE}],
            }
        )

    def add_priority_class(self, name: str, value: int, **more: Any) -> None:
        """A priority class, once pods can have it; `globalDefault=True` and the like are `more`."""
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        self.admin.replace(head | {"value": value} | more)
        self._wait_for_priority(name, value)
        if more.get("globalDefault"):
            self._wait_for_priority("", value)

    def remove_priority_class(self, name: str) -> None:
        """Delete a priority class, and wait until pods can no more have it."""
        self.admin.delete(path_of("PriorityClass", name=name))
        self._wait_for_priority(name, None)

    def _wait_for_priority(self, name: str, value: int | None) -> None:
        wait_for(
            lambda: self._priority_of_class(name) == (value,),
            f"pods with the class {name!r} have the priority {value}",
        )

    def _priority_of_class(self, name: str) -> tuple[int | None]:
        """The priority that a pod with this class would get, None where it is refused."""
        probe = pod("probe", "default", priorityClassName=name)
        try:
            return (self.admin.create(probe, dryRun="All")["spec"]["priority"],)
        except ApiError as error:
            if "no PriorityClass" not in error.message:
                raise
            return (None,)

    @contextmanager
    def cordoned(self, *names: str) -> Iterator[None]:
        """Nodes that take no new pods for a while."""
        for name in names:
            self.admin.patch(path_of("Node", name=name), {"spec": {"unschedulable": True}})
        try:
            yield
        finally:
            for name in names:
                self.admin.patch(path_of("Node", name=name), {"spec": {"unschedulable": None}})

    def add_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """A namespace in which pods can be made: with its default ServiceAccount."""
        thing = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
        self.admin.create(thing)
        path = path_of("ServiceAccount", name, "default")
        wait_for(lambda: self.admin.exists(path), f"the default ServiceAccount of {name}")

    def remove_namespace(self, name: str) -> None:
        """Begin to delete a namespace, and give back what its pods hold; nothing makes new ones there from now on."""
        self.admin.delete(path_of("Namespace", name=name))
        wait_for(lambda: self._has_no_pods(name), f"no pods in {name}")

    def _has_no_pods(self, namespace: str) -> bool:
        pods = self.admin.items("Pod", namespace)
        for each in pods:
            self.end_pod(each)
        return not pods

    def end_pod(self, ended: Mapping[str, Any]) -> None:
        """Delete at once, also what a finalizer holds: nobody else reports that a pod has ended."""
        with suppress(ApiError):
            if ended["metadata"].get("finalizers"):
                self.admin.patch(path_to(ended), {"metadata": {"finalizers": None}})
            self.admin.delete(path_to(ended), gracePeriodSeconds=0)

    def events(self, namespace: str, reason: str) -> list[str]:
        """The messages of the events with this reason."""
        found = self.admin.items("Event", namespace, fieldSelector=f"reason={reason}")
        return [each["message"] for each in found]

    def audit_events(self, **wanted: str) -> list[Json]:
        """What the API server's audit log says of requests for `resource`, `namespace`, `name`, `subresource`."""
        lines = (self.folder / "audit.log").read_bytes().splitlines()
        events = [orjson.loads(line) for line in lines]
        return [each for each in events if wanted.items() <= (each.get("objectRef") or {}).items()]

    def metrics(self) -> str:
        """What Prometheus gets from the API server."""
        message: str
        try:
            message = self.admin.get("/metrics").get("message", "")
        except ApiError as error:
            raise AssertionError(f"no metrics: {error}") from error
        return message


@cache
def prerequisites() -> tuple[Json, ...]:
    """The classes and namespaces that the shipped policies name."""
    found = (yaml.safe_load_all(path.read_bytes()) for path in sorted(PREREQUISITES.glob("*.yaml")))
    return tuple(each for documents in found for each in documents if each)


def facts_of(cluster: Cluster) -> list[Json]:
    """What `kubectl get priorityclass,storageclass,namespace,node -o yaml` gives."""
    kinds = (*CLASS_KINDS, "Namespace", "Node")
    return [thing for kind in kinds for thing in cluster.admin.items(kind)]


def _is_as_wanted(stored: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    same_taints = (stored["spec"].get("taints") or []) == node["spec"]["taints"]
    same_capacity = stored["status"].get("allocatable") == node["status"]["allocatable"]
    same_labels = node["metadata"]["labels"].items() <= stored["metadata"]["labels"].items()
    return same_taints and same_capacity and same_labels and not stored["spec"].get("unschedulable")


def _holds(stored: Any, wanted: Any) -> bool:
    """Whether everything wanted is there; the server's own fields and defaults besides are fine."""
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return all(_holds(stored.get(key), value) for key, value in wanted.items())
    return bool(stored == wanted) or (not wanted and stored is None)
