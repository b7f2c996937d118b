"""The configurations as the API server gets them."""

import base64
from typing import Any

import pytest

from tests.engine.gates import load, policy
from tests.property.sets import policy_set as known_set
from webhook.registration import (
    CONFIGURATIONS,
    LATE_NAME,
    MUTATE,
    MUTATE_LATE,
    NAME,
    VALIDATE_FAIL,
    VALIDATE_IGNORE,
    Endpoint,
    excluded,
    webhook_configurations,
)

Json = dict[str, Any]

CAP = {"limitAcceleratorCount": {"perPod": {"max": 8}}}
PRIORITY = {"setPriorityClass": {"class": "train"}}
SERVICE = Endpoint(service=("podgate-system", "podgate"), ca_bundle=b"CA")
UPDATES = {"all": True, "operations": ["CREATE", "UPDATE"]}


def entries(*files: Any, endpoint: Endpoint = SERVICE, **options: Any) -> dict[str, Json]:
    found = webhook_configurations(load(*files), endpoint, **options)
    return {entry["name"]: entry for configuration in found for entry in configuration["webhooks"]}


def test_the_mutating_configuration_in_full() -> None:
    mutating, *_ = webhook_configurations(load(policy("one", PRIORITY)), SERVICE)
    [entry] = mutating.pop("webhooks")
    conditions = entry.pop("matchConditions")
    assert mutating == {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {
            "name": "gate.podgate.dev",
            "labels": {"app.kubernetes.io/managed-by": "podgate", "app.kubernetes.io/name": "podgate"},
            "annotations": {"admissions.enforcer/disabled": "true"},
        },
    }
    outside = ["kube-node-lease", "kube-public", "kube-system", "podgate-system"]
    selector = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": outside}
    assert entry == {
        "name": "mutate.podgate.dev",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {"namespace": "podgate-system", "name": "podgate", "port": 443, "path": "/mutate"},
            "caBundle": base64.b64encode(b"CA").decode(),
        },
        "failurePolicy": "Ignore",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [selector]},
        "objectSelector": {},
        "reinvocationPolicy": "IfNeeded",
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["pods"],
                "scope": "*",
            }
        ],
        "sideEffects": "None",
        "timeoutSeconds": 3,
    }
    names = ["no-mirror-pod", "no-daemonset-pod", "not-being-deleted", "spec-changed"]
    assert [each["name"] for each in conditions] == names  # every pod: no condition says which


def test_the_late_configuration_is_the_first_for_creations_that_it_did_not_change() -> None:
    first, late, _ = webhook_configurations(load(policy("one", PRIORITY)), SERVICE)
    [entry], [late_entry] = first.pop("webhooks"), late.pop("webhooks")
    assert late == first | {"metadata": first["metadata"] | {"name": "zzz.gate.podgate.dev"}}
    [rule] = entry["rules"]
    conditions = {each["name"]: each["expression"] for each in entry.pop("matchConditions")}
    late_conditions = {each["name"]: each["expression"] for each in late_entry.pop("matchConditions")}
    creations = {"name": "late.mutate.podgate.dev", "rules": [rule | {"operations": ["CREATE"]}]}
    assert late_entry == entry | creations | {"timeoutSeconds": 2}
    assert late_conditions == {
        "nothing-written": '!("podgate.dev/policies" in object.?metadata.?annotations.orValue({}))',
        **{name: conditions[name] for name in ("no-mirror-pod", "no-daemonset-pod")},
    }


def test_configurations_come_in_the_order_in_which_they_are_called() -> None:
    found = webhook_configurations(load(policy("one", PRIORITY)), SERVICE)
    assert [(each["kind"], each["metadata"]["name"]) for each in found] == list(CONFIGURATIONS)
    assert [str(each) for each in CONFIGURATIONS] == [
        "MutatingWebhookConfiguration gate.podgate.dev",
        "MutatingWebhookConfiguration zzz.gate.podgate.dev",
        "ValidatingWebhookConfiguration gate.podgate.dev",
    ]
    assert CONFIGURATIONS[1].path == (
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zzz.gate.podgate.dev"
    )


