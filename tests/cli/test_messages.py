"""Whole outputs for faulty input, as users see them: each file in golden/ is what one command line prints.

`PODGATE_UPDATE_GOLDEN=1 pytest tests/cli/test_messages.py` writes them anew; read the difference.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli.main import podgate

GOLDEN = Path(__file__).parent / "golden"
HASH = re.compile(r"\b[0-9a-f]{12}\b")

POLICY = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: gpu-limits
spec:
  mode: enforce
  match:
    accelerators:
      vendors: [nvidia]
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
"""
FOLDED = POLICY.replace(
    "  mode", "  title: >\n    No more than\n    a node has\n  contact: |\n    a\n    b\n  mode"
) + ("    message: |\n      too many\n      of them\n    remediation: >\n      ask for\n      fewer\n")
SETTER = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: training-priority
spec:
  match:
    workloads: [training]
  rules:
  - name: priority
    setPriorityClass:
      class: ai-train-high
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: trainer
  namespace: vision
spec:
  containers:
  - name: main
    image: registry.local/trainer
    resources:
      limits:
        nvidia.com/gpu: 16
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: vision
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: main
        resources:
          limits:
            nvidia.com/gpu: 16
"""
OVERRIDE = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyOverride
metadata:
  name: vision-sixteen
spec:
  policies: [gpu-limits]
  match:
    namespaces: [vision]
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 16
"""
EXCEPTION = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyException
metadata:
  name: legacy
spec:
  policies: [gpu-limits/cap]
  match:
    namespaces: [vision]
  reason: Migration
  owner: vision-platform@example.com
  reference: OPS-4711
  expiresAt: "2999-06-30"
"""
KINDS = """\
kinds:
- group: example.org
  kind: Cluster
  resource: clusters.example.org
  pods:
  - template: spec.template
"""
ACCELERATORS = """\
vendors:
  acme:
    resources:
    - names: [acme.example/npu]
      role: device
