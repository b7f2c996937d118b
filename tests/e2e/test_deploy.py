"""What deploy/kustomize has, on the real API server: it is taken as it is, and gives no more rights than it says."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
import pytest
import yaml

from tests.e2e.client import ApiError, path_of
from tests.e2e.podgate import PROGRAM, SHIPPED
from tests.e2e.registration import PATHS
from tests.e2e.waiting import wait_for
from webhook.watch import WATCHED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e.client import Client, Json
    from tests.e2e.cluster import Cluster
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.podgate import Podgate

ROOT = Path(__file__).parents[2]
KUSTOMIZE = ROOT / "deploy/kustomize"
BASE = KUSTOMIZE / "base"
OVERLAYS = sorted((KUSTOMIZE / "overlays").iterdir())
GOLDEN = Path(__file__).parent / "golden"

NAMESPACE = "podgate-system"
WEBHOOK, CONTROLLER = "podgate", "podgate-controller"
REPLICAS = {WEBHOOK: 3, CONTROLLER: 2}
COMPONENTS = {WEBHOOK: "webhook", CONTROLLER: "controller"}
SYSTEM_CLUSTER_CRITICAL = 2_000_000_000
#: Not there without cert-manager's own definitions.
FOREIGN = "cert-manager.io/"
#: Not there without KubeSphere.
KUBESPHERE = {"Accessor"}


def rendered(cluster: Cluster, folder: Path) -> str:
    """What is applied, but for kinds that this cluster has not."""
    ran = cluster.kubectl("kustomize", str(folder))
    assert ran.code == 0, ran.err
    objects = [each for each in yaml.safe_load_all(ran.out) if not each["apiVersion"].startswith(FOREIGN)]
    return yaml.safe_dump_all(objects)


def applied(cluster: Cluster, folder: Path, *words: str) -> tuple[str, str]:
    """Apply with strict validation; gives stdout and stderr."""
    strict = ("apply", "--server-side", "--validate=strict", "-f", "-")
    ran = cluster.kubectl(*strict, *words, stdin=rendered(cluster, folder))
    assert ran.code == 0, ran.err
    return ran.out, ran.err


@pytest.fixture(scope="module")
def deployed(control_plane: ControlPlane, controllers: None) -> Iterator[Cluster]:  # pods need them
    """The session's cluster with the base in it."""
    cluster = control_plane.cluster
    applied(cluster, BASE)
    wait_for(lambda: is_limited(cluster), "the admission policy is in force")
    yield cluster
    cluster.remove_namespace(NAMESPACE)
    cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=rendered(cluster, BASE))
    wait_for(lambda: not cluster.admin.exists(path_of("Namespace", name=NAMESPACE)), f"{NAMESPACE} is gone")


def is_limited(cluster: Cluster) -> bool:
    """Whether the controller is refused an object of another name."""
    user = f"system:serviceaccount:{NAMESPACE}:{CONTROLLER}"
    words = ("create", "secret", "generic", "another", "--dry-run=server", "--as", user)
    return cluster.kubectl(*words, namespace=NAMESPACE).code != 0


