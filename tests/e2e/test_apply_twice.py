"""Files that are applied again, with tolerations and affinity of their own: what podgate wrote stays, and nothing is refused."""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.e2e.client import Json, path_to
from tests.e2e.cluster import ALICE
from tests.e2e.podgate import SHIPPED, SITE, write_policies
from tests.e2e.registration import patient
from tests.e2e.waiting import stays, wait_for
from tests.e2e.workloads import inference, notebook, pod, pytorch_pod, training_job

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from tests.e2e.cluster import Cluster
    from tests.e2e.podgate import Podgate

SPOT = {"key": "example.com/spot", "operator": "Exists", "effect": "NoSchedule"}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}
DISK = {"key": "example.com/disk", "operator": "In", "values": ["nvme"]}
NVIDIA = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
PRESENT = {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}
IMAGE_2 = "registry.example.org/ai/main:2.0"
"""An image with which every workload keeps its class: it names no framework."""

CLIENT_SIDE, SERVER_SIDE = ("apply",), ("apply", "--server-side")
APPLIES = pytest.mark.parametrize("words", [CLIENT_SIDE, SERVER_SIDE], ids=["client-side", "server-side"])
TERMS = ".spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def pytorch_worker(name: str, namespace: str) -> Json:
    """Without the empty maps that others write: a manager that applies one owns it."""
    made = pytorch_pod(name, namespace, "worker", 0)
    del made["metadata"]["annotations"]
    return made | {"metadata": made["metadata"] | {"name": name}}


WORKLOADS: Mapping[str, Callable[[str, str], Json]] = {
    "Deployment": inference,
    "StatefulSet": notebook,
    "Job": training_job,
}


def affinity(*terms: Sequence[Json]) -> Json:
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]
            }
        }
    }


OWN = {"tolerations": [SPOT], "affinity": affinity([ZONE], [DISK])}
OWNS: Mapping[str, Json] = {"plain": {}, "own": OWN}
"""Without and with tolerations and affinity of their own."""


def pod_spec(thing: Json) -> Json:
    found: Json = thing["spec"] if thing["kind"] == "Pod" else thing["spec"]["template"]["spec"]
    return found


def with_spec(thing: Json, **spec: object) -> Json:
    changed = deepcopy(thing)
    pod_spec(changed).update(spec)
    return changed


def with_image(thing: Json) -> Json:
    changed = deepcopy(thing)
    pod_spec(changed)["containers"][0]["image"] = IMAGE_2
    return changed


def apply(cluster: Cluster, thing: Json, words: Sequence[str]) -> Json:
    """Apply a file; gives what is stored."""
    ran = cluster.kubectl(*words, "-f", "-", stdin=thing, user=ALICE)
    assert ran.code == 0, ran.err
    return cluster.admin.get(path_to(thing))


def diff(cluster: Cluster, thing: Json, words: Sequence[str]) -> str:
    ran = cluster.kubectl("diff", *words[1:], "-f", "-", stdin=thing, user=ALICE)
    assert ran.code < 2, ran.err
    return ran.out


def spec_of(stored: Json) -> Json:
    """All but the node, which the scheduler adds in its own time."""
    return {key: value for key, value in stored["spec"].items() if key != "nodeName"}


def terms_with(requirement: Json, own: Json) -> list[list[Json]]:
    return [[ZONE, requirement], [DISK, requirement]] if own else [[requirement]]


def ours(stored: Json) -> Json:
    """What is stored of the fields that podgate writes."""
    keys = ("tolerations", "affinity", "priorityClassName", "priority", "preemptionPolicy", "volumes")
    return {key: stored["spec"].get(key) for key in keys} | {"annotations": podgate_annotations(stored)}