"""


@dataclass(frozen=True)
class Case:
    """One command line in a folder of its own.

    Attributes:
        files: what is in the folder, by path; a path that ends in / is an empty folder.
    """

    command: str
    files: dict[str, str] = field(default_factory=dict)
    stdin: str = ""


def lint(policy: str, **more: str) -> Case:
    return Case("lint policies", {"policies/a.yaml": policy, **more})


def edited(old: str, new: str, *, of: str = POLICY) -> str:
    assert old in of
    return of.replace(old, new)


def check(manifest: str, options: str = "", **more: str) -> Case:
    files = {"policies/gpu-limits.yaml": POLICY, "pod.yaml": manifest, **more}
    return Case(f"check pod.yaml --policies policies {options}".strip(), files)


def override(text: str) -> Case:
    return lint(POLICY, **{"policies/override.yaml": text})


def exception(text: str) -> Case:
    return lint(POLICY, **{"policies/exception.yaml": text})


def explain(manifest: str, options: str = "", **more: str) -> Case:
    files = {"policies/gpu-limits.yaml": POLICY, "pod.yaml": manifest, **more}
    return Case(f"explain pod.yaml --policies policies {options}".strip(), files)


CASES = {
    "lint-override-of-no-policy": override(edited("[gpu-limits]", "[gpu-limit]", of=OVERRIDE)),
    "lint-override-of-no-rule": override(edited("name: cap", "name: cab", of=OVERRIDE)),
    "lint-override-of-another-type": override(
        edited("limitAcceleratorCount", "limitOvercommit", of=OVERRIDE)
    ),
    "lint-override-parameter-typo": override(edited("perPod", "perPods", of=OVERRIDE)),
    "lint-override-that-changes-nothing": override(OVERRIDE.partition("  rules:")[0]),
    "lint-override-without-match": override(edited("  match:\n    namespaces: [vision]\n", "", of=OVERRIDE)),
    "lint-override-in-the-shadow": lint(
        POLICY,
        **{
            "policies/o.yaml": OVERRIDE,
            "policies/p.yaml": edited("name: vision-sixteen", "name: vision-again", of=OVERRIDE),
        },
    ),
    "lint-override-of-a-dropped-policy": lint(edited("perPod", "perPods"), **{"policies/o.yaml": OVERRIDE}),
    "lint-exception-without-end": exception(edited('  expiresAt: "2999-06-30"\n', "", of=EXCEPTION)),
    "lint-exception-without-quotes": exception(edited('"2999-06-30"', "2999-06-30", of=EXCEPTION)),
    "lint-exception-odd-end": exception(edited("2999-06-30", "end of June", of=EXCEPTION)),
    "lint-exception-end-without-zone": exception(edited("2999-06-30", "2999-06-30T12:00:00", of=EXCEPTION)),
    "lint-exception-without-owner": exception(
        edited("  owner: vision-platform@example.com\n", "", of=EXCEPTION)
    ),
    "lint-exception-of-no-rule": exception(edited("gpu-limits/cap", "gpu-limits/cups", of=EXCEPTION)),
    "lint-exception-twice": lint(
        POLICY,
        **{
            "policies/e.yaml": EXCEPTION,
            "policies/f.yaml": edited("name: legacy", "name: again", of=EXCEPTION),
        },
    ),
    "lint-exception-that-ended": exception(edited("2999-06-30", "2021-06-30", of=EXCEPTION)),
    "lint-opt-out-typo": lint(edited("  mode: enforce", "  optOut: allow")),
    "lint-templates-unknown-kind": lint(
        edited("  match:", "  templates:\n    mutate: [pytorchjobs]\n  match:", of=SETTER)
    ),
    "lint-templates-typo": lint(edited("  match:", "  templates:\n    check: off\n  match:")),
    "lint-two-setters-of-one-field": lint(
        SETTER,
        **{"policies/b.yaml": edited("ai-train-high", "ai-train-low", of=SETTER).replace("training-p", "p")},
    ),
    "lint-never-acts": lint(edited("accelerators:\n      vendors: [nvidia]", "accelerators: none")),
    "lint-excluded-by-itself": lint(
        edited("  rules:", "  exclude:\n  - accelerators:\n      vendors: [nvidia]\n  rules:")
    ),
    "lint-misspelt-resource": lint(edited("vendors: [nvidia]", "resourceNames: [nvidia.com/gup]")),
    "lint-misspelt-rdma": lint(
        edited(
            "setPriorityClass:\n      class: ai-train-high",
            "requestRDMA:\n      resourceNames: [rdma/bi]",
            of=SETTER,
        )
    ),
    "lint-strict": Case(
        "lint policies --strict",
        {"policies/a.yaml": edited("accelerators:\n      vendors: [nvidia]", "accelerators: none")},
    ),
    "lint-kinds-typo": Case(
        "lint policies --kinds kinds.yaml",
        {"policies/a.yaml": POLICY, "kinds.yaml": edited("template:", "templates:", of=KINDS)},
    ),
    "lint-kinds-bad-path": Case(
        "lint policies --kinds kinds.yaml",
        {"policies/a.yaml": POLICY, "kinds.yaml": edited("spec.template", "spec..template", of=KINDS)},
    ),
    "lint-accelerators-typo": Case(
        "lint policies --accelerators acme.yaml",
        {"policies/a.yaml": POLICY, "acme.yaml": edited("role: device", "role: gpu", of=ACCELERATORS)},
    ),
    "lint-accelerators-of-another-shape": Case(
        "lint policies --accelerators acme.yaml", {"policies/a.yaml": POLICY, "acme.yaml": KINDS}
    ),
    "check-kinds-missing-file": check(POD, "--kinds kinds.yaml"),
    "check-kinds-empty-file": check(POD, "--kinds kinds.yaml", **{"kinds.yaml": "# none yet\n"}),
    "check-own-kind": check(
        edited("apps/v1\nkind: Deployment", "example.org/v1\nkind: Cluster", of=DEPLOYMENT),
        "--kinds kinds.yaml",
        **{"kinds.yaml": KINDS},
    ),
    "check-template-refused": check(DEPLOYMENT),
    "check-template-only-warned": check(
        DEPLOYMENT,
        **{"policies/gpu-limits.yaml": edited("  match:", "  templates:\n    check: warn\n  match:")},
    ),
    "check-template-bad-quantity": check(edited("16", "sixteen", of=DEPLOYMENT)),
    "check-template-that-will-be-changed": check(
        edited("16", "8", of=DEPLOYMENT),
        **{"policies/b.yaml": edited("workloads: [training]\n", "all: true\n  mode: enforce\n", of=SETTER)},
    ),
    "check-daemon-set": check(edited("Deployment", "DaemonSet", of=DEPLOYMENT)),
    "check-pods-from-elsewhere": check(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n---\napiVersion: v1\nkind: Service\n"
        "---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\nkind: Service\n"
    ),
    "bench-compare-missing-file": Case("bench --compare before.json"),
    "bench-compare-no-json": Case("bench --compare before.json", {"before.json": "call  median\n"}),
    "bench-compare-another-file": Case("bench --compare before.json", {"before.json": "{}"}),
    "bench-compare-a-folder": Case("bench --compare before", {"before/": ""}),
    "bench-broken-policy": Case(
        "bench --policies policies", {"policies/a.yaml": edited("perPod", "perPods")}
    ),
    "bench-no-policies": Case("bench --policies nowhere"),
    "bench-nothing-to-review": Case("bench pods", {"pods/a.yaml": "apiVersion: v1\nkind: Service\n"}),
    "bench-bad-review": Case(
        "bench a.json", {"a.json": '{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}'}
    ),
    "bench-no-time": Case("bench --seconds 0"),
    "install-no-policies": Case("install"),
    "install-two-places": Case(
        "install --policies policies --service a/b --url https://x", {"policies/a.yaml": POLICY}
    ),
    "install-plain-http": Case("install --policies policies --url http://x", {"policies/a.yaml": POLICY}),
    "install-ca-that-is-none": Case(
        "install --policies policies --ca-file ca.crt", {"policies/a.yaml": POLICY, "ca.crt": "no\n"}
    ),
    "install-faulty-policies": Case(
        "install --policies policies --explain-scope", {"policies/a.yaml": edited("perPod", "perPods")}
    ),
    "install-explain-scope": Case(
        "install --policies policies --explain-scope", {"policies/a.yaml": POLICY, "policies/b.yaml": SETTER}
    ),
    "install-no-kubeconfig": Case(
        "install --policies policies --kubeconfig none.yaml", {"policies/a.yaml": POLICY}
    ),
    "uninstall-broken-kubeconfig": Case("uninstall --kubeconfig kube.yaml", {"kube.yaml": "kind: Config\n"}),
    "doctor-faulty-policies": Case(
        "doctor --policies policies", {"policies/a.yaml": edited("perPod", "perPods")}
    ),
    "doctor-no-kubeconfig": Case("doctor --kubeconfig none.yaml"),
    "pause-how-long": Case("pause gpu-limits --reason INC-7"),
    "pause-why": Case("pause gpu-limits --for 2h"),
    "pause-odd-duration": Case("pause --for 2hours --reason INC-7"),
    "pause-too-long": Case("pause --for 8d --reason INC-7"),
    "pause-without-zone": Case("pause --until 2999-06-30T12:00:00 --reason INC-7"),
    "pause-end-of-one": Case("pause gpu-limits --end"),
    "check-excepted": check(POD, **{"policies/exception.yaml": EXCEPTION}),
    "check-exception-that-ended": check(
        edited("16", "12", of=POD),
        **{"policies/exception.yaml": edited("2999-06-30", "2021-06-30", of=EXCEPTION)},
    ),
    "check-opted-out": check(
        edited(
            "metadata:", 'metadata:\n  annotations:\n    podgate.dev/skip: "gpu-limits: own nodes"', of=POD
        ),
        **{"policies/gpu-limits.yaml": edited("  mode: enforce", "  mode: enforce\n  optOut: allowed")},
    ),
    "check-overridden": check(POD, **{"policies/override.yaml": OVERRIDE}),
    "explain-refused": explain(POD),
    "explain-no-match": explain(edited("nvidia.com", "amd.com", of=POD)),
    "explain-overridden": explain(POD, **{"policies/override.yaml": OVERRIDE}),
    "explain-lacks-facts": explain(
        POD, **{"policies/b.yaml": edited("workloads: [training]", "workspaces: [research]", of=SETTER)}
    ),
    "explain-missing-file": Case("explain pods.yaml --policies policies", {"policies/a.yaml": POLICY}),
    "explain-no-policies": Case("explain pod.yaml", {"pod.yaml": POD}),
    "explain-unknown-option": explain(POD, "--fail-on any"),
    "schema-unknown-kind": Case("schema podpolicy"),
    "schema-strange-kind": Case("schema Deployment"),
    "lint-rule-type-typo": lint(edited("limitAcceleratorCount", "limitAcceleratorsCount")),
    "lint-parameter-typo": lint(edited("perPod", "perPods")),
    "lint-nested-parameter-typo": lint(edited("max: 8", "maximum: 8")),
    "lint-key-typo": lint(edited("  mode: enforce", "  mod: enforce")),
    "lint-match-typo": lint(edited("vendors:", "vendor:")),
    "lint-value-typo": lint(edited("mode: enforce", "mode: enforced")),
    "lint-wrong-type": lint(edited("max: 8", 'max: "8"')),
    "lint-list-for-map": lint(edited("perPod:\n        max: 8", "perPod: [8]")),
    "lint-missing-kind": lint(edited("kind: PodPolicy\n", "")),
    "lint-wrong-kind": lint(edited("kind: PodPolicy", "kind: PodPolicies")),
    "lint-wrong-version": lint(edited("v1alpha1", "v1")),
    "lint-missing-name": lint(edited("- name: cap\n    limit", "- limit")),
    "lint-bad-name": lint(edited("name: gpu-limits", "name: GPU_limits")),
    "lint-empty-match": lint(edited("match:\n    accelerators:\n      vendors: [nvidia]", "match: {}")),
    "lint-missing-match": lint(edited("  match:\n    accelerators:\n      vendors: [nvidia]\n", "")),
    "lint-no-rules": lint(POLICY.partition("  rules:")[0] + "  rules: []\n"),
    "lint-unknown-pool": lint(
        edited("accelerators:\n      vendors: [nvidia]", "pools: [h100-ibb]"),
        **{
            "policies/pools.yaml": """\
