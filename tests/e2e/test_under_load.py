"""Replicas, policies and podgate itself come and go while pods are created: nobody who creates one notices."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from base64 import b64decode
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

import orjson
import pytest

import certs
from certs.rotate import is_issued_by
from tests.e2e.client import HOST, ApiError, Json
from tests.e2e.cluster import ALICE, ROOT, Cluster
from tests.e2e.load import Load
from tests.e2e.nodes import GPU
from tests.e2e.podgate import MAIN, PROGRAM, write_policies
from tests.e2e.registration import NAME, PATHS
from tests.e2e.replicas import SERVICE, Replica, Replicas
from tests.e2e.waiting import wait_for
from tests.e2e.workloads import pod
from tests.server.running import free_port
from webhook.server.state import SETTLE_SECONDS as SETTLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECONDS = 60
REPLICAS = 3

LABEL = "example.com/gate"
HASH = "podgate.dev/policies"
TRAINING = 1_000_000
"""The priority of the class ai-train-high."""

FASTER = 5
"""Time between replicas runs so much faster than with kubelets: some are settled, and refuse, and a test is not long."""
SETTLE_SECONDS = SETTLES / FASTER
APART_SECONDS = 90 / FASTER
START = f"import webhook.server.state as state; state.SETTLE_SECONDS = {SETTLE_SECONDS}; {MAIN}"
CONTROL = (
    f"import webhook.controller.policies as policies; policies.OVERLAP_SECONDS = {SETTLE_SECONDS}; {MAIN}"
)
CONTROLLER = (sys.executable, "-P", "-c", CONTROL)
QUICKLY_SETTLED = (sys.executable, "-P", "-c", START)


@pytest.fixture
def replicas(cluster: Cluster, add_namespace: Callable[..., str], tmp_path: Path) -> Iterator[Replicas]:
    """A Service without a replica yet."""
    with Replicas(cluster, add_namespace("own"), tmp_path, QUICKLY_SETTLED) as group:
        yield group


def live(replicas: Replicas) -> list[str]:
    """The options of the Deployment."""
    return ["--live", "--kubeconfig", str(replicas.cluster.kubeconfig()), "--namespace", replicas.namespace]


def policy(name: str, failure_policy: str, *rules: Json, **match: Json) -> Json:
    return {
        "apiVersion": "podgate.dev/v1alpha1",
        "kind": "PodPolicy",
        "metadata": {"name": name},
        "spec": {
            "mode": "enforce",
            "failurePolicy": failure_policy,
            "match": {"accelerators": {}, **match},
            "rules": [{"name": f"rule-{number}", **rule} for number, rule in enumerate(rules)],
        },
    }


def verified(rule: Json) -> Json:
    """Refuse pods in which it is missing."""
    return {**rule, "verify": "fail"}


PRIORITY: Json = {"setPriorityClass": {"class": "ai-train-high"}}
PLACE: Json = {
    "setNodeAffinity": {
        "byVendor": {
            "nvidia": {
                "nodeLabels": {"nvidia.com/gpu.present": "true"},
                "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
            }
        }
    }
}
MARK: Json = {"setFields": {"labels": {LABEL: "passed"}}}
CAP: Json = {"limitAcceleratorCount": {"perPod": {"max": 8}}}
SETTERS: tuple[Json, ...] = (PRIORITY, PLACE, MARK)


def load_on(cluster: Cluster, namespace: str, judge: Callable[[Json], str]) -> Load:
    """Pods that no scheduler looks at: what is asked of the machine is what the test is about."""

    def make(number: int) -> Json:
        return pod(f"gpu-{number}", namespace, gpus=1, schedulerName="nobody")

    return Load(cluster, ALICE, make, judge)


def what_is_missing(stored: Json) -> str:
    """Of the mutations of `SETTERS`."""
    metadata, spec = stored["metadata"], stored["spec"]
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    tolerated = {each.get("key") for each in spec.get("tolerations", [])}
    found = {
        "label": labels.get(LABEL) == "passed",
        "priority": spec.get("priority") == TRAINING,
        "affinity": "nvidia.com/gpu.present" in str(spec.get("affinity")),
        "toleration": GPU in tolerated,
        "record": HASH in annotations,
    }
    return ", ".join(f"no {name}" for name, is_there in found.items() if not is_there)


def failed_open(cluster: Cluster) -> float:
    """How often the API server let an object past because podgate did not answer."""
    name = "apiserver_admission_webhook_fail_open_count{"
    lines = [line for line in cluster.metrics().splitlines() if line.startswith(name)]
    return sum(float(line.rpartition(" ")[2]) for line in lines if "podgate.dev" in line)


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_replicas_are_replaced_one_after_the_other(
    cluster: Cluster, namespace: str, replicas: Replicas, tmp_path: Path, failure_policy: str
) -> None:
    strict = failure_policy == "Fail"
    setters = tuple(map(verified, SETTERS)) if strict else SETTERS
    folder = write_policies(tmp_path / "policies", policy("train", failure_policy, *setters, CAP))
    for _ in range(REPLICAS):
        replicas.add(folder, options=live(replicas))
    replicas.register(enforce=strict)
    before = failed_open(cluster)
    first = list(replicas.running)
    with load_on(cluster, namespace, what_is_missing) as load:
        while load.seconds < SECONDS:
            replicas.roll()
        replicas.wait_for_ends()
    assert failed_open(cluster) == before
    load.check()
    assert not set(first) & set(replicas.running)


ADDED, REMOVED, NEEDED, NOT_NEEDED, CHANGED = "added", "removed", "needed", "not-needed", "changed"
"""What becomes of the policy that is about pods with this value of the label `KIND`."""
KIND = "example.com/kind"
TEAM = "team"
LABELLED = verified({"setFields": {"labels": {TEAM: "a"}}})
NEEDS_LABEL = {
    "expression": {
        "validations": [
            {"expression": f'object.metadata.?labels.?{TEAM}.orValue("") == "a"', "message": "no team"}
        ]
    }
}


def priority(name: str) -> list[Json]:
    """A class, and no other is allowed."""
    return [
        verified({"setPriorityClass": {"class": name}}),
        {"checkPriority": {"allowed": {"training": [name]}}},
    ]


OLD: dict[str, list[Json]] = {
    ADDED: [],
    REMOVED: [LABELLED],
    NEEDED: [],
    NOT_NEEDED: [LABELLED, NEEDS_LABEL],
    CHANGED: priority("ai-train-high"),
}
NEW: dict[str, list[Json]] = {
    ADDED: [LABELLED],
    REMOVED: [],
    NEEDED: [LABELLED, NEEDS_LABEL],
    NOT_NEEDED: [],
    CHANGED: priority("ai-interactive"),
}
AS_NEW = {
    ADDED: ("a", 0),
    REMOVED: ("", 0),
    NEEDED: ("a", 0),
    NOT_NEEDED: ("", 0),
    CHANGED: ("", 100_000),
}
"""The label and the priority that the new policies give."""


def write(folder: Path, version: dict[str, list[Json]]) -> Path:
    documents = [
        policy(kind, "Fail", CAP, *rules, objectSelector={"matchLabels": {KIND: kind}})
        for kind, rules in version.items()
    ]
    return write_policies(folder, *documents)


def of_kind(namespace: str, name: str, kind: str, gpus: int = 1) -> Json:
    labels = {KIND: kind, "podgate.dev/workload": "training"}
    return pod(name, namespace, gpus=gpus, labels=labels, schedulerName="nobody")


@pytest.fixture
def controlled(
    cluster: Cluster, namespace: str, replicas: Replicas, tmp_path: Path
) -> Iterator[Callable[[Path], None]]:
    """Let a `podgate controller` keep the configurations as policies in a folder need them; `Fail` is in force."""
    with ExitStack() as stack:

        def start(policies: Path) -> None:
            (tmp_path / "ca.crt").write_bytes(replicas.ca.certificate)
            words = ["--policies", policies, "--namespace", replicas.namespace, "--enforce"]
            words += ["--certificates", "files", "--ca-file", tmp_path / "ca.crt"]
            words += ["--kubeconfig", cluster.kubeconfig(), "--bind", f"{HOST}:{free_port()}"]
            log = stack.enter_context((tmp_path / "controller.log").open("wb"))
            process = subprocess.Popen(
                [*CONTROLLER, "controller", *map(str, words)],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
            stack.callback(take_away, cluster, namespace, process)
            wait_for(lambda: is_blocking(cluster), "the configurations are there", 45)

        yield start


def is_blocking(cluster: Cluster) -> bool:
    entries = cluster.admin.read("ValidatingWebhookConfiguration", "", NAME)["webhooks"]
    return any(entry["failurePolicy"] == "Fail" for entry in entries)


def take_away(cluster: Cluster, namespace: str, process: subprocess.Popen[bytes]) -> None:
    """End the controller, and what it made."""
    process.kill()
    process.wait()
    for path in PATHS:
        cluster.admin.delete(path)
    probe = of_kind(namespace, "probe", CHANGED)
    wait_for(lambda: not is_refused_or_changed(cluster, probe), "nobody is called any more")


def is_refused_or_changed(cluster: Cluster, thing: Json) -> bool:
    try:
        stored = cluster.admin.create(thing, dryRun="All")
    except ApiError:
        return True
    return HASH in stored["metadata"].get("annotations", {})


def is_settled(replica: Replica) -> bool:
    return bool(orjson.loads(replica.get("/readyz")[1])["settled"])


def test_policies_reach_replicas_at_different_moments(
    cluster: Cluster,
    namespace: str,
    replicas: Replicas,
    controlled: Callable[[Path], None],
    tmp_path: Path,
) -> None:
    """Nobody is refused because the two calls of a creation were answered by different policies."""
    early, late = (
        replicas.add(write(tmp_path / name, OLD), options=live(replicas)) for name in ("early", "late")
    )
    controlled(write(tmp_path / "controller", OLD))
    wait_for(
        lambda: is_settled(early) and is_settled(late), "what is verified is refused", SETTLE_SECONDS + 15
    )
    kinds = list(OLD)

    def make(number: int) -> Json:
        return of_kind(namespace, f"gpu-{number}", kinds[number % len(kinds)])

    before = failed_open(cluster)
    with Load(cluster, ALICE, make, lambda _: "") as load:
        write(tmp_path / "controller", NEW)
        write(tmp_path / "early", NEW)
        wait_for(lambda: not is_settled(early), "one has the new policies")
        assert is_settled(late)
        load.wait_until(APART_SECONDS)
        write(tmp_path / "late", NEW)
        wait_for(lambda: not is_settled(late), "the other has them, too")
        wait_for(lambda: is_settled(early) and is_settled(late), "both refuse again", SETTLE_SECONDS + 15)
        load.wait_until(load.seconds + 2)
    assert failed_open(cluster) == before
    load.check()
    user = cluster.client(ALICE)
    stored = {kind: user.create(of_kind(namespace, kind, kind)) for kind in kinds}
    given = {
        kind: (each["metadata"]["labels"].get(TEAM, ""), each["spec"]["priority"])
        for kind, each in stored.items()
    }
    assert given == AS_NEW
    for kind in kinds:
        with pytest.raises(ApiError, match="at most 8 per pod"):
            user.create(of_kind(namespace, "greedy", kind, gpus=9))


def test_uninstall_and_then_no_replica_is_left(
    cluster: Cluster, namespace: str, replicas: Replicas, tmp_path: Path
) -> None:
    folder = write_policies(tmp_path / "policies", policy("train", "Fail", *map(verified, SETTERS), CAP))
    for _ in range(2):
        replicas.add(folder, options=live(replicas))
    (tmp_path / "ca.crt").write_bytes(replicas.ca.certificate)
    service, ca_file = f"{replicas.namespace}/{SERVICE}", str(tmp_path / "ca.crt")
    run = partial(podgate_command, cluster)
    run(
        "install", "--policies", str(folder), "--service", service, "--ca-file", ca_file,
        "--enforce", "--probe-namespace", namespace,
    )  # fmt: skip
    begins = threading.Event()
    with load_on(
        cluster, namespace, lambda stored: "" if begins.is_set() else what_is_missing(stored)
    ) as load:
        load.wait_until(5)
        begins.set()
        run("uninstall", "--namespace", replicas.namespace)
        seen = [replica.metric("podgate_admission_requests_total") for replica in replicas.running]
        load.wait_until(load.seconds + 2)
        assert seen == [replica.metric("podgate_admission_requests_total") for replica in replicas.running]
        replicas.remove(*replicas.running)
        replicas.wait_for_ends()
        load.wait_until(load.seconds + 1)
    load.check()


def test_a_ca_that_is_given_as_a_file_is_handed_over(
    cluster: Cluster,
    namespace: str,
    replicas: Replicas,
    controlled: Callable[[Path], None],
    tmp_path: Path,
) -> None:
    """As docs/operations.md says: both CAs first, then the pair, then the new CA alone. A broken file changes nothing."""
    folder = write_policies(tmp_path / "policies", policy("train", "Fail", *map(verified, SETTERS), CAP))
    for _ in range(2):
        replicas.add(folder, options=live(replicas))
    controlled(folder)
    file, old, new = tmp_path / "ca.crt", replicas.ca, certs.new_ca(now=datetime.now(UTC))
    wait_for(lambda: set(bundles(cluster)) == {old.certificate}, "the old CA is trusted")
    replicas.ca = new
    with load_on(cluster, namespace, what_is_missing) as load:
        for given in (old.certificate + new.certificate, b"half a fi"):
            file.write_bytes(given)
            wait_for(
                lambda: set(bundles(cluster)) == {old.certificate + new.certificate}, "both are trusted", 30
            )
        wait_for(
            lambda: "holds no PEM certificate" in (tmp_path / "controller.log").read_text(), "it is said", 30
        )
        for replica in replicas.running:
            replica.new_certificate()
            wait_for(partial(serves_pair_of, replica, new.certificate), "the new pair is served", 30)
        file.write_bytes(new.certificate)
        wait_for(lambda: set(bundles(cluster)) == {new.certificate}, "the new CA alone is trusted", 60)
        load.wait_until(load.seconds + 5)
    load.check()
    assert is_blocking(cluster)


def bundles(cluster: Cluster) -> list[bytes]:
    """Of our entries."""
    there = [cluster.admin.get(path) for path in PATHS if cluster.admin.exists(path)]
    return [
        b64decode(entry["clientConfig"]["caBundle"]) for each in there for entry in each.get("webhooks", ())
    ]


def serves_pair_of(replica: Replica, ca: bytes) -> bool:
    """Whether its certificate is signed by that CA."""
    return is_issued_by(ssl.get_server_certificate((replica.host, replica.port)).encode(), ca)


def podgate_command(cluster: Cluster, *words: str) -> None:
    """Run a command of podgate, as its own process; it must succeed."""
    ran = subprocess.run(
        [*PROGRAM, *words, "--kubeconfig", str(cluster.kubeconfig())],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (ran.returncode, ran.stderr) == (0, "")
