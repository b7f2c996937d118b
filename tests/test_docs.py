"""What the documents say is so."""

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from docs.console import steps
from docs.generate import EXAMPLES, PAGES, QUICKSTARTS, Page, attributes, translations
from webhook.cli.folders import read_folders
from webhook.documents.schema import Schema, allowed_keys
from webhook.expressions.environment import JSON_VARIABLES, WORKLOAD_VARIABLES
from webhook.facts.pools import PoolSpec, Rdma
from webhook.kube.accelerators import shipped_catalogue
from webhook.policy import load_policy_set
from webhook.policy.schema import (
    AcceleratorMatch,
    ExceptionSpec,
    MatchClause,
    OverrideSpec,
    PolicySpec,
    RuleEntry,
)
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
    defined |= set(re.findall(r'"(podgate_\w+)"', source + text_of("webhook/controller/metrics.py")))
    assert documented == defined


COMMAND = re.compile(r"(?:^\$ |`)podgate (\w+)([^`\n>]*)", re.MULTILINE)


PAIRS = [
    ("README.md", "README_zh.md"),
    *((f"docs/{page.name}", f"docs/zh/{page.name}") for page in sorted((ROOT / "docs/zh").glob("*.md"))),
]
ONE_LANGUAGE = {"mission.md", "performance.md"}
ENDS = [name for pair in PAIRS for name in pair]


@pytest.mark.parametrize("name", ENDS)
def test_documented_commands_and_options_exist(name: str) -> None:
    found = COMMAND.findall(text_of(name))
    for command_name, rest in found:
        command = import_module(f"webhook.cli.{command_name}").command
        known = {
            option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert set(re.findall(r"--[a-z-]+", rest)) <= known, f"podgate {command_name} {rest}"


LANGUAGE_PAGE = "docs/language.md"
SCHEMAS = (PolicySpec, OverrideSpec, ExceptionSpec, PoolSpec, Rdma, MatchClause, AcceleratorMatch, RuleEntry)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.__name__)
def test_every_key_is_in_the_language(schema: type[Schema]) -> None:
    tables = "\n".join(re.findall(r"^\| (.*?) \|", text_of(LANGUAGE_PAGE), re.MULTILINE))
    named = {key.rpartition(".")[2] for key in re.findall(r"`([\w.]+)`", tables)}
    in_prose = {"name", "all", "none"}
    assert set(allowed_keys(schema)) - in_prose <= named


def test_every_vendor_is_in_the_language() -> None:
    sentence = text_of(LANGUAGE_PAGE).partition("\nVendors are ")[2].partition(".\n")[0]
    assert set(re.findall(r"`(\w+)`", sentence)) == set(shipped_catalogue().vendors)


def test_every_variable_and_function_of_expressions_is_in_the_language() -> None:
    section = text_of(LANGUAGE_PAGE).partition("\n## Expressions\n")[2]
    named = set(re.findall(r"`([\w.]+)(?:\([A-Z]+\))?`", section))
    source = text_of("webhook/expressions/functions.py")
    functions = set(re.findall(r'(?:_method|FunctionDecl)\(\s*"(\w+)"', source))
    assert len(functions) > 5
    assert {*JSON_VARIABLES, *WORKLOAD_VARIABLES, *functions} <= named


BLOCK = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


def blocks(name: str) -> list[tuple[str, str]]:
    return BLOCK.findall(text_of(name))


def documents_in(name: str) -> Iterator[str]:
    yield from (body for kind, body in blocks(name) if kind == "yaml")


def names_in(text: str) -> set[tuple[str, str]]:
    return {(each["kind"], each["metadata"]["name"]) for each in yaml.safe_load_all(text)}


