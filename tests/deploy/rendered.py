"""What kustomize makes of our folders."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
import yaml

from tests.deploy.dockerfile import ROOT
from tests.e2e.controlplane.build import find
from tests.e2e.go_program import NotThereError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KUSTOMIZE = ROOT / "deploy/kustomize"
BASE = KUSTOMIZE / "base"
COMPONENTS = sorted((KUSTOMIZE / "components").iterdir())
OVERLAYS = sorted((KUSTOMIZE / "overlays").iterdir())
FOLDERS = [BASE, *OVERLAYS]
WEBHOOK, CONTROLLER = "podgate", "podgate-controller"


def kubectl() -> str:
    """The machine's own, or the one that the control plane of the end-to-end tests was built with, as in CI."""
    if found := shutil.which("kubectl"):
        return found
    try:
        return str(find().path("kubectl"))
    except NotThereError:
        not_here("needs kubectl, to render")


def not_here(reason: str) -> NoReturn:
    """Skip the test; in CI, which has everything, fail."""
    if os.environ.get("PODGATE_E2E") == "required":
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def rendered(folder: Path) -> tuple[dict[str, Any], ...]:
    """The objects that ``kubectl apply -k`` would apply; the test is skipped where there is no kubectl."""
    command = [kubectl(), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return tuple(yaml.safe_load_all(done.stdout))


def named(objects: tuple[dict[str, Any], ...], kind: str, name: str) -> dict[str, Any]:
    """The one object of that kind and name."""
    (found,) = (each for each in objects if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def of_kind(objects: tuple[dict[str, Any], ...], *kinds: str) -> list[dict[str, Any]]:
    """All objects of these kinds."""
    return [each for each in objects if each["kind"] in kinds]


def pod_spec(deployment: dict[str, Any]) -> dict[str, Any]:
    """The spec of a Deployment's pods."""
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def container(deployment: dict[str, Any]) -> dict[str, Any]:
    """The one container of a Deployment."""
    (found,) = pod_spec(deployment)["containers"]
    return dict(found)


def source_files() -> Iterator[Path]:
    """The files with one object each."""
    for folder in (BASE, *COMPONENTS):
        yield from (file for file in sorted(folder.glob("*.yaml")) if file.name != "kustomization.yaml")


def rules_of(objects: tuple[dict[str, Any], ...], account: str) -> Iterator[dict[str, Any]]:
    """All that a ServiceAccount may do, by the roles that are bound to it."""
    for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
        if account in {subject["name"] for subject in binding["subjects"]}:
            yield from named(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])["rules"]
