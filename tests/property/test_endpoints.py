"""Each validating endpoint finds of its own policies what both together find, though it may leave the mutating rules out."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from tests.engine.gates import Json, gate
from tests.property.pods import claims, pods
from tests.property.sets import FILES, policy_set
from tests.property.test_reviews import asked
from webhook.engine import mutate, validate

BOUNDED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("mutated", [True, False], ids=["mutated before", "never mutated"])
@pytest.mark.parametrize("mode", ["", "enforce", "audit"], ids=["as written", "enforced", "audited"])
@pytest.mark.parametrize("name", FILES)
@BOUNDED
@given(thing=pods() | claims())
def test_an_endpoint_finds_its_part(name: str, mode: str, mutated: bool, thing: Json) -> None:
    every = gate(policy_set(name, mode))
    request = asked(thing)
    if mutated:
        request = request._replace(object=mutate(every, request).object)
    reports = validate(every, request).reports
    for failure_policy in ("Fail", "Ignore"):
        found = validate(replace(every, failure_policy=failure_policy), request).reports
        assert found == tuple(each for each in reports if each.rule.failure_policy == failure_policy)