@pytest.fixture(scope="module")
def client(deployed: Cluster, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A client with the token of the ServiceAccount that the test names."""
    made = deployed.client(deployed.add_service_account_user(NAMESPACE, request.param))
    yield made
    made.close()


def as_account(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("client", [name], indirect=True)


class TestObjects:
    @pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
    def test_are_taken_with_strict_validation_and_without_a_warning(
        self, deployed: Cluster, folder: Path
    ) -> None:
        out, err = applied(deployed, folder, "--dry-run=server", "--force-conflicts")
        assert err == ""
        assert out.count("serverside-applied (server dry run)") == len(
            list(yaml.safe_load_all(rendered(deployed, folder)))
        )

    def test_are_the_same_when_they_are_applied_again(self, deployed: Cluster) -> None:
        def versions() -> dict[str, str]:
            found = deployed.kubectl("get", "-o", "json", "-f", "-", stdin=rendered(deployed, BASE))
            items = yaml.safe_load(found.out)["items"]
            # Controllers write the status of these.
            skipped = {"Deployment", "ResourceQuota", "PodDisruptionBudget", "ValidatingAdmissionPolicy"}
            return {
                f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"]
                for each in items
                if each["kind"] not in skipped
            }

        before = versions()
        applied(deployed, BASE)
        assert versions() == before

    def test_a_misspelt_field_would_be_noticed(self, deployed: Cluster) -> None:
        text = rendered(deployed, BASE).replace("topologySpreadConstraints", "topologySpreadConstraint")
        strict = ("apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-")
        ran = deployed.kubectl(*strict, stdin=text)
        assert ran.code != 0
        assert "field not declared in schema" in ran.err or "unknown field" in ran.err


class TestPods:
    """They pass restricted Pod Security, the quota and the priority plugin: the ReplicaSets can make them all."""

    @pytest.mark.parametrize("name", REPLICAS)
    def test_are_all_made(self, deployed: Cluster, name: str) -> None:
        pods = wait_for(lambda: pods_of(deployed, name), f"the pods of {name}")
        assert {pod["spec"]["priority"] for pod in pods} == {SYSTEM_CLUSTER_CRITICAL}
        assert {pod["spec"]["serviceAccountName"] for pod in pods} == {name}

    def test_none_is_refused(self, deployed: Cluster) -> None:
        assert deployed.events(NAMESPACE, "FailedCreate") == []

    def test_one_that_is_not_restricted_is_refused(self, deployed: Cluster) -> None:
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "loose", "namespace": NAMESPACE},
            "spec": {"containers": [{"name": "x", "image": "registry.example.org/x:1"}]},
        }
        with pytest.raises(ApiError, match=r'violates PodSecurity "restricted'):
            deployed.admin.create(pod)


def pods_of(cluster: Cluster, name: str) -> list[Json]:
    """The pods of a Deployment, once there are as many as it should have."""
    found = cluster.admin.items(
        "Pod", NAMESPACE, labelSelector=f"app.kubernetes.io/component={COMPONENTS[name]}"
    )
    return found if len(found) == REPLICAS[name] else []


class TestRights:
    """`kubectl auth can-i --list` is what the golden says; PODGATE_WRITE_GOLDENS=1 writes it anew: read the diff."""

    @pytest.mark.parametrize("namespace", [NAMESPACE, "default"], ids=["own-namespace", "other-namespace"])
    @pytest.mark.parametrize("account", [WEBHOOK, CONTROLLER])
    def test_are_those_of_the_golden(self, deployed: Cluster, account: str, namespace: str) -> None:
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        ran = deployed.kubectl("auth", "can-i", "--list", "--as", user, namespace=namespace)
        assert (ran.code, ran.err) == (0, "")
        head, *rows = (re.sub(r" +", " ", line).strip() for line in ran.out.splitlines())
        found = "\n".join([head, *sorted(rows)]) + "\n"
        path = GOLDEN / f"can-i-{account}-{'own' if namespace == NAMESPACE else 'other'}.txt"
        if "PODGATE_WRITE_GOLDENS" in os.environ:
            path.parent.mkdir(exist_ok=True)
            path.write_text(found)
        assert found == path.read_text()


class Call(NamedTuple):
    """One call of the API."""

    method: str
    path: str
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()

    def made(self, client: Client) -> Json:
        return client.call(self.method, self.path, self.body, **dict(self.query)).body


DRY = (("dryRun", "All"),)


def secret(name: str) -> Call:
    return Call("POST", path_of("Secret", NAMESPACE), {"metadata": {"name": name}, "data": {}}, DRY)


def lease(name: str) -> Call:
    return Call("POST", path_of("Lease", NAMESPACE), {"metadata": {"name": name}, "spec": {}}, DRY)


def configuration(kind: str, name: str) -> Call:
    return Call("POST", path_of(kind), {"metadata": {"name": name}, "webhooks": []}, DRY)


MUTATING, VALIDATING = "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"
PAUSE = (("fieldSelector", "metadata.name=podgate-pause"),)

WEBHOOK_MAY = {
    "list namespaces": Call("GET", path_of("Namespace")),
    "list priority classes": Call("GET", path_of("PriorityClass")),
    "list storage classes": Call("GET", path_of("StorageClass")),
    "list the pause": Call("GET", path_of("ConfigMap", NAMESPACE), None, PAUSE),
}
WEBHOOK_MAY_NOT = {
    "read its own certificate's Secret": Call("GET", path_of("Secret", NAMESPACE, "podgate-tls")),
    "list Secrets": Call("GET", path_of("Secret", NAMESPACE)),
    "list Secrets everywhere": Call("GET", path_of("Secret")),
    "list pods": Call("GET", path_of("Pod")),
    "list nodes": Call("GET", path_of("Node")),
    "list all ConfigMaps of its namespace": Call("GET", path_of("ConfigMap", NAMESPACE)),
    "read another ConfigMap": Call("GET", path_of("ConfigMap", NAMESPACE, "podgate-policies")),
    "pause": Call("POST", path_of("ConfigMap", NAMESPACE), {"metadata": {"name": "podgate-pause"}}, DRY),
    "label a namespace": Call(
        "PUT", path_of("Namespace", name="default"), {"metadata": {"name": "default"}}, DRY
    ),
    "register a webhook": configuration(MUTATING, "gate.podgate.dev"),
    "list claims": Call("GET", path_of("PersistentVolumeClaim")),
    "read the webhook configurations": Call("GET", path_of(VALIDATING, name="gate.podgate.dev")),
    "hold the Lease": lease("podgate-controller"),
    "make a pod": Call("POST", path_of("Pod", NAMESPACE), {"metadata": {"name": "x"}, "spec": {}}, DRY),
    "get a token of the controller": Call(
        "POST",
        path_of("ServiceAccount", NAMESPACE, CONTROLLER, "token"),
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    ),
}
CONTROLLER_MAY = {
    "create the Secret of the certificate": secret("podgate-tls"),
    "create the Secret of the CA": secret("podgate-ca"),
    "create its Lease": lease("podgate-controller"),
    "create the mutating configuration": configuration(MUTATING, "gate.podgate.dev"),
    "create the late configuration": configuration(MUTATING, "zzz.gate.podgate.dev"),
    "create the validating configuration": configuration(VALIDATING, "gate.podgate.dev"),
    "read the Service": Call("GET", path_of("Service", NAMESPACE, "podgate")),
    "list the EndpointSlices": Call("GET", path_of("EndpointSlice", NAMESPACE)),
}
CONTROLLER_MAY_NOT = {
    "create another Secret": secret("bootstrap-token-abcdef"),
    "create a Secret of a generated name": Call(
        "POST", path_of("Secret", NAMESPACE), {"metadata": {"generateName": "podgate-tls"}}, DRY
    ),
    "create another Lease": lease("another"),
    "register another mutating webhook": configuration(MUTATING, "another"),
    "register another validating webhook": configuration(VALIDATING, "another"),
    "create a Secret in another namespace": Call(
        "POST", path_of("Secret", "default"), {"metadata": {"name": "podgate-tls"}}, DRY
    ),
    "list Secrets": Call("GET", path_of("Secret", NAMESPACE)),
    "read another Secret": Call("GET", path_of("Secret", NAMESPACE, "another")),
    "delete its Secret": Call("DELETE", path_of("Secret", NAMESPACE, "podgate-tls"), None, DRY),
    "list webhook configurations": Call("GET", path_of(MUTATING)),
    "change another webhook configuration": Call(
        "PUT", path_of(VALIDATING, name="another"), {"metadata": {"name": "another"}}, DRY
    ),
    "change a late configuration that validates": Call(
        "PUT",
        path_of(VALIDATING, name="zzz.gate.podgate.dev"),
        {"metadata": {"name": "zzz.gate.podgate.dev"}},
        DRY,
    ),
    "delete its webhook configuration": Call("DELETE", path_of(MUTATING, name="gate.podgate.dev"), None, DRY),
    "list namespaces": Call("GET", path_of("Namespace")),
    "list pods": Call("GET", path_of("Pod", NAMESPACE)),
    "make a pod": Call("POST", path_of("Pod", NAMESPACE), {"metadata": {"name": "x"}, "spec": {}}, DRY),
    "read the policies": Call("GET", path_of("ConfigMap", NAMESPACE, "podgate-policies")),
    "end a pause": Call("DELETE", path_of("ConfigMap", NAMESPACE, "podgate-pause"), None, DRY),
    "give itself more": Call("GET", path_of("Role", NAMESPACE, CONTROLLER)),
    "change the admission policy that limits it": Call(
        "DELETE",
        f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{CONTROLLER}",
        None,
        DRY,
    ),
}


def table(calls: dict[str, Call]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("call", calls.values(), ids=calls.keys())


@as_account(WEBHOOK)
class TestWebhook:
    @table(WEBHOOK_MAY)
    def test_may(self, client: Client, call: Call) -> None:
        call.made(client)

    @table(WEBHOOK_MAY_NOT)
    def test_may_not(self, client: Client, call: Call) -> None:
        with pytest.raises(ApiError, match="is forbidden"):
            call.made(client)


@as_account(CONTROLLER)
class TestController:
    @table(CONTROLLER_MAY)
    def test_may(self, client: Client, call: Call) -> None:
        call.made(client)

    @table(CONTROLLER_MAY_NOT)
    def test_may_not(self, client: Client, call: Call) -> None:
        with pytest.raises(ApiError, match="is forbidden"):
            call.made(client)

    def test_is_alone_in_that(self, deployed: Cluster, client: Client) -> None:
        """The admission policy concerns the controller and nobody else."""
        del client
        secret("another").made(deployed.admin)


def run_controller(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    """One look of the controller, as its ServiceAccount."""
    user = cluster.add_service_account_user(NAMESPACE, CONTROLLER)
    command = [*PROGRAM, "controller", "--once", "--policies", str(SHIPPED), *words]
    command += ["--kubeconfig", str(cluster.kubeconfig(user))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


class TestProcesses:
    """The shipped rights are enough for what the processes do."""

    def test_the_controller_makes_everything_and_then_has_nothing_to_do(
        self, deployed: Cluster, cluster: Cluster
    ) -> None:
        first = run_controller(deployed, "--enforce")
        assert (first.returncode, first.stdout) == (0, "changed\n"), first.stderr
        second = run_controller(deployed, "--enforce")
        assert (second.returncode, second.stdout) == (0, "unchanged\n"), second.stderr
        for path in PATHS:
            entries = cluster.admin.get(path)["webhooks"]
            assert {entry["failurePolicy"] for entry in entries} == {"Ignore"}, (
                "no replica answers: nothing may block"
            )
        for name in ("podgate-tls", "podgate-ca"):
            assert cluster.admin.exists(path_of("Secret", NAMESPACE, name))

    def test_the_webhook_sees_all_that_it_asks_about_and_the_pause(
        self, deployed: Cluster, start_podgate: Callable[..., Podgate]
    ) -> None:
        user = deployed.add_service_account_user(NAMESPACE, WEBHOOK)
        options = ("--live", "--kubeconfig", str(deployed.kubeconfig(user)), "--namespace", NAMESPACE)
        podgate = start_podgate(options=options, facts=False)

        def standing() -> Json:
            found: Json = orjson.loads(podgate.get("/readyz")[1])
            return found

        seen = standing()
        assert seen["facts"].keys() >= {"Namespace", "PriorityClass", "StorageClass"}
        assert seen["facts"].keys() <= WATCHED.keys()
        for kind, state in {**seen["facts"], "ConfigMap": seen["pause"]}.items():
            assert "forbidden" not in state["fault"]
            assert state["synced"] is (kind not in KUBESPHERE), (kind, state)
        until = f"--from-literal=until={datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
        assert deployed.kubectl("create", "configmap", "podgate-pause", until, namespace=NAMESPACE).code == 0
        wait_for(lambda: standing()["pause"]["paused"], "the pause is seen")
        deployed.kubectl("delete", "configmap", "podgate-pause", namespace=NAMESPACE)
        wait_for(lambda: not standing()["pause"]["paused"], "the end of the pause is seen")
