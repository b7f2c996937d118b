"""Every write of the controller: checked against the Lease, said in one line of the log, and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog

from webhook.cluster import ApiError
from webhook.controller.objects import mapping

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.cluster import Api

log = structlog.get_logger()

CONFLICT = 409


class Writer:
    """Writes objects by resourceVersion.

    Args:
        api: The cluster.
        check: Called before each write; raises where this process may not write any more.
        count: Called after each write with the object's kind.
    """

    def __init__(self, api: Api, check: Callable[[], None], count: Callable[[str], None]) -> None:
        self._api = api
        self._check = check
        self._count = count

    def store(self, collection: str, body: dict[str, Any], reason: str) -> bool:
        """Create the object, or replace the version of it that was read.

        Args:
            collection: Its path without its name.
            body: The object; with a resourceVersion if it was read.
            reason: For the log.

        Returns:
            False where somebody else was faster: read anew, and think again.

        Raises:
            ApiError: It could not be stored for another reason.
        """
        metadata = mapping(body.get("metadata"))
        self._check()
        try:
            if metadata.get("resourceVersion"):
                self._api.update(f"{collection}/{metadata['name']}", body)
            else:
                self._api.create(collection, body)
        except ApiError as error:
            if error.status == CONFLICT:
                return False
            raise
        kind = str(body.get("kind"))
        self._count(kind)
        log.info("stored", kind=kind, name=metadata.get("name"), reason=reason)
        return True
