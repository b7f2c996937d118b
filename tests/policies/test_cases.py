"""Each shipped policy on the cases beside it.

`policies/NAME.test.yaml` has the cases of `policies/NAME.yaml`. Only that policy is loaded, with accelerator-pools.yaml, and the
objects in policies/prerequisites/ are the facts.

    mode: enforce               # optional: judge as if an override had given the policy this mode; for policies that audit
    cases:
    - name: a pod with 16 GPUs  # what the input is, in words
      input:                    # a pod, a claim, or anything that makes pods
        apiVersion: v1
        kind: Pod
        …
      facts:                    # optional: more objects of the cluster
      - …
      user: lin@example.com     # optional, with groups: who sends the object
      operation: UPDATE         # optional: CREATE if not said
      old: …                    # with UPDATE: the stored object
      decision: refused         # admitted | changed | warned | refused; of several the last
      results:                  # by rule: pass | fail | skip | error | not matched
        cap: fail
      changes:                  # every field that ends otherwise, by its name in messages; nothing else may change
        spec.priorityClassName: ai-train-high
      later:                    # of what makes pods: every field that will change in its pods and claims
        spec.template.spec.priorityClassName: ai-train-high
      message: at most 8        # optional: part of something that a rule says

Every policy needs a case about which it does something, and one, as near as can be, about which it does nothing.
"""

import re
from dataclasses import fields

import pytest
import yaml

from tests.policies.case_files import (
    CASES,
    POOLS,
    SHIPPED,
    Case,
    all_cases,
    differences,
    files_of,
    policy_set_of,
    read_cases,
)

POLICIES = sorted(
    path.stem for path in SHIPPED.glob("*.yaml") if not path.name.endswith(CASES) and path != POOLS
)
EVERY_CASE = all_cases()


@pytest.mark.parametrize("policy", POLICIES)
def test_each_policy_has_cases_that_hit_and_that_nearly_do(policy: str) -> None:
    cases = read_cases(policy)
    assert len({case.name for case in cases}) == len(cases)
    assert any(case.is_hit for case in cases), "no case about which the policy does something"
    assert any(not case.is_hit for case in cases), "no case about which it does nothing"


def test_cases_stand_beside_policies() -> None:
    assert sorted({case.policy for case in EVERY_CASE}) == POLICIES


@pytest.mark.parametrize("case", EVERY_CASE, ids=str)
def test_case(case: Case) -> None:
    assert differences(case, policy_set_of(files_of(case))) == []


@pytest.mark.parametrize("case", [case for case in EVERY_CASE if case.is_hit], ids=str)
def test_a_case_that_hits_fails_without_its_policy(case: Case) -> None:
    assert differences(case, policy_set_of(files_of(case, without_policy=True))) != []


@pytest.mark.parametrize("policy", POLICIES)
def test_every_rule_of_a_policy_has_a_case_that_hits(policy: str) -> None:
    cases = read_cases(policy)
    rules = policy_set_of(files_of(cases[0])).policies[0].rules
    hit = {
        rule
        for case in cases
        if case.is_hit
        for rule, result in case.results.items()
        if result in ("pass", "fail")
    }
    assert {rule.name for rule in rules} <= hit


def test_the_page_beside_the_policies_shows_a_case_as_it_is_written() -> None:
    text = (SHIPPED / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (case,) = (Case(policy="training-priority", **each) for each in yaml.safe_load(shown)["cases"])
    assert differences(case, policy_set_of(files_of(case))) == []
    documented = set(re.findall(r"`(\w+)`", text)) | set(yaml.safe_load(shown)["cases"][0])
    assert {each.name for each in fields(Case)} - {"policy", "mode"} <= documented
