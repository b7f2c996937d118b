"""How long a review may take: what the API server says in ``?timeout=``, less a margin for the way back."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from urllib.parse import parse_qs

#: What a webhook has when nothing is said (kubernetes/api:admissionregistration/v1, timeoutSeconds).
DEFAULT_SECONDS = 10.0
#: The longest the API server waits (the same field's maximum).
MAX_SECONDS = 30.0
#: The part of the time that is ours; the rest is for the network and the queue in front of us.
SHARE = 0.8

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})(ms|us|µs|μs|ns|h|m|s)", re.ASCII)
#: ``1h0m0.000000000s`` is the longest sensible spelling; more is not worth reading.
_MAX_TEXT = 40


class Deadline:
    """Asked between two rules: is the time over? It remembers that it was.

    Args:
        seconds: From now.
    """

    __slots__ = ("_end", "passed")

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self.passed = False

    def __call__(self) -> bool:
        """Whether the time is over."""
        self.passed = self.left <= 0
        return self.passed

    @property
    def left(self) -> float:
        """Seconds until then, negative after it."""
        return self._end - time.monotonic()


@lru_cache(maxsize=32)
def review_seconds(query: str) -> float:
    """Seconds for a review whose URL has this query string; what is not understood counts as not said."""
    timeout = parse_qs(query).get("timeout", [""])[-1] if query else ""
    seconds = duration_seconds(timeout)
    return SHARE * min(seconds or DEFAULT_SECONDS, MAX_SECONDS)


def duration_seconds(text: str) -> float | None:
    """Seconds in a Go duration (``3s``, ``2500ms``, ``1m0.5s``) or a bare number; None if it is neither."""
    text = text.strip()
    if len(text) > _MAX_TEXT:
        return None
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    return float(text) if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text) else None
