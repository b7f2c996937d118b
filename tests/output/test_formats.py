"""The formats, whole."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

from webhook.documents import Position, Problem
from webhook.engine import Action
from webhook.output.json_format import render_check, render_lint
from webhook.output.problems import render_problems
from webhook.output.results import (
    CheckResult,
    ExceptionSaid,
    FieldChange,
    Identity,
    ObjectResult,
    Place,
    RuleResult,
    Skipped,
    Verdict,
)
from webhook.output.table import render_table
from webhook.policy import load_policy_set
from webhook.rules.base import Mode, Result

TRAINER = Identity("v1", "Pod", "vision", "trainer")
CAP = RuleResult(
    "gpu-limits/cap",
    "high",
    {"en": "At most 8 in a pod", "zh": "每个 Pod 最多 8 张"},
    Result.FAIL,
    Mode.ENFORCE,
    Action.DENY,
    Place("pod.yaml", 12, 25),
    'spec.containers["main"].resources.limits["nvidia.com/gpu"]',
    {"en": "16 nvidia.com/gpu asked", "zh": "申请了 16 张"},
    {"en": "ask for fewer", "zh": "请减少数量"},
    references=("https://wiki.example.com/gpu", "#ai-platform"),
)
UNKNOWN = RuleResult(
    "gold/priority",
    "medium",
    {},
    Result.ERROR,
    Mode.AUDIT,
    Action.RECORD,
    Place("pod.yaml", 1, 1),
    "",
    {"en": "cannot be evaluated: no facts about the cluster were given"},
    {"en": "give podgate these facts"},
    needs="Namespace",
)
PASSED = RuleResult(
    "rdma/ask", "medium", {}, Result.PASS, Mode.WARN, Action.NONE, Place("pod.yaml", 1, 1), "", {}, {}
)
LEGACY = ExceptionSaid(
    "legacy", datetime(2027, 7, 1, tzinfo=UTC), "Migration", "vision@example.com", "OPS-4711"
)
CHANGES = (
    FieldChange(
        "a/set", Mode.ENFORCE, "spec.schedulerName", "spec.schedulerName", "default", "volcano", secret=False
    ),
    FieldChange(
        "a/set",
        Mode.ENFORCE,
        'spec.tolerations["gpu"]',
        "spec.tolerations[]",
        None,
        {"key": "gpu"},
        secret=False,
    ),
    FieldChange(
        "b/env",
        Mode.AUDIT,
        'env["TOKEN"].value',
        'env["TOKEN"].value',
        "old secret",
        "new secret",
        secret=True,
    ),
)
REFUSED = ObjectResult(
    Place("pod.yaml", 1, 1, "chart/templates/pod.yaml"),
    TRAINER,
    (Verdict.REFUSED, Verdict.UNDECIDED),
    "",
    (CAP, UNKNOWN, PASSED),
    CHANGES,
)
MIRROR = ObjectResult(
    Place("-.yaml", 3, 1), Identity("v1", "Pod", "", ""), (Verdict.EXEMPT,), "a node's mirror pod", (), ()
)
SKIPPED = tuple(
    Skipped(Place("app.yaml", line, 1), Identity(version, kind, "", "web"), reason)
    for line, (version, kind, reason) in enumerate(
        [("v1", "Thing", "unknown"), ("", "", "unknown"), ("v1", "Thing", "unknown"), ("v1", "Other", "odd")],
        1,
    )
)
RESULT = CheckResult(
    "3f2a91c4d5e6",
    2,
    (REFUSED, MIRROR),
    SKIPPED,
    (
        Problem("a.yaml", Position(2, 3), "odd", "quote it", is_warning=True),
        Problem("b.yaml", None, "unreadable"),
    ),
)

TABLE = """\
pod.yaml:1 (from chart/templates/pod.yaml) Pod vision/trainer: refused, undecided, would be changed
  refused pod.yaml:12:25: 16 nvidia.com/gpu asked
    where: spec.containers["main"].resources.limits["nvidia.com/gpu"]
    do:    ask for fewer
    why:   gpu-limits/cap (enforce, severity high): At most 8 in a pod, https://wiki.example.com/gpu, #ai-platform
    zh:    申请了 16 张; 请减少数量
  changed by a/set (enforce)
    - spec.schedulerName: default
    + spec.schedulerName: volcano
    + spec.tolerations[]: {key: gpu}
  would be changed by b/env (audit)
    - env["TOKEN"].value: (value not shown)
    + env["TOKEN"].value: (value not shown)
