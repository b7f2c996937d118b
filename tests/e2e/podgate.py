"""`podgate serve` as its own process, as it runs in a cluster: gunicorn, TLS, a certificate for 127.0.0.1."""

from __future__ import annotations

import http.client
import os
import signal
import ssl
import subprocess
import sys
from base64 import b64encode
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import yaml

import certs
from tests.e2e.client import HOST, Json
from tests.e2e.cluster import ROOT
from tests.e2e.waiting import wait_for
from tests.server.running import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

SHIPPED = ROOT / "policies"
SITE = ROOT / "tests" / "e2e" / "site"

START_SECONDS = 30
STOP_SECONDS = 15
CALL_SECONDS = 5
MAIN = "from webhook.cli.main import main; main()"
PROGRAM = (sys.executable, "-P", "-c", MAIN)
SETTLED = (
    sys.executable,
    "-P",
    "-c",
    f"import webhook.server.state as state; state.SETTLE_SECONDS = 0; {MAIN}",
)
"""One whose grace after a start or a change of policies, two minutes, is over at once."""


class Podgate:
    """One replica. It keeps its port and its files when it is stopped and started again.

    Attributes:
        folder: certificates (`tls.crt`, `tls.key`, `ca.crt`, `ca.key`), `facts/` and the log.
        host: where it listens, an address of this machine.
        policies: folders or files; what changes in them is followed.
        facts: the folder of facts; `write_facts` fills it.
        options: more of `podgate serve`.
        program: how it is started: `PROGRAM` or `SETTLED`.
    """

    host = HOST

    def __init__(
        self, folder: Path, policies: Sequence[Path] = (SHIPPED, SITE), options: Sequence[str] = ()
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.policies = list(policies)
        self.options = list(options)
        self.program: Sequence[str] = PROGRAM
        self.facts = folder / "facts"
        self.facts.mkdir(exist_ok=True)
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.new_certificate()

    def new_certificate(self) -> None:
        """A new CA and a pair of it, swapped in one step as the kubelet swaps a Secret."""
        now = datetime.now(UTC)
        ca = certs.new_ca(now=now)
        certs.write_pairs(
            self.folder, ca=ca, serving=certs.serving_pair(ca, names=[HOST, "localhost"], now=now)
        )

    @property
    def url(self) -> str:
        """Where it listens, without a path."""
        return f"https://{self.host}:{self.port}"

    @property
    def ca_bundle(self) -> str:
        """The CA as a webhook configuration holds it."""
        return b64encode((self.folder / "ca.crt").read_bytes()).decode()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that runs."""
        assert self._process is not None, "it was not started"
        return self._process

    def write_facts(self, things: Iterable[Mapping[str, Any]]) -> None:
        """What the cluster has, as `kubectl get -o yaml` prints it; followed within seconds when it runs already."""
        scratch = self.facts / ".cluster.json"
        scratch.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": list(things)}))
        scratch.replace(self.facts / "cluster.json")

    def start(self) -> None:
        """Start, and wait until it is ready."""
        words = ["--bind", f"{self.host}:{self.port}"]
        words += ["--cert", str(self.folder / "tls.crt"), "--key", str(self.folder / "tls.key")]
        words += [word for path in self.policies for word in ("--policies", str(path))]
        if any(self.facts.iterdir()):
            words += ["--facts", str(self.facts)]
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.program, "serve", *words, *self.options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                process_group=0,  # Ctrl-C is for pytest, and `kill` is for all of it
            )
        wait_for(self._is_ready, "podgate is ready", START_SECONDS)

    def stop(self) -> None:
        """SIGTERM, as the kubelet does it; whatever is under way is answered."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"podgate did not stop within {STOP_SECONDS} s: {self._log_path}") from None
        self._process = None

    def kill(self) -> None:
        """SIGKILL for the process and its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._process = None

    def end(self) -> None:
        """After a test, whatever it left: running, frozen or gone."""
        if self._process is not None and self._process.poll() is None:
            self.thaw()
            self.stop()

    def freeze(self) -> None:
        """It hangs: connections are taken by the kernel, and nobody answers. `thaw` ends it."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Go on after `freeze`."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def restart(self) -> None:
        """Stop and start."""
        self.stop()
        self.start()

    def get(self, path: str) -> tuple[int, str]:
        """Code and text of a GET, over TLS that is verified."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=CALL_SECONDS, context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metrics(self) -> str:
        """What Prometheus gets."""
        return self.get("/metrics")[1]

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the series of a metric that have these labels."""
        lines = [line for line in self.metrics().splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        return sum(float(line.rpartition(" ")[2]) for line in lines if all(each in line for each in wanted))

    def log(self) -> str:
        """Everything that it wrote since the first start."""
        return self._log_path.read_text(errors="replace")

    def reviews(self, **wanted: Any) -> list[Json]:
        """The log's lines of reviews that have these values: `namespace`, `kind`, `webhook`, `operation`, `decision`, ..."""
        return [each for each in self._lines() if "decision_id" in each and wanted.items() <= each.items()]

    def _lines(self) -> list[Json]:
        return [orjson.loads(line) for line in self.log().splitlines() if line.startswith("{")]

    @property
    def _log_path(self) -> Path:
        return self.folder / "podgate.log"

    def _is_ready(self) -> bool:
        code = self.process.poll()
        if code is not None:
            raise RuntimeError(
                f"podgate ended with exit code {code}; {self._log_path}:\n{self.log()[-3000:]}"
            )
        try:
            return self.get("/readyz")[0] == 200
        except OSError:
            return False


def write_policies(folder: Path, *documents: Mapping[str, Any]) -> Path:
    """Put policies, overrides or pools into a folder, a file for each name, each written in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    for document in documents:
        name = f"{document['kind'].lower()}-{document['metadata']['name']}.yaml"
        scratch = folder / f".{name}"
        scratch.write_text(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True))
        scratch.replace(folder / name)
    return folder
