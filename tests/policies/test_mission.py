"""The page that says which policy is for what."""

import re
from functools import cache

import pytest

from tests.policies.case_files import ROOT, SHIPPED, policy_files, policy_set_of

PAGES = ("docs/mission.md", "docs/zh/mission.md")
POLICIES = {policy.name: policy for policy in policy_set_of(policy_files(SHIPPED)).policies}


@cache
def tables(page: str) -> list[list[list[str]]]:
    """The tables of a page, each a list of rows without the head, each a list of cells."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [[row.strip("|").split("|") for row in table.splitlines()[2:]] for table in found]


def named(cells: list[str]) -> set[str]:
    return set(re.findall(r"`([a-z-]+)`", " ".join(cells)))


@pytest.mark.parametrize("page", PAGES)
def test_every_policy_answers_something_and_no_other_does(page: str) -> None:
    purposes = tables(page)[0]
    assert len(purposes) == 9
    assert all(named(cells) for cells in purposes)
    assert set().union(*map(named, purposes)) == set(POLICIES)


@pytest.mark.parametrize("page", PAGES)
def test_the_modes_are_those_of_the_files(page: str) -> None:
    rows = tables(page)[1]
    assert [named(row[:1]) for row in rows if len(row) != 4] == []
    found = {
        name: (row[1].strip(), bool(row[2].strip()), "`failurePolicy: Fail`" in row[3])
        for row in rows
        for name in named(row[:1])
    }
    assert found == {
        name: (policy.mode.value, "UPDATE" in policy.operations, policy.failure_policy == "Fail")
        for name, policy in POLICIES.items()
    }
