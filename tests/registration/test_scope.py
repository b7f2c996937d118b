"""Which policy is told to widen the scope."""

from tests.engine.gates import load, policy
from webhook.registration import MUTATE, MUTATE_LATE, VALIDATE_FAIL, VALIDATE_IGNORE, Scope, explain_scope

CAP = {"limitAcceleratorCount": {"perPod": {"max": 8}}}
OVERCOMMIT = {"limitOvercommit": {"cpu": {"maxLimitToRequest": 4}}}
BYPASS = {"forbidBypass": {"env": ["NVIDIA_*"]}}


def test_every_reason_is_told_with_its_policies_and_the_widest_comes_last() -> None:
    found = explain_scope(
        load(
            policy("wide", OVERCOMMIT, match={"namespaces": ["team-*"], "operations": ["CREATE", "UPDATE"]}),
            policy("b", CAP, match={"accelerators": {}}),
            policy("a", CAP, match={"accelerators": {}}),
            policy("env", BYPASS, failurePolicy="Fail"),
        )
    )
    assert found == (
        Scope(VALIDATE_FAIL, "pods that set NVIDIA_*", "", ("env",), is_everything=False),
        Scope(VALIDATE_IGNORE, "pods that ask for accelerators", "", ("a", "b"), is_everything=False),
        Scope(VALIDATE_IGNORE, "pods with device claims", "", ("a", "b"), is_everything=False),
        Scope(VALIDATE_IGNORE, "every pod", "in team-*, updates too", ("wide",), is_everything=True),
    )


def test_setters_are_told_at_both_calls() -> None:
    found = explain_scope(load(policy("storage", {"setStorageClass": {"default": "ceph"}})))
    assert [(scope.entry, scope.objects) for scope in found] == [
        (entry, objects)
        for entry in (MUTATE, MUTATE_LATE, VALIDATE_IGNORE)
        for objects in ("pods with ephemeral volumes", "persistentvolumeclaims")
    ]


def test_a_label_is_told() -> None:
    match = {
        "objectSelector": {
            "matchLabels": {"tier": "gold"},
            "matchExpressions": [{"key": "a", "operator": "Exists"}],
        }
    }
    [scope] = explain_scope(load(policy("one", OVERCOMMIT, match=match)))
    assert scope.where == "with tier=gold, with a"
