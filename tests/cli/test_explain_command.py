"""`podgate explain`, as its user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from webhook.cli.main import podgate

HEAD = "apiVersion: podgate.dev/v1alpha1\nkind: "
LIMIT = f"""\
{HEAD}PodPolicy
metadata:
  name: limits
spec:
  mode: enforce
  optOut: allowed
  match:
    accelerators:
      vendors: [nvidia]
  exclude:
  - namespaces: [sandbox-*]
    workloads: [other]
  - namespaces: [elsewhere]
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
"""
TITLED = LIMIT.replace("  mode", "  severity: low\n  title:\n    en: At most eight\n    zh: 最多八张\n  mode")
FIRST = f"""\
{HEAD}PodPolicy
metadata:
  name: first
spec:
  mode: enforce
  match:
    all: true
  rules:
  - name: class
    setPriorityClass:
      class: high
"""
SECOND = FIRST.replace("name: first", "name: second").replace("class: high", "class: low")
OVERRIDE = f"""\
{HEAD}PodPolicyOverride
metadata:
  name: vision
spec:
  policies: [limits]
  order: 1
  match:
    namespaces: [vision]
  mode: disabled
---
{HEAD}PodPolicyOverride
metadata:
  name: research
spec:
  policies: [limits]
  order: 2
  match:
    namespaces: [research]
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 16
"""
EXCEPTION = f"""\
{HEAD}PodPolicyException
metadata:
  name: legacy
spec:
  policies: [limits/cap]
  match:
    namespaces: [legacy]
  reason: Migration
  owner: vision-team
  expiresAt: "2999-12-30"
"""
POD = """\
apiVersion: v1
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
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: night
spec:
  template:
    spec:
      containers:
      - name: main
        resources:
          limits:
            nvidia.com/gpu: 16
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def run(*policies: str, manifest: str = POD, options: tuple[str, ...] = ()) -> Result:
    for index, text in enumerate(policies):
        write(f"policies/{index}.yaml", text)
    arguments = ["explain", "-", "--policies", "policies", *options]
    return CliRunner().invoke(podgate, arguments, input=manifest)


def as_json(*policies: str, manifest: str = POD, options: tuple[str, ...] = ()) -> Any:
    return json.loads(run(*policies, manifest=manifest, options=(*options, "-o", "json")).stdout)


def test_the_whole_table() -> None:
    result = run(LIMIT, FIRST, SECOND)
    assert result.stdout == (
        "<stdin>:1 Pod default/trainer\n"
        "  class:         other (nothing says what it is)\n"
        "  communication: none (nothing says that it spans nodes)\n"
        '  accelerators:  16 nvidia.com/gpu of nvidia, in spec.containers["main"]\n'
        "  pools:         no AcceleratorPool that it could land in\n"
        "  first (enforce): applies\n"
        "    class (setPriorityClass): changes\n"
        "      + spec.priorityClassName: high\n"
        "  limits (enforce): applies\n"
        "    cap (limitAcceleratorCount): refused <stdin>:10:25: 16 nvidia.com/gpu asked, at most 8 per pod\n"
        "  second (enforce): applies\n"
        "    class (setPriorityClass): skips: the pod keeps its own priority class high\n"
        "      spec.priorityClassName is set by first/class\n"
    )


