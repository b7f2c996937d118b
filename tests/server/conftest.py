"""Fixtures: a folder with a certificate and policies, and gateways that serve from it."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import certs
from tests.server.running import ROOT, Running, free_port, launch, write_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SHIPPED = ROOT / "policies"
STANDIN = Path(__file__).with_name("standin.py")


@pytest.fixture(scope="session")
def ca() -> certs.Pair:
    return certs.new_ca(now=datetime.now(UTC))


@pytest.fixture
def folder(tmp_path: Path, ca: certs.Pair) -> Path:
    """A pair and one policy file."""
    return furnish(tmp_path, ca)


def furnish(folder: Path, ca: certs.Pair) -> Path:
    write_pair(folder, ca)
    (folder / "policies").mkdir()
    (folder / "policies" / "a.yaml").write_text("one")
    return folder


@pytest.fixture
def start(folder: Path) -> Iterator[Callable[..., Running]]:
    """Start a gateway with a stand-in core: ``start(workers, connections)``."""
    started: list[Running] = []

    def run(workers: int = 1, connections: int = 50) -> Running:
        started.append(launch_standin(folder, workers, connections))
        return started[-1]

    yield run
    for running in started:
        running.stop()


def launch_standin(folder: Path, workers: int, connections: int) -> Running:
    arguments = [str(folder), str(folder / "port"), str(workers), str(connections)]
    return launch([sys.executable, str(STANDIN), *arguments], folder)


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Running]]:
    """Start the real command on the shipped policies, or those given: ``serve(*options, policies=...)``.

    A port that is given is listened on by an option of the caller's own. Statements run ``before`` the command.
    """
    started: list[Running] = []

    def run(*more: str, policies: Path = SHIPPED, port: int = 0, before: str = "") -> Running:
        port = port or free_port()
        (folder / "port").write_text(str(port))
        options = {"--policies": policies, "--cert": folder / "tls.crt", "--key": folder / "tls.key"}
        words = [str(word) for option in options.items() for word in option]
        program = [sys.executable, "-c", f"{before}\nfrom webhook.cli.main import main; main()"]
        started.append(launch([*program, "serve", *words, "--bind", f"127.0.0.1:{port}", *more], folder))
        return started[-1]

    yield run
    for running in started:
        running.stop()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, ca: certs.Pair) -> Iterator[Running]:
    """One with room for fifty connections, for all tests of a module."""
    running = launch_standin(furnish(tmp_path_factory.mktemp("gateway"), ca), 1, 50)
    yield running
    running.stop()
