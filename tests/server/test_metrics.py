"""Names, labels, and that no object's text becomes one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.server.standin import FilePolicies, review_record
from webhook.server.metrics import MAX_RULES, Metrics, field_label
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
    from dataclasses import replace

    return replace(review_record({"uid": "u"}, "mutate", "hash"), **fields)


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


def test_policies_in_force(metrics: Metrics) -> None:
    assert series(metrics, "policies{") == ['podgate_policies{mode="enforce"} 2.0']
    assert series(metrics, "policy_info{") == [
        'podgate_policy_info{mode="enforce",policy="one",revision="one+two"} 1.0',
        'podgate_policy_info{mode="enforce",policy="two",revision="one+two"} 1.0',
    ]
    assert len(series(metrics, "policy_last_reload_success_timestamp_seconds ")) == 1
    assert len(series(metrics, "build_info{")) == 1


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
