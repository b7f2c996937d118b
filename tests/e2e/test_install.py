"""podgate installed by its own commands: what a real API server takes, what it calls, and what is left afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import orjson
import pytest
import yaml

from tests.e2e.client import ApiError, Json, path_of
from tests.e2e.cluster import ADMIN, ALICE, NODE, ROOT, Cluster, Ran
from tests.e2e.nodes import H100
from tests.e2e.podgate import write_policies
from tests.e2e.registration import LATE, PATHS
from tests.e2e.waiting import stays, wait_for
from tests.e2e.workloads import container, deployment, pod

if TYPE_CHECKING:
    from pathlib import Path

    from tests.e2e.podgate import Podgate

COMMAND_SECONDS = 60

Command = Callable[..., Ran]


@pytest.fixture
def command(cluster: Cluster) -> Iterator[Command]:
    """Run `podgate` as its own process against the cluster; the configurations are gone afterwards."""

    def run(*words: object, user: str = ADMIN) -> Ran:
        program = [sys.executable, "-P", "-c", "from webhook.cli.main import main; main()"]
        ran = subprocess.run(
            [*program, *map(str, words), "--kubeconfig", str(cluster.kubeconfig(user))],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(cluster.folder)},
        )
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    yield run
    for path in PATHS:
        cluster.admin.delete(path)


def words_for(podgate: Podgate) -> list[object]:
    folders: list[object] = [word for path in podgate.policies for word in ("--policies", path)]
    return [*folders, "--url", podgate.url, "--ca-file", podgate.folder / "ca.crt"]


@pytest.fixture
def installed(command: Command, cluster: Cluster, namespace: str) -> Callable[..., None]:
    """Install a podgate by its command, and wait until it is called."""

    def install(podgate: Podgate, *more: object) -> None:
        ran = command("install", *words_for(podgate), *more)
        assert (ran.code, ran.err) == (0, "")
        wait_for(lambda: is_called(cluster, podgate, pod("probe", namespace, gpus=1)), "podgate is called")

    return install


def calls(podgate: Podgate) -> float:
    return podgate.metric("podgate_admission_requests_total")


def tried(cluster: Cluster, thing: Json, user: str = "admin") -> Json | ApiError:
    """Create an object in a dry run; a refusal is an answer, too."""
    try:
        found: Json = cluster.client(user).create(thing, dryRun="All")
    except ApiError as error:
        return error
    return found


def is_called(cluster: Cluster, podgate: Podgate, thing: Json, user: str = "admin") -> bool:
    before = calls(podgate)
    tried(cluster, thing, user)
    return calls(podgate) > before


def configurations(cluster: Cluster) -> list[Json]:
    return [cluster.admin.call("GET", path).body for path in PATHS]


def test_the_api_server_takes_the_configurations_of_all_policies_and_a_second_install_changes_nothing(
    command: Command, cluster: Cluster, start_podgate: Callable[..., Podgate]
) -> None:
    podgate = start_podgate()
    first = command("install", *words_for(podgate))
    assert (first.code, first.err) == (0, "")
    stored = configurations(cluster)
    assert {entry["failurePolicy"] for each in stored for entry in each["webhooks"]} == {"Ignore"}
    second = command("install", *words_for(podgate))
    assert [line for line in second.out.splitlines() if "gate.podgate.dev:" in line] == [
        "MutatingWebhookConfiguration gate.podgate.dev: unchanged",
        "MutatingWebhookConfiguration zzz.gate.podgate.dev: unchanged",
        "ValidatingWebhookConfiguration gate.podgate.dev: unchanged",
    ]
    assert configurations(cluster) == stored


def class_policy(mode: str) -> Json:
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": "class"},
        "spec": {
            "mode": mode,
            "match": {"accelerators": {}},
            "rules": [{"name": "class", "setPriorityClass": {"class": "ai-train-high"}}],
        },
    }


def test_the_late_configuration_comes_and_goes_with_the_policies_that_need_it(
    command: Command, cluster: Cluster, start_podgate: Callable[..., Podgate], tmp_path: Path
) -> None:
    """An installation that has none, by policies or by an earlier version, gets it by the same command."""
    folder = tmp_path / "policies"
    late = PATHS[1]
    words: list[object] = []

    def install(mode: str) -> list[str]:
        write_policies(folder, class_policy(mode))
        ran = command("install", *words)
        assert (ran.code, ran.err) == (0, "")
        return [line for line in ran.out.splitlines() if "zzz.gate.podgate.dev" in line]

    write_policies(folder, class_policy("audit"))
    words = words_for(start_podgate((folder,)))
    assert install("audit") == []
    assert not cluster.admin.exists(late)
    assert install("enforce") == ["MutatingWebhookConfiguration zzz.gate.podgate.dev: created"]
    assert [entry["name"] for entry in cluster.admin.get(late)["webhooks"]] == [LATE]
    assert install("audit") == ["MutatingWebhookConfiguration zzz.gate.podgate.dev: changed"]
    assert "webhooks" not in cluster.admin.get(late)
    assert install("audit") == ["MutatingWebhookConfiguration zzz.gate.podgate.dev: unchanged"]
    assert install("enforce") == ["MutatingWebhookConfiguration zzz.gate.podgate.dev: changed"]
    assert command("uninstall").code == 0
    assert not any(map(cluster.admin.exists, PATHS))


PLAIN: dict[str, Callable[[str], Json]] = {
    "a pod": lambda ns: pod("web", ns),
    "a pod on a platform": lambda ns: pod("web", ns, nodeSelector={"kubernetes.io/os": "linux"}),
    "another device": lambda ns: pod("web", ns, gpus=1, resource="smarter-devices/fuse"),
    "a Deployment": lambda ns: deployment("web", ns, {"containers": [container()]}),
    "a Job": lambda ns: {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": ns},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}},
    },
    "a ConfigMap": lambda ns: {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c", "namespace": ns},
    },
}
CONCERNED: dict[str, Callable[[str], Json]] = {
    "a GPU": lambda ns: pod("gpu", ns, gpus=1),
    "a MIG slice": lambda ns: pod("gpu", ns, gpus=1, resource="nvidia.com/mig-1g.5gb"),
    "a GPU in an init container": lambda ns: pod("gpu", ns, initContainers=[container("init", gpus=1)]),
    "a device claim": lambda ns: pod(
        "gpu", ns, resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}]
    ),
    "a fraction by annotation": lambda ns: pod("gpu", ns, annotations={"gpu-fraction": "0.5"}),
    "a toleration of its own": lambda ns: pod("web", ns, tolerations=[{"operator": "Exists"}]),
    "a node selector": lambda ns: pod("web", ns, nodeSelector={"pool": "gpu"}),
    "a host path": lambda ns: pod("web", ns, volumes=[{"name": "v", "hostPath": {"path": "/dev"}}]),
    "a variable": lambda ns: pod(
        "web", ns, containers=[container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}])]
    ),
    "a forged record": lambda ns: pod("web", ns, annotations={"podgate.dev/changes": "[]"}),
    "a Deployment with a GPU": lambda ns: deployment("gpu", ns, {"containers": [container(gpus=1)]}),
    "a claim": lambda ns: {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": ns},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
}


def test_only_what_a_policy_concerns_makes_a_call(
    cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], installed: Callable[..., None]
) -> None:
    podgate = start_podgate()
    installed(podgate)
    errors = condition_errors(cluster)
    called = {
        name: is_called(cluster, podgate, make(namespace)) for name, make in (PLAIN | CONCERNED).items()
    }
    assert called == dict.fromkeys(PLAIN, False) | dict.fromkeys(CONCERNED, True)
    assert condition_errors(cluster) == errors


def test_the_time_of_its_deletion_takes_no_new_object_past_podgate(
    cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], installed: Callable[..., None]
) -> None:
    """A server-side apply keeps it in an object that it creates; a creation does not."""
    podgate = start_podgate()
    installed(podgate)
    thing = pod("gpu", namespace, gpus=1)
    thing["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    before = calls(podgate)
    made = cluster.admin.apply(thing, dryRun="All")
    assert made["metadata"]["deletionTimestamp"] == "2030-01-01T00:00:00Z"
    assert calls(podgate) > before


def condition_errors(cluster: Cluster) -> float:
    """Match conditions that an API server could not evaluate; the webhook is then skipped, or the object refused."""
    name = "apiserver_admission_match_condition_evaluation_errors_total"
    lines = [line for line in cluster.metrics().splitlines() if line.startswith(f"{name}{{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines if "podgate.dev" in line)


def test_updates_of_a_pod_make_a_call_only_where_its_spec_changes(
    cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], installed: Callable[..., None]
) -> None:
    podgate = start_podgate()
    installed(podgate)
    made = cluster.admin.create(pod("gpu", namespace, gpus=1))
    path = path_of("Pod", namespace, "gpu")
    before = calls(podgate)
    cluster.admin.patch(path, {"metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/f"]}})
    cluster.admin.patch(f"{path}/status", {"status": {"message": "x"}})
    assert calls(podgate) == before
    image = {"containers": [{**made["spec"]["containers"][0], "image": "other"}]}
    cluster.admin.patch(path, {"spec": image})
    assert calls(podgate) > before
    before = calls(podgate)
    cluster.admin.patch(path, {"metadata": {"finalizers": None}})
    cluster.admin.delete(path)
    assert calls(podgate) == before


def test_a_mirror_pod_of_a_node_makes_no_call(
    cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], installed: Callable[..., None]
) -> None:
    podgate = start_podgate()
    installed(podgate)
    mirror = pod(
        "mirror", namespace, gpus=1, annotations={"kubernetes.io/config.mirror": "x"}, nodeName="h100-1"
    )
    owner = cluster.admin.call("GET", path_of("Node", name="h100-1")).body["metadata"]
    mirror["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": owner["name"], "uid": owner["uid"], "controller": True}
    ]
    assert not is_called(cluster, podgate, mirror, user=NODE)
    assert is_called(cluster, podgate, mirror, user=ALICE)


AT_THE_BOUNDS = "as many containers, resources and variables as are looked at"
HOSTILE: dict[str, Callable[[str], Json]] = {
    AT_THE_BOUNDS: lambda ns: pod(
        "big",
        ns,
        containers=[
            container(
                f"c{index}",
                env=[{"name": f"VARIABLE_WITH_A_LONG_NAME_{number}", "value": "x"} for number in range(300)],
                resources={
                    part: {f"devices.example.com/some-device-{number}": "1" for number in range(24)}
                    for part in ("limits", "requests")
                },
            )
            for index in range(32)
        ],
        volumes=[{"name": f"v{index}", "emptyDir": {}} for index in range(299)],
        tolerations=[{"key": f"node.kubernetes.io/k{index}", "operator": "Exists"} for index in range(298)],
        nodeSelector={"kubernetes.io/os": "linux"},
    ),
    "many more variables": lambda ns: pod(
        "big", ns, containers=[container(env=[{"name": f"V{number}"} for number in range(24_000)])]
    ),
    "many resources": lambda ns: pod(
        "big",
        ns,
        containers=[
            container(resources={"limits": {f"example.com/r{number}": "1" for number in range(30_000)}})
        ],
    ),
    "no list of containers": lambda ns: pod("big", ns, containers=None),
    "containers that are null": lambda ns: pod("big", ns, containers=[None]),
    "nulls everywhere": lambda ns: pod(
        "big",
        ns,
        initContainers=None,
        volumes=None,
        tolerations=None,
        nodeSelector={"a": None},
        affinity={"nodeAffinity": None},
        containers=[{"name": "c", "image": "i", "env": None, "resources": None, "securityContext": None}],
    ),
}


def test_no_object_makes_a_condition_fail(
    cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], installed: Callable[..., None]
) -> None:
    podgate = start_podgate()
    installed(podgate)
    errors = condition_errors(cluster)
    called = {name: is_called(cluster, podgate, make(namespace)) for name, make in HOSTILE.items()}
    assert condition_errors(cluster) == errors
    assert not called[AT_THE_BOUNDS], "the whole condition was evaluated, to false"
    assert called["many more variables"]
    assert called["many resources"]


def test_no_object_makes_a_condition_of_many_patterns_fail(
    command: Command, cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], tmp_path: Path
) -> None:
    """How many variables are looked at depends on how many patterns each is compared with."""
    policy = yaml.safe_load((ROOT / "policies" / "no-bypass.yaml").read_text())
    policy["spec"]["rules"][0]["forbidBypass"] = {"env": [f"P{number}_*_Z" for number in range(80)]}
    podgate = start_podgate(policies=(write_policies(tmp_path / "policies", policy),))
    assert command("install", *words_for(podgate)).code == 0
    wait_for(lambda: is_called(cluster, podgate, with_variables(namespace, 300)), "podgate is called")
    errors = condition_errors(cluster)
    called = {count: is_called(cluster, podgate, with_variables(namespace, count)) for count in (1, 12, 300)}
    assert condition_errors(cluster) == errors
    assert called == {1: False, 12: False, 300: True}


def with_variables(namespace: str, count: int) -> Json:
    """A pod of 32 containers, each with so many variables that nearly fit every pattern."""
    variables = [{"name": f"P{number % 80}_{'X' * number}"} for number in range(count)]
    return pod("big", namespace, containers=[container(f"c{index}", env=variables) for index in range(32)])


def test_a_condition_that_fails_would_be_counted(
    cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], installed: Callable[..., None]
) -> None:
    podgate = start_podgate()
    installed(podgate)
    errors = condition_errors(cluster)
    stored = cluster.admin.call("GET", PATHS[0]).body
    stored["webhooks"][0]["matchConditions"] = [{"name": "faulty", "expression": "object.spec.nothing == 1"}]
    cluster.admin.call("PUT", PATHS[0], stored)

    def counted() -> bool:
        tried(cluster, pod("gpu", namespace, gpus=1))
        return condition_errors(cluster) > errors

    wait_for(counted, "the failing condition is counted")


def test_the_namespaces_of_the_cluster_itself_and_those_that_are_named_make_no_call(
    cluster: Cluster,
    namespace: str,
    add_namespace: Callable[..., str],
    start_podgate: Callable[..., Podgate],
    installed: Callable[..., None],
) -> None:
    podgate = start_podgate()
    outside = add_namespace("outside", {"podgate.dev/ignore": "true"})
    installed(podgate, "--exclude-namespace", outside)
    assert not is_called(cluster, podgate, pod("gpu", outside, gpus=1))
    assert not is_called(cluster, podgate, pod("gpu", "kube-system", gpus=1))
    cluster.admin.patch(
        path_of("Namespace", name=namespace), {"metadata": {"labels": {"podgate.dev/ignore": "true"}}}
    )
    assert is_called(cluster, podgate, pod("gpu", namespace, gpus=1, labels={"podgate.dev/ignore": "true"}))


def test_enforcing_is_refused_until_podgate_answers(
    command: Command, cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate]
) -> None:
    podgate = start_podgate()
    words = [*words_for(podgate), "--enforce", "--probe-namespace", namespace]
    podgate.stop()
    refused = command("install", *words)
    assert refused.code == 1
    assert "failurePolicy stays Ignore" in refused.err
    assert failure_policies(cluster) == {"Ignore"}
    podgate.start()
    done = command("install", *words)
    assert (done.code, done.err) == (0, "")
    assert f"probe pod in namespace {namespace}: podgate answers\n" in done.out
    assert failure_policies(cluster) == {"Ignore", "Fail"}
    podgate.stop()
    stopped = tried(cluster, pod("gpu", namespace, gpus=1))
    assert isinstance(stopped, ApiError)
    assert 'failed calling webhook "fail.validate.podgate.dev"' in stopped.message
    assert not isinstance(tried(cluster, pod("web", namespace)), ApiError)


def failure_policies(cluster: Cluster) -> set[str]:
    return {entry["failurePolicy"] for each in configurations(cluster) for entry in each["webhooks"]}


def test_uninstall_under_load_holds_up_nobody_and_leaves_nothing(
    command: Command, cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate]
) -> None:
    podgate = start_podgate()
    installed = command("install", *words_for(podgate), "--enforce", "--probe-namespace", namespace)
    assert (installed.code, installed.err) == (0, "")
    failures: list[str] = []
    stop = threading.Event()

    def create() -> None:
        while not stop.wait(0.02):
            found = tried(cluster, pod("gpu", namespace, gpus=1), ALICE)
            if isinstance(found, ApiError):
                failures.append(found.message)

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    time.sleep(1)
    removed = command("uninstall")
    time.sleep(1)
    stop.set()
    for thread in threads:
        thread.join()
    assert (removed.code, removed.err, failures) == (0, "", [])
    assert [cluster.admin.exists(path) for path in PATHS] == [False] * 3
    podgate.stop()
    stays(
        lambda: not isinstance(tried(cluster, pod("gpu", namespace, gpus=9)), ApiError),
        "nothing is refused",
        1,
    )
    again = command("uninstall")
    assert (again.code, again.out.count("not there")) == (0, 3)


def test_a_pause_lets_policies_audit_and_ends_by_itself(
    command: Command, cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], tmp_path: Path
) -> None:
    live = ("--live", "--kubeconfig", str(cluster.kubeconfig()), "--namespace", namespace)
    podgate = start_podgate((write_policies(tmp_path / "policies", CAP),), live, facts=False)
    installed = command("install", *words_for(podgate))
    assert (installed.code, installed.err) == (0, "")
    greedy = pod("greedy", namespace, gpus=9)

    def is_refused() -> bool:
        return isinstance(tried(cluster, greedy), ApiError)

    wait_for(is_refused, "the policy refuses")
    here = ("--namespace", namespace)
    paused = command("pause", "--for", "12s", "--reason", "e2e", *here)
    assert (paused.code, paused.err) == (0, "")
    began = time.monotonic()
    wait_for(lambda: not is_refused(), "the pause is in force")
    assert podgate.metric("podgate_paused") == 1
    wait_for(is_refused, "the pause has ended by itself", 30)
    assert time.monotonic() - began > 5
    assert podgate.metric("podgate_paused") == 0
    assert command("pause", "--for", "1h", "--reason", "e2e", *here).code == 0
    wait_for(lambda: not is_refused(), "the second pause is in force")
    assert command("pause", "--end", *here).out == "The pause is over: policies do what they say.\n"
    wait_for(is_refused, "the second pause was ended")


CAP: Json = {
    "apiVersion": "podgate.dev/v1alpha1",
    "kind": "PodPolicy",
    "metadata": {"name": "cap"},
    "spec": {
        "mode": "enforce",
        "match": {"accelerators": {}},
        "rules": [{"name": "cap", "limitAcceleratorCount": {"perPod": {"max": 8}}}],
    },
}


@pytest.fixture
def examined(
    command: Command, cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate]
) -> Callable[..., dict[tuple[str, str], list[str]]]:
    """Ask the doctor about the podgate of this test: texts by check and level."""

    def ask(podgate: Podgate, user: str = ADMIN) -> dict[tuple[str, str], list[str]]:
        folders = [word for path in podgate.policies for word in ("--policies", path)]
        places = ("--namespace", namespace, "--probe-namespace", namespace)
        ran = command("doctor", *folders, *places, "-o", "json", user=user)
        assert ran.err == ""
        found: dict[tuple[str, str], list[str]] = {}
        for each in orjson.loads(ran.out)["checks"]:
            found.setdefault((each["check"], each["level"]), []).append(each["text"])
        return found

    return ask


def fails(found: dict[tuple[str, str], list[str]]) -> dict[str, list[str]]:
    return {check: texts for (check, level), texts in found.items() if level == "fail"}


def test_the_doctor_finds_a_good_installation_good(
    cluster: Cluster,
    start_podgate: Callable[..., Podgate],
    installed: Callable[..., None],
    examined: Callable[..., dict[tuple[str, str], list[str]]],
) -> None:
    podgate = start_podgate()
    installed(podgate)
    found = examined(podgate)
    assert fails(found) == {}
    good = {check for check, level in found if level == "ok"}
    assert good >= {
        "configurations",
        "certificate",
        "probe pod",
        "pause",
        "priority classes",
        "storage classes",
        "RDMA",
    }
    decoys = [text for text in found["nodes", "warn"] if "lands on" in text]
    assert decoys
    assert all("lands on decoy" in text for text in decoys)


def test_the_doctor_finds_each_fault(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    installed: Callable[..., None],
    examined: Callable[..., dict[tuple[str, str], list[str]]],
) -> None:
    podgate = start_podgate()
    installed(podgate)
    cluster.admin.delete(path_of("PriorityClass", name="ai-train-high"))
    cluster.admin.delete(path_of("StorageClass", name="ceph-block"))
    without = {"allocatable": {"rdma/ib": None}, "capacity": {"rdma/ib": None}}
    for node in H100:
        cluster.admin.patch(path_of("Node", name=node, subresource="status"), {"status": without})
    entry = {
        "name": "gone.example.com",
        "clientConfig": {"service": {"namespace": namespace, "name": "gone"}},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "namespaceSelector": {"matchLabels": {"nobody": "has-it"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    cluster.admin.create(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "a-gone"},
            "webhooks": [entry],
        }
    )
    stored = cluster.admin.call("GET", PATHS[-1]).body
    stored["webhooks"][0]["objectSelector"] = {"matchLabels": {"gate": "on"}}
    stored["webhooks"].pop()
    cluster.admin.call("PUT", PATHS[-1], stored)
    podgate.new_certificate()
    podgate.restart()
    found = examined(podgate)
    gone = "MutatingWebhookConfiguration a-gone, entry gone.example.com"
    assert {
        check: sorted(texts) for check, texts in fails(found).items() if check not in ("certificate", "RDMA")
    } == {
        "configurations": [
            "fail.validate.podgate.dev has an objectSelector: whoever writes an object can exempt it by a label",
            "ignore.validate.podgate.dev is missing, and policies need it",
        ],
        "probe pod": [f"a dry run in namespace {namespace} shows no answer of podgate"],
        "priority classes": [
            "there is no priority class ai-train-high, which policies give: training-priority",
        ],
        "storage classes": ["there is no storage class ceph-block, which policies give: ceph-storage"],
        "other webhooks": [
            f"{gone} has failurePolicy Fail for pods, and its Service {namespace}/gone does not exist"
        ],
    }
    [certificate] = found["certificate", "fail"]
    assert "serves a certificate that the caBundle of mutate.podgate.dev does not trust: " in certificate
    assert found["RDMA", "fail"] == [
        "no node of pool h100-ib offers rdma/ib, which pods there are given: they stay pending"
    ]
    assert found["other webhooks", "warn"] == [
        f"{gone} is called for pods before podgate and never again: it does not see what podgate sets"
    ]


def test_the_doctor_calls_nothing_good_that_it_may_not_look_at(
    start_podgate: Callable[..., Podgate],
    installed: Callable[..., None],
    examined: Callable[..., dict[tuple[str, str], list[str]]],
    cluster: Cluster,
) -> None:
    podgate = start_podgate()
    installed(podgate)
    found = examined(podgate, user=ALICE)
    unknown = {check for check, level in found if level == "unknown"}
    assert unknown >= {
        "configurations",
        "certificate",
        "priority classes",
        "storage classes",
        "nodes",
        "other webhooks",
    }
    assert not {(check, "ok") for check in unknown} & found.keys()
