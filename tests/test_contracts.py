"""Every public function of the pure packages says in its docstring what it asks for and what it raises.

What can be told from the source is checked here: that there is a docstring, that functions of several parameters name each of
them, that nothing is said of parameters that are not there, and that errors are named, also those that private functions of the
same module raise on the way. What a sentence means is for reviewers.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PURE = (
    "documents", "kube", "expressions", "facts", "rules", "policy", "engine", "admission", "registration", "output",
    "review_tools",
)  # fmt: skip
FILES = sorted(file for package in PURE for file in (ROOT / "webhook" / package).rglob("*.py"))

Function = ast.FunctionDef | ast.AsyncFunctionDef

SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):\n((?:[ \t]+.*\n|\n)*)", re.MULTILINE)
ENTRY = re.compile(r"^    (\w+): *(.*(?:\n {5,}.*)*)", re.MULTILINE)
ELSEWHERE = re.compile(r"See `([\w.]+)`")
"""A method that does what the contract of its base says refers to it."""

SAYS_NOTHING = frozenset({"a", "an", "the", "its", "of", "to", "this", "is", "as"})


class Public(NamedTuple):
    """A public function or method."""

    file: str
    owner: str
    node: Function

    @property
    def docstring(self) -> str:
        return (ast.get_docstring(self.node) or "") + "\n"

    @property
    def parameters(self) -> list[str]:
        """The names of its parameters, less `self` and `cls`."""
        given = self.node.args
        names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
        names += [each.arg for each in (given.vararg, given.kwarg) if each]
        is_bound = self.owner and not {"staticmethod"} & set(decorators(self.node))
        return [name for name in names[1 if is_bound else 0 :] if not name.startswith("_")]

    def entries(self, section: str) -> dict[str, str]:
        """What a section of the docstring says, by name."""
        found: dict[str, str] = dict(SECTION.findall(self.docstring))
        return dict(ENTRY.findall(found.get(section, "")))


def decorators(node: Function) -> list[str]:
    return [ast.unparse(each).partition("(")[0] for each in node.decorator_list]


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def in_body(file: str, owner: str, body: list[ast.stmt]) -> Iterator[Public]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from in_body(file, f"{owner}{node.name}.", node.body)
        elif isinstance(node, Function) and not node.name.startswith("_"):
            yield Public(file, owner, node)


PUBLIC = {
    f"{each.file}:{each.owner}{each.node.name}": each
    for file in FILES
    for each in in_body(str(file.relative_to(ROOT / "webhook")), "", tree(file).body)
}


def test_the_same_packages_are_pure_covered_and_asked_here() -> None:
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    (pure,) = (
        each for each in tools["importlinter"]["contracts"] if each["name"].startswith("the core is pure")
    )
    arguments = (ROOT / "tests" / "pure.args").read_text(encoding="utf-8").splitlines()
    assert set(pure["source_modules"]) == {f"webhook.{package}" for package in PURE}
    assert set(tools["coverage"]["run"]["source"]) == {f"webhook/{package}" for package in PURE}
    assert {f"tests/{package}" for package in PURE} <= set(arguments)


def test_there_are_public_functions_in_every_package() -> None:
    assert {name.partition("/")[0] for name in PUBLIC} == set(PURE)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "webhook")))
def test_modules_and_public_classes_have_a_docstring(file: Path) -> None:
    classes = [
        node for node in tree(file).body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    undocumented = [node.name for node in classes if not ast.get_docstring(node)]
    assert (undocumented, bool(ast.get_docstring(tree(file)))) == ([], True)


def test_a_contract_elsewhere_is_there() -> None:
    named = {name: ELSEWHERE.match(function.docstring) for name, function in PUBLIC.items()}
    there = {name.partition(":")[2] for name in PUBLIC}
    assert {name: found[1] for name, found in named.items() if found and found[1] not in there} == {}


NUMBER = re.compile(r"\b(int|float|Quantity|datetime|timedelta)\b")


def numbers_of(node: ast.ClassDef) -> Iterator[str]:
    """The numbers and moments that a class holds and says nothing of, neither in its docstring nor below the field."""
    entries = dict(SECTION.findall((ast.get_docstring(node) or "") + "\n")).get("Attributes", "")
    told = dict(ENTRY.findall(entries))
    for field, below in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and NUMBER.search(ast.unparse(field.annotation)):
            name = ast.unparse(field.target)
            has_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if not (name.startswith("_") or name in told or has_text):
                yield name


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "webhook")))
def test_every_number_says_what_it_counts(file: Path) -> None:
    """The keys of policy files have their text in docs/language.md."""
    nodes = [node for node in tree(file).body if isinstance(node, ast.ClassDef)]
    public = [
        node for node in nodes if not node.name.startswith("_") and "Schema" not in with_bases(node.name)
    ]
    assert {node.name: found for node in public if (found := list(numbers_of(node)))} == {}


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_told(name: str) -> None:
    """One parameter is what the sentence is about; of several, each is named, in Args or between backticks."""
    function = PUBLIC[name]
    assert function.docstring.strip()
    if len(function.parameters) > 1 and not ELSEWHERE.match(function.docstring):
        told = {*function.entries("Args"), *re.findall(r"`(\w+)", function.docstring)}
        assert [parameter for parameter in function.parameters if parameter not in told] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_nothing_is_told_of_a_parameter_that_is_not_there(name: str) -> None:
    function = PUBLIC[name]
    assert set(function.entries("Args")) <= set(function.parameters)


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_told_of_a_parameter_is_more_than_its_name(name: str) -> None:
    for parameter, text in PUBLIC[name].entries("Args").items():
        words = set(re.findall(r"\w+", text.lower())) - SAYS_NOTHING
        assert words - {parameter, *parameter.split("_")}, f"{parameter}: {text}"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_error_is_told(name: str) -> None:
    function = PUBLIC[name]
    if not ELSEWHERE.match(function.docstring):
        told = set(function.entries("Raises"))
        assert [error for error in raised_by(function) if not with_bases(error) & told] == []


# -- what a function raises, by its source


def functions_of(file: str) -> dict[str, Function]:
    """The functions and methods of a module by name; of methods `.name`."""
    found: dict[str, Function] = {}
    for node in tree(ROOT / "webhook" / file).body:
        if isinstance(node, Function):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}": each for each in node.body if isinstance(each, Function)}
    return found


@cache
def classes() -> dict[str, list[str]]:
    """The bases of every class of the pure packages, by name."""
    nodes = [node for file in FILES for node in tree(file).body if isinstance(node, ast.ClassDef)]
    return {node.name: [ast.unparse(base) for base in node.bases] for node in nodes}


@cache
def makers() -> dict[str, str]:
    """What the functions of the pure packages return, by name: some make an error for others to raise."""
    nodes = [node for file in FILES for node in tree(file).body if isinstance(node, Function)]
    return {node.name: ast.unparse(node.returns) for node in nodes if node.returns}


def with_bases(error: str) -> set[str]:
    return {error, *(above for base in classes().get(error, []) for above in with_bases(base))}


def raised_by(function: Public) -> set[str]:
    """The errors that a function lets out: its own, and those of private functions of its module and class."""
    return _raised(function.file, function.owner, function.node, frozenset())


def _raised(file: str, owner: str, node: Function, seen: frozenset[str]) -> set[str]:
    found: set[str] = set()
    known = functions_of(file)
    for each, caught in _reached(node, frozenset()):
        if isinstance(each, ast.Raise):
            raised = {_error(each.exc)} if each.exc else set()
        else:
            called = _called(each, owner)
            if called not in known or called in seen or not called.rpartition(".")[2].startswith("_"):
                continue
            of = f"{called.rpartition('.')[0]}." if "." in called else ""
            raised = _raised(file, of, known[called], seen | {called})
        found |= {error for error in raised if not with_bases(error) & caught}
    return found


def _called(call: ast.Call, owner: str) -> str:
    """The name of what is called, as `functions_of` has it; "" for what is called on another object."""
    if isinstance(call.func, ast.Name):
        return call.func.id
    is_own = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) in {"self", "cls"}
    return f"{owner}{call.func.attr}" if is_own and isinstance(call.func, ast.Attribute) else ""


def _error(expression: ast.expr) -> str:
    name = ast.unparse(expression.func if isinstance(expression, ast.Call) else expression)
    return makers().get(name, name)


def _reached(node: ast.AST, caught: frozenset[str]) -> Iterator[tuple[ast.Raise | ast.Call, frozenset[str]]]:
    """Every raise and call inside, with the errors that are caught around it."""
    if isinstance(node, ast.Raise | ast.Call):
        yield node, caught
    if isinstance(node, ast.Try):
        handled = frozenset(
            name for each in node.handlers for name in re.findall(r"\w+", ast.unparse(each.type or node))
        )
        for part in node.body:
            yield from _reached(part, caught | handled)
        for rest in (*node.handlers, *node.orelse, *node.finalbody):
            yield from _reached(rest, caught)
        return
    for child in ast.iter_child_nodes(node):
        yield from _reached(child, caught)


LETS_OUT: dict[str, tuple[str, set[str]]] = {
    "what is caught": ("try:\n  raise DraftError()\nexcept DraftError: pass", set()),
    "what is caught by its base": ("try:\n  raise TooManyFieldsError()\nexcept DraftError: pass", set()),
    "what is caught as another": ("try:\n  raise KeyError()\nexcept DraftError: pass", {"KeyError"}),
    "the error in place of one that is caught": (
        "try: f()\nexcept KeyError:\n  raise DraftError()",
        {"DraftError"},
    ),
    "what is raised again": ("try: f()\nexcept KeyError:\n  raise", set()),
    "what a function makes": ("raise error_at('', 0, '')", {"ExpressionError"}),
}


@pytest.mark.parametrize("case", LETS_OUT)
def test_what_a_function_lets_out(case: str) -> None:
    body, expected = LETS_OUT[case]
    lines = "".join(f"  {line}\n" for line in body.split("\n"))
    (node,) = ast.parse(f"def f():\n{lines}").body
    assert isinstance(node, ast.FunctionDef)
    assert raised_by(Public("kube/draft.py", "", node)) == expected


def test_what_a_private_method_lets_out() -> None:
    assert "TooManyFieldsError" in raised_by(PUBLIC["kube/draft.py:Draft.set"])


PRAGMA = re.compile(r"# *pragma:.*")
REASONED = re.compile(r"# pragma: no (cover|branch) - \w+( \S+){3,}$")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT / "webhook")))
def test_what_no_test_reaches_has_its_reason_beside_it(file: Path) -> None:
    pragmas = PRAGMA.findall(file.read_text(encoding="utf-8"))
    assert [pragma for pragma in pragmas if not REASONED.match(pragma)] == []
