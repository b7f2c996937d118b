"""Fixtures of the commands that talk to a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tests.cli.fake_cluster import FakeCluster
from webhook.cli.main import podgate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from click.testing import Result


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
def run(fake: FakeCluster, tmp_path: Path) -> Callable[..., Result]:
    """Run a command against the fake cluster."""
    config = fake.kubeconfig(tmp_path)

    def call(*words: str) -> Result:
        return CliRunner().invoke(podgate, [*words, "--kubeconfig", str(config)])

    return call
