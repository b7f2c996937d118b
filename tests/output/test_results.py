"""From an outcome to results: places, verdicts, changes, exit codes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from webhook.documents import Problem, read_documents
from webhook.engine import Gate, review
from webhook.facts import Facts
from webhook.output.exit_code import FailOn, exit_code_of
from webhook.output.results import CheckResult, ObjectResult, Place, Verdict, object_result
from webhook.policy import load_policy_set
from webhook.review_tools.manifests import Caller, manifests_in, request_for

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: {mode}-limit
spec:
  mode: {mode}
  match:
    {match}
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
"""
FIELDS = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: {mode}-rdma
spec:
  mode: {mode}
  match:
    all: true
  rules:
  - name: ask
    requestRDMA:
      resourceNames: [rdma/hca]
      env:
        NCCL_IB_DISABLE: "0"
"""
POD = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: trainer
  spec:
    containers:
    - name: main
      resources:
        limits:
          nvidia.com/gpu: 16
"""


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def limit(mode: str, match: str = "all: true") -> str:
    return LIMIT.format(mode=mode, match=match)


def check(*policies: str, manifest: str = POD, languages: Sequence[str] = ("en",)) -> CheckResult:
    loaded = load_policy_set([(f"{index}.yaml", text.encode()) for index, text in enumerate(policies)])
    assert not loaded.has_errors, loaded.problems
    gate = Gate(loaded.policy_set, Facts(), now=NOW)
    objects: list[ObjectResult] = []
    for document in read_documents(manifest.encode(), "pod.yaml", strict=False).documents:
        for found in manifests_in(document):
            request = request_for(found.value, Caller(), loaded.policy_set.templates)
            assert request is not None
            objects.append(object_result(review(gate, request), document, found.base, languages))
    return CheckResult(loaded.policy_set.hash, len(loaded.policy_set), tuple(objects))


def test_a_finding_stands_at_the_offending_value() -> None:
    (found,) = check(limit("enforce")).objects
    (result,) = found.results
    assert found.place == Place("pod.yaml", 4, 3)
    assert result.place == Place("pod.yaml", 13, 27)
    assert result.field == 'spec.containers["main"].resources.limits["nvidia.com/gpu"]'


def test_a_finding_about_what_only_the_defaults_hold_stands_at_its_nearest_ancestor() -> None:
    policy = limit("enforce").replace("limitAcceleratorCount", "limitResourcesPerAccelerator")
    policy = policy.replace("perPod:\n        max: 8", 'cpu:\n        max: "8"\n      whenMissing: fail')
    (found,) = check(policy).objects
    assert [(result.field, str(result.place)) for result in found.results] == [
        ('spec.containers["main"].resources.requests.cpu', "pod.yaml:12:9")
    ]


def test_texts_come_in_all_languages_asked() -> None:
    (found,) = check(limit("enforce"), languages=("zh", "en")).objects
    (result,) = found.results
    assert list(result.message) == list(result.remediation) == ["zh", "en"]
    assert result.message["en"] == "16 nvidia.com/gpu asked, at most 8 per pod"
    assert "张" in result.message["zh"]


VERDICTS = {
    "enforce refuses": ([limit("enforce")], [Verdict.REFUSED]),
    "warn warns": ([limit("warn")], [Verdict.WARNED]),
    "audit records": ([limit("audit")], [Verdict.AUDITED]),
    "the worst first": ([limit("audit"), limit("enforce")], [Verdict.REFUSED, Verdict.AUDITED]),
    "no rule applies": ([limit("enforce", "workloads: [notebook]")], [Verdict.UNMATCHED]),
    "a disabled policy applies to nothing": ([limit("disabled")], [Verdict.UNMATCHED]),
    "a fact is missing": ([limit("enforce", "workspaces: [vision]")], [Verdict.UNDECIDED]),
    "refused by one, undecided for another": (
        [limit("enforce"), limit("warn", "workspaces: [vision]")],
        [Verdict.REFUSED, Verdict.UNDECIDED],
    ),
}


@pytest.mark.parametrize("case", VERDICTS)
def test_verdicts(case: str) -> None:
    policies, verdicts = VERDICTS[case]
    (found,) = check(*policies).objects
    assert list(found.verdicts) == verdicts


