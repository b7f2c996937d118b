"""What a match says of an object: yes, no, or unknown with the reason."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.policy.loading import load, policy, pool
from webhook.engine.resolve import resolve
from webhook.facts import Facts, Unknown
from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.draft import ALWAYS, Draft
from webhook.policy.match import View
from webhook.rules.base import Received, Subject

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
NAMESPACE: Json = {
    "kind": "Namespace",
    "metadata": {"name": "team-a", "labels": {"tier": "gold", "kubesphere.io/workspace": "research"}},
}
BARE: Json = {"kind": "Namespace", "metadata": {"name": "team-a"}}
NO_FACTS = "no facts about the cluster were given"
ELSEWHERE = "namespace team-a is not among the facts given"
LIMIT = "- name: r\n  limitAcceleratorCount:\n    perPod:\n      max: 1"
SET_CLASS = "- name: r\n  setPriorityClass:\n    class: high"


def pod(
    labels: Mapping[str, str] | None = None, resources: Mapping[str, Any] | None = None, **spec: Any
) -> Json:
    container = {"name": "c", "resources": {"limits": dict(resources or {})}}
    return {
        "kind": "Pod",
        "metadata": {"labels": dict(labels or {})},
        "spec": {"containers": [container], **spec},
    }


def claiming(**resources: str) -> Json:
    return pod(resources=resources, resourceClaims=[{"name": "d", "resourceClaimName": "claim"}])


def device_claim(device_class: str) -> Json:
    request = {"name": "r", "exactly": {"deviceClassName": device_class}}
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": "claim", "namespace": "team-a"},
        "spec": {"devices": {"requests": [request]}},
    }


WEB = pod()
ONE_GPU = pod(resources={GPU: "1"})
CLAIM: Json = {"kind": "PersistentVolumeClaim", "metadata": {"labels": {"app": "a"}}, "spec": {}}


def view_of(thing: Json, facts: tuple[Json, ...] = (), files: tuple[str, ...] = (), **request: Any) -> View:
    policies = load(*files).policy_set
    resource = "pods" if thing["kind"] == "Pod" else "persistentvolumeclaims"
    fields: Json = {"kind": thing["kind"], "resource": resource, "namespace": "team-a", "object": thing}
    received = Received(
        AdmissionRequest(**fields | request), Facts.from_objects(facts), policies.pools, policies.catalogue
    )
    return View(Subject(received, Draft(thing)))


def answer(
    match: str, thing: Json, *facts: Json, exclude: str = "", pools: tuple[str, ...] = (), **request: Any
) -> bool | str:
    """Yes, no, or why not known."""
    files = (policy(match, LIMIT, spec=f"exclude:\n{exclude}" if exclude else ""), *pools)
    loaded = load(*files)
    assert [str(problem) for problem in loaded.problems] == []
    operation = request.get("operation", "CREATE")
    candidates = loaded.policy_set.bucket("pods", operation).by_need.values()
    candidate = next(each for found in candidates for each in found)
    answered = resolve(candidate, view_of(thing, facts, files, **request)).answer
    return answered.why if isinstance(answered, Unknown) else answered


CASES: Mapping[str, tuple[str, Json, tuple[Json, ...], bool | str]] = {
    # namespaces
    "namespace: not the same": ("namespaces: [team]", WEB, (), False),
    "namespace: named": ("namespaces: [other, team-a]", WEB, (), True),
    "namespace: glob": ("namespaces: [team-*]", WEB, (), True),
    "namespace: a glob of another": ("namespaces: [team-b*]", WEB, (), False),
    # labels of the namespace
    "namespaceSelector: no facts": ("namespaceSelector:\n  matchLabels:\n    tier: gold", WEB, (), NO_FACTS),
    "namespaceSelector: other namespaces known": (
        "namespaceSelector:\n  matchLabels:\n    tier: gold",
        WEB,
        ({"kind": "Namespace", "metadata": {"name": "b"}},),
        ELSEWHERE,
    ),
    "namespaceSelector: another label": (
        "namespaceSelector:\n  matchLabels:\n    tier: iron",
        WEB,
        (NAMESPACE,),
        False,
    ),
    "namespaceSelector: yes": ("namespaceSelector:\n  matchLabels:\n    tier: gold", WEB, (NAMESPACE,), True),
    "namespaceSelector: absent label": (
        "namespaceSelector:\n  matchExpressions:\n  - key: x\n    operator: DoesNotExist",
        WEB,
        (BARE,),
        True,
    ),
    # workspaces
    "workspace: no facts": ("workspaces: [research]", WEB, (), NO_FACTS),
    "workspace: another": ("workspaces: [vision]", WEB, (NAMESPACE,), False),
    "workspace: yes": ("workspaces: [research]", WEB, (NAMESPACE,), True),
    "workspace: glob": ("workspaces: [res*]", WEB, (NAMESPACE,), True),
    "workspace: none, and any is asked for": ('workspaces: ["*"]', WEB, (BARE,), False),
    # three values
    "unknown and no": ("namespaces: [x]\nworkspaces: [research]", WEB, (), False),
    "unknown and a later no": ("workspaces: [research]\naccelerators: {}", WEB, (), False),
    "unknown and yes": ("workspaces: [research]\naccelerators: {}", ONE_GPU, (), NO_FACTS),
    "unknown and a CEL no": (
        "workspaces: [research]\nmatchConditions:\n- name: c\n  expression: 1 > 2",
        WEB,
        (),
        False,
    ),
    "unknown or yes": ("- workspaces: [research]\n- namespaces: [team-a]", WEB, (), True),
    "unknown or no": ("- workspaces: [research]\n- namespaces: [x]", WEB, (), NO_FACTS),
    # labels of the object
    "objectSelector: no": ("objectSelector:\n  matchLabels:\n    app: a", WEB, (), False),
    "objectSelector: yes": ("objectSelector:\n  matchLabels:\n    app: a", pod({"app": "a"}), (), True),
    # workloads
    "workload: a Job without accelerator is other": (
        "workloads: [training]",
        {
            **WEB,
            "metadata": {"ownerReferences": [{"kind": "Job", "apiVersion": "batch/v1", "controller": True}]},
        },
        (),
        False,
    ),
    "workload: other": ("workloads: [other]", WEB, (), True),
    "workload: training": ("workloads: [training]", pod({"training.kubeflow.org/job-name": "j"}), (), True),
    "workload: declared": ("workloads: [notebook]", pod({"podgate.dev/workload": "notebook"}), (), True),
    "communication: none": ("communication: [multiNode]", ONE_GPU, (), False),
    "communication: disaggregated": (
        "communication: [disaggregated]",
        pod({"llm-d.ai/role": "prefill"}, {GPU: "1"}),
        (),
        True,
    ),
    # accelerators
    "accelerators: zero is none": ("accelerators: {}", pod(resources={GPU: "0"}), (), False),
    "accelerators: memory of a share counts": (
        "accelerators: {}",
        pod(resources={"nvidia.com/gpumem": "1"}),
        (),
        True,
    ),
    "accelerators: a NIC is none": ("accelerators: {}", pod(resources={"rdma/ib": "1"}), (), False),
    "accelerators: yes": ("accelerators: {}", ONE_GPU, (), True),
    "none: a pod with one": ("accelerators: none", ONE_GPU, (), False),
    "none: a pod without": ("accelerators: none", WEB, (), True),
    "none: a pod with a claim": ("accelerators: none", claiming(), (), False),
    "vendor: another": ("accelerators:\n  vendors: [amd]", ONE_GPU, (), False),
    "vendor: yes": ("accelerators:\n  vendors: [amd, nvidia]", ONE_GPU, (), True),
    "vendor of a claim: unknown": ("accelerators:\n  vendors: [nvidia]", claiming(), (), NO_FACTS),
    "vendor of a claim: known": (
        "accelerators:\n  vendors: [nvidia]",
        claiming(),
        (device_claim("gpu.nvidia.com"),),
        True,
    ),
    "vendor of a claim: another": (
        "accelerators:\n  vendors: [amd]",
        claiming(),
        (device_claim("gpu.nvidia.com"),),
        False,
    ),
    "vendor of a claim: only a NIC": (
        "accelerators:\n  vendors: [nvidia]",
        claiming(),
        (device_claim("dranet"),),
        False,
    ),
    "resource name: another": ("accelerators:\n  resourceNames: [nvidia.com/mig-*]", ONE_GPU, (), False),
    "resource name: glob": (
        "accelerators:\n  resourceNames: [nvidia.com/mig-*]",
        pod(resources={"nvidia.com/mig-1g.5gb": "1"}),
        (),
        True,
    ),
    "resource name: * stops at /": ('accelerators:\n  resourceNames: ["nvidia*"]', ONE_GPU, (), False),
    "resource name: a claim has none": (
        "accelerators:\n  resourceNames: [nvidia.com/gpu]",
        claiming(),
        (),
        False,
    ),
    "count: too few": ("accelerators:\n  count:\n    min: 2", ONE_GPU, (), False),
    "count: enough": ("accelerators:\n  count:\n    min: 2", pod(resources={GPU: "2"}), (), True),
    "count: too many": ("accelerators:\n  count:\n    max: 1", pod(resources={GPU: "2"}), (), False),
    "count: over the names only": (
        "accelerators:\n  resourceNames: [amd.com/gpu]\n  count:\n    min: 2",
        pod(resources={GPU: "2", "amd.com/gpu": "1"}),
        (),
        False,
    ),
    "count of a claim: enough by name": (
        "accelerators:\n  count:\n    min: 1",
        claiming(**{GPU: "1"}),
        (),
        True,
    ),
    "count of a claim: not known": (
        "accelerators:\n  count:\n    min: 1",
        claiming(),
        (),
        "accelerators asked for through a resource claim cannot be counted",
    ),
    "sharing: whole": ("accelerators:\n  sharing: [mig]", ONE_GPU, (), False),
    "sharing: MIG": (
        "accelerators:\n  sharing: [mig]",
        pod(resources={"nvidia.com/mig-1g.5gb": "1"}),
        (),
        True,
    ),
    # CEL
    "condition: no": (
        "matchConditions:\n- name: c\n  expression: acceleratorCount('nvidia.com/gpu') >= 4",
        ONE_GPU,
        (),
        False,
    ),
    "condition: yes": (
        "matchConditions:\n- name: c\n  expression: acceleratorCount('nvidia.com/*') >= 4",
        pod(resources={GPU: "4"}),
        (),
        True,
    ),
    "condition: all of several": (
        "matchConditions:\n- name: c\n  expression: 'true'\n- name: d\n  expression: 'false'",
        WEB,
        (),
        False,
    ),
    "condition: a field that is not there": (
        "matchConditions:\n- name: c\n  expression: object.spec.nodeName == 'n'",
        WEB,
        (),
        "condition c: ",
    ),
    "condition: the namespace, known": (
        "matchConditions:\n- name: c\n  expression: namespaceObject.metadata.labels['tier'] == 'gold'",
        WEB,
        (NAMESPACE,),
        True,
    ),
    "condition: the namespace, unknown": (
        "matchConditions:\n- name: c\n  expression: namespaceObject.metadata.labels['tier'] == 'gold'",
        WEB,
        (),
        "condition c: ",
    ),
}


@pytest.mark.parametrize(("match", "thing", "facts", "expected"), CASES.values(), ids=CASES.keys())
def test_what_a_match_says(match: str, thing: Json, facts: tuple[Json, ...], expected: bool | str) -> None:
    found = answer(match, thing, *facts)
    if isinstance(expected, str) and expected.endswith(": "):
        assert isinstance(found, str)
        assert found.startswith(expected)
    else:
        assert found == expected


H100 = pool("h100", "resourceNames: [nvidia.com/gpu]\nnodeLabels:\n  gpu: h100")
H200 = pool("h200", "resourceNames: [nvidia.com/gpu]\nnodeLabels:\n  gpu: h200")
AMD = pool("mi300", "resourceNames: [amd.com/gpu]\nnodeLabels:\n  gpu: mi300")

POOLS: Mapping[str, tuple[str, Json, bool]] = {
    "no accelerator": ("pools: [h100, h200, mi300]", WEB, False),
    "it could land elsewhere": ("pools: [h100]", ONE_GPU, False),
    "all that offer it are listed": ("pools: [h100, h200]", ONE_GPU, True),
    "its selector leaves one": (
        "pools: [h100]",
        pod(resources={GPU: "1"}, nodeSelector={"gpu": "h100"}),
        True,
    ),
    "its selector leaves another": (
        "pools: [h100]",
        pod(resources={GPU: "1"}, nodeSelector={"gpu": "h200"}),
        False,
    ),
    "its selector leaves none": (
        "pools: [h100, h200]",
        pod(resources={GPU: "1"}, nodeSelector={"gpu": "t4"}),
        False,
    ),
    "another vendor's": ("pools: [mi300]", pod(resources={"amd.com/gpu": "1"}), True),
    "no pool offers both": (
        "pools: [h100, h200, mi300]",
        pod(resources={GPU: "1", "amd.com/gpu": "1"}),
        False,
    ),
}


@pytest.mark.parametrize(("match", "thing", "expected"), POOLS.values(), ids=POOLS.keys())
def test_pools_in_which_a_pod_could_land(match: str, thing: Json, expected: bool) -> None:
    assert answer(match, thing, pools=(H100, H200, AMD)) is expected


@pytest.mark.parametrize(
    ("match", "expected"),
    [
        ("workloads: [other]", False),
        ("accelerators: none", False),
        ("communication: [none]", False),
        ("objectSelector:\n  matchLabels:\n    app: a", True),
        ("namespaces: [team-a]", True),
    ],
)
def test_predicates_about_pods_never_match_a_claim(match: str, expected: bool) -> None:
    files = (policy(match, "- name: r\n  setStorageClass:\n    default: a"),)
    (candidate,) = (
        each
        for found in load(*files).policy_set.bucket("persistentvolumeclaims", "CREATE").by_need.values()
        for each in found
    )
    assert resolve(candidate, view_of(CLAIM)).answer is expected


EXCLUDES: Mapping[str, tuple[str, Json, tuple[Json, ...], bool | str]] = {
    "another namespace": ("- namespaces: [x]", ONE_GPU, (), True),
    "this namespace": ("- namespaces: [team-*]", ONE_GPU, (), False),
    "one of several": ("- namespaces: [x]\n- accelerators: {}", ONE_GPU, (), False),
    "unknown": ("- workspaces: [research]", ONE_GPU, (), NO_FACTS),
    "unknown, but another says yes": ("- workspaces: [research]\n- namespaces: [team-a]", ONE_GPU, (), False),
    "another operation": ("- namespaces: [team-a]\n  operations: [UPDATE]", ONE_GPU, (), True),
    "this operation": ("- namespaces: [team-a]\n  operations: [CREATE]", ONE_GPU, (), False),
}


@pytest.mark.parametrize(("exclude", "thing", "facts", "expected"), EXCLUDES.values(), ids=EXCLUDES.keys())
def test_what_is_excluded(exclude: str, thing: Json, facts: tuple[Json, ...], expected: bool | str) -> None:
    assert answer("all: true", thing, *facts, exclude=exclude) == expected


def test_an_unknown_match_that_is_excluded_is_a_no() -> None:
    assert answer("workspaces: [research]", WEB, exclude="- namespaces: [team-a]") is False


def test_time_that_ran_out_is_unknown() -> None:
    files = (policy(rules=LIMIT),)
    (candidate,) = load(*files).policy_set.bucket("pods", "CREATE").by_need["", ""]
    view = view_of(WEB)
    view.received.expired = lambda: True
    assert resolve(candidate, view).answer == Unknown(
        "the time that the API server gives to a review ran out"
    )


def test_a_match_sees_what_every_earlier_rule_wrote() -> None:
    """From its second write on, a draft changes the same object."""
    files = (policy("pools: [h100]", LIMIT), H100, H200)
    view = view_of(ONE_GPU, (), files)
    draft = view.subject.draft
    draft.set(("metadata", "labels", "first"), "1", "p/r")
    assert len(view.subject.possible_pools) == 2
    draft.set(("spec", "nodeSelector", "gpu"), "h100", "p/r")
    draft.set(("metadata", "labels", "second"), "1", "p/r", ALWAYS)
    assert [each.name for each in view.subject.possible_pools] == ["h100"]
    (candidate,) = load(*files).policy_set.bucket("pods", "CREATE").by_need["", ""]
    assert candidate.matches(view) is True


def test_conditions_see_what_every_earlier_rule_wrote() -> None:
    condition = "matchConditions:\n- name: c\n  expression: object.metadata.labels.exists(k, k == 'second')"
    (candidate,) = load(policy(condition, LIMIT)).policy_set.bucket("pods", "CREATE").by_need["", ""]
    view = view_of(ONE_GPU)
    view.subject.draft.set(("metadata", "labels", "first"), "1", "p/r")
    assert candidate.matches(view) is False
    view.subject.draft.set(("metadata", "labels", "second"), "1", "p/r")
    assert candidate.matches(view) is True