OTHERS = (
    "istio-sidecar-injector",
    "kueue-mutating-webhook-configuration",
    "zz-last",
    "zzz-last",
    "vault-agent-injector-cfg",
)


def test_the_webhooks_of_others_are_called_in_between() -> None:
    """As an API server sorts them, by the bytes of their names (kubernetes/apiserver:pkg/admission/configuration)."""
    assert all(NAME < each < LATE_NAME for each in OTHERS)


STORAGE = {"setStorageClass": {"default": "ceph"}}
LATE: dict[str, tuple[list[Any], set[str]]] = {
    "a setter that is enforced": ([policy("one", PRIORITY)], {"pods"}),
    "audited": ([policy("one", PRIORITY, mode="audit")], set()),
    "warned": ([policy("one", PRIORITY, mode="warn")], set()),
    "disabled": ([policy("one", PRIORITY, mode="disabled")], set()),
    "no setter": ([policy("one", CAP)], set()),
    "one of two": (
        [policy("one", PRIORITY, mode="audit"), policy("two", STORAGE)],
        {"persistentvolumeclaims", "pods"},
    ),
}


@pytest.mark.parametrize(("files", "wanted"), LATE.values(), ids=LATE)
def test_the_late_entry_is_there_where_a_setter_may_write(files: list[Any], wanted: set[str]) -> None:
    found = entries(*files)
    assert (MUTATE_LATE in found) is bool(wanted)
    if wanted:
        assert resources(found[MUTATE_LATE]) == wanted
        assert resources(found[MUTATE_LATE], "UPDATE") == set()


def test_an_override_that_enforces_makes_a_late_call() -> None:
    override = (
        "site.yaml",
        b"""\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyOverride
metadata:
  name: site
spec:
  policies: [one]
  match:
    namespaces: [team]
  mode: enforce
""",
    )
    audited = policy("one", PRIORITY, mode="audit")
    assert MUTATE_LATE not in entries(audited)
    assert MUTATE_LATE in entries(audited, override)


def test_validating_entries_differ_by_failure_policy() -> None:
    found = entries(policy("one", CAP), policy("two", CAP, failurePolicy="Fail"))
    assert list(found) == [MUTATE, VALIDATE_FAIL, VALIDATE_IGNORE]
    fail, ignore = found[VALIDATE_FAIL], found[VALIDATE_IGNORE]
    assert fail["clientConfig"]["service"]["path"] == "/validate/fail"
    assert ignore["clientConfig"]["service"]["path"] == "/validate/ignore"
    assert [entry["timeoutSeconds"] for entry in (fail, ignore)] == [2, 2]
    assert not any("reinvocationPolicy" in entry for entry in (fail, ignore))


@pytest.mark.parametrize(
    ("failure_policy", "left"), [("Fail", VALIDATE_FAIL), ("Ignore", VALIDATE_IGNORE)], ids=["Fail", "Ignore"]
)
def test_an_entry_that_no_policy_needs_is_left_out(failure_policy: str, left: str) -> None:
    assert list(entries(policy("one", CAP, failurePolicy=failure_policy))) == [MUTATE, left]


def test_a_disabled_policy_needs_nothing() -> None:
    assert list(entries(policy("one", CAP, mode="disabled"))) == [MUTATE]


@pytest.mark.parametrize(
    ("enforce", "wanted"), [(False, "Ignore"), (True, "Fail")], ids=["not yet", "enforced"]
)
def test_only_the_entry_of_policies_with_fail_may_block_and_only_once_it_is_enforced(
    enforce: bool, wanted: str
) -> None:
    files = (
        policy("one", CAP),
        policy("two", CAP, failurePolicy="Fail"),
        policy("three", PRIORITY, failurePolicy="Fail"),
    )
    found = entries(*files, enforce_failure_policy=enforce)
    policies = {name: entry["failurePolicy"] for name, entry in found.items()}
    assert policies == {
        MUTATE: "Ignore",
        MUTATE_LATE: "Ignore",
        VALIDATE_FAIL: wanted,
        VALIDATE_IGNORE: "Ignore",
    }


