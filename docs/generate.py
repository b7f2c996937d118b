# A folder of pages is no package.
# ruff: noqa: INP001
"""Write what the documents take from the code: the rule catalogue in both languages, and the outputs in the quickstart.

Run as `python -m docs.generate` at the top of the repository.
"""

import inspect
import os
import re
import textwrap
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from docs.console import refreshed
from webhook.cli.folders import read_folders
from webhook.documents import Document, read_documents
from webhook.documents.schema import Schema
from webhook.facts.pools import Toleration
from webhook.kube.draft import Replace
from webhook.rules import MutatingRule, Rule, rule_types
from webhook.rules.base import COMMON_TEXTS, Texts
from webhook.rules.parameters import AmountParameter, BytesParameter, RequirementParameter
from webhook.rules.set_fields import FieldValue

ROOT = Path(__file__).parent.parent
PAGES = {"en": "docs/rules.md", "zh": "docs/zh/rules.md"}
QUICKSTARTS = ("docs/quickstart.md", "docs/zh/quickstart.md")
TRANSLATIONS = "docs/zh/rules.yaml"
EXAMPLES = "docs/examples"

_AMOUNTS = {
    get_args(kind)[1].func: word for kind, word in ((AmountParameter, "amount"), (BytesParameter, "bytes"))
}
_LEAVES: dict[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    Fraction: "ratio",
    Replace: "replace",
    FieldValue: "value",
    Toleration: "toleration",
    RequirementParameter: "requirement",
}
_ATTRIBUTE = re.compile(r"^    (\w+): ", re.MULTILINE)

WORDS = {
    "en": {
        "title": "Rules",
        "intro": (
            "A rule of a policy has one of these types. What stands around a rule is in [language.md](language.md).\n"
            "`python -m docs.generate` writes this page from the rule types themselves."
        ),
        "index": "| rule | | what it does |",
        "sets": "sets",
        "judges": "judges",
        "every": "What every rule has",
        "every intro": (
            "Beside its type, every rule has a `name`, and may have a `message` and a `remediation` of its own, which are shown\n"
            "in place of the type's where the rule is violated. A rule that sets fields may have `verify`. Any rule may say:"
        ),
        "scope": "Acts on {} at {}.",
        "parameters": "| parameter | type | default | what it is |",
        "no parameters": "It has no parameters.",
        "texts": "| what it says | what to do |",
        "example": "From",
        "required": "required",
        "string": "string",
        "boolean": "`true` or `false`",
        "integer": "whole number",
        "ratio": "number, at least 1",
        "replace": "`defaulted`, `never`, `always`, or a list of strings",
        "value": "string, or a map with `fromNamespaceLabel` and `default`",
        "values": "strings, or maps with `fromNamespaceLabel` and `default`",
        "toleration": "toleration",
        "requirement": "requirement",
        "amount": "quantity above zero",
        "bytes": "whole bytes above zero",
        "map": "map",
        "maps": "maps",
        "strings": "strings",
        "integers": "whole numbers",
        "tolerations": "tolerations",
        "requirements": "requirements",
        "list of": "list of {}",
        "lists of": "lists of {}",
        "map of": "map of {}",
        "or": " or ",
        "resources of": "what `resources` names",
    },
    "zh": {
        "title": "规则",
        "intro": (
            "策略中的每条规则属于以下类型之一。规则以外的内容见 [language.md](language.md)。\n"
            "本页由 `python -m docs.generate` 根据规则类型本身生成。"
        ),
        "index": "| 规则 | | 作用 |",
        "sets": "设置",
        "judges": "检查",
        "every": "每条规则共有的内容",
        "every intro": (
            "除类型外，每条规则都有 `name`，还可以有自己的 `message` 和 `remediation`，在违反规则时代替类型自带的文字。\n"
            "设置字段的规则可以有 `verify`。任何规则都可能给出以下文字："
        ),
        "scope": "对象：{}；操作：{}。",
        "parameters": "| 参数 | 类型 | 默认值 | 含义 |",
        "no parameters": "没有参数。",
        "texts": "| 说明 | 处理办法 |",
        "example": "摘自",
        "required": "必填",
        "string": "字符串",
        "boolean": "`true` 或 `false`",
        "integer": "整数",
        "ratio": "数值，至少为 1",
        "replace": "`defaulted`、`never`、`always`，或字符串列表",
        "value": "字符串，或含 `fromNamespaceLabel` 与 `default` 的 map",
        "toleration": "容忍（toleration）",
        "requirement": "节点标签要求",
        "amount": "大于零的数量（quantity）",
        "bytes": "大于零的整数字节数",
        "map": "map",
        "maps": "map",
        "list of": "列表（{}）",
        "lists of": "列表（{}）",
        "map of": "map（{}）",
        "or": " 或 ",
        "resources of": "`resources` 所列的资源",
    },
}


