"""Maps, lists, aliases, tags and nesting: what is built of nodes, and what is refused."""

import pytest

from webhook.documents import read_documents
from webhook.documents.values import DEEPEST_NESTING, MOST_ALIASED_TEXT, MOST_ALIASED_VALUES, MOST_FINDINGS

Found = list[tuple[tuple[int, int], str]]


def read(text: str, *, strict: bool = False) -> tuple[list[object], Found, Found]:
    """The values, the errors and the warnings."""
    reading = read_documents(text.encode(), "a.yaml", strict=strict)
    errors = [(tuple(p.position or ()), p.message) for p in reading.problems if not p.is_warning]
    warnings = [(tuple(p.position or ()), p.message) for p in reading.problems if p.is_warning]
    return [document.value for document in reading.documents], errors, warnings  # type: ignore[return-value]


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize(
    ("text", "position", "key", "line"),
    [
        pytest.param("a: 1\nb: 2\na: 1\n", (3, 1), "a", 1, id="at the root"),
        pytest.param("x:\n- a: 1\n  b: 2\n  a: 3\n", (4, 3), "a", 2, id="in a list"),
        pytest.param('a: 1\n"a": 2\n', (2, 1), "a", 1, id="quoted and not"),
        pytest.param("---\nz: 1\n---\na: 1\na: 2\n", (5, 1), "a", 4, id="in a later document"),
        pytest.param(
            "b: &b\n  x: 1\nc:\n  <<: *b\n  x: 2\n  x: 3\n", (6, 3), "x", 5, id="beside a merged one"
        ),
        pytest.param('"a\\u0007b": 1\n"a\\u0007b": 2\n', (2, 1), "a\\x07b", 1, id="with a control character"),
    ],
)
def test_a_key_twice(text: str, position: tuple[int, int], key: str, line: int, strict: bool) -> None:
    _, errors, _ = read(text, strict=strict)
    assert errors == [
        (position, f'expected each key once, found "{key}" again, which is on line {line} already')
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("b: &b\n  x: 1\nc:\n  <<: *b\n", {"x": 1}, id="merged"),
        pytest.param("b: &b\n  x: 1\nc:\n  <<: *b\n  x: 9\n", {"x": 9}, id="its own key wins"),
        pytest.param(
            "b: &b\n  x: 1\nd: &d\n  x: 2\n  z: 3\nc:\n  <<: [*b, *d]\n",
            {"x": 1, "z": 3},
            id="the first wins",
        ),
        pytest.param("b: &b\n  x: 1\nc:\n  <<: *b\n  <<: *b\n", {"x": 1}, id="twice"),
        pytest.param(
            "b: &b\n  x: 1\nd: &d\n  <<: *b\nc:\n  <<: *d\n", {"x": 1}, id="merged into what is merged"
        ),
        pytest.param('c:\n  "<<": 1\n', {"<<": 1}, id="quoted, an ordinary key"),
    ],
)
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_merge_keys(text: str, expected: object, strict: bool) -> None:
    (value,), errors, warnings = read(text, strict=strict)
    assert isinstance(value, dict)
    assert (value["c"], errors, warnings) == (expected, [], [])


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_a_merge_key_below_a_key_that_it_has_too(strict: bool) -> None:
    values, errors, warnings = read("b: &b\n  x: 1\nc:\n  x: 9\n  <<: *b\n", strict=strict)
    assert values == ([] if strict else [{"b": {"x": 1}, "c": {"x": 1}}])
    message = 'expected own keys below "<<", found "x" above it, which Kubernetes reads as the merged value'
    assert (errors if strict else warnings) == [((4, 3), message)]


@pytest.mark.parametrize("value", ["3", "[3]", "~", "[[]]"])
def test_a_merge_key_takes_maps_only(value: str) -> None:
    _, errors, _ = read(f"c:\n  <<: {value}\n")
    assert errors == [((2, 7), 'expected a map or a list of maps to merge with "<<", found another value')]


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        pytest.param(
            "a: &a [*a]",
            (1, 4),
            "expected a value that ends, found an alias to a value inside itself",
            id="list",
        ),
        pytest.param(
            "a: &a\n  <<: *a",
            (1, 4),
            "expected a value that ends, found an alias to a value inside itself",
            id="merge",
        ),
        pytest.param(
            "x\n: &a\n  b:\n    c: *a",
            (2, 3),
            "expected a value that ends, found an alias to a value inside itself",
            id="map",
        ),
    ],
)
def test_a_value_inside_itself(text: str, position: tuple[int, int], message: str) -> None:
    assert read(text.replace("x\n:", "x:\n "))[1] == [(position, message)]


def test_aliases() -> None:
    values, errors, warnings = read("a: &a\n  b: [1]\nc: *a\nd: [*a, *a]\ne: &e x\nf: *e\n", strict=True)
    once = {"b": [1]}
    assert values == [{"a": once, "c": once, "d": [once, once], "e": "x", "f": "x"}]
    assert (errors, warnings) == ([], [])


def test_what_is_wrong_with_an_aliased_value_is_said_once() -> None:
    _, _, warnings = read("a: &a [yes]\nb: *a\nc: *a\n")
    assert [position for position, _ in warnings] == [(1, 8)]


