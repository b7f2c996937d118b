"""Known vulnerabilities of what requirements.lock names, by pip-audit: ``python -m tests.security.audit``.

pip-audit ends well where its database does not know a package, and badly where there is no network: neither says
anything about the packages. So this ends with 1 for a vulnerability, and says NOT AUDITED of what could not be looked up;
PODGATE_AUDIT=required makes that a failure, too, for where the database can be reached.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parents[2] / "requirements.lock"
COMMAND = (
    *(sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "-r", str(LOCK)),
    *("--format", "json", "--progress-spinner", "off", "--timeout", "5"),
)
SECONDS = 300
"""For some fifty questions of five seconds at most."""

GOOD, BAD = 0, 1


def main() -> int:
    """Look, say what was found, and return the exit code."""
    required = os.environ.get("PODGATE_AUDIT") == "required"
    code, text = verdict(*_ask(), required=required)
    sys.stdout.write(text + "\n")
    return code


def _ask() -> tuple[str, str]:
    try:
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return "", f"no end after {SECONDS} s"
    return done.stdout, (done.stderr.strip().splitlines() or ["no answer"])[-1]


def verdict(answer: str, complaint: str, *, required: bool) -> tuple[int, str]:
    """The exit code and what to say.

    Args:
        answer: what pip-audit wrote as JSON.
        complaint: the last line of what it said besides.
        required: whether it is a failure that something could not be looked up.
    """
    try:
        packages: list[dict[str, Any]] = json.loads(answer)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return int(required), f"NOT AUDITED: pip-audit gave no result: {complaint}"
    unknown = [each["name"] for each in packages if "vulns" not in each]
    flaws = [_flaw(each, flaw) for each in packages for flaw in each.get("vulns", ())]
    if unknown or not packages:
        flaws.append(f"NOT AUDITED: {len(unknown)} of {len(packages)} packages: {', '.join(unknown)}")
        failed = required or len(flaws) > 1
    else:
        failed = bool(flaws)
    return (BAD if failed else GOOD), "\n".join(flaws) or f"{len(packages)} packages, no known vulnerability"


def _flaw(package: dict[str, Any], flaw: dict[str, Any]) -> str:
    mended = ", ".join(flaw.get("fix_versions", ())) or "no version yet"
    return f"{package['name']} {package['version']}: {flaw['id']}, mended in {mended}"


if __name__ == "__main__":
    sys.exit(main())
