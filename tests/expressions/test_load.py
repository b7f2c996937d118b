"""What is refused at load: the exact message, line, column and hint."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.expressions import ExpressionError, compile_condition, compile_message
from webhook.expressions.faults import compile_error
from webhook.expressions.load import MAX_EXPRESSION_BYTES

VARIABLES = (
    "known are object, oldObject, request, namespaceObject, workload.class, workload.communication, "
    "workload.accelerators, workload.vendor, workload.owner, workload.replicas"
)
WORKLOAD = "known are " + VARIABLES.partition("namespaceObject, ")[2]
FUNCTIONS = (
    "known are acceleratorCount, quantity, charAt, indexOf, lastIndexOf, lowerAscii, split, substring, trim, "
    "upperAscii, contains, startsWith, endsWith, matches, size, has, all, exists, exists_one, map, filter, int, "
    "uint, double, string, bool, type, duration, timestamp, orValue, hasValue, optMap, optFlatMap"
)
LITERAL = "write it out, or loop over a list of literals: an object must not bring its own"
JOIN = "compare with startsWith() and endsWith(), or add numbers as int(a) + int(b)"
GROWTH = "not offered, since it can build strings without bound: compare the parts instead"
MIXED = "write 1.0 instead of 1, or double(x): CEL does not mix int and double"
DEEP = "nested too deeply: CEL allows 32 levels"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("true", id="constant"),
        pytest.param("object.spec.hostNetwork", id="dyn may be a bool"),
        pytest.param("  object.a == 1\n", id="space around"),
        pytest.param("object.metadata.namespace == 'a'", id="namespace as a field"),
        pytest.param("quantity(object.a) > 1.0", id="double with double"),
        pytest.param("acceleratorCount('nvidia.com/*') > 1", id="int with int"),
        pytest.param("object.a.matches('^(a+)+$')", id="a pattern that backtracks elsewhere is linear here"),
        pytest.param("['a', 'b'].exists(p, object.a.contains(p))", id="loop over literals"),
        pytest.param("['^a', 'b$'].exists(p, object.a.matches(p))", id="loop over literal patterns"),
        pytest.param("object.a.matches('a{500}b{0,400}c{100,}')", id="1,000 repetitions"),
        pytest.param("matches(object.a, '^a$')", id="matches as a function"),
        pytest.param("object.l.map(c, c.name).size() > 1", id="map collects with +"),
        pytest.param("object.l.filter(c, c.name != '').size() > 1", id="filter collects with +"),
        pytest.param("object.l.all(c, c.port + 1 < 10)", id="adding a number in a loop"),
        pytest.param("object.a + 'x' == object.b", id="joining outside of a loop"),
        pytest.param("(object.a + 'x').size() > 1 && object.l.all(c, c == 1)", id="joining beside a loop"),
        pytest.param("object.?a.optMap(x, x + 'y').orValue('') == ''", id="optMap runs once"),
        pytest.param("object.?a[?'b'].orValue('') == ''", id="optionals"),
        pytest.param("true // a comment", id="comment"),
        pytest.param("object.image.split('/')[0] == 'registry.local'", id="split"),
        pytest.param("'" + "x" * (MAX_EXPRESSION_BYTES - 8) + "'==''" + " ", id="exactly 4 KiB less one"),
        pytest.param("'" + "x" * (MAX_EXPRESSION_BYTES - 7) + "'==''" + " ", id="exactly 4 KiB"),
    ],
)
def test_a_good_condition_loads(text: str) -> None:
    assert compile_condition(text).text == text


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "hint"),
    [
        pytest.param("", 1, 1, "the expression is empty", "", id="empty"),
        pytest.param(" \n", 1, 1, "the expression is empty", "", id="blank"),
        pytest.param(
            "x" * 4097,
            1,
            1,
            "the expression has 4097 bytes, at most 4096 are allowed",
            "split it into several conditions",
            id="too long",
        ),
        pytest.param(
            "'" + "中" * 1365 + "'",
            1,
            1,
            "the expression has 4097 bytes, at most 4096 are allowed",
            "split it into several conditions",
            id="too long in bytes only",
        ),
        pytest.param(
            "'\ud800' == ''", 1, 2, "the expression is not valid Unicode", "", id="lone surrogate"
        ),
        pytest.param("1 +", 1, 4, "syntax error: unexpected end of the expression", "", id="unfinished"),
        pytest.param(
            "object.l.exists(c, has(c.a)",
            1,
            28,
            "syntax error: missing ')' at the end of the expression",
            "",
            id="missing bracket",
        ),
        pytest.param("true # no", 1, 6, "syntax error: unexpected '#'", "", id="wrong comment"),
        pytest.param("a == 1 b", 1, 8, "syntax error: unexpected 'b'", "", id="two expressions"),
        pytest.param("object.a == 99999999999999999999", 1, 13, "invalid int literal", "", id="huge literal"),
        pytest.param("[" * 40, 1, 1, DEEP, "", id="brackets too deep"),
        pytest.param("1" + "+1" * 200 + " == 1", 1, 1, DEEP, "", id="chain too deep"),
        pytest.param(
            "1", 1, 1, "the expression is int; a condition must be true or false", "", id="not a bool"
        ),
        pytest.param(
            "\n 'a'",
            2,
            2,
            "the expression is string; a condition must be true or false",
            "",
            id="not a bool, on the second line",
        ),
        pytest.param(
            "object.?a",
            1,
            1,
            "the expression is optional_type<dyn>; a condition must be true or false",
            "end it with .orValue(…)",
            id="optional",
        ),
        pytest.param(
            "null", 1, 1, "the expression is null; a condition must be true or false", "", id="null"
        ),
        pytest.param("objct.a == 1", 1, 1, 'unknown variable "objct"', 'did you mean "object"?', id="typo"),
        pytest.param(
            "oldobject.a == 1", 1, 1, 'unknown variable "oldobject"', 'did you mean "oldObject"?', id="case"
        ),
        pytest.param("true &&\n  foo.bar == 1", 2, 3, 'unknown variable "foo"', VARIABLES, id="unknown"),
        pytest.param("'é中😀' == foo", 1, 10, 'unknown variable "foo"', VARIABLES, id="after wide characters"),
        pytest.param(
            "workload.clas == 'x'",
            1,
            1,
            'unknown variable "workload.clas"',
            'did you mean "workload.class"?',
            id="typo in a dotted variable",
        ),
        pytest.param("a.ba.c == 1", 1, 1, 'unknown variable "a"', VARIABLES, id="start of a dotted name"),
        pytest.param("foo . bar == 1", 1, 5, 'unknown variable "foo"', VARIABLES, id="dotted with spaces"),
        pytest.param("true || .foo.bar", 1, 9, 'unknown variable "foo"', VARIABLES, id="dot in front"),
        pytest.param("foo(1) == 1", 1, 1, 'unknown function "foo"', FUNCTIONS, id="function"),
        pytest.param("foo (1) == 1", 1, 5, 'unknown function "foo"', FUNCTIONS, id="function with a space"),
        pytest.param("workload['class'] == 'x'", 1, 1, 'unknown variable "workload"', WORKLOAD, id="as a map"),
        pytest.param(
            "namespace == 'x'",
            1,
            1,
            '"namespace" is a reserved word of CEL',
            "the namespace of the object is namespaceObject",
            id="namespace",
        ),
        pytest.param("true || let", 1, 9, '"let" is a reserved word of CEL', "", id="other reserved word"),
        pytest.param("quantity(object.a) > 1", 1, 20, '">" does not take (double, int)', MIXED, id="double, int"),
        pytest.param("2 <= quantity(object.a)", 1, 3, '"<=" does not take (int, double)', MIXED, id="int, double"),
        pytest.param(
            "1u == 1",
            1,
            4,
            '"==" does not take (uint, int)',
            "convert one side with int(x): CEL does not mix int and uint",
            id="uint, int",
        ),
        pytest.param("workload.class == 1", 1, 16, '"==" does not take (string, int)', "", id="string, int"),
        pytest.param("true ? 1 : 'a'", 1, 6, '"? :" does not take (bool, int, string)', "", id="two types"),
        pytest.param("1 in 2", 1, 3, '"in" does not take (int, int)', "", id="in"),
        pytest.param("quantity(true) > 1.0", 1, 9, '"quantity" does not take (bool)', "", id="function"),
        pytest.param(
            "object.a.lowerascii() == ''",
            1,
            10,
            'unknown function "lowerascii"',
            'did you mean "lowerAscii"?',
            id="typo in a function",
        ),
        pytest.param(
            "object.a.trim(1) == ''",
            1,
            10,
            'function "trim" does not take these arguments',
            "",
            id="number of arguments",
        ),
        pytest.param("object.a.replace('a', 'b') == ''", 1, 10, 'function "replace" is not allowed', GROWTH, id="replace"),
        pytest.param("['a'].join() == ''", 1, 7, 'function "join" is not allowed', GROWTH, id="join"),
        pytest.param("'%s'.format([1]) == ''", 1, 6, 'function "format" is not allowed', GROWTH, id="format"),
        pytest.param(
            "object.a.matches('(')", 1, 18, "invalid regular expression: missing ): (", "", id="pattern"
        ),
        pytest.param(
            "matches(object.a, 'a{1001}')",
            1,
            19,
            "invalid regular expression: invalid repetition size: {1001}",
            "",
            id="pattern in the function form",
        ),
        pytest.param(
            "object.a.matches('a{500}(b{0,400}|c{101,})')",
            1,
            18,
            "the pattern counts more than 1000 repetitions",
            "",
            id="pattern that is written out",
        ),
        pytest.param(
            "true &&\n ['a', '('].exists(p, object.a.matches(p))",
            2,
            8,
            "invalid regular expression: missing ): (",
            "",
            id="pattern in a list",
        ),
        pytest.param(
            "object.a.matches(object.b)", 1, 24, "matches() needs its pattern as a literal", LITERAL, id="its own pattern"
        ),
        pytest.param(
            "object.a.contains(object.b)", 1, 25, "contains() needs its text as a literal", LITERAL, id="its own text"
        ),
        pytest.param(
            "object.l.exists(p, object.a.contains(p))",
            1,
            38,
            "contains() needs its text as a literal",
            LITERAL,
            id="loop over the object",
        ),
        pytest.param(
            "['a', object.b].exists(p, object.a.contains(p))",
            1,
            45,
            "contains() needs its text as a literal",
            LITERAL,
            id="loop over a list that is partly the object's",
        ),
        pytest.param(
            "['a'].exists(p, object.?b.optMap(p, 'x'.contains(p)).orValue(false))",
            1,
            50,
            "contains() needs its text as a literal",
            LITERAL,
            id="optMap hides the variable of the loop",
        ),
        pytest.param(
            "object.l.all(c, c.a + 'x' == '')",
            1,
            21,
            '"+" must not join strings or lists inside a loop',
            JOIN,
            id="join in a loop",
        ),
        pytest.param(
            "object.l.all(c, c.a + c.b == 1)",
            1,
            21,
            '"+" must not join strings or lists inside a loop',
            JOIN,
            id="may join in a loop",
        ),
        pytest.param(
            "[object.a].map(x, x + x).map(x, x + x).size() > 1",
            1,
            21,
            '"+" must not join strings or lists inside a loop',
            JOIN,
            id="doubling",
        ),
        pytest.param(
            "object.l.all(c, bytes(object.a).size() > 1)",
            1,
            22,
            "bytes() must not stand inside a loop",
            "",
            id="bytes in a loop",
        ),
    ],
)  # fmt: skip
def test_a_bad_condition_is_refused(text: str, line: int, column: int, message: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        compile_condition(text)
    error = raised.value
    assert (error.line, error.column, error.message, error.hint) == (line, column, message, hint)
    assert str(error) == f"{line}:{column}: {message}"


def test_an_error_without_a_place_is_shown_by_its_first_line() -> None:
    assert str(compile_error("true", "INTERNAL: odd\nmore")) == "1:1: INTERNAL: odd"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("'a'", id="literal"),
        pytest.param("'name: ' + object.metadata.name", id="joined"),
        pytest.param("string(object.metadata.name)", id="converted"),
    ],
)
def test_a_good_message_loads(text: str) -> None:
    assert compile_message(text).text == text


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        pytest.param("1", "the expression is int; a message must be a string", "", id="int"),
        pytest.param(
            "object.metadata.name",
            "the expression is dyn; a message must be a string",
            "write string(…) around it",
            id="dyn",
        ),
    ],
)
def test_a_bad_message_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        compile_message(text)
    assert (raised.value.message, raised.value.hint) == (message, hint)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("acceleratorCount('a') > 1 && workload.replicas > 1", set(), id="none"),
        pytest.param("object.a == oldObject.a", {"object", "oldObject"}, id="two"),
        pytest.param("request.userInfo.groups.exists(g, g == 'a')", {"request"}, id="in a loop's range"),
        pytest.param("[1].exists(x, has(namespaceObject.a))", {"namespaceObject"}, id="inside of a loop"),
        pytest.param("{'a': object.b}.size() == 1", {"object"}, id="inside of a map"),
    ],
)
def test_only_the_variables_that_are_read_are_named(text: str, names: set[str]) -> None:
    assert compile_condition(text).names == names


@pytest.mark.timed
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(" * 4096, id="brackets"),
        pytest.param("a||" * 1365, id="unfinished chain"),
        pytest.param("$" * 4096, id="no tokens"),
        pytest.param("object.x.matches('" + "a{1000}" * 500 + "')", id="huge pattern"),
        pytest.param("object" + ".map(x,x)" * 400, id="chain of loops"),
    ],
)
def test_a_hostile_text_is_refused_fast(text: str) -> None:
    start = time.thread_time()
    with pytest.raises(ExpressionError) as raised:
        compile_condition(text)
    assert time.thread_time() - start < 1
    assert "\n" not in raised.value.message
    assert len(raised.value.message) < 300


TOKENS = st.sampled_from([
    "object", ".", "a", "(", ")", "[", "]", "==", "+", "&&", "'x'", "1", "1.0", ", ", ".?", ".map(c, ", "c", " ", "\n", "中",
    ".matches(", ".contains(", "workload.class", "quantity(", "{", "}", ":", "?", ".optMap(", "acceleratorCount(", "null",
])  # fmt: skip


@settings(max_examples=300)
@given(st.lists(TOKENS, max_size=25).map("".join) | st.text())
def test_any_text_loads_or_is_refused_at_a_place_inside_of_it(text: str) -> None:
    try:
        condition = compile_condition(text)
    except ExpressionError as error:
        place = (error.line, error.column)
    else:
        assert condition.text == text
        return
    lines = text.split("\n")
    assert 1 <= place[0] <= len(lines)
    assert 1 <= place[1] <= len(lines[place[0] - 1]) + 1
