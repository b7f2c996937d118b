"""Case E12: one bad policy among good ones. What E asks besides needs a cluster or a server: see README.md."""

import pytest

from tests.cases.observing import POLICIES, Case, Report
from tests.cases.texts import privileged
from webhook.policy import load_policy_set

FOUND = (
    f'21:66 p-priv/privileged fail deny spec.containers["m"].securityContext.privileged: {privileged("m")}'
)

CASES = (
    Case(
        "E12",
        ("p-priv", "bad-pattern"),
        Report(
            2,
            {"Pod e12 in team-a": "refused"},
            (FOUND,),
            skipped=("ConfigMap policies in engine-system",),
            problems=(
                (
                    "14:21 error: spec.rules[0].expression.validations[0]: expression: invalid regular expression: "
                    "missing ]: [ (at line 1, column 47 of the expression)"
                ),
            ),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected


def test_e12_the_good_policy_is_loaded_and_the_bad_one_is_named() -> None:
    files = [(name, (POLICIES / f"{name}.yaml").read_bytes()) for name in ("bad-pattern", "p-priv")]
    loaded = load_policy_set(files)
    assert [policy.name for policy in loaded.policy_set.policies] == ["p-priv"]
    assert [(problem.source, problem.position) for problem in loaded.problems] == [("bad-pattern", (14, 21))]
