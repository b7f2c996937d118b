"""Writing results."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from webhook.cli import targets
from webhook.cli.targets import (
    OutputError,
    Target,
    TargetParameter,
    check_targets,
    wants_colour,
    write_file,
)


class Terminal:
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(targets, "sys", SimpleNamespace(stdout=Terminal()))  # pytest puts its own into sys
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return monkeypatch


def test_a_terminal_has_colours(terminal: pytest.MonkeyPatch) -> None:
    assert wants_colour(no_color=False)


def test_not_with_the_option(terminal: pytest.MonkeyPatch) -> None:
    assert not wants_colour(no_color=True)


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_not_where_the_environment_says_so(terminal: pytest.MonkeyPatch, variable: str, value: str) -> None:
    terminal.setenv(variable, value)
    assert not wants_colour(no_color=False)


def test_an_empty_no_color_says_nothing(terminal: pytest.MonkeyPatch) -> None:
    terminal.setenv("NO_COLOR", "")
    assert wants_colour(no_color=False)


def test_not_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert not wants_colour(no_color=False)


def test_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("a longer text", encoding="utf-8")
    write_file(path, "短")
    assert path.read_text(encoding="utf-8") == "短"
    assert os.listdir(tmp_path) == ["report.json"]  # noqa: PTH208 - names are what is asked


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to(tmp_path / "report.json")
    write_file(tmp_path / "link.json", "x")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == "x"


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    write_file(tmp_path / "report.json", "x")
    (tmp_path / "other").write_text("x", encoding="utf-8")
    assert (tmp_path / "report.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write_file(pipe, "x")
    reader.join(timeout=10)
    assert read == ["x"]


def test_a_failure_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.json"
    path.write_text("old", encoding="utf-8")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OutputError, match="No space left on device: the results could not be written"):
        write_file(path, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["report.json"]
    assert path.read_text(encoding="utf-8") == "old"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("json", Target("json", None)),
        ("json=-", Target("json", None)),
        ("json=./-", Target("json", Path("-"))),
        ("table=a=b", Target("table", Path("a=b"))),
    ],
)
def test_where_a_format_goes(given: str, expected: Target) -> None:
    assert TargetParameter().convert(given, None, None) == expected


def test_two_formats_for_stdout_in_two_ways() -> None:
    with pytest.raises(click.UsageError, match="two formats for stdout"):
        check_targets([Target("table", None), TargetParameter().convert("json=-", None, None)])
