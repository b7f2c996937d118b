"""Inputs made to take time or memory: each is answered within a second, on a megabyte."""

import time
from collections.abc import Callable

import pytest

from webhook.documents import Reading, read_documents

SIZE = 1_000_000
SECONDS = 1.0
INPUTS: dict[str, Callable[[], str]] = {
    "open brackets": lambda: "[" * SIZE,
    "open braces": lambda: '{"a":' * (SIZE // 5),
    "block lists in one another": lambda: "- " * (SIZE // 2),
    "complex keys in one another": lambda: "? " * (SIZE // 2),
    "an open quote": lambda: 'a: "' + "x" * SIZE,
    "digits": lambda: "a: " + "9" * SIZE,
    "decimals": lambda: "a: 0." + "1" * SIZE,
    "hexadecimal digits": lambda: "a: 0x" + "f" * SIZE,
    "underscores": lambda: "a: 1" + "_" * SIZE,
    "an exponent": lambda: "a: 1e" + "9" * SIZE,
    "base 60": lambda: "a: 1" + ":5" * (SIZE // 2) + "x",
    "a date with spaces": lambda: "a: 2026-01-31" + " " * SIZE + "x",
    "backslashes": lambda: '{"a":"' + "\\" * SIZE,
    "surrogate pairs": lambda: '{"a":"' + "\\ud83d\\ude00" * (SIZE // 12) + '"}',
    "halves of surrogate pairs": lambda: '{"a":"' + "\\ud83d" * (SIZE // 6) + '"}',
    "directives": lambda: "%a\n" * (SIZE // 3),
    "a key again and again": lambda: "a: 1\n" * (SIZE // 5),
    "the last key again and again": lambda: (
        "".join(f"k{i}: 1\n" for i in range(30_000)) + "k29999: 1\n" * 30_000
    ),
    "traps": lambda: "- yes\n" * (SIZE // 6),
    "unknown tags": lambda: "- !x y\n" * (SIZE // 7),
    "undefined aliases": lambda: "[" + "*a," * (SIZE // 3),
    "an alias bomb": lambda: (
        "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 90))
    ),
    "an alias bomb of nothing": lambda: (
        "a0: &a0 []\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 90))
    ),
    "a merge bomb": lambda: (
        "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 90))
    ),
    "a long text in many aliases": lambda: f'a: &a "{"x" * 100_000}"\nb: [{"*a," * 200_000}]',
    "a long key in many aliases": lambda: f'a: &a {{"{"x" * 900}": 1}}\nb: [{"*a," * 90_000}]',
    "templates": lambda: "{{ x }}\n" * (SIZE // 8),
    "spaces before a template": lambda: (" " * 1_000 + "\n") * 1_000 + "{{",
    "tabs": lambda: "\t" * SIZE,
    "byte order marks": lambda: "\ufeff" * (SIZE // 3),
    "a comment of spaces": lambda: "# Source: " + " " * SIZE + "\na: 1",
    "a long key": lambda: "k" * SIZE + ": 1",
    "control characters": lambda: "a: \x07\n---\n" * 10_000,
}


@pytest.mark.timed
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
@pytest.mark.parametrize("make", INPUTS.values(), ids=INPUTS.keys())
def test_hostile_inputs_are_bounded(make: Callable[[], str], strict: bool) -> None:
    data = make().encode()
    started = time.process_time()
    reading = read_documents(data, "a.yaml", strict=strict)
    assert time.process_time() - started < SECONDS
    assert_short(reading)


def assert_short(reading: Reading) -> None:
    assert all(len(problem.message) < 400 for problem in reading.problems)


def test_the_garbage_collector_is_left_as_it_was() -> None:
    import gc

    was_enabled = gc.isenabled()
    try:
        for enable in (gc.disable, gc.enable):
            enable()
            before = gc.isenabled()
            (document,) = read_documents(b"a: 1", "a.yaml", strict=False).documents
            document.locate(("a",))
            assert gc.isenabled() is before
    finally:
        (gc.enable if was_enabled else gc.disable)()
