"""The command itself: which subcommands there are, and how it ends when something unexpected happens."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli.main import main, podgate

PODGATE = Path(sys.executable).with_name("podgate")
OURS = ("certs", "check", "lint", "serve")
HEAVY = ("pydantic", "cel_expr_python", "flask", "gunicorn", "kubernetes", "gevent")


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PODGATE, *arguments], capture_output=True, text=True, timeout=30, check=False, env=env
    )


def policies(folder: Path) -> str:
    (folder / "limits.yaml").write_text(
        """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: limits
spec:
  mode: enforce
  match:
    all: true
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
""",
        encoding="utf-8",
    )
    return str(folder)


def pods(count: int) -> str:
    one = (
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: m\n"
        "    resources:\n      limits:\n        nvidia.com/gpu: 9\n"
    )
    return one * count


def test_every_module_with_a_command_is_one() -> None:
    result = CliRunner().invoke(podgate, ["--help"])
    listed = re.findall(r"^  (\w+)  ", result.output.split("Commands:")[1], re.MULTILINE)
    assert result.exit_code == 0
    assert set(OURS) <= set(listed)
    assert not {"main", "inputs", "targets", "folders"} & set(listed)


@pytest.mark.parametrize("name", OURS)
def test_each_has_help_with_a_summary(name: str) -> None:
    result = CliRunner().invoke(podgate, [name, "--help"], prog_name="podgate")
    assert result.exit_code == 0
    assert result.output.startswith(f"Usage: podgate {name}")


@pytest.mark.parametrize("name", ["check", "lint"])
def test_exit_codes_are_in_the_help(name: str) -> None:
    assert "Exit codes" in CliRunner().invoke(podgate, [name, "--help"]).output


def test_the_help_imports_nothing_heavy_and_is_fast() -> None:
    script = (
        "import sys, time; start = time.process_time()\n"
        "from webhook.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], time.process_time() - start, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    loaded, seconds = done.stderr.rsplit(" ", 1)
    assert loaded == "[]"
    assert float(seconds) < 0.3


def test_version() -> None:
    assert run("--version").stdout == "podgate 0.1.0\n"


def test_completion_knows_the_commands() -> None:
    done = run(env={"_PODGATE_COMPLETE": "bash_complete", "COMP_WORDS": "podgate ch", "COMP_CWORD": "1"})
    assert done.stdout == "plain,check\n"


def test_what_nobody_expected_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KeyError("nodes\x1b[2J")

    monkeypatch.setattr(import_module("webhook.policy"), "load_policy_set", fail)
    with pytest.raises(SystemExit) as exited:
        main(["lint", str(Path(__file__).parent)])
    assert exited.value.code == 3
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "podgate: internal error (KeyError): please report it, with the input and "
        "what podgate --debug … prints\n"
    )


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("here\x1b[2J")

    monkeypatch.setattr(import_module("webhook.policy"), "load_policy_set", fail)
    result = CliRunner().invoke(podgate, ["--debug", "lint", str(Path(__file__).parent)])
    assert result.exit_code == 3
    assert "in fail\n" in result.stderr
    *_, text, last = result.stderr.splitlines()
    assert text == "RuntimeError: here\\u001b[2J"
    assert last.startswith("podgate: internal error (RuntimeError): ")


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(import_module("webhook.policy"), "load_policy_set", interrupt)
    with pytest.raises(SystemExit) as exited:
        main(["lint", str(Path(__file__).parent)])
    assert exited.value.code == 130
    assert capsys.readouterr().err.strip() == "podgate: interrupted"


def test_a_usage_error_from_the_console_entry(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["lint", "--nonsense", "x"])
    assert exited.value.code == 2
    assert capsys.readouterr().err.endswith("Error: No such option '--nonsense'.\n")


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"]])
def test_a_closed_pipe_is_no_error(arguments: list[str]) -> None:
    with subprocess.Popen([PODGATE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_reader_that_goes_away_leaves_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    manifest = tmp_path / "pods.yaml"
    manifest.write_text(pods(1000), encoding="utf-8")
    command = [str(PODGATE), "check", str(manifest), "--policies", policies(tmp_path / "policies")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"refused" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 1


def test_a_terminal_without_unicode(tmp_path: Path) -> None:
    done = subprocess.run(
        [PODGATE, "check", "-", "--policies", policies(tmp_path), "--languages", "zh"],
        input=pods(1).encode(),
        capture_output=True,
        timeout=30,
        check=False,
        env={"PYTHONIOENCODING": "latin-1"},
    )
    assert done.returncode == 1
    assert b"\\u7533\\u8bf7" in done.stdout
    assert done.stderr == b""


STREAMS = {
    "a full disk": (
        "> /dev/full",
        2,
        "Error: stdout: No space left on device: the results could not be written\n",
    ),
    "stdout is closed": (">&-", 1, ""),
    "stdin is closed": ("<&-", 2, "<stdin>: cannot be read: it is closed\n"),
    "stdin cannot be read": ("0> /dev/null", 2, "<stdin>: cannot be read: Bad file descriptor\n"),
}


@pytest.mark.parametrize("case", STREAMS)
def test_streams_that_fail(case: str, tmp_path: Path) -> None:
    redirection, code, error = STREAMS[case]
    command = f'echo "$1" | "$0" check - --policies "$2" {redirection}'
    done = subprocess.run(
        ["/bin/sh", "-c", command, PODGATE, pods(1), policies(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, error)


def test_a_command_is_imported_only_when_it_is_called_for() -> None:
    script = (
        "import sys\nfrom webhook.cli.main import main\n"
        "try: main(['lint', '--help'])\nexcept SystemExit: pass\n"
        "print('webhook.cli.serve' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stderr == "False\n"