-.yaml:3 Pod (no name): exempt (a node's mirror pod)
undecided: 1 object, by gold/priority: cannot be evaluated: no facts about the cluster were given
  do: kubectl get namespace -o yaml > facts/namespace.yaml, and give --facts facts
2 objects: 0 passed, 1 refused, 0 warned, 0 audited, 1 undecided, exempt: 1
1 would be changed
4 skipped
  odd: 1 v1 Other
  unknown: 2 v1 Thing, 1 without a kind
"""

EMPTY = """\
0 objects: 0 passed, 0 refused, 0 warned, 0 audited, 0 undecided
0 would be changed
0 skipped
"""


def test_the_whole_table() -> None:
    assert render_table(RESULT) == TABLE


def test_an_empty_one() -> None:
    assert render_table(CheckResult("", 0)) == EMPTY


def test_colours_change_nothing_else() -> None:
    painted = render_table(RESULT, colour=True)
    assert "\x1b[31mrefused\x1b[0m pod.yaml:12:25" in painted
    for code in (31, 32, 33, 36, 39, 0):
        painted = painted.replace(f"\x1b[{code}m", "")
    assert painted == TABLE


def test_what_only_audited_policies_would_change() -> None:
    only_audited = replace(REFUSED, verdicts=(Verdict.PASSED,), results=(PASSED,), changes=CHANGES[2:])
    lines = render_table(replace(RESULT, objects=(only_audited,))).splitlines()
    assert lines[0].endswith("Pod vision/trainer: passed, would be changed if all policies were enforced")
    assert "0 would be changed, 1 more if all policies were enforced" in lines


def test_what_will_become_of_pods_and_claims_is_no_change_of_their_controller() -> None:
    later = (replace(CHANGES[0], of="pods"), replace(CHANGES[1], of="claims"))
    controller = replace(REFUSED, verdicts=(Verdict.PASSED,), results=(PASSED,), changes=(), later=later)
    lines = render_table(replace(RESULT, objects=(controller,))).splitlines()
    assert lines[:6] == [
        "pod.yaml:1 (from chart/templates/pod.yaml) Pod vision/trainer: passed",
        "  its pods would be changed by a/set (enforce)",
        "    - spec.schedulerName: default",
        "    + spec.schedulerName: volcano",
        "  its claims would be changed by a/set (enforce)",
        "    + spec.tolerations[]: {key: gpu}",
    ]
    assert lines[-5:-3] == ["0 would be changed", "the pods or claims of 1 object would be changed"]


def test_a_lifted_rule_takes_one_line_for_each_reason() -> None:
    passed = replace(
        PASSED,
        result=Result.SKIP,
        lifted="excepted by legacy until 2027-07-01 00:00 UTC",
        exception=LEGACY,
    )
    results = (
        passed,
        replace(passed, rule="b/cap"),
        replace(
            passed,
            rule="c/cap",
            lifted="excepted by brief until 2026-12-07 00:00 UTC",
            lifted_soon_over=True,
            exception=LEGACY._replace(name="brief", reference=""),
        ),
        replace(passed, rule="d/cap", lifted="opted out (own nodes)", exception=None),
    )
    lines = render_table(
        replace(RESULT, objects=(replace(REFUSED, results=results, changes=()),))
    ).splitlines()
    assert lines[1:6] == [
        "  excepted by legacy until 2027-07-01 00:00 UTC: rdma/ask, b/cap",
        "    why:   Migration; owner vision@example.com, reference OPS-4711",
        "  excepted by brief until 2026-12-07 00:00 UTC, which is soon: c/cap",
        "    why:   Migration; owner vision@example.com",
        "  opted out (own nodes): d/cap",
    ]


def test_a_violation_that_templates_check_lowers_says_so() -> None:
    warned = replace(CAP, action=Action.WARN)
    lines = render_table(
        replace(RESULT, objects=(replace(REFUSED, results=(warned,), changes=()),))
    ).splitlines()
    assert lines[1] == "  warned pod.yaml:12:25: 16 nvidia.com/gpu asked"
    assert lines[4].startswith("    why:   gpu-limits/cap (enforce, templates.check: warn, severity high): ")


def test_an_error_that_no_fact_mends_is_shown_at_its_object() -> None:
    error = replace(UNKNOWN, needs="", action=Action.DENY, mode=Mode.ENFORCE)
    lines = render_table(
        replace(RESULT, objects=(replace(REFUSED, results=(error,), changes=()),))
    ).splitlines()
    assert lines[1:4] == [
        "  undecided pod.yaml:1:1: cannot be evaluated: no facts about the cluster were given",
        "    do:    give podgate these facts",
        "    why:   gold/priority (enforce, failurePolicy Fail: the webhook refuses it)",
    ]


def test_a_missing_fact_is_said_once_however_many_need_it() -> None:
    others = tuple(replace(UNKNOWN, rule=f"gold/rule-{number}") for number in range(7))
    objects = tuple(replace(REFUSED, results=(*others, UNKNOWN)) for _ in range(3))
    lines = render_table(replace(RESULT, objects=objects)).splitlines()
    assert [line for line in lines if line.startswith("undecided")] == [
        (
            "undecided: 3 objects, by gold/priority, gold/rule-0, gold/rule-1, gold/rule-2, gold/rule-3 and 3 more: "
            "cannot be evaluated: no facts about the cluster were given"
        )
    ]


def test_a_value_cannot_forge_a_line() -> None:
    change = replace(CHANGES[0], after="a\n0 refused\x1b[2J\u202e")
    table = render_table(replace(RESULT, objects=(replace(REFUSED, changes=(change,)),)))
    assert '    + spec.schedulerName: "a\\n0 refused\\u001b[2J\\u202e"\n' in table


def test_problems() -> None:
    assert (
        render_problems(RESULT.problems) == "a.yaml:2:3: warning: odd\n  hint: quote it\nb.yaml: unreadable\n"
    )
    assert render_problems([Problem("", None, "no policy was found", is_warning=True)]) == (
        "warning: no policy was found\n"
    )


JSON = """\
{
  "version": 1,
  "exitCode": 1,
  "policies": {
    "count": 2,
    "hash": "3f2a91c4d5e6"
  },
  "summary": {
    "objects": 1,
    "refused": 1,
    "undecided": 1,
    "warned": 0,
    "audited": 0,
    "passed": 0,
    "unmatched": 0,
    "exempt": 0,
    "wouldBeChanged": 1,
    "laterChanged": 1,
    "skipped": 1,
    "errors": 1,
    "warnings": 1
  },
  "objects": [
    {
      "file": "pod.yaml",
      "line": 1,
      "column": 1,
      "origin": "chart/templates/pod.yaml",
      "apiVersion": "v1",
      "kind": "Pod",
      "namespace": "vision",
      "name": "trainer",
      "verdicts": [
        "refused",
        "undecided"
      ],
      "exempt": "",
      "results": [
        {
          "policy": "gpu-limits",
          "rule": "cap",
          "severity": "high",
          "title": {
            "en": "At most 8 in a pod",
            "zh": "\\u6bcf\\u4e2a Pod \\u6700\\u591a 8 \\u5f20"
          },
          "result": "fail",
          "mode": "enforce",
          "action": "deny",
          "file": "pod.yaml",
          "line": 12,
          "column": 25,
          "field": "spec.containers[\\"main\\"].resources.limits[\\"nvidia.com/gpu\\"]",
          "message": {
            "en": "16 nvidia.com/gpu asked",
            "zh": "\\u7533\\u8bf7\\u4e86 16 \\u5f20"
          },
          "remediation": {
            "en": "ask for fewer",
            "zh": "\\u8bf7\\u51cf\\u5c11\\u6570\\u91cf"
          },
          "needs": "",
          "references": [
            "https://wiki.example.com/gpu",
            "#ai-platform"
          ],
          "lifted": "",
          "exception": null
        }
      ],
      "changes": [
        {
          "policy": "a",
          "rule": "set",
          "mode": "enforce",
          "path": "spec.schedulerName",
          "from": "default",
          "to": "volcano"
        },
        {
          "policy": "a",
          "rule": "set",
          "mode": "enforce",
          "path": "spec.tolerations[\\"gpu\\"]",
          "from": null,
          "to": {
            "key": "gpu"
          }
        },
        {
          "policy": "b",
          "rule": "env",
          "mode": "audit",
          "path": "env[\\"TOKEN\\"].value"
        }
      ],
      "later": [
        {
          "policy": "a",
          "rule": "set",
          "mode": "enforce",
          "path": "spec.schedulerName",
          "from": "default",
          "to": "volcano",
          "of": "pods"
        }
      ]
    }
  ],
  "skipped": [
    {
      "file": "app.yaml",
      "line": 1,
      "column": 1,
      "origin": "",
      "apiVersion": "v1",
      "kind": "Thing",
      "namespace": "",
      "name": "web",
      "reason": "unknown"
    }
  ],
  "problems": [
    {
      "file": "a.yaml",
      "line": 2,
      "column": 3,
      "severity": "warning",
      "message": "odd",
      "hint": "quote it"
    },
    {
      "file": "b.yaml",
      "line": null,
      "column": null,
      "severity": "error",
      "message": "unreadable",
      "hint": ""
    }
  ]
}
"""


def test_the_whole_json() -> None:
    later = (replace(CHANGES[0], of="pods"),)
    result = replace(RESULT, objects=(replace(REFUSED, results=(CAP,), later=later),), skipped=SKIPPED[:1])
    assert render_check(result, 1) == JSON


def test_the_exception_that_lifts_a_rule_in_json() -> None:
    lifted = replace(PASSED, result=Result.SKIP, exception=LEGACY)
    found = json.loads(render_check(replace(RESULT, objects=(replace(REFUSED, results=(lifted,)),)), 0))
    assert found["objects"][0]["results"][0]["exception"] == {
        "name": "legacy",
        "reason": "Migration",
        "owner": "vision@example.com",
        "reference": "OPS-4711",
        "expiresAt": "2027-07-01T00:00:00Z",
    }


def test_numbers_that_json_has_not() -> None:
    change = replace(CHANGES[0], before=float("inf"), after=[float("nan"), 1.5])
    text = render_check(replace(RESULT, objects=(replace(REFUSED, changes=(change,)),)), 0)
    assert '"from": "inf"' in text
    assert '"nan",\n            1.5' in text


POLICIES = b"""\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: gpu-limits
spec:
  title:
    en: At most 8
    zh: Eight
  severity: critical
  mode: enforce
  match:
    accelerators: {}
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
---
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: placement
spec:
  match:
    accelerators: {}
  rules:
  - name: nodes
    checkPlacement: {}
---
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyException
metadata:
  name: legacy
spec:
  policies: [placement, gpu-limits/cap]
  match:
    namespaces: [legacy]
  reason: Migration
  owner: vision@example.com
  reference: OPS-4711
  expiresAt: "2027-06-30"
"""
LINT = """\
{
  "version": 1,
  "exitCode": 2,
  "policies": {
    "count": 2,
    "hash": "HASH"
  },
  "loaded": [
    {
      "policy": "gpu-limits",
      "severity": "critical",
      "title": {
        "en": "At most 8",
        "zh": "Eight"
      },
      "mode": "enforce"
    },
    {
      "policy": "placement",
      "severity": "medium",
      "title": {},
      "mode": "audit"
    }
  ],
  "exceptions": [
    {
      "name": "legacy",
      "reason": "Migration",
      "owner": "vision@example.com",
      "reference": "OPS-4711",
      "expiresAt": "2027-07-01T00:00:00Z",
      "lifts": [
        "gpu-limits/cap",
        "placement"
      ]
    }
  ],
  "problems": [
    {
      "file": "b.yaml",
      "line": null,
      "column": null,
      "severity": "error",
      "message": "unreadable",
      "hint": ""
    }
  ]
}
"""


def test_the_whole_json_of_lint() -> None:
    loaded = load_policy_set([("a.yaml", POLICIES)])
    assert loaded.problems == ()
    digest = loaded.policy_set.hash
    assert render_lint(RESULT.problems[1:], 2, loaded.policy_set) == LINT.replace("HASH", digest)
