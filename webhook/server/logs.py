"""Log lines: one JSON object a line, that nobody's text can forge or hide.

Names and users come from whoever sends a request. JSON already escapes quotes and the C0 controls; what a
terminal or a log viewer would still act on (C1 controls, line and paragraph separators, marks that turn or
hide text) is escaped here, too.
"""

from __future__ import annotations

import json
import logging
import os
import re
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import structlog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from webhook.admission import ReviewRecord

#: A line stays below PIPE_BUF (4 KiB on Linux), so that the lines of two workers on one pipe do not mix: five texts
#: of 200 characters and two lists of ten are 3 to 4 KiB, if not most of the characters need an escape.
MAX_TEXT = 200
MAX_LISTED = 10

STDERR = 2

#: Of the last calls that led to an error: enough to find a bug, also in a recursion that has no end.
MAX_FRAMES = 30
MAX_CAUSES = 5

#: DEL and C1; soft hyphen; Arabic letter mark; Mongolian vowel separator; zero-width and direction marks;
#: separators and embeddings; invisible operators and isolates; byte order mark; interlinear marks; tag characters.
_UNSAFE = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def render_line(event: Mapping[str, Any]) -> bytes:
    """One JSON line, without its end; what JSON has no word for is written as text."""
    try:
        line = orjson.dumps(event, default=str)
    except TypeError:  # a lone surrogate or a huge integer: the standard library escapes and writes them
        line = json.dumps(event, default=str).encode()
    if line.isascii() and b"\x7f" not in line:
        return line
    return _UNSAFE.sub(_escaped, line.decode()).encode()


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match.group()).strip('"').replace("\x7f", "\\u007f")


class LostLines:
    """How many lines of this process found no room, and whom to tell of each."""

    def __init__(self) -> None:
        self.count = 0
        self.told: Callable[[], object] = lambda: None

    def add(self) -> None:
        """One more."""
        self.count += 1
        self.told()


LOST = LostLines()


class Lines:
    """Writes lines to stderr.

    One that finds no room (a full disk, a reader that is gone) is counted, and costs no review its answer. By the system's own
    write, which does not mix two lines: a buffer with its lock takes as long again.
    """

    def msg(self, message: bytes) -> None:
        """Write one line."""
        left = message + b"\n"
        try:
            while left:
                left = left[os.write(STDERR, left) :]
        except OSError:
            LOST.add()

    log = debug = info = warn = warning = error = err = critical = exception = fatal = failure = msg


def configure_logs(level: str) -> None:
    """Send our lines, gunicorn's and every library's to stderr, from ``level`` (``info``, …) on."""
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            _stamped,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *_: Lines(),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(handlers=[ForeignLines()], level=number, force=True)


def _stamped(_logger: object, _method: str, event: MutableMapping[str, Any]) -> bytes:
    return render_line({"ts": _now(), "level": event.pop("level"), "event": event.pop("event"), **event})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class ForeignLines(logging.Handler):
    """What libraries log through the standard library, as lines of ours."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; a record that cannot be formatted must not take a request down."""
        try:
            exception = {"exc_info": record.exc_info} if record.exc_info else {}
            structlog.get_logger().log(record.levelno, record.getMessage(), logger=record.name, **exception)
        except Exception:  # noqa: BLE001  # logging's own contract: never raise
            self.handleError(record)


class ReviewLog:
    """Writes the line of each review.

    Not by structlog, whose steps take longer than the line and its write: in a server, where hardly any of them is in the
    processor's caches, a twentieth of a call.
    """

    def __init__(self) -> None:
        self._lines = Lines()

    def __call__(self, record: ReviewRecord, seconds: float) -> None:
        """Write one line; ``seconds`` is what the review took."""
        line = {"ts": _now(), "level": "info", "event": "review", **review_line(record, seconds)}
        self._lines.msg(render_line(line))


def review_line(record: ReviewRecord, seconds: float) -> dict[str, Any]:
    """What is said about one review: who asked for what, what came out, and why; no value of the object."""
    failed = [f"{policy}/{rule}" for policy, rule, result, _ in record.results if result in {"fail", "error"}]
    left = max(0, MAX_LISTED - len(record.changes))  # both lists of changes together are as long as one
    return {
        "uid": _short(record.uid),
        "decision_id": record.decision_id,
        "webhook": str(record.webhook),
        "operation": _short(record.operation),
        "kind": _short(record.kind),
        "namespace": _short(record.namespace),
        "name": _short(record.name),
        "user": _short(record.user),
        "dry_run": record.dry_run,
        "decision": str(record.decision),
        "failed": failed[:MAX_LISTED],
        "changes": [_short(field) for _policy, _rule, field in record.changes[:MAX_LISTED]],
        "would_change": [_short(f"{rule} {field}") for rule, field in record.would_change[:left]],
        "warnings": record.warnings,
        "duration_ms": round(seconds * 1000, 3),
        "policies": record.policies,
    }


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"


def trace_of(error: BaseException) -> str:
    """Where an error of our own comes from, with those that led to it, the first first.

    Types and places only: the text of an error may quote the object under review, and so a secret in it.
    """
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None and len(parts) < MAX_CAUSES:
        places = "".join(traceback.format_tb(current.__traceback__, -MAX_FRAMES))
        parts.append(f"{places}{type(current).__qualname__}")
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n\n".join(reversed(parts))
