"""gunicorn as a library, configured in code: it has no configuration file and no command line of its own."""

from __future__ import annotations

import logging
import logging.config
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import gevent
import structlog
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.glogging import Logger
from prometheus_client.multiprocess import mark_process_dead

from webhook.cluster import Api, ApiError
from webhook.server.app import create_app
from webhook.server.certificate import ServingCertificate
from webhook.server.connections import CONNECTIONS, KEEPALIVE_SECONDS
from webhook.server.live import LiveCluster
from webhook.server.logs import ReviewLog
from webhook.server.metrics import Metrics, count_at
from webhook.server.places import temporary_dir
from webhook.server.reload import POLL_SECONDS, Reloader, follow
from webhook.server.warm_up import warm_up
from webhook.server.worker import KILL_SECONDS, Worker, connection_limit

if TYPE_CHECKING:
    import socket
    from pathlib import Path

    from flask import Flask

    from webhook.server.live import ClusterSettings
    from webhook.server.state import ServerState

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Settings:
    """How to serve, beside what.

    ``listener`` is bound already, so that a port in use is said before anything starts.
    """

    listener: socket.socket
    certificate: Path
    key: Path
    workers: int = 1
    log_reviews: bool = True
    connections: int = CONNECTIONS
    poll_seconds: float = POLL_SECONDS
    metrics_dir: str | None = None
    cluster: ClusterSettings | None = None


class GunicornLog(Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's own lines through the root logger, as JSON; no access log: a review has its line."""

    def setup(self, cfg: Any) -> None:
        """Keep no handler and no level of gunicorn's own."""
        self.cfg = cfg
        self._access_log_enabled = False
        self.error_log.propagate = True
        self.error_log.setLevel(logging.NOTSET)

    def access(self, *_: Any) -> None:
        """Nothing."""

    def reopen_files(self) -> None:
        """Nothing: there are no files."""


class Gateway(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The gunicorn application: the arbiter runs it, each worker makes its Flask application from it.

    Args:
        settings: How to serve.
        state: What to serve; read in the arbiter, shared with the workers by fork.
    """

    def __init__(self, settings: Settings, state: ServerState) -> None:
        self.settings = settings
        self.state = state
        self.certificate = ServingCertificate(settings.certificate, settings.key)
        self.poll_seconds = settings.poll_seconds
        self.metrics: Metrics | None = None
        super().__init__()

    def load_config(self) -> None:
        """Tell gunicorn everything it must know."""
        for name, value in self._options().items():
            self.cfg.set(name, value)

    def _options(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "bind": f"fd://{settings.listener.fileno()}",
            "workers": settings.workers,
            "worker_class": Worker,
            "worker_connections": settings.connections,
            "worker_tmp_dir": temporary_dir(),
            "keepalive": KEEPALIVE_SECONDS,
            "graceful_timeout": KILL_SECONDS,
            "certfile": str(settings.certificate),
            "keyfile": str(settings.key),
            "logger_class": GunicornLog,
            "control_socket_disable": True,
            "proc_name": "podgate",
            "pre_fork": _give_place,
            "post_fork": self._begin_worker,
            "worker_exit": _leave_logs,
            "child_exit": self._forget_worker,
            "on_exit": self._remove_metrics,
        }

    def load(self) -> Flask:
        """A worker's Flask application, made after the fork."""
        self.metrics = Metrics(self.state, self.certificate, self.settings.metrics_dir)
        Reloader(self.state, self.metrics).catch_up()
        # The arbiter's own warm-up is not enough: what is touched first after a fork is copied, page by page.
        warm_up(self.state.content.policy_set, self.state.content.facts)
        if self.settings.cluster is not None:
            self._watch(self.settings.cluster, self.metrics)
        say = ReviewLog() if self.settings.log_reviews else None
        return create_app(self.state, self.metrics, self.certificate, say=say)

    def _watch(self, cluster: ClusterSettings, metrics: Metrics) -> None:
        """Watch the cluster from this worker; the client library is imported only now, when gevent has patched its sockets."""
        try:
            api = Api.connect(cluster.kubeconfig, cluster.context)
        except ApiError as error:
            log.error("the cluster cannot be watched", error=error.message)  # noqa: TRY400  # no bug of ours
            sys.exit(Arbiter.WORKER_BOOT_ERROR)
        live = LiveCluster(
            api,
            cluster.namespace,
            self.state.content,
            metrics.count_api_request,
            connections=connection_limit(self.settings.connections),
        )
        self.state.live = live
        live.start(gevent.spawn)
        gevent.spawn(follow, live.tell, self.poll_seconds)

    def _begin_worker(self, _arbiter: Any, worker: Any) -> None:
        """A worker told to stop while it starts must know it: until its own handlers are set it has the arbiter's."""
        signal.signal(signal.SIGTERM, worker.handle_exit)
        if self.settings.metrics_dir:
            count_at(worker.place)

    def _forget_worker(self, _arbiter: Any, worker: Any) -> None:
        if self.settings.metrics_dir:
            mark_process_dead(worker.place, self.settings.metrics_dir)  # type: ignore[no-untyped-call]

    def _remove_metrics(self, _arbiter: Any) -> None:
        if self.settings.metrics_dir:
            shutil.rmtree(self.settings.metrics_dir, ignore_errors=True)


def _give_place(arbiter: Any, worker: Any) -> None:
    """Number the workers, so that one that replaces another counts where that one did."""
    taken = {other.place for other in arbiter.WORKERS.values()}
    worker.place = next(place for place in count(1) if place not in taken)


def _leave_logs(_arbiter: Any, worker: Any) -> None:
    """Forget a worker's log handlers, also those of libraries, while it can still do so.

    The interpreter's end would do it when gevent's locks are gone, and print a traceback.
    """
    if worker.pid == os.getpid():
        logging.config.dictConfig({"version": 1})
