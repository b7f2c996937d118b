"""What a site says about policies, and what is wrong with how it says it."""

from datetime import UTC, datetime
from textwrap import indent

import pytest

from webhook.policy import Loaded, load_policy_set
from webhook.rules.base import Mode
from webhook.rules.limit_accelerator_count import LimitAcceleratorCount

BASE = """
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: gpu-limits
spec:
  mode: enforce
  match:
    all: true
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
      fitsNode: true
"""


def document(kind: str, spec: str, name: str = "site") -> str:
    head = f"apiVersion: podgate.dev/v1alpha1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n"
    return head + indent(spec.strip("\n") + "\n", "  ")


def load(*documents: str, ceiling: Mode = Mode.ENFORCE) -> Loaded:
    files = [
        ("base.yaml", BASE.encode()),
        *((f"site{i}.yaml", text.encode()) for i, text in enumerate(documents)),
    ]
    return load_policy_set(files, mode_ceiling=ceiling)


def said(loaded: Loaded) -> list[str]:
    return [
        f"{p.position.line}:{p.position.column} {p.message}" + (f" | {p.hint}" if p.hint else "")
        for p in loaded.problems
        if p.position
    ]


OVERRIDE = """
policies: [gpu-limits]
match:
  workspaces: [vision]
rules:
- name: cap
  limitAcceleratorCount:
    perPod:
      max: 16
"""


def test_a_parameter_given_replaces_the_whole_of_it_and_the_others_stay() -> None:
    loaded = load(document("PodPolicyOverride", OVERRIDE))
    (policy,) = loaded.policy_set.policies
    (override,) = policy.overrides
    rule = override.policy.rules[0].rule
    assert loaded.problems == ()
    assert isinstance(rule, LimitAcceleratorCount)
    assert rule.per_pod is not None
    assert (rule.per_pod.max, rule.fits_node) == (16, True)
    assert (override.policy.mode, override.policy.rules[0].override) == (Mode.ENFORCE, "site")
    assert policy.rules[0].override == ""


def test_null_removes_a_parameter() -> None:
    spec = OVERRIDE.replace("    perPod:\n      max: 16\n", "    fitsNode: null\n")
    (override,) = load(document("PodPolicyOverride", spec)).policy_set.policies[0].overrides
    rule = override.policy.rules[0].rule
    assert isinstance(rule, LimitAcceleratorCount)
    assert not rule.fits_node


def test_the_site_s_own_mode_stands_below_a_ceiling() -> None:
    text = document("PodPolicyOverride", "policies: [gpu-limits]\nmatch:\n  all: true\nmode: enforce\n")
    policy = load(text, ceiling=Mode.AUDIT).policy_set.policies[0]
    assert (policy.mode, policy.overrides[0].policy.mode) == (Mode.AUDIT, Mode.ENFORCE)


def test_overrides_are_asked_by_order_then_name() -> None:
    texts = [
        document("PodPolicyOverride", OVERRIDE.replace("vision", name) + f"order: {order}\n", name)
        for name, order in (("c", 100), ("a", 100), ("b", 50))
    ]
    policy = load(*texts).policy_set.policies[0]
    assert [override.name for override in policy.overrides] == ["b", "a", "c"]


EXCEPTION = """
policies: [gpu-limits/cap]
match:
  namespaces: [legacy]
reason: Migration until June
owner: vision-platform@example.com
expiresAt: "2027-06-30"
"""


def test_a_date_is_the_end_of_that_day() -> None:
    (exception,) = load(document("PodPolicyException", EXCEPTION)).policy_set.policies[0].exceptions
    assert exception.expires_at == datetime(2027, 7, 1, tzinfo=UTC)
    assert (exception.rule, exception.reason) == ("cap", "Migration until June")


def test_a_time_with_its_zone_is_that_moment() -> None:
    text = EXCEPTION.replace("2027-06-30", "2027-06-30T14:00:00+08:00")
    (exception,) = load(document("PodPolicyException", text)).policy_set.policies[0].exceptions
    assert exception.expires_at == datetime(2027, 6, 30, 6, tzinfo=UTC)


def test_whatever_a_site_says_is_in_the_hash() -> None:
    texts = [document("PodPolicyOverride", OVERRIDE), document("PodPolicyException", EXCEPTION)]
    assert len({load().policy_set.hash, *(load(text).policy_set.hash for text in texts)}) == 3


