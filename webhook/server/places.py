"""Where a server with a read-only root may write."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

#: Memory that is there in every container; gunicorn's heartbeat must not wait for a disk.
_MEMORY = Path("/dev/shm")  # noqa: S108  # only private temporary folders and files are made in it


def temporary_dir() -> str:
    """Where small private files can be made: memory if there is any, else the usual place.

    Raises:
        FileNotFoundError: Nowhere.
    """
    return str(_MEMORY) if os.access(_MEMORY, os.W_OK | os.X_OK) else tempfile.gettempdir()
