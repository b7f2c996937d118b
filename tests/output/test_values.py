"""One-line YAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from webhook.output.values import flow

TABLE: dict[str, tuple[Any, str]] = {
    "a word": ("ai-train-high", "ai-train-high"),
    "a resource name": ("nvidia.com/gpu", "nvidia.com/gpu"),
    "a boolean as text": ("true", '"true"'),
    "a boolean of YAML 1.1 as text": ("No", '"No"'),
    "a number as text": ("8", '"8"'),
    "text with a colon": ("a: b", '"a: b"'),
    "text with a line break": ("a\nb", '"a\\nb"'),
    "empty text": ("", '""'),
    "a number": (8, "8"),
    "a boolean": (True, "true"),
    "nothing": (None, "null"),
    "a map": ({"key": "a", "values": ["1", 1]}, '{key: a, values: ["1", 1]}'),
    "an empty map and list": ({"a": {}, "b": []}, "{a: {}, b: []}"),
}


@pytest.mark.parametrize("case", TABLE)
def test_flow(case: str) -> None:
    value, text = TABLE[case]
    assert flow(value) == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abn:{ -\n", max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(JSON.filter(lambda value: not _has_what_pyyaml_refuses(value)))
def test_yaml_reads_what_was_meant(value: Any) -> None:
    assert yaml.safe_load(flow(value)) == value


def _has_what_pyyaml_refuses(value: Any) -> bool:
    """PyYAML takes escapes for surrogates apart and refuses raw control characters, JSON's own 0x7f among them."""
    return any(
        not (character.isprintable() or character in "\n\t") for character in str(value)
    ) or "\\" in repr(value)
