"""What policies demand to be asked about."""

import yaml

from tests.engine.gates import load, policy
from webhook.policy import load_policy_set
from webhook.registration.demands import validating_entry

CAP = {"limitAcceleratorCount": {"perPod": {"max": 8}}}


def override(mode: str) -> tuple[str, bytes]:
    body = {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicyOverride",
        "metadata": {"name": "site"},
        "spec": {"policies": ["one"], "match": {"namespaces": ["team"]}, "mode": mode},
    }
    return "site.yaml", yaml.safe_dump(body).encode()


def test_an_override_that_switches_off_demands_nothing_of_its_own() -> None:
    alone = validating_entry(load(policy("one", CAP)), "Ignore")
    assert {(demand.rule, demand.need) for demand in alone.demands} == {
        ("one/r0", "devices"),
        ("one/r0", "claims"),
    }
    assert validating_entry(load(policy("one", CAP), override("disabled")), "Ignore").demands == alone.demands


def test_an_override_that_switches_on_demands_what_the_policy_would() -> None:
    enforced = validating_entry(load(policy("one", CAP)), "Ignore")
    switched = load(policy("one", CAP, mode="disabled"), override("enforce"))
    assert validating_entry(switched, "Ignore").demands == enforced.demands
    assert validating_entry(load_policy_set([]).policy_set, "Ignore").demands == ()
