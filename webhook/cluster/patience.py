"""A bound for what may never end: the library waits for a plugin that gives credentials as long as that takes."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

#: A plugin asks a service or reads a file, and takes seconds. One that waits for a person needs a terminal.
PATIENCE_SECONDS = 30.0


class HangingError(Exception):
    """What was to be done has not ended in time, or what was begun earlier has not."""


class Patience:
    """Does what may hang, each time in a thread of its own, and nothing more while one of them hangs.

    So a plugin that never ends is one process, and not one more with each attempt.
    """

    def __init__(self) -> None:
        self._hanging: list[threading.Thread] = []

    def do(self, work: Callable[[], _T]) -> _T:
        """Do it, without a bound where a person sits at the terminal.

        Raises:
            HangingError: It has not ended in time, or an earlier one still goes on.
        """
        if sys.stdout is not None and sys.stdout.isatty():
            return work()
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        if self._hanging:
            raise HangingError
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:  # noqa: BLE001  # raised again, where somebody waits for it
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(PATIENCE_SECONDS)
        if errors:
            raise errors[0]
        if not results:
            self._hanging.append(thread)
            raise HangingError
        return results[0]
