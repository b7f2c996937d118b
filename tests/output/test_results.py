"""From an outcome to results: places, verdicts, changes, exit codes."""

from __future__ import annotations

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


def limit(mode: str, match: str = "all: true") -> str:
    return LIMIT.format(mode=mode, match=match)


def check(*policies: str, manifest: str = POD, languages: Sequence[str] = ("en",)) -> CheckResult:
    loaded = load_policy_set([(f"{index}.yaml", text.encode()) for index, text in enumerate(policies)])
    assert not loaded.has_errors, loaded.problems
    gate = Gate(loaded.policy_set, Facts())
    objects: list[ObjectResult] = []
    for document in read_documents(manifest.encode(), "pod.yaml", strict=False).documents:
        for found in manifests_in(document):
            request = request_for(found.value, Caller())
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
    manifest = POD.replace(
        "nvidia.com/gpu: 16", "nvidia.com/gpu: 8\n        requests:\n          nvidia.com/gpu: 4"
    )
    (found,) = check(limit("enforce"), manifest=manifest).objects
    assert [str(result.place) for result in found.results] == ["pod.yaml:13:27"]


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
