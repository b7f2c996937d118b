"""One look at the cluster: do what is due; in a pause only what the webhook configurations have no part in."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

import structlog

from webhook.controller.certificates import CertificatesError, OwnCertificates
from webhook.policy.pause import CONFIG_MAP, PauseError, parse_pause

if TYPE_CHECKING:
    from webhook.cluster import Api
    from webhook.controller.certificates import Certificates
    from webhook.controller.configurations import Configurations
    from webhook.controller.metrics import Metrics
    from webhook.policy.pause import Pause

log = structlog.get_logger()

#: Steps of the certificates in one look: the longest way, from nothing, has four; the rest are conflicts.
MAX_STEPS = 10


class Result(StrEnum):
    """How a look ended."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    PAUSED = "paused"


class Reconciler:
    """Brings the cluster to what the policies and the clock ask for.

    Args:
        api: The cluster.
        namespace: podgate's own.
        certificates: Where they come from.
        configurations: The webhook configurations.
        metrics: Where the state is shown.
    """

    def __init__(
        self,
        api: Api,
        namespace: str,
        certificates: Certificates,
        configurations: Configurations,
        metrics: Metrics,
    ) -> None:
        self._api = api
        self._pause_path = f"/api/v1/namespaces/{namespace}/configmaps/{CONFIG_MAP}"
        self._certificates = certificates
        self._configurations = configurations
        self._metrics = metrics
        self._paused_until: datetime | None = None
        self._pause_fault = ""

    def reconcile(self) -> Result:
        """Look once.

        Raises:
            ApiError: The cluster did not answer or refused.
            CertificatesError: The certificates given as files cannot be used.
            NotLeaderError: Another may lead by now.
        """
        pause = self._pause()
        self._say_pause(pause)
        try:
            changed = self._bring_about(is_paused=pause is not None)
        finally:
            self._metrics.show_certificates(self._certificates.expiries, self._certificates.phase)
            self._metrics.contested.set(self._configurations.contested)
        if pause is not None:
            return Result.PAUSED
        return Result.CHANGED if changed else Result.UNCHANGED

    def _bring_about(self, *, is_paused: bool) -> bool:
        """Certificates first: a caBundle must be no older than what is served, see `certs.rotate`.

        They are renewed in a pause, too, lest a pause for an emergency end in another: a step of `certs.rotate` that needs a
        caBundle waits for it.
        """
        certificates, changed = self._certificates, False
        for _ in range(MAX_STEPS):
            stored = self._configurations.read()
            if not certificates.step(stored.bundles):
                break
            changed = True
        else:
            return True  # somebody else writes all the time: look again soon
        if is_paused:
            return changed
        if isinstance(certificates, OwnCertificates) and not certificates.bundle:
            raise CertificatesError("there is no CA to put into the webhook configurations")
        return self._configurations.write(stored, certificates.bundle, certificates.annotations) or changed

    def _pause(self) -> Pause | None:
        """The pause in force; one that cannot be read is none, and is said."""
        configmap = self._api.find(self._pause_path)
        if configmap is None:
            return None
        try:
            pause = parse_pause(configmap)
        except PauseError as error:
            if str(error) != self._pause_fault:
                self._pause_fault = str(error)
                log.warning("the pause is not heeded", fault=str(error))
            return None
        return pause if pause.is_in_force(datetime.now(UTC)) else None

    def _say_pause(self, pause: Pause | None) -> None:
        until = pause.until if pause else None
        if until == self._paused_until:
            return
        self._paused_until = until
        if pause is None:
            log.info("the pause is over")
        else:
            log.info(
                "paused: the webhook configurations stay as they are",
                until=pause.until.isoformat(),
                reason=pause.reason,
                by=pause.by,
            )
