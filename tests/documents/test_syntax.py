"""What a text that is no YAML is told."""

import pytest

from webhook.documents import read_documents

NESTING = "expected at most 100 levels of nesting, found more"
TEMPLATE = "expected YAML, found an unrendered Helm template"
TAB = "expected spaces, found a tab: a tab cannot indent YAML"


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        pytest.param("a:\n\tb: 1", (2, 1), TAB, id="a tab"),
        pytest.param("a:\n  b: 1\n  \tc: 1", (3, 3), TAB, id="a tab behind spaces"),
        pytest.param("a: |\n\tx", (2, 1), TAB, id="a tab in a block scalar"),
        pytest.param("a: 1\n---\nb:\n\tc: 1", (4, 1), TAB, id="a tab in a later document"),
        pytest.param("a: @x", (1, 4), 'expected a value, found "@x"', id="a reserved character"),
        pytest.param("a: `x`", (1, 4), 'expected a value, found "`x`"', id="a backtick"),
        pytest.param(
            "a: b: c",
            (1, 5),
            'expected one value on this line, found a second colon at ": c"',
            id="two colons",
        ),
        pytest.param("a: 'x\nb: 1", (1, 4), "expected a closing quote, found none", id="an open quote"),
        pytest.param(
            'a: "x\n---\nb: 1', (1, 4), "expected a closing quote, found none", id="open to the next document"
        ),
        pytest.param(
            "a: *b", (1, 4), 'expected an alias with an anchor above it, found "*b"', id="unknown alias"
        ),
        pytest.param("a: *.txt", (1, 5), None, id="a star that is meant as text"),
        pytest.param(
            "a: &x 1\nb: &x 2", (2, 4), 'expected each anchor once, found "&x 2" again', id="an anchor twice"
        ),
        pytest.param(
            'a: "\\d+"',
            (1, 5),
            'expected a known escape in double quotes, found "\\d+""',
            id="unknown escape",
        ),
        pytest.param(
            "a: 1\n...\nb: 2", (3, 1), 'expected the end of the document, found "b: 2"', id="no separator"
        ),
        pytest.param("[" * 2_000, (1, 1_001), NESTING, id="too deep for the parser"),
        pytest.param("- a\nb: c", (2, 1), None, id="a key beside list items"),
        pytest.param("a: {b: c", (1, 9), None, id="an open bracket"),
        pytest.param(
            "a: x\x07y", (1, 5), "expected text, found the control character U+0007", id="a control character"
        ),
        pytest.param(
            "a\r\nb: \x00", (2, 4), "expected text, found the control character U+0000", id="NUL behind CRLF"
        ),
        pytest.param("a: {{ .x }}", (1, 4), TEMPLATE, id="template as a value"),
        pytest.param("{{- if .x }}\na: 1\n{{- end }}", (1, 1), TEMPLATE, id="template as a line"),
        pytest.param("a:\n  - {{ toYaml . | nindent 4 }}", (2, 5), TEMPLATE, id="template as an item"),
        pytest.param('a: 1\n---\nb:\n  {{ include "x" . }}: 1', (4, 3), TEMPLATE, id="template as a key"),
        pytest.param("a: {{ x }}-{{ y }}", (1, 4), TEMPLATE, id="two templates"),
    ],
)
def test_errors(text: str, position: tuple[int, int], message: str | None) -> None:
    reading = read_documents(text.encode(), "a.yaml", strict=False)
    (problem,) = reading.problems
    assert problem.position == position
    assert not problem.is_warning
    assert problem.hint
    if message is None:
        assert problem.message.startswith("expected ")
        assert ", found " in problem.message
    else:
        assert problem.message == message


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: '{{ .x }}'", id="quoted"),
        pytest.param("a: x-{{ .x }}", id="inside text"),
        pytest.param("a: |\n  {{ .x }}\n  b: {{ .y }}", id="in a block scalar"),
        pytest.param("# {{ .x }}\na: 1", id="in a comment"),
        pytest.param("a: 1\n# {{ .x }}\nb: 2", id="in a later comment"),
    ],
)
def test_templates_in_text_are_text(text: str) -> None:
    reading = read_documents(text.encode(), "a.yaml", strict=True)
    assert (len(reading.documents), reading.problems) == (1, ())


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_a_hint_says_how_to_render(strict: bool) -> None:
    (problem,) = read_documents(b"a: {{ .x }}", "a.yaml", strict=strict).problems
    assert problem.hint == "this looks like an unrendered Helm template: render it with helm template"


def test_an_error_names_the_construct_and_where_it_begins() -> None:
    (problem,) = read_documents(b"x: 1\n---\na:\n  - {b: c\nd: 1\n", "a.yaml", strict=False).problems
    assert str(problem) == (
        "a.yaml:5:2: expected ',' or '}', found \": 1\", while parsing a flow mapping that begins on line 4\n"
        "  hint: check the indentation, the quotes and the brackets on this line and above it"
    )
