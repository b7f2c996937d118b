"""Build the control plane's programs unless they are there, and print their folder.

Usage: python -m tests.e2e.controlplane
"""

import sys

from tests.e2e.controlplane.build import CONTROL_PLANE, link_names

if __name__ == "__main__":
    sys.exit(CONTROL_PLANE.main(link_names))
