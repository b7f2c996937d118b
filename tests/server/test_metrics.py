"""Names, labels, and that no object's text becomes one."""

from __future__ import annotations

import re
import tracemalloc
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.server.standin import ExceptionUntil, FilePolicies, review_record
from webhook.admission import Endpoint, answer_review
from webhook.facts import Facts
from webhook.kube.templates import shipped_templates
from webhook.policy import load_policy_set
from webhook.rules import rule_types
from webhook.rules.base import MutatingRule
from webhook.server.metrics import FIELDS, MAX_RULES, Metrics, field_label
from webhook.server.state import Content, ServerState, Sources


@pytest.fixture
def state() -> ServerState:
    policy_set: Any = FilePolicies(("one", "two"))
    facts: Any = None
    return ServerState(Sources(lambda: Content(policy_set, facts, ()), lambda: 0), ("en",))


@pytest.fixture
def metrics(state: ServerState) -> Metrics:
    return Metrics(state, None)


def record(**fields: Any) -> Any:
    return review_record({"uid": "u"}, "mutate", "hash")._replace(**fields)


def series(metrics: Metrics, name: str) -> list[str]:
    return [line for line in metrics.exposition().decode().splitlines() if line.startswith(f"podgate_{name}")]


def test_one_review(metrics: Metrics) -> None:
    results = (("gpu", "cap", "fail", "enforce"), ("gpu", "pool", "error", "warn"))
    metrics.count_review(record(results=results, decision="deny"), 0.003, out_of_time=True)
    assert series(metrics, "admission_requests_total") == [
        'podgate_admission_requests_total{decision="deny",dry_run="false",kind="Pod",operation="CREATE",webhook="mutate"} 1.0'
    ]
    assert series(metrics, "policy_results_total") == [
        'podgate_policy_results_total{mode="enforce",origin="admission",policy="gpu",result="fail",rule="cap"} 1.0',
        'podgate_policy_results_total{mode="warn",origin="admission",policy="gpu",result="error",rule="pool"} 1.0',
    ]
    assert series(metrics, "policy_errors_total") == [
        'podgate_policy_errors_total{policy="gpu",rule="pool"} 1.0'
    ]
    assert series(metrics, "mutations_total") == [
        'podgate_mutations_total{field="priorityClassName",policy="defaults"} 1.0'
    ]
    assert series(metrics, "deadline_exceeded_total") == [
        'podgate_deadline_exceeded_total{webhook="mutate"} 1.0'
    ]
    assert (
        'podgate_admission_duration_seconds_bucket{decision="deny",le="0.005",webhook="mutate"} 1.0'
        in series(metrics, "admission_duration_seconds_bucket")
    )


def test_long_fields_are_counted_and_not_kept(metrics: Metrics) -> None:
    """The name of a container has any length when a mutating webhook sees it."""
    tracemalloc.start()
    for number in range(300):
        field = f'spec.containers["{number}{"x" * 100_000}"].resources'
        metrics.count_review(record(changes=(("gpu", "rdma", field),)), 0.001, out_of_time=False)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000
    assert series(metrics, "mutations_total") == [
        'podgate_mutations_total{field="resources",policy="gpu"} 300.0'
    ]


def test_policies_in_force(metrics: Metrics) -> None:
    assert series(metrics, "policies{") == ['podgate_policies{mode="enforce"} 2.0']
    assert series(metrics, "policy_info{") == [
        'podgate_policy_info{mode="enforce",policy="one",revision="one+two"} 1.0',
        'podgate_policy_info{mode="enforce",policy="two",revision="one+two"} 1.0',
    ]
    assert len(series(metrics, "policy_last_reload_success_timestamp_seconds ")) == 1
    assert len(series(metrics, "build_info{")) == 1


def test_policies_that_are_not_in_force(metrics: Metrics, state: ServerState) -> None:
    name = "policy_last_reload_successful"
    assert series(metrics, name) == [f"podgate_{name} 1.0"]
    state.fault = "a.yaml:3: no such rule"
    assert series(metrics, name) == [f"podgate_{name} 0.0"]


def test_a_start_with_the_good_files_alone_is_seen() -> None:
    policy_set: Any = FilePolicies(("one",))
    facts: Any = None
    problem: Any = SimpleNamespace(is_warning=False)
    state = ServerState(Sources(lambda: Content(policy_set, facts, (problem,)), lambda: 0), ("en",))
    name = "policy_last_reload_successful"
    assert series(Metrics(state, None), name) == [f"podgate_{name} 0.0"]


@pytest.mark.parametrize(
    ("fault", "value"), [("", 1.0), ("the key does not fit", 0.0)], ids=["good", "faulty"]
)
def test_a_pair_that_is_not_in_force(state: ServerState, fault: str, value: float) -> None:
    certificate: Any = SimpleNamespace(expires=datetime(2027, 1, 1, tzinfo=UTC), fault=fault)
    name = "certificate_last_reload_successful"
    assert series(Metrics(state, certificate), name) == [f"podgate_{name} {value}"]


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "Evil"},
        {"operation": "evil"},
        {"changes": (("defaults", "r", 'metadata.labels["evil"]'),)},
        {"changes": (("defaults", "r", 'evil["evil"].evil'),)},
        {"name": "evil", "namespace": "evil", "user": "evil", "uid": "evil"},
    ],
    ids=str,
)
def test_no_text_of_an_object_is_a_label(fields: dict[str, Any], metrics: Metrics) -> None:
    metrics.count_review(record(**fields), 0.001, out_of_time=False)
    assert "evil" not in metrics.exposition().decode().lower()


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("spec.priorityClassName", "priorityClassName"),
        ('spec.containers["trainer"].resources.limits["rdma/hca"]', "resources"),
        ('spec.containers["tolerations"].env["affinity"]', "env"),
        ("spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution", "affinity"),
        ("spec.tolerations[0]", "tolerations"),
        ('metadata.annotations["podgate.dev/changes"]', "annotations"),
        ("spec.nodeName", "other"),
        ("", "other"),
    ],
)
def test_field_labels(path: str, label: str) -> None:
    assert field_label(path) == label


