"""checkPlacement: near misses first, then what is refused, with its exact words."""

from collections.abc import Mapping
from typing import Any

import pytest

from webhook.engine.texts import say
from webhook.facts import AcceleratorPool, Facts
from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.kube.field_path import format_field
from webhook.policy import load_policy_set
from webhook.rules.base import Finding, Received, Result, Subject
from webhook.rules.check_placement import CheckPlacement

GPU = "nvidia.com/gpu"
PRESENT = "nvidia.com/gpu.present"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

H100 = AcceleratorPool.model_validate(
    {
        "name": "h100",
        "resourceNames": [GPU],
        "nodeLabels": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "devicesPerNode": 8,
    }
)


def pod(resource: str = GPU, count: int = 1, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "resources": {"limits": {resource: str(count)}, "requests": {resource: str(count)}},
    }
    return {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container], **spec}}


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def node(labels: Mapping[str, str], gpus: int, *taints: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": "n", "labels": dict(labels)},
        "spec": {"taints": list(taints), **spec},
        "status": {"allocatable": {GPU: str(gpus)}},
    }


def subject_of(
    thing: dict[str, Any], pools: tuple[AcceleratorPool, ...] = (), facts: tuple[dict[str, Any], ...] = ()
) -> Subject:
    request = AdmissionRequest(kind="Pod", resource="pods", namespace="team", object=thing)
    received = Received(request, Facts.from_objects(facts), pools, shipped_catalogue())
    return Subject(received, Draft(thing))


def findings(subject: Subject) -> list[Finding]:
    return list(CheckPlacement().validate_subject(subject))


SUITS = {
    "no word about nodes": pod(),
    "the vendor's label by selector": pod(nodeSelector={PRESENT: "true"}),
    "the vendor's label by affinity": pod(affinity=affinity([expression(PRESENT, "Exists")])),
    "a product of the vendor": pod(nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"}),
    "one of two terms shuns, the other does not": pod(
        affinity=affinity([expression(PRESENT, "In", "false")], [expression("zone", "In", "a")])
    ),
    "one of two values is false": pod(affinity=affinity([expression(PRESENT, "In", "false", "true")])),
    "not in false": pod(affinity=affinity([expression(PRESENT, "NotIn", "false")])),
    "shuns another vendor": pod(affinity=affinity([expression("amd.com/gpu.family", "DoesNotExist")])),
    "only preferred affinity shuns": pod(
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [expression(PRESENT, "DoesNotExist")]}}
                ]
            }
        }
    ),
    "an empty term beside a good one": pod(affinity=affinity([], [expression(PRESENT, "Exists")])),
    "nodeName is empty": pod(nodeName=""),
}


@pytest.mark.parametrize("thing", SUITS.values(), ids=SUITS.keys())
def test_a_pod_that_can_land_passes(thing: dict[str, Any]) -> None:
    assert findings(subject_of(thing, (H100.model_copy(update={"node_labels": {"zone": "a"}}),))) == []


@pytest.mark.parametrize(
    "thing",
    [pod(count=0, nodeName="cpu-1"), pod("cpu", 4, nodeSelector={PRESENT: "false"})],
    ids=["zero", "cpu only"],
)
def test_a_pod_without_accelerators_is_skipped(thing: dict[str, Any]) -> None:
    (finding,) = findings(subject_of(thing))
    assert (finding.result, finding.text) == (Result.SKIP, "no accelerator")


