"""Build cert-manager unless it is there, and print its folder.

Usage: python -m tests.e2e.certmanager
"""

import sys

from tests.e2e.certmanager.build import CERT_MANAGER, copy_definitions

if __name__ == "__main__":
    sys.exit(CERT_MANAGER.main(copy_definitions))
