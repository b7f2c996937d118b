"""docs/operations.md, typed from top to bottom by somebody who has nothing else: every command does what the page says."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from base64 import b64decode
from contextlib import ExitStack, closing, suppress
from functools import partial
from typing import TYPE_CHECKING

import orjson
import pytest
import yaml

from tests.e2e.client import HOST, ApiError, Json, path_of
from tests.e2e.cluster import ADMIN, ROOT, Ran
from tests.e2e.deployed import CONTROLLER, NAMESPACE, WEBHOOK, Nodes, endpoint_slice
from tests.e2e.podgate import STOP_SECONDS
from tests.e2e.registration import LATE, LATE_NAME, NAME, PATHS
from tests.e2e.waiting import stays, wait_for
from tests.e2e.workloads import pod
from tests.operations_page import NOT_RUN, PAGE, Command, commands
from tests.server.running import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.e2e.cluster import Cluster
    from tests.e2e.podgate import Podgate

PAUSE = path_of("ConfigMap", NAMESPACE, "podgate-pause")
COMMAND_SECONDS = 120
LOOK_SECONDS = 10
"""Between two looks of the controller."""

UNTIL_STOPPED = ("podgate serve ", "podgate controller --policies ")
"""Commands that begin so run until they are told to stop."""

CODES = {
    "podgate doctor": {1},
    "podgate doctor --policies policies -o json": {
        1
    },  # the shipped pools offer RDMA that the nodes here do not
    "kubectl diff --server-side -k deploy/kustomize/overlays/enforce": {1},  # there are differences
    "podgate bench --policies policies/ --facts facts/ --compare before.json": {
        0,
        1,
    },  # other tests run beside it
}
"""Exit codes other than 0, which is what every other command ends with."""

#: Options by their environment variables, so that the commands are typed as they stand on the page.
CONTROLLER_WAITS = {"PODGATE_CONTROLLER_API_SERVER_LAG": "1", "PODGATE_CONTROLLER_SECRET_SYNC": "2"}
BENCH = {"PODGATE_BENCH_SECONDS": "1"}

PROGRAM = '#!/bin/sh\nexec {python} -P -c "from webhook.cli.main import main; main()" "$@"\n'


class Walk:
    """Somebody at a terminal, at the top of a clone of the repository."""

    def __init__(
        self, cluster: Cluster, namespace: str, folder: Path, nodes: Nodes, stack: ExitStack
    ) -> None:
        self.cluster, self.namespace, self.folder, self.nodes = cluster, namespace, folder, nodes
        self.noted = ""
        self._stack = stack
        self.port, self.health_port = free_port(), free_port()
        for name in ("deploy", "policies"):
            shutil.copytree(ROOT / name, folder / name)
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(cluster.programs.path("kubectl"))
        (programs / "podgate").write_text(PROGRAM.format(python=sys.executable))
        (programs / "podgate").chmod(0o755)
        self.environment = {
            **os.environ,
            **BENCH,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "KUBECONFIG": str(cluster.kubeconfig(ADMIN)),
            "HOME": str(folder),
            "PODGATE_SERVE_BIND": f"0.0.0.0:{self.port}",
            "PODGATE_CONTROLLER_BIND": f"{HOST}:{self.health_port}",
        }

    def type(self, command: str) -> Ran:
        """Run a command line in a shell, until it ends."""
        ran = subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
            cwd=self.folder,
            env=self.environment,
        )
        assert ran.returncode in CODES.get(command, {0}), (
            f"$ {command}\n{ran.returncode}\n{ran.stdout}{ran.stderr}"
        )
        assert "Traceback" not in ran.stderr
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def start(self, command: str) -> Callable[[], int]:
        """Start a command line that does not end by itself; gives what stops it, with the exit code."""
        with (self.folder / "started.log").open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                process_group=0,
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
            )

        def stop() -> int:
            process.terminate()
            return process.wait(STOP_SECONDS)

        self._stack.callback(process.wait)
        self._stack.callback(_kill, process)
        return stop

    def entries(self) -> list[Json]:
        """Our entries, [] where one of the configurations is not there that all policies need."""
        there = [path for path in PATHS if self.cluster.admin.exists(path)]
        if not {PATHS[0], PATHS[-1]} <= set(there):
            return []
        return [entry for path in there for entry in self.cluster.admin.get(path).get("webhooks", ())]

    def asks_late(self) -> bool:
        """Whether podgate is asked once more, after other webhooks."""
        return LATE in {entry["name"] for entry in self.entries()}

    def blocks(self) -> bool:
        """Whether an outage would hold something up."""
        return any(entry["failurePolicy"] == "Fail" for entry in self.entries())

    def refusal(self) -> str:
        """What is said to a pod that no policy allows; "" where it is admitted."""
        try:
            self.cluster.admin.create(pod("greedy", self.namespace, gpus=16), dryRun="All")
        except ApiError as error:
            return error.message
        return ""

    def is_refused(self) -> bool:
        """Whether that pod is refused by a policy."""
        return "16 nvidia.com/gpu asked, at most 8 per pod" in self.refusal()

    def is_admitted(self) -> bool:
        """Whether that pod is admitted."""
        return not self.refusal()

    def signer(self) -> str:
        """The CA of the serving pair."""
        return str(self.cluster.admin.read("Secret", NAMESPACE, "podgate-ca")["data"]["ca.crt"])

    def is_settled(self, before: str) -> bool:
        """Whether another CA than before is the only one that is trusted."""
        bundles = {entry["clientConfig"]["caBundle"] for entry in self.entries()}
        return self.signer() != before and bundles == {self.signer()}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """With its workers, where it still runs."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def walk(cluster: Cluster, namespace: str, scheduler: None, tmp_path: Path) -> Iterator[Walk]:
    """Nodes run what is deployed; nothing of podgate is there before and afterwards."""
    path = path_of("Namespace", name=NAMESPACE)
    cluster.admin.delete(path)
    wait_for(lambda: not cluster.admin.exists(path), "an earlier namespace is gone", 30)
    folder = tmp_path / "podgate"
    folder.mkdir()
    with ExitStack() as stack:
        nodes = stack.enter_context(Nodes(cluster, tmp_path / "nodes", CONTROLLER_WAITS).at_work())
        yield Walk(cluster, namespace, folder, nodes, stack)
        cluster.kubectl("delete", "--ignore-not-found", "-k", str(ROOT / "deploy/kustomize/base"))


