"""What deploy/README.md says is so."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.deploy.dockerfile import ROOT
from tests.deploy.rendered import COMPONENTS, KUSTOMIZE, container, named, of_kind, rendered
from webhook.cli.folders import read_folders
from webhook.policy import load_policy_set

if TYPE_CHECKING:
    from pathlib import Path

README = (ROOT / "deploy/README.md").read_text()


def test_the_site_of_the_readme_renders_and_its_policies_load(tmp_path: Path) -> None:
    """In the folders that it names: a clone, and the site's beside it."""
    for name in ("deploy", "policies"):
        shutil.copytree(ROOT / name, tmp_path / "podgate" / name)
    site = tmp_path / "site"
    shutil.copytree(ROOT / "examples/site", site)
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    (site / "kustomization.yaml").write_text(text)

    objects = rendered(site)

    assert {container(each)["image"] for each in of_kind(objects, "Deployment")} == {
        "registry.example.org/platform/podgate:0.1.0"
    }
    mounted = tmp_path / "mounted"
    for name in ("podgate-policies", "podgate-site"):
        (mounted / name).mkdir(parents=True)
        for file, policies in named(objects, "ConfigMap", name)["data"].items():
            (mounted / name / file).write_text(policies)
    assert load_policy_set(read_folders([mounted])).problems == ()


def test_every_component_is_described() -> None:
    listed = set(re.findall(r"^\| `([a-z-]+)` \|", README, re.MULTILINE))
    assert listed == {each.name for each in COMPONENTS}


@pytest.mark.parametrize("path", re.findall(r"^\| `([\w./]*[A-Z./][\w./]*)` \|", README, re.MULTILINE))
def test_every_folder_is_there(path: str) -> None:
    assert (ROOT / "deploy" / path).exists()


def test_the_patch_that_it_recommends_adds_an_argument(tmp_path: Path) -> None:
    (path,) = re.findall(r"`path: (\S+)`", README)
    operation = [{"op": "add", "path": path, "value": "--bind=[::]:8443"}]
    site = {
        "resources": ["../base"],
        "patches": [
            {"target": {"kind": "Deployment", "name": "podgate"}, "patch": yaml.safe_dump(operation)}
        ],
    }
    shutil.copytree(ROOT / "policies", tmp_path / "policies")
    shutil.copytree(KUSTOMIZE, tmp_path / "deploy/kustomize")
    folder = tmp_path / "deploy/kustomize/site"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(site))
    assert container(named(rendered(folder), "Deployment", "podgate"))["args"][-1] == "--bind=[::]:8443"