WHY: dict[str, tuple[list[str], str, list[str]]] = {
    "a predicate": (
        [LIMIT.replace("vendors: [nvidia]", "vendors: [amd]")],
        "default",
        ["  limits (enforce): does not apply", "    accelerators.vendors: nvidia is not amd"],
    ),
    "each of several alternatives": (
        [FIRST.replace("    all: true", "  - workloads: [training]\n  - namespaces: [a]\n    workloads: [other]")],
        "default",
        [
            "  first (enforce): does not apply",
            "    workloads: other is not training",
            "    namespaces: default is not a",
        ],
    ),
    "exclude": (
        [LIMIT],
        "sandbox-1",
        [
            "  limits (enforce): does not apply",
            "    exclude: namespaces: sandbox-1 is sandbox-*; workloads: other is other",
        ],
    ),
    "an override that switches off": (
        [LIMIT, OVERRIDE],
        "vision",
        ["  limits (disabled, by override vision): does not apply", "    mode: disabled"],
    ),
    "an override after another": (
        [LIMIT, OVERRIDE],
        "research",
        [
            "  limits (enforce, by override research): applies",
            "    override vision does not decide: namespaces: research is not vision",
            "    cap (limitAcceleratorCount): finds nothing wrong",
        ],
    ),
    "no override": (
        [LIMIT, OVERRIDE],
        "default",
        [
            "  limits (enforce): applies",
            "    override vision does not decide: namespaces: default is not vision",
            "    override research does not decide: namespaces: default is not research",
            "    cap (limitAcceleratorCount): refused <stdin>:10:25: 16 nvidia.com/gpu asked, at most 8 per pod",
        ],
    ),
    "an exception": (
        [LIMIT, EXCEPTION],
        "legacy",
        [
            "  limits (enforce): applies",
            "    cap (limitAcceleratorCount): skips: exception legacy lifts this rule until 2999-12-31 00:00 UTC: Migration",
            "      owner vision-team",
        ],
    ),
    "an exception with its ticket": (
        [LIMIT, EXCEPTION.replace("  expiresAt", "  reference: OPS-4711\n  expiresAt")],
        "legacy",
        [
            "  limits (enforce): applies",
            "    cap (limitAcceleratorCount): skips: exception legacy lifts this rule until 2999-12-31 00:00 UTC: Migration",
            "      owner vision-team, reference OPS-4711",
        ],
    ),
    "title and severity": (
        [TITLED],
        "default",
        [
            "  limits (enforce, severity low): applies",
            "    title: At most eight",
            "    cap (limitAcceleratorCount): refused <stdin>:10:25: 16 nvidia.com/gpu asked, at most 8 per pod",
        ],
    ),
    "no title of what does not apply": (
        [TITLED],
        "elsewhere",
        [
            "  limits (enforce, severity low): does not apply",
            "    exclude: namespaces: elsewhere is elsewhere",
        ],
    ),
    "facts that are missing": (
        [FIRST.replace("all: true", "workspaces: [vision]")],
        "default",
        [
            "  first (enforce): may apply",
            "    workspaces: not known, for no facts about the cluster were given",
            (
                "    class (setPriorityClass): undecided <stdin>:1:1: cannot be evaluated: "
                "no facts about the cluster were given"
            ),
        ],
    ),
    "the operation": (
        [FIRST.replace("all: true", "all: true\n    operations: [CREATE]").replace("setPriorityClass:\n      class: high",
         "limitAcceleratorCount:\n      perPod:\n        max: 32")],
        "default",
        ["  first (enforce): applies", "    class (limitAcceleratorCount): finds nothing wrong"],
    ),
    "a disabled policy": (
        [FIRST.replace("enforce", "disabled")],
        "default",
        ["  first (disabled): does not apply", "    mode: disabled"],
    ),
    "an audited setter": (
        [FIRST.replace("enforce", "audit")],
        "default",
        [
            "  first (audit): applies",
            "    class (setPriorityClass): would change (audit)",
            "      + spec.priorityClassName: high",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WHY)
def test_why(case: str) -> None:
    policies, namespace, expected = WHY[case]
    said = run(*policies, options=("-n", namespace)).stdout.splitlines()
    assert said[5:] == expected


def test_another_operation() -> None:
    said = run(LIMIT, options=("--operation", "UPDATE")).stdout.splitlines()
    assert said[5:] == ["  limits (enforce): does not apply", "    operations: UPDATE is not CREATE"]


def test_a_later_policy_sees_what_an_earlier_one_set() -> None:
    label = FIRST.replace(
        "setPriorityClass:\n      class: high", "setFields:\n      labels:\n        lane: fast"
    )
    later = SECOND.replace("all: true", "objectSelector:\n      matchLabels:\n        lane: fast")
    said = run(label, later).stdout
    assert "second (enforce): applies\n    class (setPriorityClass): changes\n" in said
    before = label.replace("  mode", "  order: 200\n  mode")
    assert "second (enforce): does not apply\n    objectSelector: " in run(before, later).stdout


def test_a_claim_is_no_pod() -> None:
    claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\n"
    assert run(LIMIT, manifest=claim).stdout.splitlines() == [
        "<stdin>:1 PersistentVolumeClaim default/data",
        "  limits (enforce): does not apply",
        "    its rules are about pods, not persistentvolumeclaims",
    ]


def test_the_pods_of_a_controller() -> None:
    said = run(LIMIT, manifest=JOB).stdout.splitlines()
    assert said[0] == "<stdin>:7 Job default/night, as made from spec.template"
    assert said[-1] == (
        "    cap (limitAcceleratorCount): refused <stdin>:12:29: 16 nvidia.com/gpu asked, at most 8 per pod"
    )


def test_exempt_pods_and_objects_without_pods() -> None:
    daemon_set = JOB.replace("batch/v1", "apps/v1").replace("Job", "DaemonSet")
    assert "  exempt: a DaemonSet's pod, made by its controller\n" in run(LIMIT, manifest=daemon_set).stdout
    assert run(LIMIT, manifest="apiVersion: v1\nkind: Service\n").stdout == (
        "1 skipped\n  of kinds that are not known to make pods (--kinds FILE describes more): 1 v1 Service\n"
    )
    assert run(LIMIT, manifest="apiVersion: batch/v1\nkind: Job\n").stdout == (
        "1 skipped\n  without a pod template: 1 batch/v1 Job\n"
    )


def test_json() -> None:
    found = as_json(LIMIT, FIRST, SECOND)
    assert (found["version"], found["exitCode"], found["policies"]["count"]) == (1, 0, 3)
    (each,) = found["objects"]
    assert (each["kind"], each["name"], each["of"], each["line"]) == ("Pod", "trainer", "", 1)
    assert each["workload"]["accelerators"] == {"nvidia.com/gpu": 16}
    assert [(policy["policy"], policy["applies"]) for policy in each["policies"]] == [
        ("first", "yes"),
        ("limits", "yes"),
        ("second", "yes"),
    ]
    first, limits, second = (policy["rules"][0] for policy in each["policies"])
    assert [(change["path"], change["to"]) for change in first["changes"]] == [
        ("spec.priorityClassName", "high")
    ]
    assert [(result["result"], result["line"]) for result in limits["results"]] == [("fail", 10)]
    assert second["owners"] == {"spec.priorityClassName": "first/class"}


def test_title_and_severity_in_json() -> None:
    def said(languages: str) -> list[tuple[str, Any]]:
        (each,) = as_json(TITLED, options=("--languages", languages))["objects"]
        (limits,) = each["policies"]
        (result,) = limits["rules"][0]["results"]
        return [(one["severity"], one["title"]) for one in (limits, result)]

    assert said("en") == [("low", {"en": "At most eight"})] * 2
    assert said("zh,en") == [("low", {"zh": "最多八张", "en": "At most eight"})] * 2


def test_a_title_in_another_language_is_better_than_none() -> None:
    only_french = LIMIT.replace("  mode", "  title:\n    fr: Huit au plus\n  mode")
    (each,) = as_json(only_french, options=("--languages", "zh"))["objects"]
    assert each["policies"][0]["title"] == {"zh": "Huit au plus"}


def test_a_broken_policy_is_an_error_and_the_rest_is_explained() -> None:
    result = run(LIMIT, FIRST.replace("class: high", "clas: high"))
    assert result.exit_code == 2
    assert "  limits (enforce): applies\n" in result.stdout
    assert "did you mean class?" in result.stderr


def test_secrets_stay_secret() -> None:
    env = FIRST.replace("setPriorityClass:\n      class: high", "setFields:\n      env:\n        TOKEN: hush")
    for options in ((), ("-o", "json")):
        said = run(env, options=options).stdout
        assert 'spec.containers["main"].env' in said.replace("\\", "")
        assert "hush" not in said


def test_the_claims_of_a_controller() -> None:
    storage = FIRST.replace(
        "setPriorityClass:\n      class: high", "setStorageClass:\n      default: ceph-block"
    )
    manifest = (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: db\nspec:\n  volumeClaimTemplates:\n"
        "  - metadata:\n      name: data\n    spec:\n      accessModes: [ReadWriteOnce]\n"
    )
    assert run(storage, manifest=manifest).stdout == (
        "<stdin>:7 StatefulSet default/db, as made from spec.volumeClaimTemplates[0]\n"
        "  first (enforce): applies\n"
        "    class (setStorageClass): changes\n"
        "      + spec.storageClassName: ceph-block\n"
    )
    kept = manifest + "      storageClassName: local\n"
    assert (
        "    class (setStorageClass): skips: storage class local was chosen and stays\n"
        in run(storage, manifest=kept).stdout
    )


def test_an_exclude_for_another_operation_excuses_nothing() -> None:
    excluded = LIMIT.replace(
        "  - namespaces: [elsewhere]", "  - namespaces: [default]\n    operations: [UPDATE]"
    ).replace("      vendors: [nvidia]", "      vendors: [nvidia]\n    operations: [CREATE, UPDATE]")
    assert "limits (enforce): applies" in run(excluded).stdout
    assert (
        "    exclude: namespaces: default is default\n"
        in run(excluded, options=("--operation", "UPDATE")).stdout
    )


def test_the_rules_about_the_controller_itself() -> None:
    expression = FIRST.replace(
        "setPriorityClass:\n      class: high",
        "expression:\n      resources: [jobs.batch]\n      validations:\n      - expression: object.spec.suspend",
    )
    said = run(expression, LIMIT, manifest=JOB).stdout.splitlines()
    assert said[0] == "<stdin>:1 Job default/night"
    assert "    its rules are about pods, not jobs.batch" in said
    assert "<stdin>:7 Job default/night, as made from spec.template" in said


def test_an_audited_check_sees_what_audited_setters_would_set() -> None:
    label = FIRST.replace(
        "setPriorityClass:\n      class: high", "setFields:\n      labels:\n        lane: fast"
    )
    check = LIMIT.replace(
        "accelerators:\n      vendors: [nvidia]", "objectSelector:\n      matchLabels:\n        lane: fast"
    )
    audited = [text.replace("mode: enforce", "mode: audit") for text in (label, check)]
    assert (
        "  limits (audit): applies\n    cap (limitAcceleratorCount): audited <stdin>:10:25: "
        in run(*audited).stdout
    )
    assert "  limits (enforce): does not apply\n" in run(audited[0], check).stdout


LANE = FIRST.replace("mode: enforce", "mode: audit").replace(
    "setPriorityClass:\n      class: high", "setFields:\n      labels:\n        lane: fast"
)
IN_THE_LANE = f"""\
{HEAD}PodPolicyOverride
metadata:
  name: lane
spec:
  policies: [second]
  mode: audit
  match:
    objectSelector:
      matchLabels:
        lane: fast
  rules:
  - name: class
"""


def test_a_rule_that_an_audited_change_would_let_do_something_else() -> None:
    labels = SECOND.replace(
        "setPriorityClass:\n      class: low", "setFields:\n      labels:\n        team: a"
    )
    more = IN_THE_LANE + "    setFields:\n      labels:\n        tier: gold\n"
    assert run(LANE, labels, more).stdout.splitlines()[-6:] == [
        "  second (enforce): applies",
        "    override lane does not decide: objectSelector: the labels of the object do not fit",
        "    class (setFields): changes",
        "      + metadata.labels.team: a",
        "    class (setFields): would change (audit)",
        "      + metadata.labels.tier: gold",
    ]


def test_a_field_that_only_an_audited_change_lets_the_rule_itself_have_has_no_other_owner() -> None:
    always = IN_THE_LANE + "    setPriorityClass:\n      replace: always\n"
    manifest = POD.replace("spec:\n", "spec:\n  priorityClassName: mine\n")
    found = as_json(LANE, SECOND, always, manifest=manifest)
    (rule,) = found["objects"][0]["policies"][-1]["rules"]
    assert [result["message"]["en"] for result in rule["results"]] == [
        "the pod keeps its own priority class mine"
    ]
    assert [(change["mode"], change["from"], change["to"]) for change in rule["changes"]] == [
        ("audit", "mine", "low")
    ]
    assert rule["owners"] == {}


def test_the_exclude_is_that_of_the_policy_in_force_beside_a_broken_one_of_its_name() -> None:
    broken = LIMIT.replace("namespaces: [sandbox-*]", "namespace: sandbox-*")
    result = run(broken, LIMIT, options=("-n", "sandbox-1"))
    assert result.exit_code == 2
    assert result.stdout.splitlines()[5:] == [
        "  limits (enforce): does not apply",
        "    exclude: namespaces: sandbox-1 is sandbox-*; workloads: other is other",
    ]


def test_only_the_exclude_of_the_operation_is_named() -> None:
    excluded = LIMIT.replace(
        "  - namespaces: [elsewhere]",
        "  - namespaces: [default]\n    operations: [UPDATE]\n  - workloads: [other]",
    )
    assert run(excluded).stdout.splitlines()[5:] == [
        "  limits (enforce): does not apply",
        "    exclude: workloads: other is other",
    ]


def test_an_alternative_for_another_operation_gives_no_reason() -> None:
    first = FIRST.replace(
        "    all: true",
        "  - namespaces: [a]\n  - namespaces: [b]\n    operations: [UPDATE]",
    ).replace("setPriorityClass:\n      class: high", "limitAcceleratorCount:\n      perPod:\n        max: 1")
    assert run(first).stdout.splitlines()[5:] == [
        "  first (enforce): does not apply",
        "    namespaces: default is not a",
    ]


def test_a_pod_without_accelerators_could_land_in_no_pool_worth_a_word() -> None:
    assert run(FIRST, manifest=POD.partition("    resources")[0]).stdout.splitlines()[3:5] == [
        "  accelerators:  none",
        "  first (enforce): applies",
    ]