def test_what_was_dropped_is_not_in_the_hash() -> None:
    assert (
        load(document("PodPolicyOverride", OVERRIDE.replace("cap", "gap"))).policy_set.hash
        == load().policy_set.hash
    )


FAULTS = {
    "an unknown policy": (
        "PodPolicyOverride",
        OVERRIDE.replace("gpu-limits", "gpu-limit"),
        ["6:14 there is no policy 'gpu-limit' | did you mean gpu-limits?"],
    ),
    "an unknown rule": (
        "PodPolicyOverride",
        OVERRIDE.replace("cap", "cup"),
        ["10:11 policy gpu-limits has no rule 'cup' | did you mean cap?"],
    ),
    "an unknown parameter": (
        "PodPolicyOverride",
        OVERRIDE.replace("perPod", "perPot"),
        ["12:7 unknown key 'perPot' in spec.rules[0].limitAcceleratorCount | did you mean perPod?"],
    ),
    "another type": (
        "PodPolicyOverride",
        "policies: [gpu-limits]\nmatch:\n  all: true\nrules:\n- name: cap\n  checkPlacement: {}\n",
        [
            "11:5 rule cap is a limitAcceleratorCount, not a checkPlacement | write limitAcceleratorCount: …",
        ],
    ),
    "a rule that is text": (
        "PodPolicyOverride",
        "policies: [gpu-limits]\nmatch:\n  all: true\nrules:\n- cap\n",
        ["10:5 spec.rules[0]: expected a rule (a map with a name), found 'cap'"],
    ),
    "a rule without a name": (
        "PodPolicyOverride",
        OVERRIDE.replace("- name: cap\n  limit", "- limit"),
        ["10:5 spec.rules[0]: expected a rule (a map with a name), found a map"],
    ),
    "parameters that are no map": (
        "PodPolicyOverride",
        OVERRIDE.replace("limitAcceleratorCount:\n    perPod:\n      max: 16", "limitAcceleratorCount: 16"),
        ["11:28 spec.rules[0].limitAcceleratorCount: expected a map, found 16"],
    ),
    "a rule where policies are named": (
        "PodPolicyOverride",
        OVERRIDE.replace("[gpu-limits]", "[gpu-limits/cap]"),
        [
            "6:14 there is no policy 'gpu-limits/cap' | write gpu-limits: an override names policies, and rules below"
        ],
    ),
    "a policy that is no list": (
        "PodPolicyOverride",
        OVERRIDE.replace("[gpu-limits]", "gpu-limits"),
        ["6:13 spec.policies: expected a list, found 'gpu-limits' | write a list: [gpu-limits]"],
    ),
    "a misspelt type": (
        "PodPolicyOverride",
        OVERRIDE.replace("limitAcceleratorCount", "limitAcceleratorsCount"),
        [
            "11:5 unknown key 'limitAcceleratorsCount' in spec.rules[0] | did you mean limitAcceleratorCount?",
        ],
    ),
    "a parameter beside its type": (
        "PodPolicyOverride",
        OVERRIDE.replace(
            "  limitAcceleratorCount:\n    perPod:\n      max: 16\n", "  perPod:\n    max: 16\n"
        ),
        ["11:5 unknown key 'perPod' in spec.rules[0] | it belongs to limitAcceleratorCount: indent it below"],
    ),
    "none in a list": (
        "PodPolicyOverride",
        OVERRIDE.replace("workspaces: [vision]", "accelerators: [none]"),
        ["8:19 spec.match.accelerators: none is a word, not a list: write accelerators: none"],
    ),
    "nothing changed": (
        "PodPolicyOverride",
        "policies: [gpu-limits]\nmatch:\n  all: true\n",
        ["6:3 spec: give mode, rules, or both; without either an override changes nothing"],
    ),
    "an empty match": (
        "PodPolicyOverride",
        "policies: [gpu-limits]\nmatch: {}\nmode: warn\n",
        ["7:10 spec.match: an empty match is an error; write all: true for everything"],
    ),
    "an exception without an end": (
        "PodPolicyException",
        EXCEPTION.replace('expiresAt: "2027-06-30"\n', ""),
        ["5:1 spec.expiresAt is missing | add expiresAt: …"],
    ),
    "an end that is no date": (
        "PodPolicyException",
        EXCEPTION.replace("2027-06-30", "2027-06-31"),
        [
            (
                '11:14 spec.expiresAt: expected a date such as "2027-06-30", or a time with its zone, '
                "\"2027-06-30T12:00:00Z\", found '2027-06-31'"
            )
        ],
    ),
    "an end behind the last year": (
        "PodPolicyException",
        EXCEPTION.replace("2027-06-30", "9999-12-31"),
        [
            (
                '11:14 spec.expiresAt: expected a date such as "2027-06-30", or a time with its zone, '
                "\"2027-06-30T12:00:00Z\", found '9999-12-31'"
            )
        ],
    ),
    "an end without a zone": (
        "PodPolicyException",
        EXCEPTION.replace("2027-06-30", "2027-06-30T12:00:00"),
        [
            (
                '11:14 spec.expiresAt: expected a date such as "2027-06-30", or a time with its zone, '
                "\"2027-06-30T12:00:00Z\", found '2027-06-30T12:00:00'"
            )
        ],
    ),
    "an end that is a number": (
        "PodPolicyException",
        EXCEPTION.replace('"2027-06-30"', "2027"),
        [
            (
                '11:14 spec.expiresAt: expected a date such as "2027-06-30", or a time with its zone, '
                '"2027-06-30T12:00:00Z"'
            )
        ],
    ),
    "an unknown rule of an exception": (
        "PodPolicyException",
        EXCEPTION.replace("/cap", "/cup"),
        ["6:14 policy gpu-limits has no rule 'cup' | did you mean cap?"],
    ),
}