REFUSED = {
    "pinned by nodeName": (
        pod(count=2, nodeName="cpu-1"),
        "spec.nodeName",
        (
            "the pod asks for 2 nvidia.com/gpu and is pinned to node cpu-1, past the scheduler, which "
            "alone knows where devices are free"
        ),
        "remove spec.nodeName; choose nodes with a node selector",
    ),
    "selector says false": (
        pod(nodeSelector={PRESENT: "false"}),
        'spec.nodeSelector["nvidia.com/gpu.present"]',
        (
            "the pod asks for 1 nvidia.com/gpu but its placement (nvidia.com/gpu.present In [false]) "
            "keeps it off the nodes that have them"
        ),
        "remove nvidia.com/gpu.present In [false]",
    ),
    "affinity says does not exist": (
        pod(affinity=affinity([expression(PRESENT, "DoesNotExist")])),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        (
            "the pod asks for 1 nvidia.com/gpu but its placement (nvidia.com/gpu.present DoesNotExist) "
            "keeps it off the nodes that have them"
        ),
        "remove nvidia.com/gpu.present DoesNotExist",
    ),
    "every term shuns, in its own way": (
        pod(
            affinity=affinity(
                [expression(PRESENT, "NotIn", "true")], [expression("nvidia.com/gpu.count", "DoesNotExist")]
            )
        ),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        (
            "the pod asks for 1 nvidia.com/gpu but its placement (nvidia.com/gpu.present NotIn [true]) "
            "keeps it off the nodes that have them"
        ),
        "remove nvidia.com/gpu.present NotIn [true]",
    ),
    "an Ascend pod on NVIDIA nodes": (
        pod("huawei.com/Ascend910", 8, nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"}),
        'spec.nodeSelector["nvidia.com/gpu.product"]',
        (
            "the pod asks for 8 huawei.com/Ascend910 but its placement (nvidia.com/gpu.product In "
            "[Tesla-T4]) takes it to nodes of nvidia"
        ),
        "remove nvidia.com/gpu.product In [Tesla-T4], or ask for the accelerators of nvidia",
    ),
    "an Ascend pod on nodes with some number of NVIDIA's": (
        pod("huawei.com/Ascend910", 8, affinity=affinity([expression("nvidia.com/gpu.count", "Gt", "3")])),
        f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms",
        (
            "the pod asks for 8 huawei.com/Ascend910 but its placement (nvidia.com/gpu.count Gt [3]) "
            "takes it to nodes of nvidia"
        ),
        "remove nvidia.com/gpu.count Gt [3], or ask for the accelerators of nvidia",
    ),
    "selector and affinity exclude each other": (
        pod(nodeSelector={"zone": "a"}, affinity=affinity([expression("zone", "In", "b", "c")])),
        "spec.nodeSelector.zone",
        "no node can meet both zone In [a] and zone In [b, c], so the pod would stay pending",
        "remove one of the two",
    ),
}


@pytest.mark.parametrize(("thing", "field", "message", "remedy"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused_and_why(thing: dict[str, Any], field: str, message: str, remedy: str) -> None:
    (finding,) = findings(subject_of(thing))
    assert finding.result is Result.FAIL
    assert format_field(thing, finding.path) == field
    assert said(finding) == (message, remedy)
    assert said(finding, "zh") != (message, remedy)


def said(finding: Finding, language: str = "en") -> tuple[str, str]:
    policy = b"""
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: p
spec:
  match:
    all: true
  rules:
  - name: r
    checkPlacement: {}
"""
    rule = load_policy_set([("p.yaml", policy)]).policy_set.policies[0].rules[0]
    words = say(rule, finding, language)
    return words.message, words.remediation


TAINT = {"key": GPU, "effect": "NoSchedule"}
TOLERATION = {"key": GPU, "operator": "Exists"}

NODES = {
    "no node is known": (pod(), (), None),
    "a node has them": (pod(), (node({}, 8),), None),
    "the node is tainted, the pod tolerates": (pod(tolerations=[TOLERATION]), (node({}, 8, TAINT),), None),
    "the taint only prefers": (pod(), (node({}, 8, {"key": GPU, "effect": "PreferNoSchedule"}),), None),
    "the node is tainted": (pod(), (node({}, 8, TAINT),), "nowhere"),
    "too many for any node": (pod(count=9), (node({}, 8),), "nowhere"),
    "the selector names labels that no node has": (pod(nodeSelector={"a": "b"}), (node({}, 8),), "nowhere"),
    "the only node is cordoned": (pod(), (node({}, 8, unschedulable=True),), "nowhere"),
    "the only node has none": (pod(), (node({}, 0),), "nowhere"),
}


@pytest.mark.parametrize(("thing", "nodes", "text"), NODES.values(), ids=NODES.keys())
def test_known_nodes_are_asked(
    thing: dict[str, Any], nodes: tuple[dict[str, Any], ...], text: str | None
) -> None:
    found = [
        finding.text for finding in findings(subject_of(thing, facts=nodes)) if finding.result is Result.FAIL
    ]
    assert found == ([text] if text else [])


POOLS = {
    "a pool has room": (pod(count=8), None),
    "a pool that autoscales from nothing counts, though no node has them": (pod(count=8), None),
    "more than a node of the pool has": (pod(count=9), "nowhere"),
    "the selector leaves every pool": (pod(nodeSelector={"nvidia.com/gpu.product": "Tesla-T4"}), "nowhere"),
}


@pytest.mark.parametrize(("thing", "text"), POOLS.values(), ids=POOLS.keys())
def test_pools_are_asked_where_nodes_do_not_help(thing: dict[str, Any], text: str | None) -> None:
    subject = subject_of(thing, (H100,), (node({}, 0),))
    assert [finding.text for finding in findings(subject)] == ([text] if text else [])


def test_without_pools_and_nodes_it_is_said_that_nobody_knows() -> None:
    (finding,) = findings(subject_of(pod()))
    assert (finding.result, finding.text) == (Result.SKIP, "nodes unknown")
    assert said(finding)[0] == (
        "whether a node could take the pod is not judged: no facts about the cluster were given"
    )


def test_the_pools_to_choose_among_are_named() -> None:
    pools = (H100, H100.model_copy(update={"name": "h200"}))
    (finding,) = findings(subject_of(pod(count=9), pools))
    assert said(finding) == (
        "no pool or node that this pod may go to could ever give it 9 nvidia.com/gpu",
        "ask for fewer, or choose among: h100, h200",
    )


def test_a_node_must_have_everything_that_is_asked_for() -> None:
    thing, mig = pod(), "nvidia.com/mig-1g.5gb"
    thing["spec"]["containers"][0]["resources"]["limits"][mig] = "1"
    both = node({}, 8) | {"status": {"allocatable": {GPU: "8", mig: "1"}}}
    found = [[each.text for each in findings(subject_of(thing, facts=(one,)))] for one in (node({}, 8), both)]
    assert found == [["nowhere"], []]
