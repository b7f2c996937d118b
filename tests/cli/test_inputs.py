"""Reading files, folders and stdin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from webhook.cli import inputs
from webhook.cli.inputs import read_inputs


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(*names: str) -> None:
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name, encoding="utf-8")


def names(*paths: str) -> list[str]:
    found = read_inputs(paths)
    assert found.problems == ()
    return [name for name, _ in found.files]


@pytest.mark.usefixtures("folder")
class TestFolders:
    def test_all_manifests_below_in_order(self) -> None:
        write("m/b.yaml", "m/a/z.yml", "m/a/y.json", "m/c.yaml")
        assert names("m") == ["m/a/y.json", "m/a/z.yml", "m/b.yaml", "m/c.yaml"]

    def test_other_and_hidden_files_do_not_count(self) -> None:
        write("m/a.yaml", "m/README.md", "m/.hidden.yaml", "m/.git/x.yaml", "m/yaml")
        assert names("m") == ["m/a.yaml"]

    def test_a_file_that_is_named_counts_whatever_its_name(self) -> None:
        write("m/.hidden", "a.txt")
        assert names("m/.hidden", "a.txt") == ["m/.hidden", "a.txt"]

    def test_a_link_back_is_not_followed(self) -> None:
        write("m/deep/a.yaml")
        Path("m/deep/up").symlink_to(Path("m").resolve())
        assert names("m") == ["m/deep/a.yaml"]

    def test_a_link_elsewhere_is_followed(self) -> None:
        write("m/a.yaml", "other/b.yaml")
        Path("m/link").symlink_to(Path("other").resolve())
        assert names("m") == ["m/a.yaml", "m/link/b.yaml"]

    def test_a_file_counts_once_however_often_it_is_named(self) -> None:
        write("m/a.yaml", "m/b.yaml")
        assert names("m/b.yaml", "m", "./m/../m/b.yaml", str(Path("m").resolve())) == ["m/b.yaml", "m/a.yaml"]

    def test_a_folder_named_like_a_manifest_is_a_folder(self) -> None:
        write("m/charts.yaml/a.yaml")
        assert names("m") == ["m/charts.yaml/a.yaml"]


@pytest.mark.usefixtures("folder")
class TestProblems:
    def problems(self, *paths: str) -> list[str]:
        return [str(problem) for problem in read_inputs(paths).problems]

    def test_what_is_missing_does_not_stop_the_rest(self) -> None:
        write("a.yaml")
        found = read_inputs(["gone.yaml", "a.yaml"])
        assert [name for name, _ in found.files] == ["a.yaml"]
        assert [str(problem) for problem in found.problems] == [
            "gone.yaml: cannot be read: No such file or directory"
        ]

    def test_a_dangling_link(self) -> None:
        write("m/a.yaml")
        Path("m/b.yaml").symlink_to("nowhere")
        assert self.problems("m") == ["m/b.yaml: cannot be read: No such file or directory"]

    def test_a_folder_that_may_not_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(_: Path) -> None:
            raise PermissionError(13, "Permission denied")

        write("m/a.yaml")
        monkeypatch.setattr(Path, "iterdir", refuse)  # root, who may run the tests, may read everything
        assert self.problems("m")[0] == "m: cannot be read: Permission denied"

    def test_an_empty_folder_is_a_warning(self) -> None:
        Path("m").mkdir()
        (problem,) = read_inputs(["m"]).problems
        assert problem.is_warning
        assert str(problem) == (
            "m: there is no manifest in this folder\n"
            "  hint: files named *.yaml, *.yml, *.json count, hidden ones do not"
        )

    def test_a_file_that_is_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write("a.yaml")
        monkeypatch.setattr(inputs, "LARGEST_FILE", 5)
        assert self.problems("a.yaml") == ["a.yaml: larger than 0 MiB\n  hint: split the file"]

    def test_a_name_cannot_forge_a_line(self) -> None:
        assert self.problems("a\nb\x1b[2J") == [
            "a\\u000ab\\u001b[2J: cannot be read: No such file or directory"
        ]

    def test_stdin_that_the_shell_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inputs, "sys", SimpleNamespace(stdin=None))  # pytest puts its own into sys
        assert self.problems("-") == ["<stdin>: cannot be read: it is closed"]

    def test_stdin_that_is_a_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Folder:
            def read(self) -> bytes:
                raise IsADirectoryError(21, "Is a directory")

        monkeypatch.setattr(inputs, "sys", SimpleNamespace(stdin=SimpleNamespace(buffer=Folder())))
        assert self.problems("-") == ["<stdin>: cannot be read: Is a directory"]
