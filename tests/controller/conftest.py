"""Fixtures of the controller's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    """What is logged, instead of being printed."""
    with capture_logs() as found:
        yield found