def podgate_annotations(stored: Json) -> Json:
    found = stored["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if key.startswith("podgate.dev/")}


@APPLIES
@pytest.mark.usefixtures("patient_podgate")
def test_pods(cluster: Cluster, namespace: str, words: Sequence[str]) -> None:
    for name, own in OWNS.items():
        thing = with_spec(pytorch_pod(name, namespace, "worker", 0), **own)
        first = apply(cluster, thing, words)
        assert first["spec"]["affinity"] == affinity(*terms_with(PRESENT, own))
        assert [each in first["spec"]["tolerations"] for each in (SPOT, NVIDIA)] == [bool(own), True]
        assert first["spec"]["priorityClassName"] == "ai-train-high"
        for _ in range(2):
            again = apply(cluster, thing, words)
            assert spec_of(again) == spec_of(first)
            assert again["metadata"]["generation"] == 1
        assert diff(cluster, thing, words) == ""
        for _ in range(2):
            changed = apply(cluster, with_image(thing), words)
            assert changed["spec"]["containers"][0]["image"] == IMAGE_2
            assert ours(changed) == ours(first)
        assert diff(cluster, with_image(thing), words) == ""


def revisions(cluster: Cluster, namespace: str) -> list[str]:
    """Of the Deployments' pods, one for each rollout."""
    found = cluster.admin.items("ReplicaSet", namespace)
    return sorted(each["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for each in found)


@APPLIES
@pytest.mark.usefixtures("patient_podgate")
def test_workloads(cluster: Cluster, namespace: str, words: Sequence[str]) -> None:
    for (kind, make), (name, own) in product(WORKLOADS.items(), OWNS.items()):
        thing = with_spec(make(f"{kind.lower()}-{name}", namespace), **own)
        first = apply(cluster, thing, words)
        for _ in range(2):
            again = apply(cluster, thing, words)
            assert spec_of(again) == spec_of(first)
            assert again["metadata"]["generation"] == 1
            assert podgate_annotations(again) == {}
        assert diff(cluster, thing, words) == ""
        if kind == "Job":
            continue
        for _ in range(2):
            changed = apply(cluster, with_image(thing), words)
            assert changed["metadata"]["generation"] == 2
            assert changed["spec"] == with_image(first)["spec"]
        assert diff(cluster, with_image(thing), words) == ""
    rolled_out = sorted(["1", "2"] * len(OWNS))
    wait_for(lambda: revisions(cluster, namespace) == rolled_out, "one rollout each")
    stays(lambda: revisions(cluster, namespace) == rolled_out, "one rollout each", seconds=1)


@APPLIES
@pytest.mark.usefixtures("patient_podgate")
def test_a_job_with_a_changed_image_is_refused_by_kubernetes_itself(
    cluster: Cluster, namespace: str, words: Sequence[str]
) -> None:
    thing = with_spec(training_job("j", namespace), **OWN)
    first = apply(cluster, thing, words)
    ran = cluster.kubectl(*words, "-f", "-", stdin=with_image(thing), user=ALICE)
    assert ran.code == 1
    assert ran.err.startswith('The Job "j" is invalid: spec.template: Invalid value: ')
    assert ran.err.endswith(": field is immutable\n")
    assert cluster.admin.get(path_to(thing))["spec"] == first["spec"]


TEMPLATES: Json = {
    "apiVersion": "podgate.dev/v1alpha1",
    "kind": "PodPolicy",
    "metadata": {"name": "templates"},
    "spec": {
        "mode": "enforce",
        "match": {"accelerators": {}},
        "templates": {"mutate": ["deployments.apps", "statefulsets.apps", "jobs.batch"]},
        "rules": [
            {"name": "class", "setPriorityClass": {"class": "ai-train-high"}},
            {"name": "place", "setNodeAffinity": {"matchExpressions": [PRESENT], "tolerations": [NVIDIA]}},
        ],
    },
}


@APPLIES
def test_workloads_whose_templates_are_written(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
    words: Sequence[str],
) -> None:
    register(start_podgate((write_policies(tmp_path / "policies", TEMPLATES),)), change=patient)
    for (kind, make), (name, own) in product(WORKLOADS.items(), OWNS.items()):
        thing = with_spec(make(f"{kind.lower()}-{name}", namespace), **own)
        first = apply(cluster, thing, words)
        assert pod_spec(first)["priorityClassName"] == "ai-train-high"
        assert pod_spec(first)["tolerations"] == [*own.get("tolerations", ()), NVIDIA]
        assert pod_spec(first)["affinity"] == affinity(*terms_with(PRESENT, own))
        for _ in range(2):
            again = apply(cluster, thing, words)
            assert spec_of(again) == spec_of(first)
            assert again["metadata"]["generation"] == 1
            assert podgate_annotations(again) == podgate_annotations(first)
        assert diff(cluster, thing, words) == ""
        if kind == "Job":
            continue
        for _ in range(2):
            changed = apply(cluster, with_image(thing), words)
            assert changed["metadata"]["generation"] == 2
            assert changed["spec"] == with_image(first)["spec"]
    rolled_out = sorted(["1", "2"] * len(OWNS))
    wait_for(lambda: revisions(cluster, namespace) == rolled_out, "one rollout each")
    stays(lambda: revisions(cluster, namespace) == rolled_out, "one rollout each", seconds=1)


@APPLIES
def test_jobs_whose_templates_were_written_by_a_policy_that_is_audited_now(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
    words: Sequence[str],
) -> None:
    folder = write_policies(tmp_path / "policies", TEMPLATES)
    podgate = start_podgate((folder,))
    register(podgate, change=patient)
    files = [with_spec(training_job(name, namespace), **own) for name, own in OWNS.items()]
    stored = [apply(cluster, thing, words) for thing in files]
    replace_policies(podgate, folder, TEMPLATES | {"spec": TEMPLATES["spec"] | {"mode": "audit"}})
    for thing, first in zip(files, stored, strict=True):
        for _ in range(2):
            again = apply(cluster, thing, words)
            assert again["spec"] == first["spec"]
            assert again["metadata"]["generation"] == 1
        assert diff(cluster, thing, words) == ""


def replace_policies(podgate: Podgate, folder: Path, document: Json) -> None:
    """Write a policy, and wait until it is in force."""
    loads = podgate.metric("podgate_policy_reload_total", result="success")
    write_policies(folder, document)
    wait_for(
        lambda: podgate.metric("podgate_policy_reload_total", result="success") > loads,
        "the policy has changed",
    )


def override(**spec: object) -> Json:
    """A word of the site about the placement of GPU pods."""
    head = {"apiVersion": "podgate.dev/v1alpha1", "kind": "PodPolicyOverride", "metadata": {"name": "site"}}
    return head | {"spec": {"policies": ["gpu-placement"], "match": {"accelerators": {}}} | spec}


def gpus_go_to(pool: str) -> Json:
    return override(rules=[{"name": "vendor", "setNodeAffinity": {"byVendor": None, "pools": [pool]}}])


LATER = {
    "goes to another pool": gpus_go_to("a100-roce"),
    "is audited": override(mode="audit"),
    "is disabled": override(mode="disabled"),
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_pods_whose_policy_has_changed(
    cluster: Cluster,
    namespace: str,
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
    later: Json,
) -> None:
    site = write_policies(tmp_path / "site", gpus_go_to("h100-ib"))
    podgate = start_podgate((SHIPPED, SITE, site))
    register(podgate, change=patient)
    files = [
        (with_spec(pod(f"{name}-{len(words)}", namespace, gpus=1), **own), words)
        for (name, own), words in product(OWNS.items(), (CLIENT_SIDE, SERVER_SIDE))
    ]
    stored = [apply(cluster, *each) for each in files]
    replace_policies(podgate, site, later)
    for (thing, words), first in zip(files, stored, strict=True):
        for _ in range(2):
            assert spec_of(apply(cluster, thing, words)) == spec_of(first)
        assert diff(cluster, thing, words) == ""
        assert ours(apply(cluster, with_image(thing), words)) == ours(first)


@APPLIES
@pytest.mark.usefixtures("patient_podgate")
def test_a_pod_with_capabilities_of_its_own(cluster: Cluster, namespace: str, words: Sequence[str]) -> None:
    thing = pytorch_pod("llm", namespace, "worker", 0)
    thing["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    thing["spec"]["containers"][0]["securityContext"] = {"capabilities": {"add": ["SYS_PTRACE"]}}
    first = apply(cluster, thing, words)
    context = first["spec"]["containers"][0]["securityContext"]
    assert context == {"capabilities": {"add": ["SYS_PTRACE", "IPC_LOCK"]}}
    for _ in range(2):
        assert spec_of(apply(cluster, thing, words)) == spec_of(first)
    assert diff(cluster, thing, words) == ""


SECOND = (*SERVER_SIDE, "--field-manager=second")
THIRD = (*SERVER_SIDE, "--field-manager=third")


def labels_of(thing: Json) -> Json:
    """What another team applies to the same object: a label of its own."""
    metadata = {key: thing["metadata"][key] for key in ("name", "namespace")}
    return {
        "apiVersion": thing["apiVersion"],
        "kind": thing["kind"],
        "metadata": metadata | {"labels": {"team": "vision"}},
    }


@pytest.mark.usefixtures("patient_podgate")
def test_other_managers_apply_a_part_or_the_whole(cluster: Cluster, namespace: str) -> None:
    """Only what both write in one atomic list, and podgate has added to, is a conflict; without podgate that holds for the
    tolerations of every pod, since the API server adds two of its own."""
    for (kind, make), (name, own) in product({"Pod": pytorch_worker, **WORKLOADS}.items(), OWNS.items()):
        thing = with_spec(make(f"{kind.lower()}-{name}", namespace), **own)
        first = apply(cluster, thing, SERVER_SIDE)
        assert spec_of(apply(cluster, labels_of(thing), SECOND)) == spec_of(first)
        assert spec_of(apply(cluster, thing, SERVER_SIDE)) == spec_of(first)
        if kind == "Pod" and own:
            ran = cluster.kubectl(*THIRD, "-f", "-", stdin=thing, user=ALICE)
            assert ran.code == 1
            assert conflicts_in(ran.err) == {".spec.tolerations", TERMS}
        else:
            assert spec_of(apply(cluster, thing, THIRD)) == spec_of(first)
        assert spec_of(apply(cluster, thing, (*THIRD, "--force-conflicts"))) == spec_of(first)
        assert cluster.admin.get(path_to(thing))["metadata"]["labels"]["team"] == "vision"


def conflicts_in(text: str) -> set[str]:
    return {line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")}
