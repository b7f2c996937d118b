"""What a site keeps beside the shipped policies: in the demonstration, one exception that is about to end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

DAYS_LEFT = 5
"""Within the two weeks in which an exception's end is said."""

EXCEPTION = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicyException
metadata:
  name: dgx2-nodes
spec:
  policies: [gpu-limits/cap]
  match:
    namespaces: [dgx2]
  reason: Its nodes have 16 GPUs
  owner: vision-platform@example.org
  expiresAt: "{day}"
"""


def write_exception(folder: Path, today: date) -> None:
    """Write an exception for one namespace into a folder.

    Args:
        folder: an empty one.
        today: in UTC; the exception ends `DAYS_LEFT` days later.
    """
    text = EXCEPTION.format(day=today + timedelta(days=DAYS_LEFT))
    (folder / "exceptions.yaml").write_text(text, encoding="utf-8")
