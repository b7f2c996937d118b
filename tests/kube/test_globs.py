import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.kube.globs import glob_matches

NO_MATCH = {
    "a star stops at a slash": ("registry.local/*/train:*", "registry.local/a/b/evil/train:1"),
    "a point is a point": ("registry.local/*", "registryxlocal/a"),
    "another host": ("registry.local/*/train:*", "registry.local.evil.com/a/train:1"),
    "case matters": ("registry.local/*", "REGISTRY.LOCAL/a"),
    "a name is not a prefix": ("nvidia.com/gpu", "nvidia.com/gpumem"),
    "nor a suffix": ("gpu", "nvidia.com/gpu"),
    "a star alone is one part": ("*", "nvidia.com/gpu"),
    "parts are counted": ("rdma/*", "rdma"),
    "the ends may not overlap": ("ab*bc", "abc"),
    "the pieces keep their order": ("a*c*b*d", "abcd"),
    "the middle may not reach into the end": ("a*bc*c", "abc"),
    "a question mark is itself": ("a?", "ab"),
    "brackets are themselves": ("[ab]*", "a"),
    "the end of a line is a character": ("a", "a\n"),
    "empty pattern": ("", "a"),
    "empty text": ("a*", ""),
}
MATCH = {
    "plain": ("team-a", "team-a"),
    "prefix": ("team-*", "team-vision"),
    "nothing for a star": ("team-*", "team-"),
    "suffix": ("*-memory", "Ascend910B3-memory"),
    "middle": ("nvidia.com/mig-*gb", "nvidia.com/mig-1g.5gb"),
    "two stars": ("a*b*c", "a-b-b-c"),
    "two stars together": ("a**c", "abc"),
    "a star in each part": ("*/*", "nvidia.com/gpu"),
    "image": ("registry.local/*/train:*", "registry.local/a/train:1"),
    "absolute path": ("/dev/nvidia*", "/dev/nvidia0"),
    "line ends and other odd text": ("a*b", "a\n\u0661b"),
    "empty": ("", ""),
    "star and empty": ("*", ""),
}


@pytest.mark.parametrize(("pattern", "text"), NO_MATCH.values(), ids=NO_MATCH)
def test_does_not_match(pattern: str, text: str) -> None:
    assert glob_matches(pattern, text) is False


@pytest.mark.parametrize(("pattern", "text"), MATCH.values(), ids=MATCH)
def test_matches(pattern: str, text: str) -> None:
    assert glob_matches(pattern, text) is True


@given(st.text("ab/*.", max_size=8), st.text("ab/.", max_size=10))
def test_agrees_with_a_regular_expression(pattern: str, text: str) -> None:
    expression = "".join("[^/]*" if character == "*" else re.escape(character) for character in pattern)
    assert glob_matches(pattern, text) == bool(re.fullmatch(expression, text, re.DOTALL))


@pytest.mark.timed
def test_a_pattern_that_would_backtrack_is_quick() -> None:
    start = time.thread_time()
    assert not glob_matches("a*" * 30 + "b", "a" * 100_000)
    assert time.thread_time() - start < 1
