"""No case is forgotten, and no expectation holds without the policy that it is about."""

import re
from itertools import chain
from pathlib import Path

import pytest

from tests.cases import (
    test_a_patches,
    test_b_pods,
    test_c_quantities,
    test_d_matching,
    test_e_loading,
    test_f_priority,
    test_h_storage,
    test_i_files,
    test_k_security,
)
from tests.cases.observing import FACTS, HERE, POLICIES, Case

MODULES = (
    test_a_patches,
    test_b_pods,
    test_c_quantities,
    test_d_matching,
    test_e_loading,
    test_f_priority,
    test_h_storage,
    test_i_files,
    test_k_security,
)
CASES: tuple[Case, ...] = tuple(chain.from_iterable(module.CASES for module in MODULES))

NUMBERS = {
    "A": (1, 3, 4, 5, 6, 7, 9, 10, 11, 16),
    "B": (1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 13, 15, 16, 18, 19, 21, 22, 23),
    "C": (1, 2, 5, 6, 9, 10, 13, 14, 15, 17, 18),
    "D": (1, 2, 3, 5, 6, 8, 9, 10),
    "E": (1, 2, 12),
    "F": (1, 3, 4, 6),
    "G": (1, 4, 7, 10),
    "H": (1, 4, 5),
    "I": (1, 2, 8, 10, 11, 13, 14, 15, 16, 17, 18, 20, 21, 24, 26),
    "J": (4, 9),
    "K": (2, 5, 6, 7, 8, 11),
}
RUNNABLE = [f"{kind}{number}" for kind, numbers in NUMBERS.items() for number in numbers]
"""Every case that came with an input."""

BY_HAND = {"A11", "C14"}
"""Cases of a unit, which no endpoint and no command takes: see test_a_patches and test_c_quantities."""


def tried() -> set[str]:
    return {case.id for case in CASES} | BY_HAND


def listed() -> dict[str, str]:
    """The cases that README.md gives a reason for."""
    rows = re.findall(r"^\| ([A-K]\d+)[^|]*\| ([^|]+) \|$", (HERE / "README.md").read_text(), re.MULTILINE)
    return dict(rows)


def test_every_case_is_tested_or_listed() -> None:
    assert [case for case in RUNNABLE if case not in tried() | listed().keys()] == []


def test_every_input_is_of_a_case() -> None:
    inputs = {path.name.partition("-")[0] for path in HERE.glob("[A-K]*-*.yaml")}
    assert inputs == tried() | (listed().keys() & inputs)
    assert inputs <= set(RUNNABLE)


def test_a_list_gives_reasons() -> None:
    assert listed()
    assert all(len(reason) > 20 for reason in listed().values())


def test_every_policy_is_used() -> None:
    used = {name for case in CASES for name in case.policies} | {"unrelated"}
    assert {path.stem for path in POLICIES.glob("*.yaml")} == used
    assert FACTS.is_dir()


BYSTANDERS = {
    "B18": {"p-sched", "p-node", "p-env"},  # setters, which leave an update alone
    "B22": set(test_b_pods.ALL) - {"p-vis"},  # the pods have nothing that they are about
    "C9": {"p-sched"},  # no GPU pod
    "C17": {"p-sched"},  # nor is one that asks for -1
    "F4": {"p-prio"},  # a class of the system stays
    "K2": {"p-sched"},  # another scheduler was chosen
}
"""Policies of which a case says that they do nothing."""


@pytest.mark.parametrize("case", [case for case in CASES if case.acts], ids=lambda case: case.id)
def test_an_expectation_fails_without_each_of_its_policies(case: Case) -> None:
    assert case.observe(()) != case.expected
    for policy in set(case.policies) - BYSTANDERS.get(case.id, set()):
        others = tuple(each for each in case.policies if each != policy)
        assert case.observe(others) != case.expected, policy


def test_what_expects_nothing_has_a_neighbour_that_acts() -> None:
    """A pod that stays as it is proves something only beside one that does not."""
    acting = {case.id for case in CASES if case.acts}
    silent = {case.id for case in CASES if not case.acts} - acting
    # Deletions, exec and ClusterRoles are nobody's affair (test_d_matching shows that no policy can name the first two),
    # and files that cannot be read, or hold nothing, are said whatever the policies are.
    assert silent == {"D3", "D6", "D8", "I1", "I8", "I10", "I15", "I16", "I20", "I26", "K5"}


@pytest.mark.parametrize("path", sorted(HERE.glob("[A-K]*-*.yaml")), ids=lambda path: path.name)
def test_an_input_says_what_it_is(path: Path) -> None:
    text = path.read_bytes().decode().replace("\r\n", "\n")
    assert text.startswith(f"# id: {path.name.partition('-')[0]}\n")
    keys = re.findall(r"^# (id|title|kind|source|mode|parse|policy|expect): ", text, re.MULTILINE)
    assert keys == ["id", "title", "kind", "source", "mode", "parse", "policy", "expect"]