MUTATING = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: everything
spec:
  title:
    en: Every rule that writes
  severity: low
  mode: enforce
  match:
    all: true
  rules:
  - name: priority
    setPriorityClass:
      class: high
  - name: place
    setNodeAffinity:
      matchExpressions:
      - key: gpu
        operator: Exists
      tolerations:
      - key: gpu
        operator: Exists
  - name: rdma
    requestRDMA:
      resourceNames: [rdma/hca]
      per: container
      count: 1
      capabilities: [IPC_LOCK]
  - name: storage
    setStorageClass:
      default: ceph
  - name: memory
    addSharedMemory:
      sizeLimit: 1Gi
  - name: share
    setResources:
      perAccelerator:
        requests:
          cpu: "1"
  - name: fields
    setFields:
      schedulerName: volcano
      runtimeClassName: nvidia
      labels:
        a: b
      annotations:
        a: b
      env:
        A: b
"""
FACTS: list[dict[str, Any]] = [
    {
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
        "preemptionPolicy": "Never",
    },
    {"kind": "StorageClass", "metadata": {"name": "ceph"}, "provisioner": "p"},
    {
        "kind": "Namespace",
        "metadata": {"name": "a", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
    },
]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "a"},
    "spec": {"containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "a"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def changes_of(thing: dict[str, Any], resource: str) -> tuple[tuple[str, str, str], ...]:
    request = {
        "uid": "u",
        "kind": {"group": "", "version": "v1", "kind": thing["kind"]},
        "resource": {"group": "", "version": "v1", "resource": resource},
        "operation": "CREATE",
        "namespace": "a",
        "userInfo": {"username": "eve"},
        "object": thing,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    loaded = load_policy_set([("a.yaml", MUTATING.encode())])
    assert loaded.problems == ()
    facts = Facts.from_objects({"apiVersion": api_version_of(fact), **fact} for fact in FACTS)
    return answer_review(
        orjson.dumps(review), Endpoint.MUTATE, policy_set=loaded.policy_set, facts=facts
    ).record.changes


def api_version_of(fact: dict[str, Any]) -> str:
    groups = {"PriorityClass": "scheduling.k8s.io/v1", "StorageClass": "storage.k8s.io/v1"}
    return groups.get(fact["kind"], "v1")


def test_each_field_that_a_rule_writes_has_a_label_of_its_own_and_no_other_has() -> None:
    changes = [*changes_of(POD, "pods"), *changes_of(CLAIM, "persistentvolumeclaims")]
    assert len({rule for _, rule, _ in changes}) == sum(
        issubclass(rule, MutatingRule) for rule in rule_types().values()
    )
    assert {field_label(field) for _, _, field in changes} == FIELDS


@pytest.mark.parametrize("kind", sorted({kind.kind for kind in shipped_templates().kinds}))
def test_each_kind_with_pods_has_a_label(kind: str, metrics: Metrics) -> None:
    metrics.count_review(record(kind=kind), 0.001, out_of_time=False)
    assert f'kind="{kind}"' in series(metrics, "admission_requests_total")[0]


def exception(name: str, days: float) -> Any:
    return ExceptionUntil(name, datetime.now(UTC) + timedelta(days=days))


def test_exceptions_by_how_they_stand_to_their_end() -> None:
    """One that concerns two policies counts once."""
    both = exception("both", 30)
    policy_set: Any = FilePolicies(
        ("one", "two", "three"),
        {
            "one": (both, exception("soon", 13.9)),
            "two": (both, exception("later", 14.1), exception("over", -0.1)),
        },
    )
    facts: Any = None
    state = ServerState(Sources(lambda: Content(policy_set, facts, ()), lambda: 0), ("en",))
    assert series(Metrics(state, None), "exceptions") == [
        'podgate_exceptions{state="active"} 2.0',
        'podgate_exceptions{state="ending"} 1.0',
        'podgate_exceptions{state="ended"} 1.0',
    ]


def test_no_exceptions(metrics: Metrics) -> None:
    assert [line.rpartition(" ")[2] for line in series(metrics, "exceptions")] == ["0.0", "0.0", "0.0"]


def test_rules_beyond_the_bound_share_one_series(metrics: Metrics) -> None:
    for number in range(MAX_RULES + 50):
        results = ((f"p{number}", "r", "pass", "enforce"),)
        metrics.count_review(record(results=results, changes=()), 0.001, out_of_time=False)
    found = series(metrics, "policy_results_total{")
    assert len(found) == MAX_RULES + 1
    assert any(re.search(r'policy="other",.*rule="other"\} 50.0', line) for line in found)


def test_no_created_series(metrics: Metrics) -> None:
    metrics.count_review(record(), 0.001, out_of_time=False)
    assert "_created" not in metrics.exposition().decode()
