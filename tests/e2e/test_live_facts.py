"""`podgate serve --live` against the real API server: what is made later is seen, and faults are lived through."""

from __future__ import annotations

import base64
import http.client
import json
import signal
import ssl
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.client import HOST, ApiError
from tests.e2e.cluster import ALICE
from tests.e2e.control_plane import API_SERVER
from tests.e2e.podgate import write_policies
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import pod

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.cluster import Cluster
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.podgate import Podgate

VISION = {"kubesphere.io/workspace": "vision", "pod-security.kubernetes.io/enforce": "privileged"}
RIGHT_AGAIN = 10
NO_PRIVILEGED = {
    "apiVersion": "podgate.dev/v1alpha1",
    "kind": "PodPolicy",
    "metadata": {"name": "no-privileged"},
    "spec": {
        "mode": "enforce",
        "failurePolicy": "Fail",
        "match": {"workspaces": ["vision"]},
        "rules": [{"name": "r", "forbidBypass": {"privileged": True}}],
    },
}
PRIORITY = {
    "apiVersion": "podgate.dev/v1alpha1",
    "kind": "PodPolicy",
    "metadata": {"name": "priority"},
    "spec": {
        "mode": "enforce",
        "match": {"objectSelector": {"matchLabels": {"want": "priority"}}},
        "rules": [{"name": "r", "setPriorityClass": {"class": "made-later"}}],
    },
}


def privileged(namespace: str) -> dict[str, Any]:
    thing = pod("p", namespace)
    for container in thing["spec"]["containers"]:
        container["securityContext"] = {"privileged": True}
    return thing


