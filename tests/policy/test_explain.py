"""Which part of a match says no, in words; together the parts say what the whole match says."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.policy.loading import load, policy, pool
from webhook.facts import Facts, Unknown
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import Draft
from webhook.policy.explain import explain_clause
from webhook.policy.match import View
from webhook.rules.base import Received, Subject

GPU = "nvidia.com/gpu"
NAMESPACE = {
    "kind": "Namespace",
    "metadata": {"name": "team-a", "labels": {"tier": "gold", "kubesphere.io/workspace": "research"}},
}


def pod(labels: dict[str, str] | None = None, **asked: int) -> dict[str, Any]:
    limits = {name.replace("__", "/").replace("_", "."): count for name, count in asked.items()}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    return {"kind": "Pod", "metadata": {"labels": labels or {}}, "spec": spec}


WEB = pod()
TRAINER = pod({"podgate.dev/workload": "training", "app": "a"}, nvidia_com__gpu=4)
CLAIMING = {
    "kind": "Pod",
    "spec": {
        "resourceClaims": [{"name": "d", "resourceClaimName": "x"}],
        "containers": [{"name": "c", "resources": {"claims": [{"name": "d"}]}}],
    },
}
CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {}, "spec": {}}

SAID: dict[str, tuple[dict[str, Any], str, bool | str, list[str]]] = {
    "everything": (WEB, "all: true", True, ["all: true"]),
    "a namespace": (WEB, "namespaces: [team-*, b]", True, ["namespaces: team-a is team-* or b"]),
    "another namespace": (WEB, "namespaces: [b]", False, ["namespaces: team-a is not b"]),
    "a class": (TRAINER, "workloads: [training]", True, ["workloads: training is training"]),
    "another class": (
        WEB, "workloads: [training, notebook]", False, ["workloads: other is not training or notebook"]
    ),
    "communication": (
        TRAINER, "communication: [multiNode]", False, ["communication: none is not multiNode"]
    ),
    "no accelerator, none wanted": (
        WEB, "accelerators: none", True, ["accelerators: the pod asks for no accelerator"]
    ),
    "accelerators, none wanted": (
        TRAINER, "accelerators: none", False, ["accelerators: the pod asks for 4 nvidia.com/gpu"]
    ),
    "no accelerator, some wanted": (
        WEB, "accelerators: {vendors: [nvidia], count: {min: 1}}", False,
        ["accelerators: the pod asks for no accelerator"],
    ),
    "a device claim, none wanted": (
        CLAIMING, "accelerators: none", False, ["accelerators: the pod asks for a device claim"]
    ),
    "a device claim of an unknown vendor": (
        CLAIMING, "accelerators: {vendors: [nvidia]}", "unknown",
        ["accelerators.vendors: not known, for ResourceClaim team-a/x is not among the facts"],
    ),
    "the parts of accelerators": (
        TRAINER,
        "accelerators: {vendors: [amd], resourceNames: [nvidia.com/*], count: {min: 8, max: 16}, sharing: [mig]}",
        False,
        [
            "accelerators.vendors: nvidia is not amd",
            "accelerators.count: 4 nvidia.com/gpu is not at least 8 and at most 16 nvidia.com/*",
            "accelerators.sharing: none is not mig",
        ],
    ),
    "names of resources": (
        TRAINER, "accelerators: {resourceNames: [amd.com/gpu, a.b/c]}", False,
        ["accelerators.resourceNames: 4 nvidia.com/gpu is not amd.com/gpu or a.b/c"],
    ),
    "a count of all": (
        TRAINER, "accelerators: {count: {min: 2}}", True,
        ["accelerators.count: 4 nvidia.com/gpu is at least 2 devices"],
    ),
    "a pool": (TRAINER, "pools: [h100]", True, ["pools: h100 is h100"]),
    "no pool": (WEB, "pools: [h100]", False, ["pools: no pool is not h100"]),
    "labels": (
        TRAINER, "objectSelector: {matchLabels: {app: a}}", True, ["objectSelector: the labels of the object fit"]
    ),
    "other labels": (
        TRAINER, "objectSelector: {matchLabels: {app: b}}", False,
        ["objectSelector: the labels of the object do not fit"],
    ),
    "labels of the namespace": (
        WEB, "namespaceSelector: {matchLabels: {tier: gold}}", True,
        ["namespaceSelector: the labels of the namespace fit"],
    ),
    "a workspace": (WEB, "workspaces: [vision]", False, ["workspaces: research is not vision"]),
    "conditions": (
        WEB,
        "matchConditions: [{name: big, expression: 'workload.accelerators > 1'}, {name: web, expression: 'true'}]",
        False,
        ["matchConditions.big: is false", "matchConditions.web: is true"],
    ),
    "a condition without an answer": (
        WEB, "matchConditions: [{name: odd, expression: 'object.spec.nothing == 1'}]", "unknown",
        ['matchConditions.odd: not known, for condition odd: there is no key "nothing"'],
    ),
    "a claim has nothing of a pod": (
        CLAIM, "{workloads: [training], accelerators: none, pools: [h100], communication: [none], namespaces: [team-a]}",
        False,
        [
            "namespaces: team-a is team-a",
            "workloads: a PersistentVolumeClaim has none, only pods do",
            "communication: a PersistentVolumeClaim has none, only pods do",
            "accelerators: a PersistentVolumeClaim has none, only pods do",
            "pools: a PersistentVolumeClaim has none, only pods do",
        ],
    ),
    "a claim in another namespace": (
        CLAIM, "{workloads: [training], namespaces: [team-b]}", False,
        ["namespaces: team-a is not team-b", "workloads: a PersistentVolumeClaim has none, only pods do"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SAID)
def test_parts(case: str) -> None:
    thing, match, whole, said = SAID[case]
    text = yaml.safe_dump(
        yaml.safe_load(match if match.startswith("{") else "{" + match + "}"), sort_keys=False
    )
    loaded = load(policy(text, "- name: r\n  limitAcceleratorCount:\n    perPod:\n      max: 1"), pool())
    assert not loaded.has_errors, loaded.problems
    known = loaded.policy_set
    request = AdmissionRequest(kind=thing["kind"], resource="x", namespace="team-a", object=thing)
    facts = Facts.from_objects([NAMESPACE, {"kind": "ResourceClaimList", "items": []}], None)
    view = View(Subject(Received(request, facts, known.pools, known.catalogue), Draft(thing)))
    ((clause, matches),) = known.policies[0].clauses
    parts = explain_clause(clause, view)
    assert [str(part) for part in parts] == said
    answer = matches(view)
    assert ("unknown" if isinstance(answer, Unknown) else answer) == whole
    answers = [part.answer for part in parts]
    assert (False in answers) == (whole is False)
    assert (not any(isinstance(each, Unknown) for each in answers)) or whole == "unknown"


def test_a_namespace_that_is_not_known() -> None:
    loaded = load(policy("workspaces: [vision]\nnamespaceSelector:\n  matchLabels:\n    a: b"))
    request = AdmissionRequest(kind="Pod", resource="pods", namespace="team-a", object=WEB)
    view = View(Subject(Received(request, Facts(), (), loaded.policy_set.catalogue), Draft(WEB)))
    parts = explain_clause(loaded.policy_set.policies[0].clauses[0][0], view)
    assert [str(part) for part in parts] == [
        "namespaceSelector: not known, for no facts about the cluster were given",
        "workspaces: not known, for no facts about the cluster were given",
    ]
