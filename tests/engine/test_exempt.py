from typing import Any

import pytest

from tests.engine.gates import GPU, Json, gate, load, pod, policy, request, said, training_pod
from webhook.engine import mutate, review, validate
from webhook.engine.annotations import decision_id
from webhook.engine.exempt import exemption

MIRROR = {"kubernetes.io/config.mirror": "hash"}
NODE = {"username": "system:node:n1", "groups": ("system:nodes", "system:authenticated")}
DAEMON_SETS = "system:serviceaccount:kube-system:daemon-set-controller"
DELETED = {"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {}}
OF_A_DAEMON_SET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}

# object, operation, others -> why it is exempt
EXEMPTIONS: dict[str, tuple[Json | None, str, Json, str]] = {
    "created": (pod(), "CREATE", {}, ""),
    "updated": (pod(), "UPDATE", {}, ""),
    "created with a deletionTimestamp of its own": (DELETED, "CREATE", {}, ""),
    "deletionTimestamp null": ({"metadata": {"deletionTimestamp": None}}, "UPDATE", {}, ""),
    "metadata of another type": ({"metadata": "x"}, "UPDATE", {}, ""),
    "a mirror pod that a user forges": (pod(annotations=MIRROR), "CREATE", {}, ""),
    "a user who calls himself a node": (
        pod(annotations=MIRROR), "CREATE", {"username": "system:node:n1"}, "",
    ),
    "a node's pod that is no mirror": (pod(), "CREATE", NODE, ""),
    "a node's claim": (
        {"metadata": {"annotations": MIRROR}}, "CREATE", NODE | {"kind": "PersistentVolumeClaim"}, "",
    ),
    "a forged owner": ({"metadata": {"ownerReferences": [OF_A_DAEMON_SET]}}, "CREATE", {}, ""),
    "another account of that name": (
        pod(), "CREATE", {"username": "system:serviceaccount:training:daemon-set-controller"}, "",
    ),
    "the DaemonSet controller's Job": (pod(), "CREATE", {"username": DAEMON_SETS, "kind": "Job"}, ""),
    "deleted": (None, "DELETE", {"old_object": pod()}, "DELETE is always allowed"),
    "deleted on an old server": (None, "DELETE", {}, "DELETE is always allowed"),
    "connected": (
        {"kind": "PodExecOptions", "command": ["sh"]}, "CONNECT", {"subresource": "exec"},
        "CONNECT is always allowed",
    ),
    "no object": (None, "CREATE", {}, "there is no object"),
    "finalizer of a deleted pod": (DELETED, "UPDATE", {}, "the object is being deleted"),
    "a mirror pod of a node": (pod(annotations=MIRROR), "CREATE", NODE, "a node's mirror pod"),
    "a DaemonSet's pod": (
        pod(), "CREATE", {"username": DAEMON_SETS}, "a DaemonSet's pod, made by its controller",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("thing", "operation", "others", "why"), EXEMPTIONS.values(), ids=EXEMPTIONS)
def test_exemption(thing: Json | None, operation: str, others: Json, why: str) -> None:
    assert exemption(request(thing, operation, **others)) == why


STRICT = load(
    policy("none", {"limitAcceleratorCount": {"perPod": {"max": 0}}}, failurePolicy="Fail"),
    policy("move", {"setPriorityClass": {"class": "ai-train-high", "replace": "always"}}),
)


@pytest.mark.parametrize(
    ("thing", "operation", "others"),
    [case[:3] for case in EXEMPTIONS.values() if case[3]],
    ids=[name for name, case in EXEMPTIONS.items() if case[3]],
)
def test_what_is_exempt_is_allowed_untouched(thing: Any, operation: str, others: Json) -> None:
    asked = request(thing, operation, **others)
    for call in (mutate, validate, review):
        outcome = call(gate(STRICT), asked)
        assert outcome.allowed
        assert outcome.exempt
        assert (outcome.patch, outcome.reports, outcome.changes) == ([], (), ())
        assert outcome.object is thing
        assert outcome.decision_id == decision_id(asked)


@pytest.mark.parametrize(
    ("annotations", "owners"), [(MIRROR, None), (None, [OF_A_DAEMON_SET])], ids=["mirror pod", "DaemonSet"]
)
def test_what_an_object_says_of_itself_exempts_from_nothing(annotations: Any, owners: Any) -> None:
    thing = training_pod(annotations=annotations)
    if owners:
        thing["metadata"]["ownerReferences"] = owners
    assert mutate(gate(STRICT), request(thing)).patch
    outcome = validate(gate(STRICT), request(thing))
    assert not outcome.allowed
    assert f"none/r0 fail deny: 8 {GPU} asked, at most 0 per pod" in said(outcome.reports)
