"""What holds of the shipped policies together, over the inputs of all cases."""

import random
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from tests.policies.case_files import (
    SHIPPED,
    SITE,
    Case,
    all_cases,
    decision,
    facts_of,
    policy_files,
    policy_set_of,
    without_record,
)
from webhook.cli.lint import command
from webhook.engine import Gate, mutate, review
from webhook.policy import PolicySet, load_policy_set

RUNS = 200
EVERY_CASE = all_cases()
SETS = {"shipped": (SHIPPED,), "shipped with the example site": (SHIPPED, SITE)}


@cache
def policy_set(name: str) -> PolicySet:
    return policy_set_of(policy_files(*SETS[name]))


def gate_for(case: Case, policies: PolicySet) -> Gate:
    return Gate(policies, facts_of(case, SHIPPED, SITE))


def test_they_load_without_error_or_warning() -> None:
    for folders in SETS.values():
        assert load_policy_set(policy_files(*folders)).problems == ()


def test_lint_has_nothing_to_say() -> None:
    done = CliRunner().invoke(command, [str(SHIPPED), "--strict"])
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
def test_twice_is_once(case: Case, name: str) -> None:
    gate, request = gate_for(case, policy_set(name)), case.request()
    first = mutate(gate, request)
    again = mutate(gate, case.request_for(first.object or {}))
    assert again.patch == []
    assert again.object == first.object


@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
def test_whatever_is_created_twice_is_judged_alike(case: Case) -> None:
    gate = gate_for(case, policy_set("shipped"))
    first = review(gate, case.request())
    again = review(gate, case.request_for(first.object or {}))
    assert {report.rule.key: report.action for report in again.reports} == {
        report.rule.key: report.action for report in first.reports
    }


def documents() -> list[Mapping[str, Any]]:
    texts = [content for _, content in policy_files(SHIPPED, SITE)]
    return [document for text in texts for document in yaml.safe_load_all(text)]


def test_the_order_of_files_and_documents_does_not_matter() -> None:
    expected = policy_set("shipped with the example site")
    names = [policy.name for policy in expected.policies]
    chance, every = random.Random(20), documents()
    for _ in range(RUNS):
        chance.shuffle(every)
        cut = chance.randrange(1, len(every))
        files = [("b.yaml", as_file(every[:cut])), ("a.yaml", as_file(every[cut:]))]
        found = policy_set_of(chance.sample(files, 2))
        assert found.hash == expected.hash
        assert [policy.name for policy in found.policies] == names


def as_file(parts: list[Mapping[str, Any]]) -> bytes:
    return yaml.dump_all(
        parts, Dumper=yaml.CSafeDumper, default_flow_style=False, allow_unicode=True
    ).encode()


def test_the_order_of_policies_does_not_matter() -> None:
    """Of the shipped ones: no two write one field, and none depends on what another wrote."""
    chance, every = random.Random(21), documents_of_shipped()
    changed = [
        case for case in EVERY_CASE if mutate(gate_for(case, policy_set("shipped")), case.request()).changes
    ]
    expected = [final(case, policy_set("shipped")) for case in changed]
    assert len(changed) > 40
    for _ in range(RUNS):
        policies = policy_set_of([("p.yaml", as_file(with_orders(every, chance)))])
        assert [final(case, policies) for case in changed] == expected


def documents_of_shipped() -> list[Mapping[str, Any]]:
    return [document for _, text in policy_files(SHIPPED) for document in yaml.safe_load_all(text)]


def with_orders(every: list[Mapping[str, Any]], chance: random.Random) -> list[Mapping[str, Any]]:
    orders = chance.sample(range(len(every)), len(every))
    return [
        {**each, "spec": {**each["spec"], "order": order}} if each["kind"] == "PodPolicy" else each
        for each, order in zip(every, orders, strict=True)
    ]


def final(case: Case, policies: PolicySet) -> Any:
    return without_record(mutate(gate_for(case, policies), case.request()).object or {})


def test_every_text_is_there_in_both_languages() -> None:
    for document in documents_of_shipped():
        if document["kind"] != "PodPolicy":
            continue
        spec = document["spec"]
        for owner in (spec, *spec["rules"]):
            for key in ("title", "description", "message", "remediation"):
                assert key not in owner or set(owner[key]) == {"en", "zh"}, (document["metadata"], key)
        assert {"title", "description", "severity", "mode"} <= spec.keys(), document["metadata"]
        assert {"link", "contact"}.isdisjoint(spec), "a site has its own"


STRENGTH = ("admitted", "changed", "warned", "refused")
MENDED_BY_OTHERS = ("rdma-required",)
"""Policies that require what another one gives."""


@pytest.mark.parametrize(
    "case",
    [c for c in EVERY_CASE if c.is_hit and not c.mode and c.policy not in MENDED_BY_OTHERS],
    ids=str,
)
def test_all_policies_together_do_at_least_what_one_does(case: Case) -> None:
    outcome = review(gate_for(case, policy_set("shipped")), case.request())
    assert STRENGTH.index(decision(outcome)) >= STRENGTH.index(case.decision)
    found = {report.rule.key: report.result.value for report in outcome.reports}
    assert {rule: found[f"{case.policy}/{rule}"] for rule in case.results} == case.results