@pytest.mark.parametrize(("kind", "spec", "problems"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_has_its_place(kind: str, spec: str, problems: list[str]) -> None:
    loaded = load(document(kind, spec))
    assert said(loaded) == problems
    assert [policy.name for policy in loaded.policy_set.policies] == ["gpu-limits"]


def test_a_shadowed_override_is_an_error() -> None:
    always = document("PodPolicyOverride", "policies: [gpu-limits]\nmatch:\n  all: true\nmode: warn\n", "a")
    loaded = load(always, document("PodPolicyOverride", OVERRIDE, "b"))
    assert said(loaded) == [
        (
            "6:14 override a matches first whatever this one matches, so it never decides | "
            "give it a lower order, or another match"
        )
    ]


def test_a_second_exception_for_the_same_is_an_error() -> None:
    longer = EXCEPTION.replace("2027-06-30", "2029-06-30")
    loaded = load(document("PodPolicyException", EXCEPTION, "a"), document("PodPolicyException", longer, "b"))
    assert said(loaded) == ["6:14 exception a lifts this already, until 2027-07-01 | keep one of the two"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("gpu-limits/cap", "gpu-limits", id="the whole policy behind one rule"),
        pytest.param("[legacy]", "[legacy, other]", id="other objects"),
    ],
)
def test_a_second_exception_that_lifts_more_stands_beside_the_first(old: str, new: str) -> None:
    wider = EXCEPTION.replace(old, new)
    loaded = load(document("PodPolicyException", EXCEPTION, "a"), document("PodPolicyException", wider, "b"))
    assert loaded.problems == ()
    assert [each.name for each in loaded.policy_set.policies[0].exceptions] == ["a", "b"]


OTHER = BASE.replace("name: gpu-limits", "name: other")


@pytest.mark.parametrize(
    "broken",
    [OTHER.replace("max: 8", "max: 010"), f"{OTHER}\n---\na: [\n"],
    ids=["a trap of YAML in the policy", "another document that is no YAML"],
)
def test_what_names_a_policy_of_a_file_with_an_error_names_no_unknown_one(broken: str) -> None:
    loaded = load(broken, document("PodPolicyException", EXCEPTION.replace("gpu-limits/cap", "other")))
    assert said(loaded)[1] == "6:14 policy other was dropped, and this with it | mend the policy"
    assert [problem.is_warning for problem in loaded.problems] == [False, True]


def test_what_names_a_dropped_policy_is_dropped_with_it() -> None:
    broken = BASE.replace("name: gpu-limits", "name: other").replace("all: true", "pools: [none]")
    text = document("PodPolicyException", EXCEPTION.replace("gpu-limits/cap", "other"))
    loaded = load(broken, text)
    assert said(loaded)[1] == "6:14 policy other was dropped, and this with it | mend the policy"
    assert [problem.is_warning for problem in loaded.problems] == [False, True]
