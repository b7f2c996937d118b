"""What podgate writes is readable for its owner alone where it is a secret, and goes where the user said."""

from __future__ import annotations

import os
import secrets
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import certs
from webhook.cli import serve
from webhook.cli.main import podgate
from webhook.cli.targets import OutputError, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def nothing_masked() -> Iterator[None]:
    """The widest that a careless environment allows."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("nothing_masked")
def test_certificates_made_by_the_command(tmp_path: Path) -> None:
    folder = tmp_path / "certs.d"
    done = CliRunner().invoke(podgate, ["certs", "--out", str(folder), "--dns", "localhost"])
    assert done.exit_code == 0, done.output
    assert mode(folder) == 0o700
    keys = [path for path in folder.rglob("*.key") if not path.is_symlink()]
    assert {mode(path) for path in keys} == {0o600}
    assert len(keys) == 2
    assert "PRIVATE KEY" not in done.output


@pytest.mark.usefixtures("nothing_masked")
def test_no_key_is_readable_even_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    sync = os.fsync

    def looking(descriptor: int) -> None:
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode):
            folder = next(
                path for path in (tmp_path / "c").iterdir() if path.is_dir() and not path.is_symlink()
            )
            seen.append((stat.S_IMODE(found.st_mode), mode(folder)))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", looking)
    ca = certs.new_ca(now=datetime.now(UTC))
    certs.write_pairs(
        tmp_path / "c", ca=ca, serving=certs.serving_pair(ca, names=["a"], now=datetime.now(UTC))
    )
    assert sorted(seen) == [(0o600, 0o700)] * 2 + [(0o644, 0o700)] * 2


@pytest.mark.usefixtures("nothing_masked")
def test_the_folder_of_shared_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webhook.server.places.temporary_dir", lambda: str(tmp_path))
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", "")
    serve._share_metrics()
    assert [mode(path) for path in tmp_path.iterdir()] == [0o700]


@pytest.mark.usefixtures("nothing_masked")
def test_a_report_is_readable_by_no_more_than_the_old_one_was(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text("old")
    report.chmod(0o600)
    write_file(report, "new")
    assert (mode(report), report.read_text()) == (0o600, "new")


def test_a_report_goes_through_no_link_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody guesses the name of the temporary file."""
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "guessed")
    (tmp_path / ".report.json.guessed").symlink_to(victim)
    with pytest.raises(OutputError, match="File exists"):
        write_file(tmp_path / "report.json", "ours")
    assert victim.read_text() == "theirs"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link away")
@pytest.mark.parametrize(
    ("folder_mode", "owner", "is_followed"),
    [
        pytest.param(0o1777, 12345, False, id="somebody else's in a shared folder"),
        pytest.param(0o1777, os.geteuid(), True, id="our own in a shared folder"),
        pytest.param(0o755, 12345, True, id="somebody else's in a folder of ours"),
    ],
)
def test_whose_links_are_followed(folder_mode: int, owner: int, tmp_path: Path, *, is_followed: bool) -> None:
    victim = tmp_path / "victim"
    victim.write_text("old")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "report.json").symlink_to(victim)
    os.chown(shared / "report.json", owner, owner, follow_symlinks=False)
    shared.chmod(folder_mode)
    if is_followed:
        write_file(shared / "report.json", "new")
    else:
        with pytest.raises(OutputError, match="a link that somebody else made in a shared folder"):
            write_file(shared / "report.json", "new")
    assert victim.read_text() == ("new" if is_followed else "old")
