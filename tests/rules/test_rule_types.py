"""What holds for every rule type: tests beside it, texts in every language, and arguments for every placeholder."""

import ast
import pkgutil
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from inspect import getsource
from pathlib import Path
from string import Formatter
from types import ModuleType, SimpleNamespace
from typing import NamedTuple, cast

import pytest

from webhook import rules
from webhook.rules import rule_types
from webhook.rules.base import COMMON_TEXTS, MutatingRule, Rule, Subject, ValidatingRule

LANGUAGES = {"en", "zh"}
FACTORIES = {"fail", "skip", "error"}
TYPES = rule_types()


class Made(NamedTuple):
    """A place in a rule's source where a finding is made."""

    text: re.Pattern[str]
    arguments: frozenset[str]
    line: int


def placeholders(*texts: str) -> frozenset[str]:
    return frozenset(name for text in texts for _, name, _, _ in Formatter().parse(text) if name)


def texts_of(rule: type[Rule]) -> Iterator[tuple[str, str, tuple[str, str]]]:
    for name, by_language in rule.texts.items():
        for language, pair in by_language.items():
            yield name, language, pair


def names_of(node: ast.expr) -> list[str]:
    """Patterns of the names that an expression can be; `.+` for what only the run knows."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [re.escape(node.value)]
    if isinstance(node, ast.IfExp):
        return names_of(node.body) + names_of(node.orelse)
    if isinstance(node, ast.JoinedStr):
        return [
            "".join(
                re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values
            )
        ]
    return []


@cache
def made_by(module: str) -> tuple[Made, ...]:
    """Every finding that a module makes, by its source."""
    tree = ast.parse(getsource(import_module(module)))
    found = []
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or not call.args:
            continue
        if call.func.id not in FACTORIES | {"found"}:
            continue
        arguments = frozenset(keyword.arg or "**" for keyword in call.keywords)
        found += [Made(re.compile(name), arguments, call.lineno) for name in names_of(call.args[0])]
    return tuple(found)


@pytest.mark.parametrize("rule", TYPES.values(), ids=TYPES.keys())
class TestEveryType:
    def test_has_a_test_file_of_its_own(self, rule: type[Rule]) -> None:
        module = rule.__module__.rpartition(".")[2]
        assert (Path(__file__).parent / f"test_{module}.py").is_file()

    def test_is_named_in_camel_case_after_its_file(self, rule: type[Rule]) -> None:
        module = rule.__module__.rpartition(".")[2]
        assert re.sub("[A-Z]+", lambda match: f"_{match.group().lower()}", rule.type) == module

    def test_acts_in_one_way(self, rule: type[Rule]) -> None:
        assert issubclass(rule, MutatingRule) is not issubclass(rule, ValidatingRule)
        assert rule.acts_on
        assert rule.scope

    def test_has_every_text_in_every_language(self, rule: type[Rule]) -> None:
        assert {name: set(by_language) for name, by_language in rule.texts.items()} == dict.fromkeys(
            rule.texts, LANGUAGES
        )
        for name, _, pair in texts_of(rule):
            assert all(part.strip() == part and part for part in pair), name

    def test_says_the_same_in_every_language(self, rule: type[Rule]) -> None:
        for name, language, pair in texts_of(rule):
            assert placeholders(*pair) == placeholders(*rule.texts[name]["en"]), (name, language)

    def test_fits_what_is_wrong_on_one_line(self, rule: type[Rule]) -> None:
        for name, _, pair in texts_of(rule):
            assert not any("\n" in part for part in pair), name
            assert not any(part.endswith((".", "。", "!", "！")) for part in pair), name

    def test_writes_chinese_where_it_says_so(self, rule: type[Rule]) -> None:
        for name, language, pair in texts_of(rule):
            own_words = [words for part in pair if (words := re.sub(r"{\w+}", "", part))]
            has_chinese = [any("\u4e00" <= letter <= "\u9fff" for letter in words) for words in own_words]
            assert all(has_chinese) if language == "zh" else not any(has_chinese), (name, language)

    def test_uses_every_text_that_it_has(self, rule: type[Rule]) -> None:
        made = made_by(rule.__module__)
        constants = [
            node.value
            for node in ast.walk(ast.parse(getsource(import_module(rule.__module__))))
            if isinstance(node, ast.Constant)
        ]
        # A name that goes through a variable stands once among the texts and once more where it is chosen.
        unused = [
            name
            for name in rule.texts
            if constants.count(name) < 2 and not any(each.text.fullmatch(name) for each in made)
        ]
        assert unused == []

    def test_has_every_text_that_it_uses(self, rule: type[Rule]) -> None:
        known = {**COMMON_TEXTS, **rule.texts}
        for each in made_by(rule.__module__):
            assert any(each.text.fullmatch(name) for name in known), (each.text.pattern, each.line)

    def test_passes_exactly_the_arguments_of_its_placeholders(self, rule: type[Rule]) -> None:
        for each in made_by(rule.__module__):
            for name in (name for name in rule.texts if re.escape(name) == each.text.pattern):
                wanted = placeholders(*rule.texts[name]["en"])
                assert each.arguments >= {"**"} or each.arguments == wanted, (name, each.line)

    def test_drives_every_text_in_its_tests(self, rule: type[Rule]) -> None:
        """A test names the text, or the words with which its message begins or ends."""
        module = rule.__module__.rpartition(".")[2]
        source = (Path(__file__).parent / f"test_{module}.py").read_text("utf-8")
        source = re.sub(r'"\s*f?"', "", source)  # a sentence over several lines is one
        missing = [
            name
            for name, by_language in rule.texts.items()
            if not re.search(rf"""["']{re.escape(name)}( @|["':])""", source)
            and max(re.split(r"{\w+}", by_language["en"][0]), key=len)[:25] not in source
        ]
        assert missing == []


def test_all_rule_types_of_the_first_stage_are_there() -> None:
    first = {"setPriorityClass", "setNodeAffinity", "requestRDMA", "setStorageClass", "limitAcceleratorCount"}
    assert first <= set(TYPES)


def test_two_rule_types_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever came last would win without a word, and with it another rule would run than the policy names."""
    twin = ModuleType("twin_of_set_fields")
    vars(twin)["SetFields"] = type("SetFields", (ValidatingRule,), {"type": "setFields"})
    monkeypatch.setitem(sys.modules, twin.__name__, twin)
    found = [*pkgutil.iter_modules(rules.__path__, "webhook.rules."), SimpleNamespace(name=twin.__name__)]
    monkeypatch.setattr(pkgutil, "iter_modules", lambda *_: found)
    with pytest.raises(RuntimeError, match=r"^two rule types are called setFields$"):
        rule_types.__wrapped__()


def test_a_rule_verifies_no_more_than_what_it_would_still_write_unless_it_says_so() -> None:
    rule = TYPES["addSharedMemory"].model_validate({"sizeLimit": "1Gi"})
    assert isinstance(rule, MutatingRule)
    assert list(rule.verify(cast("Subject", SimpleNamespace()))) == []
