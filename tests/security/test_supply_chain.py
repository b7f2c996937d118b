"""The lock file holds every runtime dependency with hashes, and an audit that did not happen is no good audit."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.security.audit import verdict

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PINNED = re.compile(r"(?P<name>[a-z0-9][-a-z0-9]*)==(?P<version>[0-9][0-9a-z.]*)")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def entries(text: str) -> list[list[str]]:
    """The words of each entry; comments are none."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return [entry.split() for entry in "\n".join(lines).replace("\\\n", " ").splitlines() if entry.strip()]


def locked(text: str) -> dict[str, str]:
    """The version of each package; an entry that is not one version with hashes is an error."""
    found = {}
    for first, *hashes in entries(text):
        pin = PINNED.fullmatch(first)
        assert pin, f"{first} is no name and version"
        assert hashes, f"{first} has no hash"
        assert all(HASH.fullmatch(word) for word in hashes), f"{first} has something else than hashes"
        found[pin["name"]] = pin["version"]
    return found


def missing(dependencies: list[str], versions: dict[str, str]) -> list[str]:
    """The dependencies that the lock has not, or in a version that they do not allow."""
    wanted = map(Requirement, dependencies)
    return [
        str(each) for each in wanted if versions.get(canonicalize_name(each.name), "") not in each.specifier
    ]


def runtime_dependencies() -> list[str]:
    found: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return found


def test_every_runtime_dependency_is_locked_in_a_version_that_it_allows() -> None:
    assert missing(runtime_dependencies(), locked(LOCK)) == []


def test_nothing_in_the_lock_says_where_to_download() -> None:
    assert re.findall(r"(?i)://|index|find-links|trusted-host|@", LOCK) == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("flask==3.1.3\n", id="no hash"),
        pytest.param("flask>=3.1 --hash=sha256:" + "0" * 64, id="no version"),
        pytest.param("flask==3.1.3 --hash=md5:" + "0" * 32, id="a weak hash"),
        pytest.param("--no-binary=x --hash=sha256:" + "0" * 64, id="an option"),
    ],
)
def test_a_lock_with_less_is_noticed(text: str) -> None:
    with pytest.raises(AssertionError):
        locked(text)


@pytest.mark.parametrize("versions", [{}, {"flask": "3.0"}], ids=["not there", "too old"])
def test_a_dependency_that_is_not_locked_is_noticed(versions: dict[str, str]) -> None:
    assert missing(["flask>=3.1"], versions) == ["flask>=3.1"]


def audited(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages})


GOOD = {"name": "flask", "version": "3.1.3", "vulns": []}
FLAWED = {"name": "jinja2", "version": "3.1.3", "vulns": [{"id": "CVE-1", "fix_versions": ["3.1.4"]}]}
UNKNOWN = {"name": "yarl", "skip_reason": "Dependency not found"}


@pytest.mark.parametrize(
    ("answer", "codes", "said"),
    [
        pytest.param("", (0, 1), "NOT AUDITED: pip-audit gave no result: no network", id="no answer"),
        pytest.param(audited(), (0, 1), "NOT AUDITED: 0 of 0 packages: ", id="no package"),
        pytest.param(audited(GOOD, UNKNOWN), (0, 1), "NOT AUDITED: 1 of 2 packages: yarl", id="unknown"),
        pytest.param(audited(GOOD), (0, 0), "1 packages, no known vulnerability", id="good"),
        pytest.param(audited(GOOD, FLAWED), (1, 1), "jinja2 3.1.3: CVE-1, mended in 3.1.4", id="flawed"),
        pytest.param(
            audited(FLAWED, UNKNOWN),
            (1, 1),
            "jinja2 3.1.3: CVE-1, mended in 3.1.4\nNOT AUDITED: 1 of 2 packages: yarl",
            id="flawed and unknown",
        ),
    ],
)
def test_only_an_audit_of_everything_is_a_good_one(answer: str, codes: tuple[int, int], said: str) -> None:
    found = [verdict(answer, "no network", required=required) for required in (False, True)]
    assert found == [(code, said) for code in codes]
