"""The Dockerfile: hadolint's rules, and those that hold for this image."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.deploy.dockerfile import DOCKERFILE, ROOT, Stage, stages
from tests.deploy.rendered import not_here
from tests.security.test_supply_chain import locked, missing

TEXT = DOCKERFILE.read_text()
STAGES = stages(TEXT)
BUILD, RUNTIME = STAGES
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BUILD_LOCK = (ROOT / "deploy/build.lock").read_text()


def hadolint() -> str:
    found = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    if found is None:
        not_here("hadolint has no wheel for this platform")
    return found


def lint(text: str) -> str:
    return subprocess.run([hadolint(), "-"], input=text, capture_output=True, text=True, check=False).stdout


def test_hadolint_has_nothing_to_say() -> None:
    assert lint(TEXT) == ""


def test_hadolint_would_say_it() -> None:
    assert "DL3007" in lint(TEXT.replace("python:${PYTHON}-slim-trixie AS", "python:latest AS"))


def test_python_is_one_that_the_project_supports() -> None:
    version = re.search(r"^ARG PYTHON=(.*)$", TEXT, re.MULTILINE)
    assert version
    assert version[1] in SpecifierSet(PROJECT["project"]["requires-python"])


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name or "runtime")
def test_every_stage_stands_on_the_same_slim_base(stage: Stage) -> None:
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", stage.base)
    assert stage.base == STAGES[0].base


def test_the_runtime_runs_nothing_while_it_is_built() -> None:
    """So it is the same whatever architecture builds it, and nothing is left of a package manager."""
    assert RUNTIME.all("RUN") == []


def test_it_runs_as_a_numbered_user_who_is_not_root() -> None:
    assert [each.rest for each in RUNTIME.all("USER")] == ["65532:65532"]


def test_no_shell_stands_between_the_kubelet_and_the_process() -> None:
    (entrypoint,) = RUNTIME.all("ENTRYPOINT")
    assert entrypoint.words == ["podgate"]


def test_nothing_is_installed_without_its_hash() -> None:
    installs = [
        part
        for run in BUILD.all("RUN")
        for part in run.rest.split("&&")
        if re.search(r"\bpip\b.* install ", part)
    ]
    own = [each for each in installs if "/dist/" in each]
    assert len(installs) == 3
    assert all(
        "--require-hashes" in each and "--only-binary=:all:" in each for each in installs if each not in own
    )
    assert ["--no-index" in each and "--no-deps" in each for each in own] == [True]


def test_what_builds_is_locked_in_a_version_that_the_project_allows() -> None:
    assert missing(PROJECT["build-system"]["requires"], locked(BUILD_LOCK)) == []


def test_the_label_says_the_version() -> None:
    labels = [label.pairs for label in RUNTIME.all("LABEL")]
    assert labels[0]["org.opencontainers.image.version"] == PROJECT["project"]["version"]
    assert labels[0]["org.opencontainers.image.licenses"] == PROJECT["project"]["license"]


def test_everything_that_is_copied_is_in_the_context_and_nothing_else() -> None:
    copied = {
        source
        for stage in STAGES
        for each in stage.all("COPY")
        if "--from=" not in each.rest
        for source in each.rest.split()[:-1]
    }
    lines = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {line.removeprefix("!") for line in rules if line.startswith("!")} == copied
    assert all((ROOT / source).exists() for source in copied)


def test_the_arguments_before_the_first_stage_are_filled_in() -> None:
    assert [stage.base for stage in stages("ARG A=1\n# RUN x\nFROM x:${A} AS y\n")] == ["x:1"]


@pytest.mark.parametrize("word", ["SHELL", "ADD", "ONBUILD"])
def test_an_instruction_that_the_reader_does_not_know_is_an_error(word: str) -> None:
    with pytest.raises(ValueError, match=word):
        stages(f"FROM x\n{word} y z\n")