def test_every_command_of_the_page(walk: Walk) -> None:
    told = [each for each in commands(PAGE.read_text(encoding="utf-8")) if each.text not in NOT_RUN]
    assert {*FIRST, *THEN} <= set(told), "what is made sure of belongs to a command that is gone"
    for command in told:
        FIRST.get(command, nothing)(walk)
        if command.text.startswith(UNTIL_STOPPED):
            stop = walk.start(command.text)
            wait_for(partial(answers, walk, command.text), f"{command.text} answers", 30)
            assert stop() == 0
        else:
            THEN.get(command, unchecked)(walk, walk.type(command.text))


def answers(walk: Walk, command: str) -> bool:
    """Whether what was started goes on: the server is ready, the controller alive."""
    is_server = " serve " in command
    url = f"https://{HOST}:{walk.port}/readyz" if is_server else f"http://{HOST}:{walk.health_port}/healthz"
    try:
        with urllib.request.urlopen(url, timeout=2, context=unverified()) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def unverified() -> ssl.SSLContext:
    """For one look at a server whose certificate is for other names."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def nothing(walk: Walk) -> None:
    """Before most commands nothing need be done."""


def unchecked(walk: Walk, ran: Ran) -> None:
    """Its exit code says enough."""


def audits(walk: Walk, ran: Ran) -> None:
    """Everything is there, and nothing is refused or held up."""
    wait_for(walk.entries, "the controller makes the configurations", 30)
    wait_for(
        lambda: walk.is_admitted() and '"event":"review"' in walk.nodes.log(WEBHOOK), "podgate is asked", 30
    )
    assert not walk.blocks()
    assert not walk.asks_late()
    assert "podgate_build_info{" in scraped(walk, WEBHOOK, walk.nodes.port)
    assert "podgate_controller_leader " in scraped(walk, CONTROLLER, walk.nodes.health_port)


def scraped(walk: Walk, name: str, port: int) -> str:
    """What Prometheus gets that asks as the PodMonitor says."""
    monitor = yaml.safe_load((ROOT / f"deploy/prometheus/podmonitor-{name}.yaml").read_text())
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    if endpoint.get("scheme") != "https":
        with urllib.request.urlopen(f"http://{HOST}:{port}{endpoint['path']}", timeout=5) as answer:
            return str(answer.read(), "utf-8")
    tls = endpoint["tlsConfig"]
    secret = walk.cluster.admin.read("Secret", NAMESPACE, tls["ca"]["secret"]["name"])["data"]
    context = ssl.create_default_context(cadata=b64decode(secret[tls["ca"]["secret"]["key"]]).decode())
    connection = http.client.HTTPSConnection(HOST, port, timeout=5, context=context)
    connection.sock = context.wrap_socket(
        socket.create_connection((HOST, port), timeout=5), server_hostname=tls["serverName"]
    )
    with closing(connection):
        connection.request("GET", endpoint["path"])
        return str(connection.getresponse().read(), "utf-8")


def finds_one_fault(walk: Walk, ran: Ran) -> None:
    """The nodes here do not offer the RDMA of the shipped pools."""
    found = [(each["check"], each["level"]) for each in orjson.loads(ran.out)["checks"]]
    assert {check for check, level in found if level == "fail"} == {"RDMA"}
    assert {level for _, level in found} == {"ok", "warn", "fail"}
    assert {("certificate", "ok"), ("probe pod", "ok"), ("permissions", "ok"), ("mode", "warn")} <= set(found)


def says_what_would_change(walk: Walk, ran: Ran) -> None:
    changed = [
        line.strip() for line in ran.out.splitlines() if line[:1] in "+-" and line[1:3] not in ("++", "--")
    ]
    assert "-        - --mode=audit" in changed
    assert "+        - --enforce" in changed


def enforces(walk: Walk, ran: Ran) -> None:
    wait_for(walk.is_refused, "the policies refuse", 30)
    wait_for(walk.asks_late, "the late entry is there", 30)
    wait_for(walk.blocks, "Fail is in force", 60)


def goes_back(walk: Walk, ran: Ran) -> None:
    wait_for(walk.is_admitted, "the policies audit", 30)
    wait_for(lambda: not walk.blocks(), "an outage blocks nothing", 30)
    wait_for(lambda: not walk.asks_late(), "the late entry is gone", 30)


def note_the_ca(walk: Walk) -> None:
    walk.noted = walk.signer()


def is_handed_over(walk: Walk, ran: Ran) -> None:
    wait_for(lambda: walk.is_settled(walk.noted), "one new CA is trusted", 60)
    wait_for(walk.is_refused, "podgate answers with a pair of it")


def pauses(walk: Walk, ran: Ran) -> None:
    wait_for(walk.is_admitted, "the pause is in force")


def is_over(walk: Walk, ran: Ran) -> None:
    wait_for(walk.is_refused, "the pause is over")


def hang_with_an_old_pause(walk: Walk) -> None:
    """podgate hangs, so that pods are refused for want of an answer; and a pause that ended long ago stands in the way."""
    data = {"until": "2020-01-01T00:00:00Z"}
    metadata = {"name": "podgate-pause", "namespace": NAMESPACE}
    walk.cluster.admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    wait_for(walk.blocks, "Fail is in force", 60)
    walk.nodes.freeze()
    assert "failed calling webhook" in walk.refusal()


def is_out_of_the_way(walk: Walk, ran: Ran) -> None:
    """At once, and the controller, which runs, does not put it back."""
    wait_for(walk.is_admitted, "nobody asks podgate")
    began = time.monotonic()
    assert walk.is_admitted()
    assert time.monotonic() - began < 2, "the API server waits for podgate no longer"
    stays(lambda: walk.entries() == [] and walk.is_admitted(), "it stays so", LOOK_SECONDS + 2)


def comes_back_harmless(walk: Walk, ran: Ran) -> None:
    """While podgate hangs nothing is held up; once it answers, all is as before."""
    wait_for(walk.entries, "the controller makes the configurations", 30)
    assert not walk.blocks()
    wait_for(walk.is_admitted, "nothing is refused while podgate hangs", 30)
    walk.nodes.thaw()
    wait_for(walk.blocks, "Fail is in force again", 90)
    wait_for(walk.is_refused, "the policies refuse")


def is_gone(walk: Walk, ran: Ran) -> None:
    """The API server asks nobody, and there is no controller that would put it back."""
    wait_for(walk.is_admitted, "nothing is refused")
    stays(lambda: not walk.entries() and walk.is_admitted(), "it stays so", 3)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{HOST}:{walk.nodes.health_port}/healthz", timeout=2)


def leaves_nothing(walk: Walk, ran: Ran) -> None:
    path = path_of("Namespace", name=NAMESPACE)
    wait_for(lambda: not walk.cluster.admin.exists(path), f"{NAMESPACE} is gone", 30)
    base = walk.type("kubectl kustomize deploy/kustomize/base > base.yaml")
    assert base.err == ""
    assert walk.type("kubectl get --ignore-not-found -o name -f base.yaml").out == ""


def deploy_again(walk: Walk) -> None:
    walk.type("kubectl apply --server-side -k deploy/kustomize/overlays/enforce")
    wait_for(walk.is_refused, "the policies refuse", 60)


def facts_are_there(walk: Walk, ran: Ran) -> None:
    assert "kind: PriorityClass" in (walk.folder / "facts/cluster.yaml").read_text()


def tells_nothing_yet(walk: Walk, ran: Ran) -> None:
    assert walk.entries() == []


def tells_of_nothing_that_blocks(walk: Walk, ran: Ran) -> None:
    assert [entry["failurePolicy"] for entry in walk.entries()] == ["Ignore"] * 4


def stand_behind_a_service(walk: Walk) -> None:
    """A server that was started by hand, and a Service whose endpoint it is."""
    port = {"name": "https", "port": 443, "protocol": "TCP"}
    metadata = {"name": WEBHOOK, "namespace": NAMESPACE}
    walk.cluster.kubectl("delete", "-k", str(ROOT / "deploy/kustomize/base"), "--ignore-not-found")
    walk.cluster.add_namespace(NAMESPACE, {})
    walk.cluster.admin.create(
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}}
    )
    walk.cluster.admin.create(endpoint_slice(walk.port))
    command = "podgate serve --policies policies --facts facts --cert certs.d/tls.crt --key certs.d/tls.key"
    walk.start(command)
    wait_for(partial(answers, walk, command), "the server answers", 30)


def blocks_and_refuses(walk: Walk, ran: Ran) -> None:
    assert "probe pod in namespace default: podgate answers\n" in ran.out
    assert walk.blocks()
    assert walk.is_refused()


def blocks_no_more(walk: Walk, ran: Ran) -> None:
    assert not walk.blocks()
    assert walk.is_refused(), "policies still do what they say"


BASE = "kubectl apply --server-side -k deploy/kustomize/base"
ENFORCE = "kubectl apply --server-side -k deploy/kustomize/overlays/enforce"
ROLLOUT = "kubectl --namespace podgate-system rollout status deployment/podgate --timeout=5m"
NEW_CA = "kubectl --namespace podgate-system annotate secret podgate-ca podgate.dev/rotate=now"
NEW_PAUSE = "kubectl --namespace podgate-system create configmap podgate-pause"
CONFIGURATIONS = (
    "kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations "
    f"{NAME} {LATE_NAME} --ignore-not-found"
)
EMERGENCY = (
    "kubectl -n podgate-system delete configmap podgate-pause --ignore-not-found; "
    f"kubectl -n podgate-system create configmap podgate-pause; {CONFIGURATIONS}"
)
STOP_CONTROLLER = (
    "kubectl --namespace podgate-system delete deployment podgate-controller "
    "--cascade=foreground --ignore-not-found"
)
BY_HAND = "podgate install --policies policies"

FIRST: dict[Command, Callable[[Walk], None]] = {
    Command("Rotate certificates", "podgate controller --rotate"): note_the_ca,
    Command("Rotate certificates", NEW_CA): note_the_ca,
    Command("Back out in an emergency", EMERGENCY): hang_with_an_old_pause,
    Command("Uninstall", STOP_CONTROLLER): deploy_again,
    Command("Run it by hand", f"{BY_HAND} --enforce"): stand_behind_a_service,
}
"""What must be so before a command."""

THEN: dict[Command, Callable[[Walk, Ran], None]] = {
    Command("Install", ROLLOUT): audits,
    Command("Look", "podgate doctor --policies policies -o json"): finds_one_fault,
    Command(
        "Enforce", "kubectl diff --server-side -k deploy/kustomize/overlays/enforce"
    ): says_what_would_change,
    Command("Enforce", ENFORCE): enforces,
    Command("Enforce", BASE): goes_back,
    Command("Upgrade", ENFORCE): enforces,
    Command("Rotate certificates", "podgate controller --rotate"): is_handed_over,
    Command("Rotate certificates", NEW_CA): is_handed_over,
    Command("Pause", "podgate pause --for 2h --reason 'INC-7: the scheduler is down'"): pauses,
    Command("Pause", "podgate pause gpu-limits no-bypass --for 1d --reason 'INC-7'"): pauses,
    Command("Pause", "podgate pause --end"): is_over,
    Command("Pause", f"{NEW_PAUSE} --from-literal=policies=gpu-limits --from-literal=reason=INC-7"): pauses,
    Command("Pause", "kubectl --namespace podgate-system delete configmap podgate-pause"): is_over,
    Command("Back out in an emergency", EMERGENCY): is_out_of_the_way,
    Command("Back out in an emergency", "podgate pause --end"): comes_back_harmless,
    Command("Uninstall", "podgate uninstall"): is_gone,
    Command("Uninstall", "kubectl delete --ignore-not-found -k deploy/kustomize/base"): leaves_nothing,
    Command("Uninstall", CONFIGURATIONS): is_gone,
    Command("Run it by hand", f"{BY_HAND} --ca-file certs.d/ca.crt --dry-run"): tells_nothing_yet,
    Command("Run it by hand", f"{BY_HAND} --ca-file certs.d/ca.crt"): tells_of_nothing_that_blocks,
    Command("Run it by hand", f"{BY_HAND} --enforce"): blocks_and_refuses,
    Command("Run it by hand", f"{BY_HAND} --no-enforce"): blocks_no_more,
}
"""What must be so afterwards."""


def test_the_api_server_counts_what_alerts_ask_it_for(
    cluster: Cluster, namespace: str, start_podgate: Callable[..., Podgate], register: Callable[..., None]
) -> None:
    """Calls without an answer; tests/e2e/test_install.py has a match condition that fails."""
    podgate = start_podgate()
    register(podgate)
    podgate.stop()
    with suppress(ApiError):
        cluster.admin.create(pod("gpu", namespace, gpus=1), dryRun="All")
    refused, passed = ALERTED
    lines = cluster.metrics().splitlines()
    assert [
        line
        for line in lines
        if line.startswith(f"{refused}{{") and 'error_type="calling_webhook_error"' in line
    ]
    assert [line for line in lines if line.startswith(f"{passed}{{") and 'name="mutate.podgate.dev"' in line]


ALERTED = ("apiserver_admission_webhook_rejection_count", "apiserver_admission_webhook_fail_open_count")