apiVersion: podgate.dev/v1alpha1
kind: AcceleratorPool
metadata:
  name: h100-ib
spec:
  resourceNames: [nvidia.com/gpu]
  nodeLabels:
    gpu: h100
"""
        },
    ),
    "lint-cel-error": lint(
        edited(
            "    accelerators:\n      vendors: [nvidia]",
            "    matchConditions:\n    - name: big\n      expression: acceleratorCount(nvidia) >= 4",
        )
    ),
    "lint-cel-syntax": lint(
        edited(
            "    accelerators:\n      vendors: [nvidia]",
            "    matchConditions:\n    - name: big\n      expression: workload.accelerators >= ",
        )
    ),
    "lint-selector-error": lint(
        edited(
            "    accelerators:\n      vendors: [nvidia]",
            "    objectSelector:\n      matchExpressions:\n      - key: app\n        operator: Inn\n        values: [a]",
        )
    ),
    "lint-duplicate-key": lint(edited("  mode: enforce\n", "  mode: enforce\n  mode: audit\n")),
    "lint-tab": lint(edited("  mode: enforce", "\tmode: enforce")),
    "lint-yaml-trap": lint(edited("name: cap", "name: no")),
    "lint-flow-map": lint(edited("perPod:\n        max: 8", "perPod: {max: 8}")),
    "lint-two-rule-types": lint(
        edited("        max: 8\n", "        max: 8\n    setPriorityClass:\n      class: a\n")
    ),
    "lint-two-policies-of-one-name": lint(POLICY, **{"policies/b.yaml": POLICY}),
    "lint-two-rules-of-one-name": lint(
        POLICY + "  - name: cap\n    limitAcceleratorCount:\n      perContainer:\n        max: 4\n"
    ),
    "lint-setter-on-update": lint(
        edited("workloads: [training]", "workloads: [training]\n    operations: [CREATE, UPDATE]", of=SETTER)
    ),
    "lint-several-errors": lint(
        edited("mode: enforce", "mode: enforced").replace("vendors", "vendor").replace("max: 8", "max: many")
    ),
    "lint-one-bad-of-two": lint(edited("perPod", "perPods"), **{"policies/b.yaml": SETTER}),
    "lint-empty-folder": Case("lint policies", {"policies/": ""}),
    "lint-missing-folder": Case("lint policies"),
    "lint-no-argument": Case("lint"),
    "lint-manifest-among-policies": lint(POLICY, **{"policies/pod.yaml": POD}),
    "lint-good": lint(POLICY),
    "check-refused": check(POD),
    "check-no-manifest-in-folder": Case(
        "check manifests --policies policies", {"policies/a.yaml": POLICY, "manifests/README.md": "# none\n"}
    ),
    "check-missing-file": Case("check pods.yaml --policies policies", {"policies/a.yaml": POLICY}),
    "check-unparsable-among-good": check(f"{POD}---\nkind: Pod\nmetadata: [name: a\n---\n{POD}"),
    "check-helm-template": check(edited("name: trainer", "name: {{ .Release.Name }}", of=POD)),
    "check-duplicate-key": check(edited("    resources:\n", "    resources: {}\n    resources:\n", of=POD)),
    "check-bad-quantity": check(edited("16", "sixteen", of=POD)),
    "check-yaml-trap": check(edited("name: trainer", "name: trainer\n  labels:\n    debug: on", of=POD)),
    "check-yaml-trap-where-a-boolean-stands": check(edited("spec:\n", "spec:\n  hostNetwork: on\n", of=POD)),
    "check-label-of-nodes-that-is-no-text": check(
        edited("spec:\n", "spec:\n  nodeSelector:\n    gpu: true\n", of=POD)
    ),
    "check-no-containers": check(edited("containers", "container", of=POD)),
    "check-kind-in-small-letters": check(edited("kind: Pod", "kind: pod", of=POD)),
    "check-no-api-version": check(edited("apiVersion: v1\n", "", of=POD)),
    "check-folded-texts": check(POD, **{"policies/gpu-limits.yaml": FOLDED}),
    "check-folded-reason": check(
        POD,
        **{
            "policies/exception.yaml": edited(
                "reason: Migration", "reason: >\n    Migration to\n    the new cluster", of=EXCEPTION
            )
        },
    ),
    "lint-exception-without-a-reason": exception(edited("reason: Migration", 'reason: " "', of=EXCEPTION)),
    "check-empty-path": Case('check "" --policies policies', {"policies/limit.yaml": POLICY}),
    "check-empty-policies": Case('check pod.yaml --policies ""', {"pod.yaml": POD}),
    "check-empty-facts": check(POD, '--facts ""'),
    "check-no-name-of-a-namespace": check(POD, '--namespace "Team A"'),
    "lint-match-that-is-a-word": lint(
        edited("match:\n    accelerators:\n      vendors: [nvidia]\n", "match: all\n")
    ),
    "lint-rules-that-are-a-word": lint(POLICY.partition("  rules:")[0] + "  rules: cap\n"),
    "lint-folder-and-file-of-it": Case("lint policies policies/a.yaml", {"policies/a.yaml": POLICY}),
    "lint-empty-path": Case('lint ""'),
    "certs-check-nothing": Case("certs --check nowhere"),
    "check-no-object": check(f"- a\n- b\n---\nname: x\n---\n{POD}"),
    "check-stray-list-item": check("apiVersion: v1\nkind: List\nitems:\n- trainer\n"),
    "check-other-kinds": check("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n"),
    "check-broken-facts": check(POD, "--facts facts", **{"facts/classes.yaml": "kind: [PriorityClass\n"}),
    "check-facts-that-are-none": check(POD, "--facts facts", **{"facts/classes.yaml": "- a\n"}),
    "check-lacks-facts": check(
        POD, **{"policies/b.yaml": edited("workloads: [training]", "workspaces: [research]", of=SETTER)}
    ),
    "check-broken-policy": check(POD, **{"policies/b.yaml": edited("class:", "clas:", of=SETTER)}),
    "check-unknown-format": check(POD, "-o xml"),
    "check-two-formats-for-stdout": check(POD, "-o table -o json"),
    "check-format-without-file": check(POD, "-o json="),
    "check-unwritable-file": check(POD, "-o json=reports/today.json"),
    "check-unknown-language": check(POD, "--languages en,fr"),
    "check-unknown-option": check(POD, "--fact facts"),
    "check-unknown-choice": check(POD, "--fail-on error"),
    "check-no-policies": Case("check pod.yaml", {"pod.yaml": POD}),
    "check-nothing-matched": check(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: web\n",
        "--require-match",
    ),
    "command-typo": Case("chekc pod.yaml"),
}


def transcript(case: Case, folder: Path) -> str:
    """The command line and all that it says."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.write_text(content, encoding="utf-8")
    result = CliRunner().invoke(podgate, shlex.split(case.command), prog_name="podgate", input=case.stdin)
    text = (
        f"$ podgate {case.command}\n"
        f"--- stdout\n{result.stdout}--- stderr\n{result.stderr}--- exit code {result.exit_code}\n"
    )
    return HASH.sub("<hash>", text)


@pytest.mark.parametrize("name", CASES)
def test_what_a_user_reads(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    golden = GOLDEN / f"{name}.txt"
    said = transcript(CASES[name], tmp_path)
    if os.environ.get("PODGATE_UPDATE_GOLDEN"):
        golden.write_text(said, encoding="utf-8")
    assert said == golden.read_text(encoding="utf-8")


def test_every_golden_file_has_its_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)
