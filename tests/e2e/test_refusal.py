"""What the author of a refused object reads, wherever Kubernetes shows it, and what a try leaves behind: nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.e2e.client import ApiError, Json, path_of
from tests.e2e.cluster import ALICE
from tests.e2e.nodes import GPU
from tests.e2e.podgate import write_policies
from tests.e2e.registration import FAIL, IGNORE, MUTATE
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import container, deployment, pod

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.cluster import Cluster
    from tests.e2e.podgate import Podgate

ALL_DEVICES = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
CONSOLE = 200
"""Characters of a message that consoles show."""


class Refusal(NamedTuple):
    """What is refused, and what is said of it.

    Attributes:
        gpus: of the pod's one container.
        more: other fields of the container.
        spec: other fields of the pod's spec.
        labels: of the pod.
        entry: who refuses it.
        rule: by which rule.
        says: what is wrong.
        where: the field.
        do: the remedy.
    """

    entry: str
    rule: str
    says: str
    where: str
    do: str
    gpus: int = 0
    more: Json = {}
    spec: Json = {}
    labels: Json = {}

    def pod_spec(self) -> Json:
        return {"containers": [container(gpus=self.gpus, **self.more)]} | self.spec

    def text(self, logged: Json, prefix: str = "") -> str:
        """The whole message, with what the log line of the decision says of it."""
        return (
            f'admission webhook "{self.entry}" denied the request: {self.says}.\n'
            f"  where: {prefix}{self.where}\n"
            f"  do:    {self.do}\n"
            f"  why:   {self.rule}, policies {logged['policies']}, decision {logged['decision_id']}"
        )


TOO_MANY = Refusal(
    FAIL,
    "gpu-limits/cap",
    "16 nvidia.com/gpu asked, at most 8 per pod",
    'spec.containers["main"].resources.limits["nvidia.com/gpu"]',
    "ask for fewer, or spread the work over several pods with at most 8 each",
    gpus=16,
)
REFUSALS: dict[str, Refusal] = {
    "too many accelerators": TOO_MANY,
    "all devices without asking": Refusal(
        FAIL,
        "no-bypass/devices",
        "container main sets NVIDIA_VISIBLE_DEVICES, which gives it accelerators that it does not ask for",
        'spec.containers["main"].env["NVIDIA_VISIBLE_DEVICES"]',
        "remove NVIDIA_VISIBLE_DEVICES, or ask for an accelerator in the resources of container main",
        more={"env": ALL_DEVICES},
    ),
    "the node's devices": Refusal(
        FAIL,
        "no-bypass/devices",
        "volume d is /dev of the node, which gives access to /dev/nvidia* past the scheduler",
        'spec.volumes["d"].hostPath.path',
        "remove volume d; devices come with the resources that a container asks for",
        spec={"volumes": [{"name": "d", "hostPath": {"path": "/dev"}}]},
    ),
    "a guest's toleration": Refusal(
        IGNORE,
        "nodes-reserved/squatting",
        "the pod asks for no accelerator but tolerates nvidia.com/gpu, the taint that keeps accelerator nodes free",
        'spec.tolerations["nvidia.com/gpu"]',
        "remove the toleration nvidia.com/gpu, or ask for an accelerator",
        spec={"tolerations": [{"key": GPU, "operator": "Exists"}]},
    ),
    "a guest's node selector": Refusal(
        IGNORE,
        "nodes-reserved/squatting",
        "the pod asks for no accelerator but its placement (nvidia.com/gpu.present In [true]) takes it to accelerator nodes",
        'spec.nodeSelector["nvidia.com/gpu.present"]',
        "remove nvidia.com/gpu.present In [true], or ask for an accelerator",
        spec={"nodeSelector": {"nvidia.com/gpu.present": "true"}},
    ),
    "pinned to a node": Refusal(
        IGNORE,
        "gpu-placement-check/nodes",
        "the pod asks for 1 nvidia.com/gpu and is pinned to node h100-1, past the scheduler, which alone knows where devices"
        " are free",
        "spec.nodeName",
        "remove spec.nodeName; choose nodes with a node selector",
        gpus=1,
        spec={"nodeName": "h100-1"},
    ),
    "kept off the nodes": Refusal(
        IGNORE,
        "gpu-placement-check/nodes",
        "the pod asks for 1 nvidia.com/gpu but its placement (nvidia.com/gpu.present In [false]) keeps it off the nodes that"
        " have them",
        'spec.nodeSelector["nvidia.com/gpu.present"]',
        "remove nvidia.com/gpu.present In [false]",
        gpus=1,
        spec={"nodeSelector": {"nvidia.com/gpu.present": "false"}},
    ),
    "another vendor's nodes": Refusal(
        IGNORE,
        "gpu-placement-check/nodes",
        "the pod asks for 1 nvidia.com/gpu but its placement (accelerator In [huawei-Ascend910]) takes it to nodes of huawei",
        "spec.nodeSelector.accelerator",
        "remove accelerator In [huawei-Ascend910], or ask for the accelerators of huawei",
        gpus=1,
        spec={"nodeSelector": {"accelerator": "huawei-Ascend910"}},
    ),
    "a notebook before training": Refusal(
        IGNORE,
        "allowed-priorities/class",
        "priority class ai-train-high is not for notebook pods (label notebook-name), which may have ai-interactive",
        "spec.priorityClassName",
        "set spec.priorityClassName to one of: ai-interactive",
        gpus=1,
        spec={"priorityClassName": "ai-train-high"},
        labels={"notebook-name": "explore"},
    ),
}


def denial_of(podgate: Podgate, namespace: str, **wanted: Any) -> Json:
    """The one log line of a refusal."""
    (found,) = podgate.reviews(namespace=namespace, decision="deny", **wanted)
    return found


def is_stored(cluster: Cluster, namespace: str, kind: str = "Pod") -> bool:
    return bool(cluster.admin.items(kind, namespace))


def denials_by_name(podgate: Podgate, namespace: str, kind: str) -> dict[str, Json]:
    """The log lines of refusals, by the names of the objects: one each."""
    found = podgate.reviews(namespace=namespace, kind=kind, decision="deny")
    assert len(found) == len(REFUSALS)
    return {each["name"]: each for each in found}


def slug(name: str) -> str:
    return re.sub("[^a-z]+", "-", name)


def test_kubectl_prints_what_is_wrong_where_and_what_to_do(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    printed = {}
    for name, refusal in REFUSALS.items():
        manifest = pod(slug(name), namespace, labels=refusal.labels) | {"spec": refusal.pod_spec()}
        printed[name] = cluster.kubectl("create", "-f", "-", stdin=manifest, user=ALICE)
    logged = denials_by_name(podgate, namespace, "Pod")
    texts = {name: refusal.text(logged[slug(name)]) for name, refusal in REFUSALS.items()}
    head = 'Error from server (Forbidden): error when creating "STDIN": '
    assert printed == {name: (1, "", f"{head}{text}\n") for name, text in texts.items()}
    assert not is_stored(cluster, namespace)
    cut = {name: text[:CONSOLE] for name, text in texts.items()}
    assert [name for name, refusal in REFUSALS.items() if f": {refusal.says}." not in cut[name]] == []


def test_programs_get_the_reason_and_each_cause_with_its_field(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    found = {}
    for name, refusal in REFUSALS.items():
        thing = pod(slug(name), namespace, labels=refusal.labels) | {"spec": refusal.pod_spec()}
        with pytest.raises(ApiError) as refused:
            cluster.client(ALICE).create(thing)
        found[name] = refused.value.body
    logged = denials_by_name(podgate, namespace, "Pod")
    assert found == {
        name: {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": refusal.text(logged[slug(name)]),
            "reason": "Forbidden",
            "details": {
                "causes": [{"reason": refusal.rule, "message": refusal.says, "field": refusal.where}]
            },
            "code": 403,
        }
        for name, refusal in REFUSALS.items()
    }


def test_the_author_of_a_deployment_is_refused_when_he_applies_it(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    printed = {}
    for name, refusal in REFUSALS.items():
        manifest = deployment(slug(name), namespace, refusal.pod_spec(), **refusal.labels)
        printed[name] = cluster.kubectl("apply", "-f", "-", stdin=manifest, user=ALICE)
    logged = denials_by_name(podgate, namespace, "Deployment")
    texts = {name: refusal.text(logged[slug(name)], "spec.template.") for name, refusal in REFUSALS.items()}
    head = 'Error from server (Forbidden): error when creating "STDIN": '
    assert printed == {name: (1, "", f"{head}{text}\n") for name, text in texts.items()}
    assert not is_stored(cluster, namespace, "Deployment")


def test_a_pod_with_several_faults_hears_of_all_that_one_entry_refuses(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    """The two entries are asked at once, and the API server shows the refusal that comes first: each alone is of use."""
    thing = pod("p", namespace, 16, tolerations=[{"operator": "Exists"}])
    thing["spec"]["containers"].append(container("side", env=ALL_DEVICES))
    thing["spec"]["volumes"] = [{"name": "d", "hostPath": {"path": "/dev"}}]
    with pytest.raises(ApiError) as refused:
        cluster.client(ALICE).create(thing)
    assert [(each["reason"], each["field"]) for each in refused.value.causes] == [
        ("gpu-limits/cap", 'spec.containers["main"].resources.limits["nvidia.com/gpu"]'),
        ("no-bypass/devices", 'spec.containers["side"].env["NVIDIA_VISIBLE_DEVICES"]'),
        ("no-bypass/devices", 'spec.volumes["d"].hostPath.path'),
    ]
    assert refused.value.message.count("\n  where: ") == 3
    assert denial_of(podgate, namespace)["webhook"] == "validate/fail"


def limit(check: str) -> Json:
    """A policy whose word to authors of controllers is of this sort."""
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": "gpu-limits"},
        "spec": {
            "mode": "enforce",
            "failurePolicy": "Fail",
            "match": {"accelerators": {}},
            "templates": {"check": check},
            "rules": [{"name": "cap", "limitAcceleratorCount": {"perPod": {"max": 8}}}],
        },
    }


@pytest.mark.parametrize(
    ("check", "warnings"),
    [
        pytest.param(
            "warn",
            f"Warning: [{TOO_MANY.rule}] {TOO_MANY.says}\nWarning: [{TOO_MANY.rule}] do: {TOO_MANY.do}\n",
            id="warned",
        ),
        pytest.param("disabled", "", id="not told"),
    ],
)
def test_a_deployment_that_is_let_through_fails_at_its_pods(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
    check: str,
    warnings: str,
) -> None:
    podgate = start_podgate((write_policies(tmp_path / "policies", limit(check)),))
    register(podgate)
    manifest = deployment("web", namespace, TOO_MANY.pod_spec())
    ran = cluster.kubectl("apply", "-f", "-", stdin=manifest, user=ALICE)
    assert ran == (0, "deployment.apps/web created\n", warnings)
    (event, *_) = wait_for(lambda: cluster.events(namespace, "FailedCreate"), "the event of the ReplicaSet")
    denials = podgate.reviews(namespace=namespace, decision="deny", kind="Pod")
    assert event in {f"Error creating: {TOO_MANY.text(each)}" for each in denials}
    (condition,) = wait_for(
        lambda: [
            each
            for each in cluster.admin.read("Deployment", namespace, "web")
            .get("status", {})
            .get("conditions", [])
            if each["type"] == "ReplicaFailure"
        ],
        "the Deployment says that its pods fail",
    )
    assert (condition["reason"], condition["status"]) == ("FailedCreate", "True")
    assert condition["message"] in {TOO_MANY.text(each) for each in denials}
    assert not is_stored(cluster, namespace)


TRIES: dict[str, tuple[str, ...]] = {
    "create": ("create", "--dry-run=server"),
    "apply": ("apply", "--dry-run=server"),
    "server-side": ("apply", "--server-side", "--dry-run=server"),
}


def live(namespace: str) -> Json:
    """A pod that podgate changes."""
    return pod("p", namespace, 2, labels={"podgate.dev/workload": "training"})


@pytest.mark.parametrize("words", TRIES.values(), ids=TRIES)
def test_a_dry_run_is_refused_with_the_same_words(
    cluster: Cluster, namespace: str, podgate: Podgate, words: tuple[str, ...]
) -> None:
    manifest = pod("p", namespace) | {"spec": TOO_MANY.pod_spec()}
    ran = cluster.kubectl(*words, "-f", "-", stdin=manifest, user=ALICE)
    text = TOO_MANY.text(denial_of(podgate, namespace, dry_run=True))
    doing = "" if "--server-side" in words else 'error when creating "STDIN": '
    assert ran == (1, "", f"Error from server (Forbidden): {doing}{text}\n")
    assert not is_stored(cluster, namespace)
    assert {each["dry_run"] for each in podgate.reviews(namespace=namespace)} == {True}


@pytest.mark.parametrize("words", TRIES.values(), ids=TRIES)
def test_a_dry_run_shows_what_the_real_run_makes_and_leaves_nothing(
    cluster: Cluster, namespace: str, podgate: Podgate, words: tuple[str, ...]
) -> None:
    tried = cluster.kubectl(*words, "-f", "-", "-o", "yaml", stdin=live(namespace), user=ALICE)
    assert (tried.code, tried.err) == (0, "")
    assert "priorityClassName: ai-train-high" in tried.out
    assert not is_stored(cluster, namespace)
    real = [word for word in words if word != "--dry-run=server"]
    made = cluster.kubectl(*real, "-f", "-", "-o", "yaml", stdin=live(namespace), user=ALICE)
    assert without_what_differs(made.out) == without_what_differs(tried.out)
    counted = {
        tried: podgate.metric("podgate_admission_requests_total", webhook="mutate", dry_run=tried)
        for tried in ("true", "false")
    }
    assert counted == {"true": 1, "false": 1}


def without_what_differs(text: str) -> str:
    """Without what is made anew for each pod, and the decision, which is about an object with these."""
    text = re.sub(r"(?m)^ *(uid|creationTimestamp|resourceVersion|time|podgate.dev/decision): .*\n", "", text)
    return re.sub(r"kube-api-access-[a-z0-9]{5}", "kube-api-access", text)


def test_kubectl_diff_shows_what_podgate_would_change(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    ran = cluster.kubectl("diff", "-f", "-", stdin=live(namespace), user=ALICE)
    assert (ran.code, ran.err) == (1, "")
    added = [line.removeprefix("+").strip() for line in ran.out.splitlines() if line.startswith("+")]
    assert "priorityClassName: ai-train-high" in added
    assert "priority: 1000000" in added
    assert not is_stored(cluster, namespace)
    assert {each["dry_run"] for each in podgate.reviews(namespace=namespace)} == {True}


def test_kubectl_diff_of_what_was_applied_is_empty(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=live(namespace), user=ALICE)
    assert cluster.kubectl("diff", "-f", "-", stdin=live(namespace), user=ALICE) == (0, "", "")


def test_kubectl_diff_is_refused_with_the_same_words(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    manifest = deployment("web", namespace, {"containers": [container(gpus=2)]})
    assert cluster.kubectl("apply", "-f", "-", stdin=manifest, user=ALICE).code == 0
    changed = deployment("web", namespace, TOO_MANY.pod_spec())
    ran = cluster.kubectl("diff", "-f", "-", stdin=changed, user=ALICE)
    text = TOO_MANY.text(denial_of(podgate, namespace, dry_run=True), "spec.template.")
    assert ran == (2, "", f'Error from server (Forbidden): error when patching "STDIN": {text}\n')
    stored = cluster.admin.read("Deployment", namespace, "web")
    assert stored["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][GPU] == "2"


KEY = re.compile(
    r"(?:(?:late\.)?mutate|fail\.validate|ignore\.validate)\.podgate\.dev/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
)


def ours(cluster: Cluster, namespace: str, name: str) -> Json:
    """The annotations of podgate's entries in the audit event of a creation."""

    def written() -> list[Json]:
        events = cluster.audit_events(resource="pods", namespace=namespace, name=name)
        return [
            each for each in events if each["verb"] == "create" and "subresource" not in each["objectRef"]
        ]

    (event,) = wait_for(written, f"the audit event of {name}")
    return {key: text for key, text in event["annotations"].items() if "podgate.dev/" in key}


