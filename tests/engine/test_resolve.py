"""What a site says about a policy, in force: overrides, exceptions, opt-outs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from textwrap import indent
from typing import Any

import orjson
import pytest

from webhook.admission import Endpoint, answer_review
from webhook.engine import Action, Gate, mutate, review, validate
from webhook.facts import Facts
from webhook.kube.admission_request import AdmissionRequest
from webhook.policy import PolicySet, load_policy_set
from webhook.rules.base import Mode, Result

LIMITS = """
mode: enforce
match:
  all: true
rules:
- name: cap
  limitAcceleratorCount:
    perPod:
      max: 4
"""

PRIORITY = """
mode: enforce
match:
  all: true
rules:
- name: class
  setFields:
    labels:
      team: a
"""

NOW = datetime(2027, 6, 1, tzinfo=UTC)


def document(kind: str, name: str, spec: str) -> bytes:
    head = f"apiVersion: podgate.dev/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n"
    return (head + indent(spec.strip("\n") + "\n", "  ")).encode()


def policies(*documents: bytes, limits: str = LIMITS, ceiling: Mode = Mode.ENFORCE) -> PolicySet:
    own = [document("PodPolicy", "limits", limits), document("PodPolicy", "labels", PRIORITY)]
    loaded = load_policy_set(
        [(f"{i}.yaml", text) for i, text in enumerate([*own, *documents])], mode_ceiling=ceiling
    )
    assert loaded.problems == ()
    return loaded.policy_set


def pod(count: int, **metadata: Any) -> dict[str, Any]:
    gpus = {"nvidia.com/gpu": str(count)}
    container = {"name": "c", "resources": {"limits": gpus, "requests": gpus}}
    return {"kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": {"containers": [container]}}


def request(thing: Mapping[str, Any], namespace: str = "team") -> AdmissionRequest:
    return AdmissionRequest(kind="Pod", resource="pods", namespace=namespace, object=thing)


def gate(policy_set: PolicySet, workspace: str | None = None, now: datetime = NOW) -> Gate:
    labels = {"kubesphere.io/workspace": workspace} if workspace is not None else None
    namespaces = [{"kind": "Namespace", "metadata": {"name": "team", "labels": labels}}] if labels else []
    return Gate(policy_set, Facts.from_objects(namespaces), now=now)


def override(spec: str, name: str = "site") -> bytes:
    return document("PodPolicyOverride", name, f"policies: [limits]\n{spec}")


SIXTEEN = """
match:
  workspaces: [vision]
rules:
- name: cap
  limitAcceleratorCount:
    perPod:
      max: 16
"""


@pytest.mark.parametrize(
    ("workspace", "count", "allowed"),
    [("vision", 16, True), ("vision", 17, False), ("speech", 4, True), ("speech", 5, False)],
)
def test_an_override_decides_where_it_matches(workspace: str, count: int, allowed: bool) -> None:
    outcome = validate(gate(policies(override(SIXTEEN)), workspace), request(pod(count)))
    assert outcome.allowed is allowed


def test_an_override_whose_match_is_unknown_is_an_error_by_the_failure_policy() -> None:
    strict = LIMITS + "failurePolicy: Fail\n"
    outcome = validate(gate(policies(override(SIXTEEN), limits=strict)), request(pod(1)))
    (report,) = (each for each in outcome.reports if each.rule.policy == "limits")
    assert (report.result, report.action) == (Result.ERROR, Action.DENY)


def test_the_first_override_that_matches_decides() -> None:
    narrower = SIXTEEN.replace("workspaces: [vision]", "namespaces: [team]").replace("16", "2")
    first = override(narrower + "order: 1\n", "first")
    outcome = validate(gate(policies(override(SIXTEEN), first), "vision"), request(pod(3)))
    assert not outcome.allowed
    assert [each.rule.override for each in outcome.reports if each.action is Action.DENY] == ["first"]


WARN_ALL = "match:\n  all: true\nmode: {}\n"


@pytest.mark.parametrize(
    ("mode", "action"), [("warn", Action.WARN), ("audit", Action.RECORD), ("enforce", Action.DENY)]
)
def test_an_override_sets_the_mode(mode: str, action: Action) -> None:
    text = override(WARN_ALL.replace("{}", mode))
    outcome = validate(gate(policies(text, ceiling=Mode.AUDIT)), request(pod(5)))
    (report,) = (each for each in outcome.reports if each.rule.policy == "limits")
    assert report.action is action


def test_an_override_disables() -> None:
    outcome = validate(gate(policies(override(WARN_ALL.replace("{}", "disabled")))), request(pod(5)))
    assert [each for each in outcome.reports if each.rule.policy == "limits"] == []


def test_an_override_enables_what_is_disabled() -> None:
    off = LIMITS.replace("mode: enforce", "mode: disabled")
    text = override("match:\n  namespaces: [team]\nmode: enforce\n")
    policy_set = policies(text, limits=off)
    assert not validate(gate(policy_set), request(pod(5))).allowed
    assert validate(gate(policy_set), request(pod(5), "other")).allowed


def test_a_setter_is_audited_for_some_and_enforced_for_others() -> None:
    text = document(
        "PodPolicyOverride", "site", "policies: [labels]\nmatch:\n  namespaces: [team]\nmode: audit\n"
    )
    policy_set = policies(text)
    audited = mutate(gate(policy_set), request(pod(1)))
    enforced = mutate(gate(policy_set), request(pod(1), "other"))
    assert (audited.patch, [change.field for _, change in audited.would_change]) == (
        [],
        ["metadata.labels.team"],
    )
    assert [change.field for change in enforced.changes] == ["metadata.labels.team"]


AUDITED_WITH_A_LABEL = """
policies: [labels]
match:
  objectSelector:
    matchLabels:
      stage: trial
