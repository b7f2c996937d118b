"""The pause: one ConfigMap that an operator may write with plain kubectl, so that policies only audit for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from webhook.kube.field_path import mapping_at
from webhook.policy.pause import CONFIG_MAP, PauseError, parse_pause
from webhook.watch.follower import Follower
from webhook.watch.resources import Resource

if TYPE_CHECKING:
    from datetime import datetime

    from webhook.cluster import Api
    from webhook.policy.pause import Pause
    from webhook.watch.follower import Count, Spawn
    from webhook.watch.pace import Pace
    from webhook.watch.resources import Object

log = structlog.get_logger()


class PauseWatch:
    """Follows the ConfigMap ``podgate-pause``.

    Args:
        api: The cluster.
        namespace: podgate's own.
        count: Counts requests.
        pace: How often the API server is asked.

    Attributes:
        follower: What follows it.
        fault: What is wrong with the ConfigMap, which is then ignored; "" if nothing is.
    """

    def __init__(
        self, api: Api, namespace: str, count: Count = lambda *_: None, pace: Pace | None = None
    ) -> None:
        # By its name, so that a Role can name it: kubernetes/kubernetes:plugin/pkg/auth/authorizer/rbac grants list and
        # watch of a named object to requests with this selector.
        resource = Resource(
            "ConfigMap",
            f"/api/v1/namespaces/{namespace}/configmaps",
            _kept,
            {"fieldSelector": f"metadata.name={CONFIG_MAP}"},
        )
        self.follower = Follower(api, resource, self._read, count, pace)
        self.fault = ""
        self._seen: Object | None = None
        self._ordered: Pause | None = None
        self._said: Pause | None = None

    def start(self, spawn: Spawn) -> None:
        """Begin to follow.

        Args:
            spawn: ``gevent.spawn``, or what starts a thread.
        """
        self.follower.start(spawn)

    def in_force(self, now: datetime) -> Pause | None:
        """The pause that holds at this moment, None if there is none or it is over."""
        ordered = self._ordered
        return ordered if ordered is not None and ordered.is_in_force(now) else None

    def tell(self, now: datetime) -> None:
        """Log where a pause has begun, changed or ended since the last call."""
        current = self.in_force(now)
        if current == self._said:
            return
        self._said = current
        if current is None:
            log.warning("the pause is over: policies do again what they say")
        else:
            policies = "*" if current.policies is None else ",".join(sorted(current.policies))
            until = f"{current.until:%Y-%m-%dT%H:%M:%SZ}"
            log.warning("paused", policies=policies, until=until, by=current.by, reason=current.reason)

    def _read(self) -> None:
        found = self.follower.objects.get(CONFIG_MAP)
        if found is self._seen:
            return
        self._seen, self._ordered, self.fault = found, None, ""
        if found is None:
            return
        try:
            self._ordered = parse_pause(found)
        except PauseError as error:
            self.fault = str(error)
            log.error("the pause is not understood and ignored", error=self.fault)  # noqa: TRY400  # no bug of ours


def _kept(item: Object) -> Object:
    """Its data, and its metadata, which says when it was written."""
    return {"metadata": mapping_at(item, ("metadata",)), "data": mapping_at(item, ("data",))}
