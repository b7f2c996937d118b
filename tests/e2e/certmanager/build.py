"""cert-manager: its controllers and its CA injector as one program, and its CustomResourceDefinitions."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.e2e.go_program import GoProgram

MODULE = "github.com/cert-manager/cert-manager"
VERSION = "1.21.2"
DEFINITIONS = "crds"

CERT_MANAGER = GoProgram(Path(__file__).parent, "cert-manager", VERSION, 3)


def copy_definitions(folder: Path) -> None:
    """Those of the module's own release."""
    source = CERT_MANAGER.go("list", "-m", "-f", "{{.Dir}}", MODULE).strip()
    shutil.copytree(
        Path(source) / "deploy" / "crds", folder / DEFINITIONS, ignore=shutil.ignore_patterns("*.md")
    )