def resources(entry: Json, *operations: str) -> set[str]:
    return {
        f"{name}.{rule['apiGroups'][0]}".rstrip(".")
        for rule in entry["rules"]
        for name in rule["resources"]
        if set(operations) <= set(rule["operations"])
    }


def test_subresources_of_pods_are_called_for_where_updates_are_judged() -> None:
    created = entries(policy("one", CAP))[VALIDATE_IGNORE]
    updated = entries(policy("one", CAP, match=UPDATES))[VALIDATE_IGNORE]
    assert resources(created, "UPDATE").isdisjoint({"pods", "pods/resize", "pods/ephemeralcontainers"})
    assert resources(updated, "UPDATE") >= {"pods", "pods/resize", "pods/ephemeralcontainers"}
    assert resources(updated, "CREATE").isdisjoint({"pods/resize", "pods/ephemeralcontainers"})


def test_updates_reach_the_mutating_entry_for_what_it_puts_back() -> None:
    assert resources(entries(policy("one", PRIORITY))[MUTATE], "UPDATE") == {"pods"}
    assert resources(entries(policy("one", CAP))[MUTATE], "UPDATE") == set()


@pytest.mark.parametrize("name", ["shipped", "rich"])
def test_deletions_and_connections_are_never_called_for(name: str) -> None:
    found = webhook_configurations(known_set(name), SERVICE)
    rules = [
        rule for configuration in found for entry in configuration["webhooks"] for rule in entry["rules"]
    ]
    assert {operation for rule in rules for operation in rule["operations"]} == {"CREATE", "UPDATE"}


def test_an_expression_is_called_for_at_the_resources_that_it_names() -> None:
    rule = {"expression": {"resources": ["deployments.apps"], "validations": [{"expression": "true"}]}}
    [entry] = [entries(policy("one", rule))[VALIDATE_IGNORE]]
    assert resources(entry) == {"deployments.apps"}


def test_kinds_of_controllers_are_called_for_in_every_version_but_built_in_ones() -> None:
    rules = entries(policy("one", CAP))[VALIDATE_IGNORE]["rules"]
    versions = {rule["apiGroups"][0]: rule["apiVersions"] for rule in rules}
    assert (versions["apps"], versions["kubeflow.org"]) == (["v1"], ["*"])


def test_a_url_goes_before_the_paths() -> None:
    found = entries(policy("one", CAP), endpoint=Endpoint(url="https://10.0.0.7:8443/", ca_bundle=b"CA"))
    assert found[MUTATE]["clientConfig"]["url"] == "https://10.0.0.7:8443/mutate"
    assert "service" not in found[MUTATE]["clientConfig"]


def test_without_a_ca_another_writes_the_bundle() -> None:
    assert (
        "caBundle"
        not in entries(policy("one", CAP), endpoint=Endpoint(url="https://x"))[MUTATE]["clientConfig"]
    )


def test_excluded_namespaces_are_named_once_and_sorted() -> None:
    assert excluded(["z", "kube-system"], own="gate") == (
        "gate",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "z",
    )


def test_the_namespace_of_the_service_is_its_own() -> None:
    found = entries(policy("one", CAP), endpoint=Endpoint(service=("gate", "g")), excluded_namespaces=["db"])
    [expression] = found[MUTATE]["namespaceSelector"]["matchExpressions"]
    assert expression["values"] == ["db", "gate", "kube-node-lease", "kube-public", "kube-system"]


@pytest.mark.parametrize("name", ["shipped", "rich"])
def test_what_the_api_server_accepts(name: str) -> None:
    """Limits of kubernetes/kubernetes:pkg/apis/admissionregistration/validation/validation.go; an object may have 1.5 MB."""
    for configuration in webhook_configurations(known_set(name), SERVICE):
        for entry in configuration["webhooks"]:
            names = [each["name"] for each in entry["matchConditions"]]
            assert len(names) == len(set(names)) <= 64
            assert sum(len(each["expression"]) for each in entry["matchConditions"]) < 50_000
            assert len({str(rule) for rule in entry["rules"]}) == len(entry["rules"])