rules:
- name: class
  setFields:
    labels:
      team: {}
mode: audit
"""
STAGE = """
mode: audit
order: 1
match:
  all: true
rules:
- name: stage
  setFields:
    labels:
      stage: trial
"""


@pytest.mark.parametrize(
    ("team", "besides"),
    [("a", ["metadata.labels.stage"]), ("b", ["metadata.labels.stage", "metadata.labels.team"])],
)
def test_what_is_enforced_already_would_not_be_changed_besides(team: str, besides: list[str]) -> None:
    """The override is in force only where the audited label is: there the policy audits what it enforces on the object."""
    audits = document("PodPolicyOverride", "site", AUDITED_WITH_A_LABEL.replace("{}", team))
    outcome = mutate(gate(policies(audits, document("PodPolicy", "stages", STAGE))), request(pod(1)))
    assert [(change.field, change.after) for change in outcome.changes] == [("metadata.labels.team", "a")]
    assert [change.field for _, change in outcome.would_change] == besides
    assert (outcome.audited or {})["metadata"]["labels"] == {"stage": "trial", "team": team}


EXCEPTION = """
policies: [limits/cap]
match:
  namespaces: [team]
reason: Migration
owner: vision@example.com
expiresAt: "2027-06-30"
"""


def exception(spec: str = EXCEPTION) -> bytes:
    return document("PodPolicyException", "legacy", spec)


ENDS = [
    ("long before", datetime(2027, 1, 1, tzinfo=UTC), "excepted"),
    ("two weeks before", datetime(2027, 7, 1, tzinfo=UTC) - timedelta(days=14), "excepted, ending"),
    ("on its last day", datetime(2027, 6, 30, 23, 59, tzinfo=UTC), "excepted, ending"),
    ("the day after", datetime(2027, 7, 1, tzinfo=UTC), "pod at most"),
]


@pytest.mark.parametrize(("now", "text"), [each[1:] for each in ENDS], ids=[each[0] for each in ENDS])
def test_an_exception_lifts_a_rule_until_its_end(now: datetime, text: str) -> None:
    outcome = validate(gate(policies(exception()), now=now), request(pod(5)))
    (report,) = (each for each in outcome.reports if each.rule.policy == "limits")
    assert [finding.text for finding in report.findings] == [text]
    assert outcome.allowed is (text != "pod at most")


def test_an_exception_comes_before_an_override() -> None:
    text = override("match:\n  all: true\nmode: enforce\n")
    assert validate(gate(policies(exception(), text)), request(pod(5))).allowed


def test_an_exception_lifts_a_rule_whatever_override_is_not_known_to_match() -> None:
    outcome = validate(gate(policies(exception(), override(SIXTEEN)), workspace=None), request(pod(5)))
    (report,) = (each for each in outcome.reports if each.rule.policy == "limits")
    assert [finding.text for finding in report.findings] == ["excepted"]


def test_an_exception_that_is_not_known_to_match_lifts_nothing_and_says_so() -> None:
    """Whether it lifts is the failurePolicy's to decide; the rule is not judged without its exception."""
    lifting = exception(EXCEPTION.replace("namespaces: [team]", "workspaces: [vision]"))
    strict = LIMITS + "failurePolicy: Fail\n"
    known = validate(gate(policies(lifting, limits=strict), "vision"), request(pod(5)))
    outcome = validate(gate(policies(lifting, limits=strict)), request(pod(5)))
    (report,) = (each for each in outcome.reports if each.rule.policy == "limits")
    assert known.allowed
    assert (report.result, report.action) == (Result.ERROR, Action.DENY)
    assert [finding.text for finding in report.findings] == ["unknown"]


