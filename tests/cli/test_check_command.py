"""`podgate check`, as its user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from webhook.cli.main import podgate

if TYPE_CHECKING:
    from click.testing import Result

ROOT = Path(__file__).parents[2]
SHIPPED = str(ROOT / "policies")
DATA = ROOT / "tests" / "documents" / "data"

LIMIT = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: limits
spec:
  mode: {mode}
  match:
    operations: [CREATE, UPDATE]
    {match}
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
"""
RDMA = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: rdma
spec:
  mode: enforce
  match:
    all: true
  rules:
  - name: ask
    requestRDMA:
      resourceNames: [rdma/hca]
      capabilities: [IPC_LOCK]
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
NAMESPACE = """\
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Namespace
  metadata:
    name: vision
    labels:
      kubesphere.io/workspace: research
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("policies/limits.yaml", limit())
    write("pod.yaml", POD)
    return tmp_path


def limit(mode: str = "enforce", match: str = "all: true") -> str:
    return LIMIT.format(mode=mode, match=match)


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def run(*arguments: str, stdin: str | bytes = "", policies: str = "policies") -> Result:
    return CliRunner().invoke(podgate, ["check", *arguments, "--policies", policies], input=stdin)


def as_json(*arguments: str, stdin: str | bytes = "", policies: str = "policies") -> Any:
    result = run(*arguments, "-o", "json", stdin=stdin, policies=policies)
    found = json.loads(result.stdout)
    assert found["exitCode"] == result.exit_code
    return found


def names(found: Any) -> list[str]:
    return [
        f"{each['kind']} {each['namespace']}/{each['name']}: {each['verdicts'][0]}"
        for each in found["objects"]
    ]


@pytest.mark.parametrize("format_", ["table", "json", "json=report.json"])
@pytest.mark.parametrize(
    ("mode", "options", "code"),
    [
        ("enforce", [], 1),
        ("enforce", ["--fail-on", "never"], 0),
        ("warn", [], 0),
        ("warn", ["--fail-on", "warn"], 1),
        ("audit", ["--fail-on", "warn"], 0),
        ("audit", ["--fail-on", "any"], 1),
    ],
)
def test_the_exit_code_is_the_same_in_every_format(
    mode: str, options: list[str], code: int, format_: str
) -> None:
    write("policies/limits.yaml", limit(mode))
    assert run("pod.yaml", *options, "-o", format_).exit_code == code


def test_formats_go_where_they_are_told_to() -> None:
    result = run("pod.yaml", "-o", "json=report.json", "-o", "table")
    assert result.stdout.startswith("pod.yaml:1 Pod default/trainer: refused\n")
    assert json.loads(Path("report.json").read_text(encoding="utf-8"))["summary"]["refused"] == 1


def test_a_file_alone_leaves_stdout_empty() -> None:
    assert run("pod.yaml", "-o", "json=report.json").stdout == ""


def test_stdin() -> None:
    found = as_json("-", stdin=POD)
    assert [(each["file"], each["line"]) for each in found["objects"]] == [("<stdin>", 1)]


def test_all_of_several_paths_are_checked() -> None:
    for name in ("a", "b", "c"):
        write(f"pods/{name}.yaml", POD.replace("trainer", name))
    assert names(as_json("pod.yaml", "pods")) == [
        f"Pod default/{name}: refused" for name in ("trainer", "a", "b", "c")
    ]


NAMESPACES = {
    "its own": (POD.replace("name: trainer", "name: trainer\n  namespace: own"), ["-n", "other"], "own"),
    "the option's": (POD, ["--namespace", "other"], "other"),
    "default": (POD, [], "default"),
    "null is none": (POD.replace("name: trainer", "name: trainer\n  namespace:"), ["-n", "other"], "other"),
}


@pytest.mark.parametrize("case", NAMESPACES)
def test_the_namespace_of_an_object(case: str) -> None:
    manifest, options, namespace = NAMESPACES[case]
    (found,) = as_json("-", *options, stdin=manifest)["objects"]
    assert found["namespace"] == namespace


def test_expressions_see_namespace_user_and_groups() -> None:
    condition = (
        'matchConditions:\n    - name: who\n      expression: \'object.metadata.namespace == "ml" && '
        'request.userInfo.username == "ann" && "ops" in request.userInfo.groups && request.operation == "UPDATE"\''
    )
    write("policies/limits.yaml", limit(match=condition))
    who = ["--operation", "UPDATE", "--user", "ann", "--group", "dev", "--group", "ops", "-n", "ml"]
    assert run("pod.yaml", *who).exit_code == 1
    assert run("pod.yaml", *who[2:]).exit_code == 0


def test_an_exempt_caller() -> None:
    user = "system:serviceaccount:kube-system:daemon-set-controller"
    (found,) = as_json("pod.yaml", "--user", user)["objects"]
    assert (found["verdicts"], found["exempt"]) == (["exempt"], "a DaemonSet's pod, made by its controller")


def test_facts_decide_what_is_undecided_without() -> None:
    write("policies/limits.yaml", limit(match="workspaces: [research]"))
    write("facts/namespaces.yaml", NAMESPACE)
    without = run("pod.yaml", "-n", "vision")
    assert without.exit_code == 0
    assert without.stdout == (
        "pod.yaml:1 Pod vision/trainer: undecided\n"
        "undecided: 1 object, by limits/cap: cannot be evaluated: no facts about the cluster were given\n"
        "  do: kubectl get namespace -o yaml > facts/namespace.yaml, and give --facts facts\n"
        "1 object: 0 passed, 0 refused, 0 warned, 0 audited, 1 undecided\n"
        "0 would be changed\n"
        "0 skipped\n"
    )
    assert run("pod.yaml", "-n", "vision", "--on-unknown", "fail").exit_code == 3
    assert run("pod.yaml", "-n", "vision", "--facts", "facts", "--on-unknown", "fail").exit_code == 1
    assert (
        "namespace other is not among the facts given"
        in run("pod.yaml", "-n", "other", "--facts", "facts").stdout
    )


def test_facts_may_be_json() -> None:
    write("policies/limits.yaml", limit(match="workspaces: [research]"))
    write("facts/n.json", json.dumps({"kind": "Namespace", "metadata": {"name": "default"}}))
    assert names(as_json("pod.yaml", "--facts", "facts")) == ["Pod default/trainer: unmatched"]


def test_the_pod_security_level_of_namespaces_without_a_label() -> None:
    write("policies/limits.yaml", RDMA)
    write("facts/namespaces.yaml", NAMESPACE)
    options = ["pod.yaml", "-n", "vision", "--facts", "facts"]
    added = 'spec.containers["main"].securityContext.capabilities.add[]: IPC_LOCK'
    assert added not in run(*options).stdout
    assert added in run(*options, "--pod-security-default", "privileged").stdout


def test_a_change_is_shown_and_is_no_failure() -> None:
    write("policies/limits.yaml", RDMA)
    result = run("pod.yaml", "--fail-on", "any")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:4] == [
        "pod.yaml:1 Pod default/trainer: passed, would be changed",
        "  changed by rdma/ask (enforce)",
        '    + spec.containers["main"].resources.limits["rdma/hca"]: "1"',
        '    + spec.containers["main"].resources.requests["rdma/hca"]: "1"',
    ]


def test_the_template_that_helm_names() -> None:
    result = run("-", stdin=f"---\n# Source: chart/templates/pod.yaml\n{POD}")
    assert result.stdout.startswith(
        "<stdin>:3 (from chart/templates/pod.yaml) Pod default/trainer: refused\n"
    )


def test_every_language_asked_for() -> None:
    (found,) = as_json("pod.yaml", "--languages", "zh,en")["objects"]
    assert list(found["results"][0]["message"]) == ["zh", "en"]


def test_no_escape_sequence_where_nobody_sees_colours() -> None:
    result = run("pod.yaml", "-o", "table", "-o", "json=report.json")
    assert "\x1b" not in result.output + Path("report.json").read_text(encoding="utf-8")


def test_line_breaks_of_windows_change_no_place() -> None:
    assert as_json("-", stdin=POD) == as_json("-", stdin=POD.replace("\n", "\r\n").encode())


KINDS = {
    "only comments": ("comments-only.yaml", 0, [], []),
    "a List in a List": (
        "list-with-a-violation.yaml",
        0,
        ["Pod team-a/good-one: unmatched", "Pod team-a/bad-one: passed"],
        [],
    ),
    "an unrendered template": ("unrendered-template.yaml", 2, [], []),
    "duplicate keys": ("duplicate-keys.yaml", 2, [], []),
    "kinds that nobody knows": (
        "crds-and-unknown-kinds.yaml",
        0,
        ["Pod team-a/case-21: passed"],
        ["CustomResourceDefinition", "CustomResourceDefinition", "Thing"],
    ),
}


@pytest.mark.parametrize("case", KINDS)
def test_odd_files(case: str) -> None:
    write("policies/limits.yaml", limit(match="accelerators:\n      count:\n        min: 1"))
    file, code, objects, skipped = KINDS[case]
    found = as_json(str(DATA / file))
    assert found["exitCode"] == code
    assert names(found) == objects
    assert [each["kind"] for each in found["skipped"]] == skipped


def test_no_file_of_tests_brings_it_down() -> None:
    result = run(str(DATA), policies=SHIPPED)
    assert result.exit_code in (1, 2)
    assert "internal error" not in result.stderr


def test_an_item_of_a_list_has_its_own_place() -> None:
    items = "apiVersion: v1\nkind: PodList\nitems:\n- metadata:\n    name: a\n- metadata:\n    name: b\n"
    found = as_json("-", stdin=items)
    assert [(each["kind"], each["name"], each["line"]) for each in found["objects"]] == [
        ("Pod", "a", 4),
        ("Pod", "b", 6),
    ]


def test_kinds_that_only_look_like_pods_are_skipped() -> None:
    found = as_json("-", stdin=POD.replace("apiVersion: v1", "apiVersion: example.org/v1"))
    assert (found["objects"], [each["kind"] for each in found["skipped"]]) == ([], ["Pod"])


def test_claims_are_checked() -> None:
    claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name: data\nspec:\n  accessModes: [ReadWriteMany]\n"
    result = run("-", stdin=claim, policies=SHIPPED)
    assert "+ spec.storageClassName: ceph-filesystem\n" in result.stdout


def test_an_option_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODGATE_CHECK_FAIL_ON", "never")
    assert run("pod.yaml").exit_code == 0


def test_nothing_is_read_before_the_command_line_is_right() -> None:
    result = run("-", "-o", "table", "-o", "json")
    assert result.exit_code == 2
    assert result.stdout == ""