def test_a_rule_that_finds_nothing_passes() -> None:
    (found,) = check(limit("enforce"), manifest=POD.replace("16", "8")).objects
    assert found.verdicts == (Verdict.PASSED,)
    assert [(result.rule, result.result, str(result.place)) for result in found.results] == [
        ("enforce-limit/cap", "pass", "pod.yaml:4:3")
    ]


def test_filling_a_request_from_its_limit_is_no_change() -> None:
    (found,) = check(limit("enforce"), manifest=POD.replace("16", "8")).objects
    assert found.changes == ()


@pytest.mark.parametrize(("mode", "enforced"), [("enforce", True), ("audit", False)])
def test_changes(mode: str, *, enforced: bool) -> None:
    (found,) = check(FIELDS.format(mode=mode)).objects
    assert found.would_be_changed is enforced
    assert [(change.mode, change.shown_path, change.after, change.secret) for change in found.changes] == [
        (mode, 'spec.containers["main"].resources.limits["rdma/hca"]', "1", False),
        (mode, 'spec.containers["main"].resources.requests["rdma/hca"]', "1", False),
        (mode, 'spec.containers["main"].env[]', {"name": "NCCL_IB_DISABLE", "value": "0"}, True),
    ]


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: trainer
spec:
  template:
    spec:
      containers:
      - name: main
        env: []
        resources:
          limits:
            nvidia.com/gpu: 16
"""
CLAIMS = """\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
spec:
  template: {}
  volumeClaimTemplates:
  - spec:
      accessModes: [ReadWriteOnce]
"""
STORAGE = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: storage
spec:
  mode: enforce
  match:
    all: true
  rules:
  - name: class
    setStorageClass:
      default: ceph-block
"""


def test_a_finding_about_a_future_pod_stands_in_the_template() -> None:
    (found,) = check(limit("enforce"), manifest=DEPLOYMENT).objects
    (result,) = found.results
    assert found.verdicts == (Verdict.REFUSED,)
    assert str(result.place) == "pod.yaml:13:29"
    assert result.field == 'spec.template.spec.containers["main"].resources.limits["nvidia.com/gpu"]'


CAPS = {
    "sameAsMode": ([Verdict.REFUSED], ["deny"]),
    "warn": ([Verdict.WARNED], ["warn"]),
    "disabled": ([Verdict.UNMATCHED], []),
}


@pytest.mark.parametrize("most", CAPS)
def test_what_the_author_of_a_template_is_told(most: str) -> None:
    verdicts, actions = CAPS[most]
    policy = limit("enforce", f"all: true\n  templates:\n    check: {most}")
    (found,) = check(policy, manifest=DEPLOYMENT).objects
    assert list(found.verdicts) == verdicts
    assert [result.action for result in found.results] == actions
    (pod,) = check(policy).objects
    assert pod.verdicts == (Verdict.REFUSED,)


def test_what_cannot_be_judged_in_a_template_that_is_not_checked_is_not_undecided() -> None:
    policy = limit("enforce", "workspaces: [vision]\n  templates:\n    check: disabled")
    (found,) = check(policy, manifest=DEPLOYMENT).objects
    assert found.verdicts == (Verdict.UNMATCHED,)


def test_what_will_change_in_pods_is_no_change_of_the_object_and_keeps_its_secrets() -> None:
    (found,) = check(FIELDS.format(mode="enforce"), manifest=DEPLOYMENT).objects
    assert (found.changes, found.would_be_changed) == ((), False)
    container = 'spec.template.spec.containers["main"]'
    assert [(change.of, change.shown_path, change.secret) for change in found.later] == [
        ("pods", f'{container}.resources.limits["rdma/hca"]', False),
        ("pods", f'{container}.resources.requests["rdma/hca"]', False),
        ("pods", f"{container}.env[]", True),
    ]


def test_what_is_written_into_the_template_is_a_change() -> None:
    policy = FIELDS.format(mode="enforce").replace(
        "    all: true\n", "    all: true\n  templates:\n    mutate: [deployments.apps]\n"
    )
    (found,) = check(policy, manifest=DEPLOYMENT).objects
    assert found.would_be_changed
    assert [change.of for change in found.changes] == ["object", "object", "object"]
    assert found.later == ()


def test_claims_that_will_change() -> None:
    (found,) = check(STORAGE, manifest=CLAIMS).objects
    assert [(change.of, change.path, change.after) for change in found.later] == [
        ("claims", "spec.volumeClaimTemplates[0].spec.storageClassName", "ceph-block")
    ]


