"""Fixtures of the end-to-end tests: a control plane for the session, and a clean cluster for every test."""

from __future__ import annotations

import itertools
import os
import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.cluster import facts_of
from tests.e2e.control_plane import CONTROLLERS, SCHEDULER, ControlPlane, running_control_plane
from tests.e2e.controlplane.build import Programs, find
from tests.e2e.go_program import NotThereError
from tests.e2e.kubelet import kubelets
from tests.e2e.podgate import PROGRAM, SETTLED, SHIPPED, SITE, Podgate
from tests.e2e.registration import patient, registered

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence
    from pathlib import Path

    from tests.e2e.client import Json
    from tests.e2e.cluster import Cluster

WISH = "PODGATE_E2E"
REQUIRED = "required"

_NUMBERS = itertools.count(1)
_NAME_LENGTH = 40
"""Of a namespace: what a test adds to it stays below the 63 characters of a label."""

_PLANES: list[ControlPlane] = []
"""Those that run, for the logs of a test that failed."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Without the wish, or without the programs, no control plane starts. Raised here, one line tells of all the skips."""
    if not os.environ.get(WISH):
        pytest.skip(f"end-to-end tests run with {WISH}=1: see tests/e2e/README.md")
    try:
        find()
    except NotThereError as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip is a failure where the tests are required; a failure says where the logs are."""
    report = yield
    if report.skipped and os.environ.get(WISH) == REQUIRED and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where {WISH}={REQUIRED}: {report.longrepr}"
    if report.failed:
        for plane in _PLANES:
            report.sections.append(("control plane", plane.logs()))
    return report


@pytest.fixture(scope="session")
def programs() -> Programs:
    """The control plane's programs."""
    return find()


@pytest.fixture(scope="session")
def control_plane(programs: Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The control plane of the session (under pytest-xdist, of the worker); who stops parts has `own_control_plane`."""
    with _running(programs, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture
def own_control_plane(programs: Programs, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane for one test, which may stop and start its parts."""
    with _running(programs, tmp_path / "control-plane") as plane:
        yield plane


@contextmanager
def _running(programs: Programs, folder: Path) -> Iterator[ControlPlane]:
    folder.mkdir(exist_ok=True)
    with running_control_plane(programs, folder) as plane:
        _PLANES.append(plane)
        try:
            yield plane
        finally:
            _PLANES.remove(plane)


@pytest.fixture
def cluster(control_plane: ControlPlane) -> Iterator[Cluster]:
    """The session's cluster; whatever a test leaves outside of namespaces is taken back."""
    yield control_plane.cluster
    control_plane.cluster.reset()


@pytest.fixture(scope="session")
def controllers(programs: Programs) -> None:
    """For tests that need ServiceAccounts, and pods of whatever makes pods."""
    if not programs.has(CONTROLLERS):
        pytest.skip(f"there is no {CONTROLLERS} in {programs.folder}")


@pytest.fixture(scope="session")
def scheduler(programs: Programs) -> None:
    """For tests that need pods to be bound."""
    if not programs.has(SCHEDULER):
        pytest.skip(f"there is no {SCHEDULER} in {programs.folder}")


@pytest.fixture
def add_namespace(
    cluster: Cluster, controllers: None, request: pytest.FixtureRequest
) -> Iterator[Callable[..., str]]:
    """Make a namespace of this test: `add_namespace("team-b", {"label": "value"})`; gives its name."""
    made: list[str] = []

    def add(suffix: str = "", labels: dict[str, str] | None = None) -> str:
        words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))
        name = f"{words[:_NAME_LENGTH].strip('-')}-{next(_NUMBERS)}{suffix and f'-{suffix}'}"
        cluster.add_namespace(name, labels or {"pod-security.kubernetes.io/enforce": "privileged"})
        made.append(name)
        return name

    yield add
    for name in made:
        cluster.remove_namespace(name)


@pytest.fixture
def namespace(add_namespace: Callable[..., str]) -> str:
    """A namespace of this test, of the Pod Security level privileged, with its default ServiceAccount."""
    return add_namespace()


@pytest.fixture
def kubelet(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Bound pods of the test's namespace become Ready, and deleted ones go."""
    with kubelets(cluster, namespace):
        yield


@pytest.fixture
def start_podgate(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[Callable[..., Podgate]]:
    """Start replicas: `start_podgate(policies=(SHIPPED, SITE), options=(), facts=True, beside=cluster, settled=False)`.

    With `settled` the two minutes in which `verify: fail` only warns are over. With `facts` it is given those objects, or with
    True what the cluster (`beside`, for one of the test's own) has now.
    """
    started: list[Podgate] = []

    def start(
        policies: Sequence[Path] = (SHIPPED, SITE),
        options: Sequence[str] = (),
        *,
        facts: bool | Sequence[Json] = True,
        beside: Cluster = cluster,
        settled: bool = False,
    ) -> Podgate:
        podgate = Podgate(tmp_path / f"podgate-{len(started)}", policies, options)
        podgate.program = SETTLED if settled else PROGRAM
        started.append(podgate)
        if facts:
            podgate.write_facts(facts_of(beside) if facts is True else facts)
        podgate.start()
        return podgate

    yield start
    for podgate in started:
        podgate.end()


@pytest.fixture
def register(cluster: Cluster, start_podgate: Callable[..., Podgate]) -> Iterator[Callable[..., None]]:
    """Make the webhook configurations of a podgate, and wait until they are in force: `register(podgate, change=…)`.

    With `where=`, in a cluster of the test's own. They are gone after the test, before the namespace and podgate are.
    """
    with ExitStack() as stack:

        def enter(podgate: Podgate, *, where: Cluster = cluster, **options: Any) -> None:
            stack.enter_context(registered(podgate, where, **options))

        yield enter


@pytest.fixture
def podgate(start_podgate: Callable[..., Podgate], register: Callable[..., None]) -> Podgate:
    """One replica on the shipped policies and the site's pools, registered."""
    started = start_podgate()
    register(started)
    return started


@pytest.fixture
def patient_podgate(start_podgate: Callable[..., Podgate], register: Callable[..., None]) -> Podgate:
    """The same, with 10 s for every call: for tests of what is stored."""
    started = start_podgate()
    register(started, change=patient)
    return started
