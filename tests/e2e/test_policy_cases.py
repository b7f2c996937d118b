"""The cases of the shipped policies, told to a real API server: what users get is what `podgate check` says.

Every object is tried by dry runs: with podgate in the way, and without it what `podgate check` makes of it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.client import KINDS, ApiError, Json
from tests.e2e.dry_runs import changed, tried
from tests.policies.case_files import (
    SHIPPED,
    Case,
    all_cases,
    changes,
    facts_of,
    files_of,
    objects_in,
    policy_set_of,
)
from webhook.engine import Gate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from tests.e2e.cluster import Cluster
    from tests.e2e.control_plane import ControlPlane
    from tests.e2e.podgate import Podgate

PREREQUISITES = objects_in(SHIPPED / "prerequisites")
REFUSED_BEFORE = frozenset({"allowed-priorities: a bare number", "gpu-limits: half a GPU"})
"""Objects that the API server refuses itself, before it asks anybody: only `podgate check` gets to see them."""


def is_servable(case: Case) -> bool:
    """Whether the case is about what somebody sends to create an object of a kind that the API server knows.

    Where there are managed fields, the case is about what the API server made of it. Updates need what it stored.
    """
    is_sent = "managedFields" not in case.input["metadata"]
    return case.input["kind"] in KINDS and case.operation == "CREATE" and is_sent


def groups() -> Iterator[Any]:
    """Cases that one podgate can judge: those of a policy, but those with facts of their own alone."""
    cases = [case for case in all_cases() if is_servable(case)]
    for policy, found in groupby(cases, key=lambda case: case.policy):
        together = list(found)
        yield pytest.param([case for case in together if not case.facts], id=policy)
        yield from (pytest.param([case], id=f"{policy}, {case.name}") for case in together if case.facts)


@pytest.fixture(scope="module", autouse=True)
def case_namespaces(controllers: None, control_plane: ControlPlane) -> Iterator[None]:
    """The namespaces in which the cases are, as the prerequisites have them."""
    cluster = control_plane.cluster
    labels = {
        each["metadata"]["name"]: each["metadata"]["labels"]
        for each in PREREQUISITES
        if each["kind"] == "Namespace"
    }
    names = sorted({case.input["metadata"]["namespace"] for case in all_cases()})
    for name in names:
        cluster.add_namespace(name, labels.get(name, {}))
    yield
    for name in names:
        cluster.remove_namespace(name)


def write_files(folder: Path, files: Iterable[tuple[str, bytes]]) -> Path:
    folder.mkdir()
    for name, data in files:
        (folder / name).write_bytes(data)
    return folder


def furnish(cluster: Cluster, case: Case) -> None:
    """The priority classes that the API server's own plugin must know."""
    for thing in case.facts:
        if thing["kind"] == "PriorityClass":
            more = {
                key: value
                for key, value in thing.items()
                if key not in ("apiVersion", "kind", "metadata", "value")
            }
            cluster.add_priority_class(thing["metadata"]["name"], thing["value"], **more)


def checked(case: Case) -> Json:
    """The object after what `podgate check` would do to it."""
    return changed(Gate(policy_set_of(files_of(case)), facts_of(case, SHIPPED)), case.request())[0]


def faults(
    case: Case, expected: Json | ApiError, found: Json | ApiError, warnings: tuple[str, ...]
) -> Iterator[str]:
    """What came otherwise than the case expects."""
    if str(case) in REFUSED_BEFORE:
        if (
            not isinstance(expected, ApiError)
            or not isinstance(found, ApiError)
            or "podgate" in found.message
        ):
            yield f"{case}: expected that the API server refuses it, found {found}"
    elif case.decision == "refused" or isinstance(found, ApiError):
        if not isinstance(found, ApiError) or found.status != 403 or case.message not in found.message:
            yield f"{case}: expected {case.decision} {case.message!r}, found {found}"
    elif (case.decision == "warned") != bool(warnings):
        yield f"{case}: expected {case.decision}, found the warnings {warnings}"
    elif found != expected:
        yield f"{case}: expected otherwise {changes(found, expected) if isinstance(expected, dict) else expected}"


@pytest.mark.parametrize("cases", list(groups()))
def test_the_api_server_stores_or_refuses_what_the_case_says(
    cluster: Cluster,
    cases: list[Case],
    start_podgate: Callable[..., Podgate],
    register: Callable[..., None],
    tmp_path: Path,
) -> None:
    for case in cases:
        furnish(cluster, case)
    expected = [tried(cluster, checked(case))[0] for case in cases]
    policies = write_files(tmp_path / "policies", files_of(cases[0]))
    podgate = start_podgate((policies,), facts=[*PREREQUISITES, *cases[0].facts])
    register(podgate)
    found = [tried(cluster, case.input) for case in cases]
    judged = zip(cases, expected, found, strict=True)
    assert [
        fault for case, wanted, (got, warnings) in judged for fault in faults(case, wanted, got, warnings)
    ] == []