def test_an_exception_is_for_those_it_matches_only() -> None:
    assert not validate(gate(policies(exception())), request(pod(5), "other")).allowed


def test_an_exception_lifts_a_mutation_and_its_verification() -> None:
    lifting = exception(EXCEPTION.replace("limits/cap", "labels"))
    policy_set = policies(lifting)
    assert mutate(gate(policy_set), request(pod(1))).patch == []
    (report,) = (e for e in validate(gate(policy_set), request(pod(1))).reports if e.rule.policy == "labels")
    assert (report.result, report.findings[0].text) == (Result.SKIP, "excepted")


def test_whoever_uses_an_exception_that_ends_soon_is_warned_once() -> None:
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "team",
            "operation": "CREATE",
            "userInfo": {"username": "u"},
            "object": pod(5),
        },
    }
    now = datetime(2027, 6, 25, tzinfo=UTC)
    policy_set = policies(exception())
    said = {}
    for endpoint in (Endpoint.MUTATE, Endpoint.VALIDATE_FAIL, Endpoint.VALIDATE_IGNORE):
        answer = answer_review(orjson.dumps(body), endpoint, policy_set=policy_set, facts=Facts(), now=now)
        said[endpoint] = orjson.loads(answer.body)["response"].get("warnings", [])
    ending = "[limits/cap] exception legacy lifts this rule only until 2027-07-01 00:00 UTC: Migration"
    found = {
        endpoint: [text for text in warnings if text.startswith(ending)]
        for endpoint, warnings in said.items()
    }
    assert {endpoint: len(texts) for endpoint, texts in found.items()} == {
        Endpoint.MUTATE: 0,
        Endpoint.VALIDATE_FAIL: 0,
        Endpoint.VALIDATE_IGNORE: 1,
    }


OPT_OUTS = {
    "with a reason": ("limits: debugging", True),
    "among others": ("other: x; limits: debugging", True),
    "a reason with a colon": ("limits: see https://tickets.example/7", True),
    "without a reason": ("limits:", False),
    "another policy": ("labels: debugging", False),
    "the policy's name alone": ("limits", False),
}


@pytest.mark.parametrize(("text", "lifted"), OPT_OUTS.values(), ids=OPT_OUTS.keys())
@pytest.mark.parametrize("opt_out", ["allowed", "denied"])
def test_an_object_opts_out_only_of_policies_that_allow_it(text: str, lifted: bool, opt_out: str) -> None:
    policy_set = policies(limits=LIMITS + f"optOut: {opt_out}\n")
    thing = pod(5, annotations={"podgate.dev/skip": text})
    assert validate(gate(policy_set), request(thing)).allowed is (lifted and opt_out == "allowed")


@pytest.mark.parametrize("by", ["exception", "opt-out"])
def test_nothing_lifts_a_rule_of_which_nobody_knows_whether_it_applies(by: str) -> None:
    unclear = LIMITS.replace("  all: true", "  namespaceSelector:\n    matchLabels:\n      tier: gold")
    limits = f"{unclear}failurePolicy: Fail\n" + ("optOut: allowed\n" if by == "opt-out" else "")
    thing = pod(5, annotations={"podgate.dev/skip": "limits: debugging"})
    outcome = validate(
        gate(policies(*([exception()] if by == "exception" else []), limits=limits)), request(thing)
    )
    assert {(report.rule.key, report.result, report.action) for report in outcome.reports} >= {
        ("limits/cap", Result.ERROR, Action.DENY)
    }


def test_a_review_shows_what_audited_rules_would_make_of_what_is_enforced() -> None:
    enforced = review(gate(policies()), request(pod(1)))
    assert (enforced.audited or {})["metadata"]["labels"] == {"team": "a"}
    audited = review(gate(policies(ceiling=Mode.AUDIT)), request(pod(1)))
    assert "labels" not in (audited.object or {})["metadata"]
    assert (audited.audited or {})["metadata"]["labels"] == {"team": "a"}


def test_a_rule_that_is_lifted_is_reported_as_skipped() -> None:
    outcome = review(gate(policies(exception())), request(pod(5)))
    assert {report.rule.key: report.result for report in outcome.reports} == {
        "limits/cap": Result.SKIP,
        "labels/class": Result.PASS,
    }