class Row(NamedTuple):
    """A line of a table of parameters."""

    name: str
    type: str
    default: str
    text: str


class Page:
    """The catalogue in one language.

    Attributes:
        translated: texts of docstrings that stand in the page in its language.
        untranslated: texts of docstrings that the language has no translation for.
    """

    def __init__(self, language: str) -> None:
        self.language = language
        self.words = WORDS[language]
        self.translated: list[str] = []
        self.untranslated: list[str] = []
        self._translations = translations() if language != "en" else None

    def render(self) -> str:
        """The whole page."""
        types = rule_types()
        parts = [f"# {self.words['title']}", self.words["intro"], "\n".join(self._index(types))]
        parts += [f"## {self.words['every']}", self.words["every intro"], self._texts(COMMON_TEXTS)]
        for name, rule in types.items():
            parts += self._rule(name, rule)
        return "\n\n".join(parts) + "\n"

    def _index(self, types: dict[str, type[Rule]]) -> Iterator[str]:
        yield self.words["index"]
        yield "|---|---|---|"
        for name, rule in types.items():
            does = self.words["sets" if issubclass(rule, MutatingRule) else "judges"]
            yield f"| [`{name}`](#{name.lower()}) | {does} | {self._said(_summary(rule))} |"

    def _rule(self, name: str, rule: type[Rule]) -> Iterator[str]:
        yield f"## {name}"
        for paragraph in _paragraphs(rule):
            yield self._said(paragraph)
        yield self._scope(rule)
        rows = list(self._rows(rule, ""))
        if rows:
            lines = [self.words["parameters"], "|---|---|---|---|"]
            yield "\n".join([*lines, *(f"| `{r.name}` | {r.type} | {r.default} | {r.text} |" for r in rows)])
        else:
            yield self.words["no parameters"]
        yield from self._example(name)
        yield self._texts(rule.texts)

    def _scope(self, rule: type[Rule]) -> str:
        acts_on = ", ".join(f"`{resource}`" for resource in rule.acts_on)
        if "resources" in rule.model_fields:
            acts_on = self.words["resources of"]
        may_update = not issubclass(rule, MutatingRule) and "persistentvolumeclaims" not in rule.acts_on
        operations = self.words["or"].join(["`CREATE`", "`UPDATE`"] if may_update else ["`CREATE`"])
        return self.words["scope"].format(acts_on, operations)

    def _rows(self, model: type[Schema], base: str) -> Iterator[Row]:
        described = attributes(model)
        for name, field in model.model_fields.items():
            path = f"{base}{field.alias or name}"
            text = self._said(described[name])
            yield Row(path, self._field_type(field), self._default(field), text)
            inner, infix = _inner_model(field.annotation)
            if inner is not None:
                yield from self._rows(inner, f"{path}{infix}.")

    def _field_type(self, field: FieldInfo) -> str:
        for item in field.metadata:
            amount = _AMOUNTS.get(getattr(item, "func", None))
            if amount:
                return self.words[amount]
        bound = next((f" ≥ {item.ge}" for item in field.metadata if hasattr(item, "ge")), "")
        return self._type(field.annotation) + bound

    def _type(self, kind: Any, *, many: bool = False) -> str:
        arguments = [each for each in get_args(kind) if each is not type(None)]
        if kind in _LEAVES:
            word = _LEAVES[kind]
            return self.words[f"{word}s" if many and f"{word}s" in self.words else word]
        if get_origin(kind) is Literal:
            return ", ".join(f"`{each}`" for each in arguments)
        if get_origin(kind) is tuple:
            return self.words["lists of" if many else "list of"].format(self._type(arguments[0], many=True))
        if get_origin(kind) is dict:
            return self.words["map of"].format(self._type(arguments[1], many=True))
        if arguments:
            return self._type(arguments[0], many=many)
        return self.words["maps" if many else "map"]

    def _default(self, field: FieldInfo) -> str:
        if field.is_required():
            return self.words["required"]
        value = field.default
        if isinstance(value, Replace):
            return f"`{value.when}`"
        if isinstance(value, tuple) and value:
            return f"`[{', '.join(map(_quoted, value))}]`"
        if isinstance(value, bool):
            return f"`{str(value).lower()}`"
        return f"`{value}`" if value not in (None, "", (), {}) else ""

    def _texts(self, texts: Texts) -> str:
        lines = [self.words["texts"], "|---|---|"]
        lines += [
            f"| {said} | {remedy} |" for said, remedy in (each[self.language] for each in texts.values())
        ]
        return "\n".join(lines)

    def _example(self, name: str) -> Iterator[str]:
        """The first rule of the type in the shipped policies, else in the examples."""
        for file in example_files():
            for document in read_documents(file.read_bytes(), file.name, strict=True).documents:
                for text in rules_of_type(document, name, file.read_text(encoding="utf-8")):
                    place = file.relative_to(ROOT).as_posix()
                    link = os.path.relpath(file, (ROOT / PAGES[self.language]).parent)
                    yield f"{self.words['example']} [{place}]({link})"
                    yield f"```yaml\n{text}\n```"
                    return

    def _said(self, text: str) -> str:
        if self._translations is None:
            return text
        (self.translated if text in self._translations else self.untranslated).append(text)
        return self._translations.get(text, text)


