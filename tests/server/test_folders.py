"""Which files count, and that links, loops and odd files do no harm."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from webhook.cli import folders
from webhook.cli.folders import POLICY_FILES, FolderError, Which, fingerprint, read_folders
from webhook.cli.inputs import INPUT_FILES

if TYPE_CHECKING:
    from collections.abc import Callable


def files(root: Path) -> list[str]:
    return [os.path.relpath(source, root) for source, _ in read_folders([root])]


def put(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)


def test_what_counts(tmp_path: Path) -> None:
    put(tmp_path, "b.yaml", "a.yml", "sub/c.yaml", "sub/deep/d.yaml")
    put(tmp_path, "a.test.yaml", "a.test.yml", "README.md", "x.json", ".hidden.yaml", ".git/x.yaml", "yaml")
    put(tmp_path, "prerequisites/p.yaml", "sub/prerequisites/deep/p.yaml")
    assert files(tmp_path) == ["a.yml", "b.yaml", "sub/c.yaml", "sub/deep/d.yaml"]


def test_a_file_itself_counts_whatever_its_name(tmp_path: Path) -> None:
    put(tmp_path, "policies.txt")
    assert read_folders([tmp_path / "policies.txt"]) == [(f"{tmp_path}/policies.txt", b"policies.txt")]


def test_a_mounted_config_map_is_read_once(tmp_path: Path) -> None:
    put(tmp_path, "..2026_12_01/a.yaml", "..2026_12_01/sub/b.yaml", "..2026_11_30/old.yaml")
    (tmp_path / "..data").symlink_to("..2026_12_01")
    (tmp_path / "a.yaml").symlink_to("..data/a.yaml")
    (tmp_path / "sub").symlink_to("..data/sub")
    assert files(tmp_path) == ["a.yaml", "sub/b.yaml"]


def test_links_that_lead_back_end(tmp_path: Path) -> None:
    put(tmp_path, "a.yaml", "sub/b.yaml")
    (tmp_path / "sub" / "loop").symlink_to(tmp_path)
    (tmp_path / "sub" / "self.yaml").symlink_to("self.yaml")
    assert files(tmp_path) == ["a.yaml", "sub/b.yaml"]


@pytest.mark.parametrize("name", ["pipe.yaml", "dangling.yaml", "folder.yaml"])
def test_what_is_no_regular_file_is_left_alone(name: str, tmp_path: Path) -> None:
    put(tmp_path, "a.yaml")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "dangling.yaml").symlink_to("nowhere")
    (tmp_path / "folder.yaml").mkdir()
    assert (tmp_path / name).is_symlink() or (tmp_path / name).exists()
    assert files(tmp_path) == ["a.yaml"]


def test_a_file_counts_once_however_often_it_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a.yaml")
    put(tmp_path, "b.yaml")
    named = read_folders([tmp_path / "b.yaml", tmp_path, tmp_path])
    assert [Path(name).name for name, _ in named] == ["b.yaml", "a.yaml"]


def test_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=f"^{tmp_path}/none: cannot be read: No such file or directory$"):
        read_folders([tmp_path / "none"])


def test_a_pipe_as_a_path(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FolderError, match=r"pipe: neither a folder nor a file$"):
        read_folders([tmp_path / "pipe"])


def test_a_file_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a.yaml")
    monkeypatch.setattr(folders, "MAX_FILE", 3)
    with pytest.raises(FolderError, match=r"a\.yaml: larger than 0 MiB: not a file of policies"):
        read_folders([tmp_path])


def test_far_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a.yaml", "b.yaml", "c.yaml")
    monkeypatch.setattr(folders, "MAX_FILES", 2)
    with pytest.raises(FolderError, match="more than 2 YAML files: is this the right folder"):
        read_folders([tmp_path])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    put(tmp_path, "a.yaml")
    (tmp_path / "a.yaml").chmod(0)
    with pytest.raises(FolderError, match=r"a\.yaml: cannot be read: Permission denied"):
        read_folders([tmp_path])


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)  # root, who may run the tests, may read everything
    with pytest.raises(FolderError, match=rf"^{tmp_path}: cannot be read: Permission denied$"):
        read_folders([tmp_path])
    assert fingerprint([tmp_path]) == f"{tmp_path}: cannot be read: Permission denied"


def test_a_file_that_goes_away_while_the_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.yaml")
    before, gone = fingerprint([tmp_path]), tmp_path / "b.yaml"
    monkeypatch.setattr(folders, "_files", lambda *_: [tmp_path / "a.yaml", gone])
    assert fingerprint([tmp_path]) not in (before, None)
    with pytest.raises(FolderError, match=rf"^{gone}: cannot be read: No such file or directory$"):
        read_folders([tmp_path])


def test_the_same_files_have_the_same_fingerprint(tmp_path: Path) -> None:
    put(tmp_path, "a.yaml")
    before = fingerprint([tmp_path])
    put(tmp_path, "a.test.yaml", "prerequisites/p.yaml", "notes.md")
    assert fingerprint([tmp_path]) == before


def rewrite(root: Path) -> None:
    time.sleep(0.02)  # a clock tick: the length and the inode stay
    (root / "a.yaml").write_text("A.yaml")


def swap(root: Path) -> None:
    put(root, "..new/a.yaml")
    (root / "a.yaml").unlink()
    (root / "a.yaml").symlink_to("..new/a.yaml")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda root: put(root, "b.yaml"), id="added"),
        pytest.param(lambda root: (root / "a.yaml").unlink(), id="removed"),
        pytest.param(lambda root: (root / "a.yaml").rename(root / "z.yaml"), id="renamed"),
        pytest.param(lambda root: (root / "a.yaml").write_text("longer than before"), id="another length"),
        pytest.param(rewrite, id="another text"),
        pytest.param(swap, id="a link swapped"),
        pytest.param(lambda root: root.rename(root.with_name("gone")), id="the folder gone"),
    ],
)
def test_a_change_changes_the_fingerprint(change: Callable[[Path], object], tmp_path: Path) -> None:
    root = tmp_path / "policies"
    put(root, "a.yaml")
    before = fingerprint([root])
    change(root)
    assert fingerprint([root]) != before


@pytest.mark.parametrize("name", ["prerequisites/classes.yaml", "cluster.test.yaml", "cluster.json"])
def test_what_is_left_out_of_policies_counts_among_facts(tmp_path: Path, name: str) -> None:
    put(tmp_path, "a.yaml")
    policies, facts = fingerprint([tmp_path]), fingerprint([tmp_path], INPUT_FILES)
    put(tmp_path, name)
    assert fingerprint([tmp_path]) == policies
    assert fingerprint([tmp_path], INPUT_FILES) != facts


@pytest.mark.parametrize("which", [POLICY_FILES, INPUT_FILES], ids=["policies", "facts"])
def test_a_folder_that_goes_away_while_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: Which
) -> None:
    (tmp_path / "below").mkdir()
    stat = Path.stat

    def gone(path: Path, **more: Any) -> os.stat_result:
        if path.name == "below":
            raise FileNotFoundError(2, "No such file or directory")
        return stat(path, **more)

    monkeypatch.setattr(Path, "stat", gone)
    assert fingerprint([tmp_path], which) == f"{tmp_path}/below: cannot be read: No such file or directory"