def test_the_audit_log_of_a_refusal_names_the_rules(
    cluster: Cluster, namespace: str, podgate: Podgate
) -> None:
    with pytest.raises(ApiError):
        cluster.client(ALICE).create(pod("p", namespace) | {"spec": TOO_MANY.pod_spec()})
    line = denial_of(podgate, namespace)
    about = {"policies": line["policies"], "decision": line["decision_id"]}
    mutations = (
        "gpu-placement/vendor spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution."
        'nodeSelectorTerms[0].matchExpressions["nvidia.com/gpu.present"], gpu-placement/vendor spec.tolerations["nvidia.com/gpu"]'
    )
    found = ours(cluster, namespace, "p")
    assert found == {
        **{f"{entry}/{key}": text for entry in (MUTATE, FAIL, IGNORE) for key, text in about.items()},
        f"{MUTATE}/mutations": mutations,
        f"{FAIL}/denied": "gpu-limits/cap fail",
    }
    assert all(KEY.fullmatch(key) for key in found)


def test_the_audit_log_of_what_is_admitted_names_warnings_and_what_audited_policies_found(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> None:
    policies = [limit("disabled") | {"metadata": {"name": name}} for name in ("audited", "warned")]
    for policy, mode in zip(policies, ("audit", "warn"), strict=True):
        policy["spec"] = policy["spec"] | {"mode": mode, "failurePolicy": "Ignore"}
    podgate = start_podgate((write_policies(tmp_path / "policies", *policies),))
    register(podgate)
    answer = cluster.client(ALICE).call("POST", path_of("Pod", namespace), pod("p", namespace, 16))
    assert answer.warnings == (f"[warned/cap] {TOO_MANY.says}", f"[warned/cap] do: {TOO_MANY.do}")
    (line,) = podgate.reviews(namespace=namespace, webhook="validate/ignore")
    assert ours(cluster, namespace, "p") == {
        f"{IGNORE}/policies": line["policies"],
        f"{IGNORE}/decision": line["decision_id"],
        f"{IGNORE}/warned": "warned/cap fail",
        f"{IGNORE}/recorded": "audited/cap fail",
    }
