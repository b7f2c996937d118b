"""What the index leaves out changes no answer; and nothing writes a label that its rule does not declare."""

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.engine.gates import Json, gate
from tests.property.pods import claims, pods
from tests.property.sets import FILES, policy_set
from tests.property.test_reviews import answer, asked
from webhook.admission import Endpoint
from webhook.engine import mutate
from webhook.policy import PolicySet
from webhook.policy.policy_set import NOTHING, Bucket, CompiledPolicy
from webhook.rules.base import MutatingRule

BOTH = pytest.mark.parametrize("name", FILES)
BOUNDED = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LABELS = {"team": "red", "tier": "gold", "app": "web", "cost-center": "none"}


@cache
def without_index(name: str) -> PolicySet:
    """The same policies, each looked at for every object."""
    found = policy_set(name)
    index = {}
    for place, bucket in found.index.items():
        by_rank = {each.rank: each for candidates in bucket.by_need.values() for each in candidates}
        index[place] = Bucket({NOTHING: tuple(by_rank[rank] for rank in sorted(by_rank))})
    return replace(found, index=index)


def labelled(thing: Json, labels: Json) -> Json:
    metadata = thing["metadata"]
    return {**thing, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}}


@BOTH
@BOUNDED
@given(thing=pods() | claims(), keys=st.sets(st.sampled_from(sorted(LABELS))))
def test_the_index_changes_no_answer(name: str, thing: Json, keys: set[str]) -> None:
    found = labelled(thing, {key: LABELS[key] for key in keys})
    for endpoint in (Endpoint.MUTATE, Endpoint.VALIDATE):
        assert answer(found, endpoint, policy_set(name)) == answer(found, endpoint, without_index(name))


def declared(policy: CompiledPolicy) -> set[str]:
    rules = [rule.rule for rule in policy.rules if isinstance(rule.rule, MutatingRule)]
    return {label for rule in rules for label in rule.written_labels}


@BOUNDED
@given(thing=pods())
def test_a_label_is_written_only_by_a_rule_that_declares_it(thing: Json) -> None:
    policies = policy_set("rich")
    by_name = {policy.name: declared(policy) for policy in policies.policies}
    for change in mutate(gate(policies), asked(thing)).changes:
        if change.path[:2] == ("metadata", "labels"):
            assert change.path[2] in by_name[change.rule.partition("/")[0]]


def test_the_rich_set_has_a_policy_that_is_found_by_a_label() -> None:
    assert ("label", "tier=gold") in policy_set("rich").bucket("pods", "CREATE").by_need
