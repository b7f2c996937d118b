"""A gateway in a process of its own, with a core whose answers a test can steer.

Usage: python standin.py FOLDER PORT_FILE [WORKERS [CONNECTIONS]]

FOLDER holds tls.crt, tls.key and the folder ``policies`` with any number of files; a "policy set" here is their
contents. A review's ``request.name`` says what happens: ``bug`` raises, ``busy-0.2`` computes for 0.2 s.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from webhook.cli.folders import fingerprint, read_folders
from webhook.documents import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from flask import Flask

    from webhook.admission import Answer
    from webhook.server.gateway import Gateway
    from webhook.server.state import Content


@dataclass(frozen=True)
class ExceptionUntil:
    name: str
    expires_at: datetime
    owner: str = "owner"


@dataclass(frozen=True)
class NamedPolicy:
    name: str
    exceptions: tuple[ExceptionUntil, ...] = ()
    mode: str = "enforce"


@dataclass(frozen=True)
class FilePolicies:
    """The contents of all files, as one thing."""

    contents: tuple[str, ...]
    exceptions: Mapping[str, tuple[ExceptionUntil, ...]] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        return "+".join(self.contents)

    @property
    def policies(self) -> tuple[NamedPolicy, ...]:
        return tuple(NamedPolicy(name, self.exceptions.get(name, ())) for name in self.contents)

    def __len__(self) -> int:
        return len(self.contents)


def read_policies(folder: Path) -> Content:
    """A file with the text ``broken`` is an error."""
    from webhook.server.state import Content

    files = read_folders([folder])
    good = tuple(data.decode() for _, data in files if data != b"broken")
    bad = tuple(Problem(source, None, "it is broken") for source, data in files if data == b"broken")
    policy_set: Any = FilePolicies(good)
    facts: Any = None
    return Content(policy_set, facts, bad)


def steered_answer(
    body: bytes, endpoint: Any, *, policy_set: FilePolicies, settled: bool, **_: Any
) -> Answer:
    """An answer that names the policy set it was made with."""
    from webhook.admission import Answer, BadReviewError

    try:
        request = orjson.loads(body)["request"]
        uid = request["uid"]
    except (ValueError, TypeError, KeyError) as error:
        raise BadReviewError("this is no AdmissionReview") from error
    name = request.get("name", "")
    if name == "bug":
        raise RuntimeError(f"cannot take {request['object']}")
    if name.startswith("busy-"):
        end = time.perf_counter() + float(name.removeprefix("busy-"))
        while time.perf_counter() < end:
            pass
    response = {"uid": uid, "allowed": True, "warnings": [policy_set.hash, str(settled)]}
    record = review_record(request, endpoint, policy_set.hash)
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    return Answer(orjson.dumps(review), record)


def review_record(request: dict[str, Any], endpoint: Any, policies: str) -> Any:
    from webhook.admission import ReviewRecord

    return ReviewRecord(
        uid=request["uid"],
        decision_id="d1",
        webhook=endpoint,
        operation=request.get("operation", "CREATE"),
        kind=request.get("kind", {}).get("kind", "Pod"),
        namespace=request.get("namespace", ""),
        name=request.get("name", ""),
        user=request.get("userInfo", {}).get("username", ""),
        dry_run=False,
        decision="allow",
        results=(("gpu-limits", "cap", "pass", "enforce"),),
        changes=(("defaults", "priority", "spec.priorityClassName"),),
        policies=policies,
        warnings=0,
    )


def make_gateway(folder: Path, port_file: Path, workers: int, connections: int) -> Gateway:
    import socket

    from webhook.server.app import create_app
    from webhook.server.gateway import Gateway, Settings
    from webhook.server.logs import configure_logs
    from webhook.server.metrics import Metrics
    from webhook.server.state import ServerState, Sources

    class SteeredGateway(Gateway):
        def load(self) -> Flask:
            self.metrics = Metrics(self.state, self.certificate, self.settings.metrics_dir)
            return create_app(self.state, self.metrics, self.certificate, answer=steered_answer)

    configure_logs("debug")
    policies = folder / "policies"
    sources = Sources(lambda: read_policies(policies), lambda: fingerprint([policies]))
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    settings = Settings(
        listener,
        folder / "tls.crt",
        folder / "tls.key",
        workers=workers,
        connections=connections,
        poll_seconds=0.05,
        metrics_dir=shared_metrics() if workers > 1 else None,
    )
    gateway = SteeredGateway(settings, ServerState(sources, ("en",)))
    temporary = port_file.with_suffix(".tmp")
    temporary.write_text(str(listener.getsockname()[1]))
    temporary.rename(port_file)
    return gateway


def shared_metrics() -> str:
    import os

    return os.environ["PROMETHEUS_MULTIPROC_DIR"]


def main() -> None:
    folder, port_file, *numbers = sys.argv[1:]
    workers, connections = (*map(int, numbers), *(1, 50)[len(numbers) :])
    if workers > 1:
        from webhook.cli.serve import _share_metrics

        _share_metrics()
    make_gateway(Path(folder), Path(port_file), workers, connections).run()


if __name__ == "__main__":
    main()