def example_files() -> list[Path]:
    """The files of policies from which rules are shown, the shipped ones first."""
    folders = (ROOT / "policies", ROOT / EXAMPLES)
    return [Path(name) for folder in folders for name, _ in read_folders([folder])]


def attributes(model: type[Schema]) -> dict[str, str]:
    """The texts of a schema's `Attributes:` by the name of the field."""
    section = (inspect.getdoc(model) or "").partition("Attributes:\n")[2]
    parts = _ATTRIBUTE.split(section)[1:]
    return {name: _sentence(text) for name, text in zip(parts[::2], parts[1::2], strict=True)}


def rules_of_type(document: Document, name: str, text: str) -> Iterator[str]:
    """The rules of one type in a policy, as they are written."""
    rules = document.value["spec"].get("rules", []) if document.value["kind"] == "PodPolicy" else []
    lines = text.splitlines()
    starts = [document.locate(("spec", "rules", index)).line - 1 for index in range(len(rules))]
    for rule, start, end in zip(rules, starts, [*starts[1:], len(lines)], strict=False):
        if name in rule:
            kept = [line for line in lines[start:end] if not line.startswith(("---", "#"))]
            yield textwrap.dedent("\n".join(kept)).rstrip()


def _summary(rule: type[Rule]) -> str:
    """The first line of the type's module, without the name."""
    text = inspect.getdoc(inspect.getmodule(rule)) or ""
    return text.partition("\n")[0].partition(": ")[2].rstrip(".")


def _paragraphs(rule: type[Rule]) -> list[str]:
    text = (inspect.getdoc(rule) or "").partition("Attributes:\n")[0]
    return [_sentence(part) for part in text.split("\n\n") if part.strip()]


def _sentence(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    """As YAML needs it."""
    return text if text.isalnum() else f'"{text}"'


def _inner_model(kind: Any) -> tuple[type[Schema] | None, str]:
    """The schema whose keys are parameters as well, and how a path goes on to them."""
    if isinstance(kind, type) and issubclass(kind, Schema):
        return (None if kind in _LEAVES else kind), ""
    infix = "[]" if get_origin(kind) is tuple else ".*" if get_origin(kind) is dict else ""
    for part in get_args(kind):
        inner, rest = _inner_model(part)
        if inner is not None:
            return inner, infix + rest
    return None, ""


def translations() -> dict[str, str]:
    """The texts of docstrings in Chinese, by the English ones."""
    entries = yaml.safe_load((ROOT / TRANSLATIONS).read_text(encoding="utf-8"))
    return {entry["en"]: entry["zh"] for entry in entries}


def main() -> None:
    """Write the pages."""
    for language, name in PAGES.items():
        (ROOT / name).write_text(Page(language).render(), encoding="utf-8")
    for name in QUICKSTARTS:
        page = ROOT / name
        page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
