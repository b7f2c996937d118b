"""Build the control plane's programs unless they are there, and print their folder.

Usage: python -m tests.e2e.controlplane
"""

from __future__ import annotations

import sys

from tests.e2e.controlplane.build import NotThereError, build


def main() -> int:
    """Build, and say where."""
    try:
        programs = build()
    except NotThereError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{programs.folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
