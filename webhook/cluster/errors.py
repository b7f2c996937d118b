"""What can go wrong with a call, said so that a person knows what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from webhook.kube.plain_text import plain

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

#: Of a message that the API server wrote: more than its refusals have, less than a page of HTML.
LONGEST_MESSAGE = 500
#: The longest `Retry-After` that is taken at its word, in seconds; a larger one is a fault of something in between.
LONGEST_RETRY_AFTER = 3600.0

_HINTS = {
    401: (
        "the credentials were not accepted: they may have expired, belong to another cluster, "
        "or be missing because an exec plugin failed"
    ),
    403: "the user lacks a permission: see the Roles in deploy/, and ask with `kubectl auth can-i`",
}


class ApiError(Exception):
    """A call that failed.

    Attributes:
        status: The HTTP status; 0 where there was no answer, or none that could be read.
        reason: Kubernetes' reason, such as ``NotFound`` or ``Conflict``; "" if it gave none.
        message: Server, call, status, reason, and what to do: one line, fit to be shown.
        retry_after: Seconds to wait, if the server asked for it.
        body: The ``Status`` object, if there was one.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        reason: str = "",
        retry_after: float | None = None,
        body: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.retry_after = retry_after
        self.body = body

    @classmethod
    def of_answer(cls, call: str, status: int, headers: Mapping[str, str], data: bytes) -> Self:
        """An error from an HTTP answer.

        Args:
            call: The server and what was asked of it.
            status: The HTTP status, outside of 200 to 299.
            headers: The answer's.
            data: The answer's body: a ``Status``, or whatever a proxy said.
        """
        body = _status_object(data)
        said = body.get("message") if body else data.decode("utf-8", "replace")
        return cls._of(call, status, body, str(said or ""), _seconds(headers.get("Retry-After")))

    @classmethod
    def of_event(cls, call: str, status_object: Any) -> Self:
        """An error from a watch event of the type ``ERROR``.

        Args:
            call: The server and what was asked of it.
            status_object: The event's object.
        """
        body = status_object if isinstance(status_object, dict) else {}
        code = body.get("code")
        return cls._of(call, code if type(code) is int else 0, body, str(body.get("message") or ""), None)

    @classmethod
    def _of(
        cls, call: str, status: int, body: dict[str, Any] | None, said: str, retry_after: float | None
    ) -> Self:
        reason = str((body or {}).get("reason") or "")
        parts = [
            f"{call}: {status} {plain(reason)}".rstrip(),
            plain(said, LONGEST_MESSAGE),
            _HINTS.get(status),
        ]
        text = "; ".join(part for part in parts if part)
        return cls(text, status=status, reason=reason, retry_after=retry_after, body=body)


def _status_object(data: bytes) -> dict[str, Any] | None:
    try:
        body = orjson.loads(data)
    except ValueError:
        return None
    return body if isinstance(body, dict) and body.get("kind") == "Status" else None


def _seconds(text: str | None) -> float | None:
    """The seconds of a `Retry-After`; the API server never sends a date."""
    if text is None or not text.isascii() or not text.isdigit():
        return None
    return min(float(text), LONGEST_RETRY_AFTER)