def test_the_pods_of_a_daemon_set_are_exempt() -> None:
    (found,) = check(limit("enforce"), manifest=DEPLOYMENT.replace("Deployment", "DaemonSet")).objects
    assert found.verdicts == (Verdict.EXEMPT,)
    assert found.exempt == "the pods of a DaemonSet, made by its controller"


EXCEPTION = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyException
metadata:
  name: legacy
spec:
  policies: [enforce-limit/cap]
  match:
    all: true
  reason: Migration
  owner: vision
  expiresAt: "{end}"
"""
EXCEPTIONS = {
    "in force": ("2027-06-30", Verdict.PASSED, "excepted by legacy until 2027-07-01 00:00 UTC", False),
    "ending": ("2026-01-10", Verdict.PASSED, "excepted by legacy until 2026-01-11 00:00 UTC", True),
    "over": ("2025-12-31", Verdict.REFUSED, "", False),
}


@pytest.mark.parametrize("case", EXCEPTIONS)
def test_exceptions(case: str) -> None:
    end, verdict, lifted, soon = EXCEPTIONS[case]
    (found,) = check(limit("enforce"), EXCEPTION.format(end=end)).objects
    (result,) = found.results
    assert found.verdicts == (verdict,)
    assert (result.lifted, result.lifted_soon_over) == (lifted, soon)


def test_an_opt_out() -> None:
    manifest = POD.replace(
        "name: trainer", 'name: trainer\n    annotations:\n      podgate.dev/skip: "enforce-limit: own nodes"'
    )
    (found,) = check(limit("enforce", "all: true\n  optOut: allowed"), manifest=manifest).objects
    assert [result.lifted for result in found.results] == ["opted out (own nodes)"]


ERROR = Problem("a.yaml", None, "broken")
WARNING = Problem("a.yaml", None, "odd", is_warning=True)
UNKNOWN = limit("audit", "workspaces: [vision]")
NO_SUCH = limit("audit", "matchConditions:\n    - name: a\n      expression: object.spec.nonsense == 1")

EXIT_CODES: dict[str, tuple[list[str], list[Problem], FailOn, bool, bool, int]] = {
    "clean": ([limit("enforce", "workloads: [notebook]")], [], "any", True, False, 0),
    "refused": ([limit("enforce")], [], "enforce", False, False, 1),
    "refused, but never mind": ([limit("enforce")], [], "never", False, False, 0),
    "warned": ([limit("warn")], [], "enforce", False, False, 0),
    "warned, and warnings count": ([limit("warn")], [], "warn", False, False, 1),
    "audited, and warnings count": ([limit("audit")], [], "warn", False, False, 0),
    "audited, and all counts": ([limit("audit")], [], "any", False, False, 1),
    "a change is no failure": ([FIELDS.format(mode="enforce")], [], "any", False, False, 0),
    "a warning about a file": ([limit("audit")], [WARNING], "enforce", False, False, 0),
    "an error in a file": ([limit("audit")], [ERROR], "never", False, False, 2),
    "an error in a file, and refused": ([limit("enforce")], [ERROR], "enforce", False, False, 2),
    "undecided": ([UNKNOWN], [], "any", False, False, 0),
    "undecided, and that fails": ([UNKNOWN], [], "enforce", True, False, 3),
    "undecided for lack of facts, refused by another": (
        [UNKNOWN, limit("enforce")],
        [],
        "enforce",
        False,
        False,
        1,
    ),
    "no fact would help": ([NO_SUCH], [], "never", False, False, 3),
    "no fact would help, and an error in a file": ([NO_SUCH], [ERROR], "enforce", False, False, 3),
    "nothing matched": ([limit("enforce", "workloads: [notebook]")], [], "any", False, True, 4),
    "nothing matched, and an error in a file": (
        [limit("enforce", "workloads: [notebook]")],
        [ERROR],
        "any",
        False,
        True,
        2,
    ),
    "something matched": ([limit("audit")], [], "enforce", False, True, 0),
    "undecided counts as matched": ([UNKNOWN], [], "enforce", False, True, 0),
}


@pytest.mark.parametrize("case", EXIT_CODES)
def test_exit_codes(case: str) -> None:
    policies, problems, fail_on, unknown_fails, require_match, code = EXIT_CODES[case]
    found = check(*policies)
    result = CheckResult(found.policies, found.policy_count, found.objects, (), tuple(problems))
    assert exit_code_of(result, fail_on, unknown_fails=unknown_fails, require_match=require_match) == code
