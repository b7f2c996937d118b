"""The reviews before the first one: real ones, of which nothing remains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from webhook.admission import Answer, answer_review
from webhook.cli.folders import read_folders
from webhook.facts import Facts
from webhook.policy import load_policy_set
from webhook.server import warm_up as module
from webhook.server.warm_up import warm_up

if TYPE_CHECKING:
    import pytest

SHIPPED = Path(__file__).parents[2] / "policies"
POLICIES = load_policy_set(read_folders([SHIPPED])).policy_set
FACTS = Facts.from_objects(())


def test_pods_and_claims_are_answered_by_both_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Answer] = []

    def remembered(*args: Any, **kwargs: Any) -> Answer:
        answers.append(answer_review(*args, **kwargs))
        return answers[-1]

    monkeypatch.setattr(module, "answer_review", remembered)
    warm_up(POLICIES, FACTS)
    assert [(each.record.kind, str(each.record.webhook)) for each in answers] == [
        ("Pod", "mutate"),
        ("Pod", "validate"),
        ("PersistentVolumeClaim", "mutate"),
        ("PersistentVolumeClaim", "validate"),
    ]
    asked = {(policy, rule) for each in answers for policy, rule, *_ in each.record.results}
    assert {
        ("gpu-placement", "vendor"),
        ("gpu-limits", "cap"),
        ("rdma", "devices"),
        ("ceph-storage", "class"),
    } <= asked


def test_a_bug_is_left_to_the_first_real_review(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def broken(*args: Any, **_: Any) -> Answer:
        calls.append(args)
        raise RuntimeError("a bug")

    monkeypatch.setattr(module, "answer_review", broken)
    warm_up(POLICIES, FACTS)
    assert len(calls) == 4
