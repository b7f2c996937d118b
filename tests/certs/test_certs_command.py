"""`podgate certs`, as its user sees it."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

import certs
from webhook.cli.certs import command

if TYPE_CHECKING:
    from pathlib import Path

SERVICE = ("--service", "podgate", "--namespace", "podgate-system")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_it_says_what_it_made(tmp_path: Path) -> None:
    result = run("--out", tmp_path, *SERVICE, "--ip", "10.0.0.7")
    until = datetime.now(UTC)
    ca = (tmp_path / "ca.crt").read_bytes()
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{tmp_path}/ca.crt: CA, made, valid until {until + timedelta(days=3650):%Y-%m-%d}",
        (
            f"{tmp_path}/tls.crt: for podgate.podgate-system.svc, podgate.podgate-system.svc.cluster.local, "
            f"10.0.0.7, valid until {until + timedelta(days=90):%Y-%m-%d}"
        ),
        f"caBundle: {base64.b64encode(ca).decode()}",
    ]


def test_a_second_run_keeps_the_ca(tmp_path: Path) -> None:
    run("--out", tmp_path, *SERVICE)
    before = certs.read_pair(tmp_path), (tmp_path / "ca.crt").read_bytes()
    result = run("--out", tmp_path, *SERVICE, "--days", "3650")
    assert "CA, kept" in result.output
    assert (tmp_path / "ca.crt").read_bytes() == before[1]
    assert certs.read_pair(tmp_path) != before[0]
    assert certs.problems_of(certs.read_pair(tmp_path), at=datetime.now(UTC), ca=before[1]) == ()


def test_a_ca_that_ends_first_is_made_anew(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    old = certs.new_ca(now=now - timedelta(days=3600))
    certs.write_pairs(tmp_path, ca=old, serving=certs.serving_pair(old, names=["a"], now=now))
    assert "CA, made" in run("--out", tmp_path, *SERVICE).output


def test_check_of_a_good_pair(tmp_path: Path) -> None:
    run("--out", tmp_path, *SERVICE)
    result = run("--check", tmp_path, *SERVICE)
    assert result.exit_code == 0
    assert result.output.startswith(f"{tmp_path}/tls.crt: good, valid until ")
    assert result.output.endswith("(89 days left)\n")


def test_check_speaks_up_a_third_before_the_end(tmp_path: Path) -> None:
    run("--out", tmp_path, *SERVICE, "--days", "29")
    assert run("--check", tmp_path).output.endswith("(28 days left): renew it now\n")


def test_check_lists_every_problem(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ca, other = certs.new_ca(now=now), certs.new_ca(now=now)
    expired = certs.serving_pair(ca, names=["a.b"], now=now - timedelta(days=91))
    certs.write_pairs(tmp_path, ca=other, serving=certs.Pair(expired.certificate, ca.key))
    result = run("--check", tmp_path, "--dns", "c.d")
    assert result.exit_code == 1
    expiry = certs.expiry_of(expired.certificate)
    assert result.output == (
        f"Error: {tmp_path}/tls.crt and tls.key:\n"
        "  - the key does not belong to the certificate\n"
        f"  - it expired on {expiry:%Y-%m-%d %H:%M} UTC\n"
        "  - it is not for c.d, only for a.b\n"
        "  - it is not signed by the CA\n"
        f"Make a new pair: podgate certs --out {tmp_path} …\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say either --out DIR to make certificates or --check DIR to look at them"),
        (
            ["--out", "x", "--check", "x"],
            "say either --out DIR to make certificates or --check DIR to look at them",
        ),
        (["--out", "x"], "a serving certificate needs a name: --service and --namespace, or --dns, or --ip"),
        (["--out", "x", "--service", "a"], "--service and --namespace go together"),
        (["--out", "x", "--dns", "a b"], "'a b' is neither a DNS name nor an IP address"),
    ],
)
def test_usage(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == f"Error: {message}"


def test_a_folder_without_certificates(tmp_path: Path) -> None:
    result = run("--check", tmp_path)
    assert (result.exit_code, result.output) == (
        2,
        f"Error: {tmp_path}/tls.crt: cannot be read: No such file or directory\n",
    )


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("--out", tmp_path / "file" / "sub", *SERVICE)
    assert result.exit_code == 2
    assert result.output == f"Error: {tmp_path}/file/sub: cannot be written: Not a directory\n"
