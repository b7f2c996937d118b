"""What the documents say is so."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from webhook.rules import rule_types

ROOT = Path(__file__).parent.parent


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_readme_begins_with_two_command_lines() -> None:
    first_screen = text_of("README.md")[:1500]
    demo, tests = re.findall(r"```sh\n(.*)\n```", first_screen)
    assert demo.endswith("podgate demo")
    assert tests.endswith("pytest -q")
    assert tests in text_of("CONTRIBUTING.md")


def test_ci_runs_what_the_readme_says() -> None:
    script = text_of(".ci/run")
    assert 'readme_command 1)"' in script
    assert 'readme_command 2)"' in script


@pytest.mark.parametrize("name", sorted(rule_types()))
def test_every_rule_type_is_in_the_readme(name: str) -> None:
    assert f"| `{name}` |" in text_of("README.md")


def test_the_readme_lists_no_rule_type_that_is_not() -> None:
    table = text_of("README.md").split("| rule | what it does |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == set(rule_types())


def test_every_metric_is_documented_and_no_other() -> None:
    documented = set(re.findall(r"^\| `(podgate_\w+)`", text_of("docs/operations.md"), re.MULTILINE))
    source = text_of("webhook/server/metrics.py")
    defined = {f"podgate_{name}" for name in re.findall(r'(?:counter|_gauge)\(\s*"(\w+)"', source)}
    defined |= set(re.findall(r'"(podgate_\w+)"', source))
    assert documented == defined


COMMAND = re.compile(r"(?:^\$ |`)podgate (\w+)([^`\n]*)", re.MULTILINE)


@pytest.mark.parametrize("name", ["README.md", "docs/operations.md"])
def test_documented_commands_and_options_exist(name: str) -> None:
    found = COMMAND.findall(text_of(name))
    assert found
    for command_name, rest in found:
        command = import_module(f"webhook.cli.{command_name}").command
        known = {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= known, f"podgate {command_name} {rest}"