def standing(podgate: Podgate, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(podgate.get("/readyz")[1])["facts"][kind]
    return found


def _is_watched(podgate: Podgate, kind: str) -> bool:
    return bool(standing(podgate, kind)["ageSeconds"] == 0)


def _knows_the_class(podgate: Podgate) -> bool:
    """Whether a review, asked without the API server, writes the class of the policy."""
    request = {
        "uid": "u-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "default",
        "userInfo": {"username": "ann"},
        "object": pod("p", "default", labels={"want": "priority"}),
    }
    body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
    context = ssl.create_default_context(cafile=str(podgate.folder / "ca.crt"))
    connection = http.client.HTTPSConnection(HOST, podgate.port, timeout=5, context=context)
    connection.request("POST", "/mutate", body, {"Content-Type": "application/json"})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return b"/spec/priorityClassName" in base64.b64decode(answer["response"].get("patch", ""))


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    return write_policies(tmp_path / "policies", NO_PRIVILEGED, PRIORITY)


@pytest.fixture
def live(cluster: Cluster, policies: Path, start_podgate: Callable[..., Podgate]) -> Podgate:
    return start_podgate([policies], ("--live", "--kubeconfig", str(cluster.kubeconfig())), facts=False)


def test_a_pod_right_after_its_namespace(
    cluster: Cluster,
    live: Podgate,
    register: Callable[..., None],
    add_namespace: Callable[..., str],
) -> None:
    """The first pod of a namespace is judged by the namespace's labels, however soon it comes."""
    register(live)
    for number in range(10):
        name = add_namespace(str(number), VISION)
        with pytest.raises(ApiError) as refused:
            cluster.admin.create(privileged(name), dryRun="All")
        assert "no-privileged/r" in refused.value.message
    cluster.admin.create(privileged(add_namespace("free")))


def test_labels_that_change(
    cluster: Cluster, live: Podgate, register: Callable[..., None], namespace: str
) -> None:
    register(live)
    cluster.admin.create(privileged(namespace), dryRun="All")
    ran = cluster.kubectl("label", "namespace", namespace, "kubesphere.io/workspace=vision")
    assert ran.code == 0, ran.err

    def is_refused() -> bool:
        try:
            cluster.admin.create(privileged(namespace), dryRun="All")
        except ApiError as error:
            return "no-privileged/r" in error.message
        return False

    wait_for(is_refused, "the changed label is known")


def test_a_priority_class_of_later(
    cluster: Cluster, live: Podgate, register: Callable[..., None], namespace: str
) -> None:
    register(live)
    wanted = pod("p", namespace, labels={"want": "priority"})
    assert cluster.admin.create(wanted, dryRun="All")["spec"]["priority"] == 0
    cluster.add_priority_class("made-later", 4711)

    def has_it() -> bool:
        spec = cluster.admin.create(wanted, dryRun="All")["spec"]
        return (spec["priority"], spec.get("priorityClassName")) == (4711, "made-later")

    wait_for(has_it, "the new class is known")


def test_only_what_the_policies_ask_about_is_watched(live: Podgate) -> None:
    assert set(json.loads(live.get("/readyz")[1])["facts"]) == {"Namespace", "PriorityClass"}


def test_kinds_that_may_not_be_listed_are_unknown_and_the_start_goes_on(
    cluster: Cluster, policies: Path, start_podgate: Callable[..., Podgate], tmp_path: Path
) -> None:
    """Alice may list neither of them: podgate is ready all the same, and says so."""
    refused = start_podgate(
        [policies], ("--live", "--kubeconfig", str(cluster.kubeconfig(ALICE))), facts=False
    )
    said = standing(refused, "PriorityClass")
    assert said["synced"] is False
    assert "403 Forbidden" in said["fault"]
    assert refused.metric("podgate_facts_synced", kind="PriorityClass") == 0
    assert "facts not followed" in refused.log()


def test_a_pause_written_with_kubectl(
    cluster: Cluster, policies: Path, start_podgate: Callable[..., Podgate], namespace: str
) -> None:
    options = ("--live", "--kubeconfig", str(cluster.kubeconfig()), "--namespace", namespace)
    podgate = start_podgate([policies], options, facts=False)
    assert podgate.metric("podgate_paused") == 0
    until = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    make = ("create", "configmap", "podgate-pause", f"--from-literal=until={until}", "--from-literal=by=ann")
    ran = cluster.kubectl(*make, namespace=namespace)
    assert ran.code == 0, ran.err
    wait_for(lambda: podgate.metric("podgate_paused") == 1, "the pause holds")
    assert json.loads(podgate.get("/readyz")[1])["pause"]["by"] == "ann"
    ran = cluster.kubectl("delete", "configmap", "podgate-pause", namespace=namespace)
    assert ran.code == 0, ran.err
    wait_for(lambda: podgate.metric("podgate_paused") == 0, "the pause is over")


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_the_api_server_is_started_again(
    own_control_plane: ControlPlane, policies: Path, start_podgate: Callable[..., Podgate], end: str
) -> None:
    plane = own_control_plane
    options = ("--live", "--kubeconfig", str(plane.cluster.kubeconfig()))
    podgate = start_podgate([policies], options, facts=False)
    wait_for(partial(_is_watched, podgate, "Namespace"), "namespaces are watched")
    (plane.stop_api_server if end == "stopped" else plane.kill_api_server)()
    wait_for(lambda: standing(podgate, "Namespace")["ageSeconds"] > 2, "the API server is missed")
    assert podgate.get("/readyz")[0] == 200
    assert standing(podgate, "Namespace")["synced"]
    plane.start_api_server()
    for kind in ("Namespace", "PriorityClass"):
        wait_for(partial(_is_watched, podgate, kind), f"{kind} right again", RIGHT_AGAIN)
    assert "facts right again" in podgate.log()
    assert "Traceback" not in podgate.log()


def test_the_api_server_hangs_for_a_while(
    own_control_plane: ControlPlane, policies: Path, start_podgate: Callable[..., Podgate]
) -> None:
    """What is open stays open, and goes on when the server does."""
    plane = own_control_plane
    options = ("--live", "--kubeconfig", str(plane.cluster.kubeconfig()))
    podgate = start_podgate([policies], options, facts=False)
    wait_for(partial(_is_watched, podgate, "Namespace"), "namespaces are watched")
    server = plane._processes[API_SERVER]
    server.send_signal(signal.SIGSTOP)
    try:
        time.sleep(12)
        assert podgate.get("/readyz")[0] == 200
    finally:
        server.send_signal(signal.SIGCONT)
    assert not _knows_the_class(podgate)
    plane.cluster.add_priority_class("made-later", 12)
    wait_for(partial(_knows_the_class, podgate), "what came after it is known", RIGHT_AGAIN)