def test_aliased_values_are_bounded() -> None:
    head = f"a: &a [{','.join('1' * 1000)}]\n"
    at_most, too_many = (f"{head}b: [{','.join(['*a'] * count)}]" for count in (100, 101))
    assert len(read(at_most)[0]) == 1
    assert read(too_many)[1] == [
        ((1, 4), f"expected aliases for at most {MOST_ALIASED_VALUES} values, found more")
    ]


def test_aliased_text_is_bounded() -> None:
    head = f"a: &a {'x' * (MOST_ALIASED_TEXT // 16)}\n"
    at_most, too_much = (f"{head}b: [{','.join(['*a'] * count)}]" for count in (16, 17))
    assert len(read(at_most)[0]) == 1
    assert read(too_much)[1] == [
        ((1, 1), f"expected aliases for at most {MOST_ALIASED_TEXT} characters, found more")
    ]


@pytest.mark.parametrize(
    ("left", "right"),
    [("[", "]"), ('{"a":', "}"), ("- ", "")],
    ids=["flow lists", "flow maps", "block lists"],
)
def test_nesting_is_bounded(left: str, right: str) -> None:
    deepest, deeper = (left * depth + "1" + right * depth for depth in (DEEPEST_NESTING, DEEPEST_NESTING + 1))
    assert len(read(deepest)[0]) == 1
    ((_, column), message) = read(deeper)[1][0]
    assert message == "expected at most 100 levels of nesting, found more"
    assert column == len(left) * DEEPEST_NESTING + 1


def test_nesting_through_aliases_is_bounded() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, DEEPEST_NESTING + 1))
    assert [message for _, message in read(text)[1]] == ["expected at most 100 levels of nesting, found more"]


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("!!python/object/apply:os.system [x]", "!!python/object/apply:os.system"),
        ("!!python/name:os.system", "!!python/name:os.system"),
        ("!!binary aGk=", "!!binary"),
        ("!!set\n    b:", "!!set"),
        ("!!omap []", "!!omap"),
        ("!Ref x", "!Ref"),
        ("!!str [x]", "!!str"),
        ("!!map x", "!!map"),
        ("!!merge <<", "!!merge"),
        (f"!{'x' * 80} y", f"!{'x' * 59}…"),
    ],
)
def test_tags_that_json_has_not(text: str, shown: str, strict: bool) -> None:
    values, errors, _ = read(f"a: {text}", strict=strict)
    assert values == []
    assert errors == [((1, 4), f'expected a value that JSON has, found the tag "{shown}"')]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!str 12", "12"), ("!!str", ""), ("!!int '12'", 12), ("!!int 0x10", 16), ("!!float 1", 1), ("!!float .5", 0.5),
        ("!!bool 'yes'", True), ("!!null ''", None), ("!!timestamp 2026-01-31", "2026-01-31"), ("!!map {}", {}),
        ("!!seq [1]", [1]),
    ],
)  # fmt: skip
def test_tags_that_json_has(text: str, value: object) -> None:
    assert read(f"a: {text}", strict=True) == ([{"a": value}], [], [])


@pytest.mark.parametrize(
    ("text", "type_name", "found"),
    [
        ('!!float ""', "float", ""),
        ("!!float .inf", "float", ".inf"),
        ("!!int 1.5", "int", "1.5"),
        ("!!int yes", "int", "yes"),
        ("!!bool 1", "bool", "1"),
        ("!!null x", "null", "x"),
    ],
)
def test_tags_that_the_text_does_not_bear_out(text: str, type_name: str, found: str) -> None:
    assert read(f"a: {text}")[1] == [((1, 4), f'expected a value of type {type_name}, found "{found}"')]


FLOW = "expected a block, found a flow map"


def comma(key: str) -> str:
    return f'expected one value, found the key "{key}" without a value: a comma splits text in a flow map'


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        pytest.param("a: {}", [], id="empty map"),
        pytest.param("a: [x, z]\nb: []", [], id="flow lists"),
        pytest.param("a: '{en: x, y}'", [], id="quoted"),
        pytest.param("a: {b: c}", [((1, 4), FLOW)], id="flow map"),
        pytest.param("a: {b: {c: {d: 1}}}", [((1, 4), FLOW)], id="only the outermost"),
        pytest.param("a: [{b: 1}, {b: 2}]", [((1, 5), FLOW), ((1, 13), FLOW)], id="in a list"),
        pytest.param("a: {b: }", [((1, 4), FLOW)], id="an empty value that is meant"),
        pytest.param(
            "t: {en: Use 2 workers, not 16}", [((1, 24), comma("not 16"))], id="a comma in a sentence"
        ),
        pytest.param(
            "t: {en: a, b, zh: c, d}",
            [((1, 12), comma("b")), ((1, 22), comma("d"))],
            id="two commas in sentences",
        ),
        pytest.param("a: {t: {en: x, z}}", [((1, 4), FLOW), ((1, 16), comma("z"))], id="a comma inside"),
    ],
)
def test_flow_maps(text: str, errors: Found) -> None:
    assert read(text, strict=True)[1] == errors
    assert read(text)[1:] == ([], [])


def test_an_error_beyond_many_warnings_is_not_lost() -> None:
    values, errors, warnings = read("- yes\n" * 5_000 + "- .inf\n")
    assert (values, len(warnings), [position for position, _ in errors]) == ([], MOST_FINDINGS, [(5_001, 3)])


def test_reading_ends_after_many_errors() -> None:
    _, errors, _ = read("a: 1\n" * 5_000)
    assert len(errors) == MOST_FINDINGS + 1