@pytest.mark.parametrize("name", ["README.md", "README_zh.md", "docs/language.md", "docs/zh/language.md"])
def test_policies_in_documents_load_beside_the_shipped_ones(name: str) -> None:
    own = [body for body in documents_in(name) if "podgate.dev/v1alpha1" in body]
    assert own
    named = set().union(*map(names_in, own))
    shipped = [
        (file, data)
        for file, data in read_folders([ROOT / "policies"])
        if not names_in(data.decode()) & named
    ]
    files = [(f"{name}, policy {number}", body.encode()) for number, body in enumerate(own, 1)]
    assert [str(problem) for problem in load_policy_set([*shipped, *files]).problems] == []


@pytest.mark.parametrize("name", ENDS)
def test_every_other_yaml_in_documents_is_yaml(name: str) -> None:
    for body in documents_in(name):
        assert all(yaml.safe_load_all(body))


def test_examples_load_beside_the_shipped_policies() -> None:
    files = read_folders([ROOT / EXAMPLES, ROOT / "policies"])
    assert [str(problem) for problem in load_policy_set(files).problems] == []


@pytest.mark.parametrize("file", sorted((ROOT / EXAMPLES).glob("*")), ids=lambda file: file.name)
def test_every_example_is_shown(file: Path) -> None:
    assert f"({file.relative_to(ROOT / 'docs')})" in text_of("docs/rules.md")


@pytest.mark.parametrize(("language", "name"), PAGES.items())
def test_the_rule_catalogue_is_what_the_rule_types_say(language: str, name: str) -> None:
    page = Page(language)
    assert page.render() == text_of(name), "run python -m docs.generate"
    assert page.untranslated == [], "add them to docs/zh/rules.yaml"


def test_no_translation_is_of_a_text_that_is_gone() -> None:
    page = Page("zh")
    page.render()
    assert translations().keys() - set(page.translated) == set()


@pytest.mark.parametrize("name", sorted(rule_types()))
def test_every_parameter_of_a_rule_is_described(name: str) -> None:
    rule = rule_types()[name]
    assert set(attributes(rule)) == set(rule.model_fields)


@pytest.mark.parametrize("name", QUICKSTARTS)
def test_what_the_quickstart_says_is_what_happens(name: str) -> None:
    found = list(steps(text_of(name)))
    assert len(found) > 10
    wrong = [f"$ {step.command}\n{step.printed}" for step in found if not step.holds]
    assert wrong == [], "run python -m docs.generate"


def test_every_page_is_there_in_both_languages() -> None:
    english = {page.name for page in (ROOT / "docs").glob("*.md")}
    chinese = {page.name for page in (ROOT / "docs/zh").glob("*.md")}
    assert english - ONE_LANGUAGE == chinese - ONE_LANGUAGE


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=str)
class TestBothLanguages:
    def test_have_the_same_headings(self, english: str, chinese: str) -> None:
        assert levels(english) == levels(chinese)

    def test_have_the_same_blocks(self, english: str, chinese: str) -> None:
        assert uncommented(english) == uncommented(chinese)

    def test_have_tables_of_the_same_size(self, english: str, chinese: str) -> None:
        assert rows(english) == rows(chinese)

    def test_name_the_same_things(self, english: str, chinese: str) -> None:
        assert code_words(english) == code_words(chinese)


def prose(name: str) -> str:
    return BLOCK.sub("", text_of(name))


def levels(name: str) -> list[str]:
    return re.findall(r"^#+(?= )", prose(name), re.MULTILINE)


def uncommented(name: str) -> list[tuple[str, str]]:
    return [(kind, re.sub(r"\s+#.*", "", body)) for kind, body in blocks(name)]


def rows(name: str) -> int:
    return len(re.findall(r"^\|", prose(name), re.MULTILINE))


def code_words(name: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", prose(name)))


@pytest.mark.parametrize("name", ENDS)
def test_links_lead_somewhere(name: str) -> None:
    text = BLOCK.sub("", text_of(name))
    for link, _, anchor in (found.partition("#") for found in re.findall(r"\]\(([^)\s]+)\)", text)):
        if link.startswith("https://"):
            continue
        target = (ROOT / name).parent / link if link else ROOT / name
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)", target.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {heading.lower().replace(" ", "-") for heading in headings}, (link, anchor)
