"""What holds for every value and every text."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from webhook.documents import Document, Path, read_documents


class QuotingDumper(yaml.SafeDumper):
    """Quotes all text: PyYAML leaves unquoted what Kubernetes does not read as text, as in `y`."""


QuotingDumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# Keys that JSON and YAML write on one line: YAML's simple keys end at 1,024 characters.
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
containers = st.lists(json_values, max_size=4) | st.dictionaries(texts, json_values, max_size=4)
DUMPS = {
    "json": json.dumps,
    "json with indentation": lambda value: json.dumps(value, indent="\t"),
    "json with any text": lambda value: json.dumps(value).replace("\\u00e9", "é"),
    "yaml": lambda value: yaml.dump(value, Dumper=QuotingDumper, allow_unicode=True, width=10_000),
    "yaml folded": lambda value: yaml.dump(value, Dumper=QuotingDumper, width=20),
    "yaml flow": lambda value: yaml.dump(value, Dumper=QuotingDumper, default_flow_style=True),
}


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for step, item in entries:
        yield from paths(item, (*path, step))


def same(left: Any, right: Any) -> bool:
    """Equality that tells True from 1, and knows that a whole float is read as the integer of its digits."""
    if isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], item) for key, item in right.items())
    if isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(right, float):
        return not isinstance(left, bool) and float(left) == right
    return type(left) is type(right) and bool(left == right)


def check_places(document: Document, text: str) -> None:
    lines = text.split("\n")
    for path in paths(document.value):
        for key in (False, True):
            line, column = document.locate(path, key=key)
            assert 1 <= line <= len(lines)
            assert 1 <= column <= len(lines[line - 1]) + 1


@pytest.mark.parametrize("dump", DUMPS.values(), ids=DUMPS.keys())
@settings(max_examples=50, deadline=None)
@given(value=containers)
def test_reading_gives_back_what_was_written(dump: Any, value: Any) -> None:
    text = dump(value)
    reading = read_documents(text.encode(), "a.yaml", strict=False)
    assert reading.problems == ()
    (document,) = reading.documents
    assert same(document.value, value)
    check_places(document, text)


@settings(max_examples=50, deadline=None)
@given(value=containers)
def test_plain_yaml_of_our_own_is_no_trap_in_strict_reading(value: Any) -> None:
    text = yaml.dump(value, Dumper=QuotingDumper)
    reading = read_documents(text.encode(), "a.yaml", strict=True)
    assert reading.problems == ()


@settings(max_examples=50, deadline=None)
@given(values=st.lists(containers, min_size=1, max_size=4), broken=st.integers(0, 3))
def test_a_broken_document_anywhere_leaves_the_others(values: list[Any], broken: int) -> None:
    chunks = [yaml.dump(value, Dumper=QuotingDumper) for value in values]
    position = min(broken, len(chunks))
    chunks.insert(position, "a: [\n")
    reading = read_documents("---\n".join(chunks).encode(), "a.yaml", strict=False)
    assert len(reading.problems) == 1
    assert [document.index for document in reading.documents] == [
        i for i in range(len(chunks)) if i != position
    ]
    assert all(same(d.value, value) for d, value in zip(reading.documents, values, strict=True))


yaml_like = st.lists(
    st.sampled_from(
        ["a", "b", ": ", ":", "- ", "\n", "  ", "\t", "{", "}", "[", "]", ", ", "&x ", "*x", "<<", "? ", "| ", "> ", '"', "'",
         "!!int ", "!!float ", "! ", "!x ", "#", "---\n", "...\n", "%YAML 1.1\n", "yes", "017", "1:30", ".inf", "=", "~", "\\",
         "\\ud83d", "\ufeff", "\x07", "\r\n", "\r", "\u2028", "{{", "}}", "é", "😀"]
    ),
    max_size=30,
).map("".join)  # fmt: skip


@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@settings(max_examples=200, deadline=None)
@given(text=yaml_like)
def test_every_text_is_read_or_explained(text: str, strict: bool) -> None:
    reading = read_documents(text.encode(), "a.yaml", strict=strict)
    for problem in reading.problems:
        assert problem.message.isprintable()
        assert problem.hint.isprintable()
        assert len(problem.message) < 400
        assert problem.message.startswith("expected ")
    for document in reading.documents:
        json.dumps(document.value, allow_nan=False)
        check_locatable(document)


def check_locatable(document: Document) -> None:
    for path in paths(document.value):
        assert document.locate(path) >= (1, 1)


@settings(deadline=None)
@given(data=st.binary(max_size=60))
def test_every_byte_string_is_read_or_explained(data: bytes) -> None:
    for problem in read_documents(data, "a.yaml", strict=False).problems:
        assert problem.message.isprintable()
