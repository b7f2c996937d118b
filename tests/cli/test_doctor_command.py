"""`podgate doctor`: each fault is found, what is good is not called faulty, and what may not be looked at is not called good."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import Result

import certs
from tests.cli.fake_cluster import LATE, MUTATING, PAUSE, SYSTEM, VALIDATING, FakeCluster, Json
from webhook.cli.folders import read_folders
from webhook.policy import load_policy_set
from webhook.registration import CONFIGURATIONS, Endpoint, webhook_configurations
from webhook.watch import WATCHED

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., Result]

NOW = datetime.now(UTC)
OTHERS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
REVIEW = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PODS = "/api/v1/namespaces/default/pods"
SERVICE = f"{SYSTEM}/services/podgate"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/podgate-system/endpointslices/podgate-1"
DEPLOYMENT = "/apis/apps/v1/namespaces/podgate-system/deployments/podgate"
CONTROLLER = f"{DEPLOYMENT}-controller"
SECRET = f"{SYSTEM}/secrets/podgate-tls"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
NODES = "/api/v1/nodes"

POLICIES = """\
apiVersion: podgate.dev/v1alpha1
kind: AcceleratorPool
metadata:
  name: h100
spec:
  resourceNames: [nvidia.com/gpu]
  nodeLabels:
    pool: h100
  rdma:
    resourceNames: [rdma/ib]
---
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: all-of-it
spec:
  mode: enforce
  failurePolicy: Fail
  match:
    accelerators: {}
  rules:
  - name: class
    setPriorityClass:
      class: train
  - name: allowed
    checkPriority:
      allowed:
        notebook: [interactive]
  - name: place
    setNodeAffinity:
      pools: [h100]
  - name: fabric
    requestRDMA:
      fromPool: true
---
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: storage
spec:
  match:
    all: true
  rules:
  - name: class
    setStorageClass:
      default: ceph
"""


class Server:
    """A server that only shows its certificate."""

    def __init__(self, pair: certs.Pair, folder: Path) -> None:
        certs.write_pairs(folder, ca=pair, serving=pair)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with suppress(OSError), self._context.wrap_socket(connection, server_side=True):
                    pass


CA = certs.new_ca(now=NOW)
OTHER_CA = certs.new_ca(now=NOW)
NAMES = ["127.0.0.1", "podgate.podgate-system.svc"]


def pair_of(
    ca: certs.Pair = CA, names: Sequence[str] = NAMES, lifetime: timedelta = certs.SERVING_LIFETIME
) -> certs.Pair:
    return certs.serving_pair(ca, names=names, now=NOW, lifetime=lifetime)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[certs.Pair], Server]]:
    started: list[Server] = []

    def start(pair: certs.Pair) -> Server:
        folder = tmp_path / f"server-{len(started)}"
        folder.mkdir()
        started.append(Server(pair, folder))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "policies"
    found.mkdir()
    (found / "all.yaml").write_text(POLICIES)
    return found


def node(name: str, labels: Json, **allocatable: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


@pytest.fixture
def good(fake: FakeCluster, folder: Path, serve: Callable[[certs.Pair], Server]) -> FakeCluster:
    """A cluster in which nothing is wrong."""
    port = serve(pair_of()).port
    endpoint = Endpoint(service=("podgate-system", "podgate"), ca_bundle=CA.certificate)
    policy_set = load_policy_set(read_folders([folder])).policy_set
    for which, configuration in zip(
        CONFIGURATIONS, webhook_configurations(policy_set, endpoint), strict=True
    ):
        fake.put(which.path, configuration)
    fake.put(SERVICE, {})
    endpoints = [{"addresses": [address]} for address in ("127.0.0.1", "127.0.0.2")]
    fake.put(SLICE, {"endpoints": endpoints, "ports": [{"port": port}]})
    fake.put(DEPLOYMENT, deployment("serve", "--live"))
    for account in ("podgate", "podgate-controller"):
        fake.put(f"{SYSTEM}/serviceaccounts/{account}", {})
    for name in ("train", "interactive"):
        fake.put(f"{CLASSES}/{name}", {})
    fake.put(f"{STORAGE}/ceph", {})
    fake.put(f"{NODES}/n1", node("n1", {"pool": "h100"}, **{"nvidia.com/gpu": "8", "rdma/ib": "1"}))
    fake.answers["POST", REVIEW] = lambda body: (201, body | {"status": {"allowed": True}})
    fake.answers["POST", PODS] = _answered
    return fake


def _answered(pod: Json) -> tuple[int, Json]:
    del pod["metadata"]["annotations"]
    return 201, pod


@pytest.fixture
def examine(run: Run, folder: Path) -> Callable[..., tuple[int, list[Json]]]:
    """The exit code, and all findings that are not ok."""

    def ask(*words: str) -> tuple[int, list[Json]]:
        result = run("doctor", "--policies", str(folder), "-o", "json", *words)
        assert result.stderr == ""
        found = json.loads(result.stdout)
        assert found["exitCode"] == result.exit_code
        return result.exit_code, [each for each in found["checks"] if each["level"] != "ok"]

    return ask


Examine = Callable[..., tuple[int, list[Json]]]


def test_where_nothing_is_wrong(good: FakeCluster, run: Run, folder: Path) -> None:
    result = run("doctor", "--policies", str(folder))
    end = certs.expiry_of(pair_of().certificate)
    left = (end - datetime.now(UTC)).days
    port = good.objects[SLICE]["ports"][0]["port"]
    assert (result.exit_code, result.output) == (
        0,
        f"""\
ok       configurations   4 entries; an outage blocks nothing
ok       endpoints        Service podgate-system/podgate has 2 ready replicas
ok       certificate      127.0.0.1:{port} serves one that the caBundle trusts, until {end:%Y-%m-%d} ({left}
                          days)
ok       probe pod        a dry run in namespace default was answered by podgate
ok       mode             policies do what their files say
ok       pause            there is none
ok       permissions      ServiceAccounts podgate, podgate-controller may do all they must
ok       priority classes there: interactive, train
ok       storage classes  there: ceph
ok       RDMA             the nodes offer what policies give
ok       nodes            every pool has some, and those with accelerators have the labels that
                          placement demands
ok       other webhooks   none for pods or claims
12 ok
""",
    )
    assert good.writes == [("POST", PODS)]


def drop(*paths: str) -> Callable[[FakeCluster], None]:
    def plant(fake: FakeCluster) -> None:
        for path in paths:
            del fake.objects[path]

    return plant


def change(path: str, edit: Callable[[Json], Any]) -> Callable[[FakeCluster], None]:
    def plant(fake: FakeCluster) -> None:
        edit(fake.objects[path])

    return plant


def store(path: str, thing: Json) -> Callable[[FakeCluster], None]:
    return lambda fake: fake.put(path, thing)


def deployment(*words: str) -> Json:
    return {"spec": {"template": {"spec": {"containers": [{"args": list(words)}]}}}}


def serves(*words: str) -> Callable[[FakeCluster], None]:
    return store(DEPLOYMENT, deployment("serve", "--live", *words))


def stop_answering(fake: FakeCluster) -> None:
    del fake.answers["POST", PODS]


def entry(**more: Any) -> Json:
    rule = {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}
    return {
        "webhooks": [{"name": "x.example.com", "rules": [rule], "reinvocationPolicy": "IfNeeded", **more}]
    }


def service(name: str) -> Json:
    return {"service": {"namespace": "podgate-system", "name": name}}


NO_PAUSE = (
    "a pause was meant, but does not hold: ConfigMap podgate-pause: until is 'soon'; expected a time with its zone, such as "
    '"2026-12-01T20:00:00Z"'
)
IN_AN_HOUR = f"{NOW + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
OTHER = f"{OTHERS}/a-other"
SHOWN = "MutatingWebhookConfiguration a-other, entry x.example.com"
AFTER_OURS = (
    "is called for pods after podgate's last call: where it adds what makes a policy match, "
    "and none did before, podgate is not asked"
)

FAULTS: dict[str, tuple[Callable[[FakeCluster], None], str, str, str]] = {
    "no configuration": (
        drop(VALIDATING), "configurations", "fail",
        "there is no ValidatingWebhookConfiguration gate.podgate.dev: podgate is not asked",
    ),
    "no late configuration": (
        drop(LATE), "configurations", "fail",
        "there is no MutatingWebhookConfiguration zzz.gate.podgate.dev: podgate is not asked once more, after other webhooks",
    ),
    "the late entry is missing": (
        change(LATE, lambda each: each.pop("webhooks")), "configurations", "fail",
        "late.mutate.podgate.dev is missing, and policies need it",
    ),
    "no caBundle late": (
        change(LATE, lambda each: each["webhooks"][0]["clientConfig"].pop("caBundle")), "configurations", "fail",
        "late.mutate.podgate.dev has no caBundle, so that every call of it fails",
    ),
    "an entry is missing": (
        change(VALIDATING, lambda each: each["webhooks"].pop(0)), "configurations", "fail",
        "fail.validate.podgate.dev is missing, and policies need it",
    ),
    "no caBundle": (
        change(MUTATING, lambda each: each["webhooks"][0]["clientConfig"].pop("caBundle")), "configurations", "fail",
        "mutate.podgate.dev has no caBundle, so that every call of it fails",
    ),
    "a label exempts": (
        change(VALIDATING, lambda each: each["webhooks"][0].update(objectSelector={"matchLabels": {"a": "b"}})),
        "configurations", "fail",
        "fail.validate.podgate.dev has an objectSelector: whoever writes an object can exempt it by a label",
    ),
    "other policies": (
        change(VALIDATING, lambda each: each["webhooks"][0].update(rules=[], matchConditions=[])), "configurations", "warn",
        "fail.validate.podgate.dev does not fit the policies: rules and matchConditions",
    ),
    "no Service": (
        drop(SERVICE), "endpoints", "fail", "there is no Service podgate-system/podgate, and the entries name it",
    ),
    "one replica": (
        change(SLICE, lambda each: each["endpoints"].pop()), "endpoints", "warn",
        "Service podgate-system/podgate has one ready replica: while it restarts, nobody answers",
    ),
    "no answer": (
        stop_answering, "probe pod", "fail",
        "a dry run in namespace default shows no answer of podgate",
    ),
    "audit alone": (
        serves("--mode=audit"), "mode", "warn", "the server runs with --mode audit: whatever policy files say, they do no more",
    ),
    "audit alone, in two words": (
        serves("--mode", "warn"), "mode", "warn", "the server runs with --mode warn: whatever policy files say, they do no more",
    ),
    "a controller that registers for less": (
        store(CONTROLLER, deployment("controller", "--mode=audit")), "mode", "warn",
        "the server runs with no --mode, and the controller with --mode audit",
    ),
    "a pause": (
        store(PAUSE, {"data": {"until": IN_AN_HOUR, "policies": "a, b", "reason": "INC-7", "by": "jane"}}), "pause", "warn",
        f"policies a, b audit only until {IN_AN_HOUR} by jane: INC-7",
    ),
    "a pause that is none": (
        store(PAUSE, {"data": {"until": "soon"}}), "pause", "fail",
        NO_PAUSE,
    ),
    "a class that is given": (
        drop(f"{CLASSES}/train"), "priority classes", "fail",
        "there is no priority class train, which policies give: all-of-it",
    ),
    "a class that is allowed": (
        drop(f"{CLASSES}/interactive"), "priority classes", "warn",
        "there is no priority class interactive, which policies allow: all-of-it",
    ),
    "a storage class": (
        drop(f"{STORAGE}/ceph"), "storage classes", "fail", "there is no storage class ceph, which policies give: storage",
    ),
    "no RDMA": (
        change(f"{NODES}/n1", lambda each: each["status"]["allocatable"].update({"rdma/ib": "0"})), "RDMA", "fail",
        "no node of pool h100 offers rdma/ib, which pods there are given: they stay pending",
    ),
    "a node without labels": (
        store(f"{NODES}/n2", node("n2", {}, **{"nvidia.com/gpu": "8"})), "nodes", "warn",
        "no pod that policies place lands on n2, for it lacks the labels demanded for nvidia.com/gpu",
    ),
    "a Service of another that is gone": (
        store(OTHER, entry(clientConfig=service("gone"), failurePolicy="Fail")), "other webhooks", "fail",
        f"{SHOWN} has failurePolicy Fail for pods, and its Service podgate-system/gone does not exist",
    ),
    "an earlier installation": (
        store(OTHER, entry(clientConfig=service("podgate"))), "other webhooks", "warn",
        f"{SHOWN} calls podgate's own Service, so that it is asked twice",
    ),
    "one that is never called again": (
        store(OTHER, entry(reinvocationPolicy="Never")), "other webhooks", "warn",
        f"{SHOWN} is called for pods before podgate and never again: it does not see what podgate sets",
    ),
    "one that comes after our last call": (
        store(f"{OTHERS}/zzzz-other", entry()), "other webhooks", "warn",
        f"{SHOWN.replace('a-other', 'zzzz-other')} {AFTER_OURS}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "check", "level", "text"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_nothing_else(
    plant: Callable[[FakeCluster], None],
    check: str,
    level: str,
    text: str,
    good: FakeCluster,
    examine: Examine,
) -> None:
    plant(good)
    code, found = examine()
    assert [(each["check"], each["level"], each["text"]) for each in found] == [(check, level, text)]
    assert found[0]["todo"]
    assert code == (1 if level == "fail" else 0)


NEAR_MISSES: dict[str, Callable[[FakeCluster], None]] = {
    "a webhook for something else": store(
        OTHER,
        entry(
            clientConfig=service("gone"),
            rules=[{"apiGroups": ["apps"], "operations": ["*"], "resources": ["*"]}],
        ),
    ),
    "a webhook for updates of pods": store(
        OTHER,
        entry(
            clientConfig=service("gone"),
            rules=[{"apiGroups": [""], "operations": ["UPDATE"], "resources": ["pods"]}],
        ),
    ),
    "a Service that is gone and blocks nothing": store(
        OTHER, entry(clientConfig=service("gone"), failurePolicy="Ignore")
    ),
    "one that comes after ours": store(f"{OTHERS}/z-other", entry(reinvocationPolicy="Never")),
    "a pause that is over": store(PAUSE, {"data": {"until": "2020-01-01T00:00:00Z"}}),
    "a node with no accelerator": store(f"{NODES}/n2", node("n2", {}, cpu="8", **{"nvidia.com/gpu": "0"})),
    "labels that somebody added": change(MUTATING, lambda each: each["metadata"]["labels"].update(a="b")),
    "namespaces that are left out": change(
        MUTATING,
        lambda each: each["webhooks"][0]["namespaceSelector"]["matchExpressions"][0]["values"].append("db"),
    ),
}


@pytest.mark.parametrize("plant", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_what_is_no_fault(plant: Callable[[FakeCluster], None], good: FakeCluster, examine: Examine) -> None:
    plant(good)
    assert examine() == (0, [])


def test_a_certificate_of_another_ca(
    good: FakeCluster, examine: Examine, serve: Callable[[certs.Pair], Server]
) -> None:
    port = serve(pair_of(OTHER_CA)).port
    good.objects[SLICE]["ports"][0]["port"] = port
    code, [found] = examine()
    assert (code, found["check"], found["level"]) == (1, "certificate", "fail")
    assert found["text"].startswith(
        f"127.0.0.1:{port} serves a certificate that the caBundle of mutate.podgate.dev does not trust: "
    )


def test_a_certificate_for_another_name(
    good: FakeCluster, examine: Examine, serve: Callable[[certs.Pair], Server]
) -> None:
    port = serve(pair_of(names=["other.svc"])).port
    good.objects[SLICE]["ports"][0]["port"] = port
    code, [found] = examine()
    assert code == 1
    assert "Hostname mismatch" in found["text"]


def test_a_certificate_that_ends_soon(
    good: FakeCluster, examine: Examine, serve: Callable[[certs.Pair], Server]
) -> None:
    port = serve(pair_of(lifetime=timedelta(days=5))).port
    good.objects[SLICE]["ports"][0]["port"] = port
    code, [found] = examine()
    assert (code, found["check"], found["level"]) == (0, "certificate", "warn")
    assert found["text"].endswith("(4 days)")


@pytest.fixture
def unreachable(good: FakeCluster) -> FakeCluster:
    """Replicas that can be reached from the cluster alone."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    good.objects[SLICE]["ports"][0]["port"] = port
    return good


def secret(pair: certs.Pair) -> Json:
    data = {"tls.crt": pair.certificate, "tls.key": pair.key}
    return {"data": {key: base64.b64encode(value).decode() for key, value in data.items()}}


def test_replicas_out_of_reach_are_judged_by_their_secret(unreachable: FakeCluster, examine: Examine) -> None:
    unreachable.put(SECRET, secret(pair_of()))
    assert examine() == (0, [])
    unreachable.put(SECRET, secret(pair_of(OTHER_CA)))
    code, [found] = examine()
    assert (code, found["check"], found["level"]) == (1, "certificate", "fail")
    assert found["text"].startswith("Secret podgate-tls: ")


def test_replicas_out_of_reach_without_a_secret_are_unknown(
    unreachable: FakeCluster, examine: Examine
) -> None:
    code, [found] = examine()
    assert (code, found["check"], found["level"]) == (3, "certificate", "unknown")


def test_an_address_where_nobody_listens(good: FakeCluster, examine: Examine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    for path in (MUTATING, LATE, VALIDATING):
        for each in good.objects[path]["webhooks"]:
            client = each["clientConfig"]
            del client["service"]
            client["url"] = f"https://127.0.0.1:{port}/mutate"
    code, [found] = examine()
    assert (code, found["check"], found["text"]) == (
        1,
        "certificate",
        f"nothing answers at 127.0.0.1:{port} from here: Connection refused",
    )


def test_a_permission_that_is_lacking(good: FakeCluster, examine: Examine) -> None:
    def answer(body: Json) -> tuple[int, Json]:
        asked = body["spec"]["resourceAttributes"]
        return 201, body | {"status": {"allowed": asked["resource"] != "leases"}}

    good.answers["POST", REVIEW] = answer
    code, found = examine()
    assert (code, [each["text"] for each in found]) == (
        1,
        ["ServiceAccount podgate-controller may not update leases.coordination.k8s.io/podgate-controller"],
    )


def refuse_to_watch(kind: str, verb: str) -> Callable[[Json], tuple[int, Json]]:
    plural = WATCHED[kind].path.rpartition("/")[2]

    def answer(body: Json) -> tuple[int, Json]:
        asked = body["spec"]["resourceAttributes"]
        return 201, body | {"status": {"allowed": (asked["verb"], asked["resource"]) != (verb, plural)}}

    return answer


SHOWN_KINDS = {
    "Namespace": "namespaces",
    "PriorityClass": "priorityclasses.scheduling.k8s.io",
    "StorageClass": "storageclasses.storage.k8s.io",
    "VolumeAttributesClass": "volumeattributesclasses.storage.k8s.io",
    "Accessor": "accessors.storage.kubesphere.io",
}


@pytest.mark.parametrize("verb", ["list", "watch"])
@pytest.mark.parametrize("kind", WATCHED)
def test_the_webhook_must_be_able_to_watch_what_policies_ask_about(
    good: FakeCluster, examine: Examine, kind: str, verb: str
) -> None:
    good.answers["POST", REVIEW] = refuse_to_watch(kind, verb)
    assert [each["text"] for each in examine()[1]] == [
        f"ServiceAccount podgate may not {verb} {SHOWN_KINDS[kind]}"
    ]


CAP = """\
apiVersion: podgate.dev/v1alpha1
kind: PodPolicy
metadata:
  name: cap
spec:
  match:
    accelerators: {}
  rules:
  - name: cap
    limitAcceleratorCount:
      perPod:
        max: 8
"""


def test_and_need_not_watch_what_they_do_not_ask_about(
    good: FakeCluster, examine: Examine, folder: Path
) -> None:
    (folder / "all.yaml").write_text(CAP)
    good.answers["POST", REVIEW] = refuse_to_watch("Accessor", "watch")
    assert [each for each in examine()[1] if each["check"] == "permissions"] == []


CONTROLLER = "/apis/apps/v1/namespaces/podgate-system/deployments/podgate-controller"


WRONG = [
    "no configuration",
    "no late configuration",
    "an entry is missing",
    "no caBundle",
    "a label exempts",
    "other policies",
]


@pytest.mark.parametrize("fault", WRONG)
def test_where_a_controller_is_deployed_it_makes_the_configurations(
    good: FakeCluster, examine: Examine, fault: str
) -> None:
    FAULTS[fault][0](good)
    by_hand = [each["todo"] for each in examine()[1] if each["check"] == "configurations"]
    good.put(CONTROLLER, {})
    by_controller = [each["todo"] for each in examine()[1] if each["check"] == "configurations"]
    assert all(todo.startswith("podgate install") for todo in by_hand)
    assert len(by_controller) == len(by_hand)
    assert all(todo.startswith("the controller does that within seconds, ") for todo in by_controller)
    assert all(
        todo.endswith("kubectl -n podgate-system logs deployment/podgate-controller")
        for todo in by_controller
    )


MAY_NOT: dict[str, tuple[list[str], set[str]]] = {
    "read the configurations": ([MUTATING], {"configurations", "endpoints", "certificate", "other webhooks"}),
    "ask for permissions": ([REVIEW], {"permissions"}),
    "read classes": ([CLASSES, STORAGE], {"priority classes", "storage classes"}),
    "list nodes": ([NODES], {"nodes"}),
    "create pods": ([PODS], {"probe pod"}),
    "read the namespace": ([SYSTEM], {"endpoints", "pause", "permissions"}),
    "read the Deployment": ([DEPLOYMENT], {"mode"}),
}


@pytest.mark.parametrize(("paths", "checks"), MAY_NOT.values(), ids=MAY_NOT)
def test_what_may_not_be_looked_at_is_unknown(
    paths: list[str], checks: set[str], good: FakeCluster, run: Run, folder: Path
) -> None:
    good.refused = dict.fromkeys(paths, 403)
    result = run("doctor", "--policies", str(folder), "-o", "json")
    found = json.loads(result.stdout)["checks"]
    assert {each["check"] for each in found if each["level"] == "unknown"} == checks
    assert not [each for each in found if each["check"] in checks and each["level"] == "ok"]
    assert result.exit_code == 3


def test_policies_come_from_the_deployment_where_none_are_given(good: FakeCluster, run: Run) -> None:
    result = run("doctor", "-o", "json")
    [unknown] = [each for each in json.loads(result.stdout)["checks"] if each["level"] == "unknown"]
    assert (result.exit_code, unknown["todo"]) == (3, "give --policies DIR")
    good.put(f"{SYSTEM}/configmaps/podgate-policies", {"data": {"all.yaml": POLICIES}})
    result = run("doctor", "-o", "json")
    assert {each["level"] for each in json.loads(result.stdout)["checks"]} == {"ok"}


def test_where_the_policies_are_not_known_the_late_configuration_may_be_needless(
    good: FakeCluster, run: Run
) -> None:
    drop(LATE)(good)
    found = json.loads(run("doctor", "-o", "json").stdout)["checks"]
    assert {each["level"] for each in found} == {"ok", "unknown"}


def test_where_no_policy_may_write_there_is_no_late_configuration(
    good: FakeCluster, examine: Examine, folder: Path
) -> None:
    (folder / "all.yaml").write_text(CAP)
    drop(LATE)(good)
    texts = [each["text"] for each in examine()[1] if each["check"] == "configurations"]
    assert not [text for text in texts if "zzz.gate.podgate.dev" in text or "late.mutate" in text]


def of_configurations(found: list[Json]) -> list[tuple[str, str]]:
    return [(each["level"], each["text"]) for each in found if each["check"] == "configurations"]


@pytest.mark.parametrize("words", [["--mode=audit"], []], ids=["as the controller", "the controller without"])
def test_where_the_server_audits_no_late_configuration_is_needed(
    words: list[str], good: FakeCluster, examine: Examine
) -> None:
    drop(LATE)(good)
    serves("--mode=audit")(good)
    good.put(CONTROLLER, deployment("controller", *words))
    code, found = examine()
    differ = ["the server runs with --mode audit, and the controller with no --mode"]
    assert (code, [each["text"] for each in found]) == (
        0,
        [
            *([] if words else differ),
            "the server runs with --mode audit: whatever policy files say, they do no more",
        ],
    )


def test_by_hand_it_is_installed_for_the_mode_of_the_server(good: FakeCluster, examine: Examine) -> None:
    drop(VALIDATING)(good)
    serves("--mode", "warn")(good)
    [todo] = [each["todo"] for each in examine()[1] if each["check"] == "configurations"]
    assert todo == "podgate install --policies DIR --mode warn"


@pytest.mark.parametrize("plant", [drop(LATE), change(LATE, lambda each: each.pop("webhooks"))])
@pytest.mark.parametrize(
    "hide",
    [
        drop(DEPLOYMENT),
        *(lambda fake, code=code: fake.refused.update({DEPLOYMENT: code}) for code in (403, 500)),
        serves("--mode=$(MODE)"),
    ],
    ids=["no Deployment", "not to be read", "a fault", "a variable"],
)
def test_where_the_mode_is_not_known_the_late_entry_may_be_needless(
    hide: Callable[[FakeCluster], None],
    plant: Callable[[FakeCluster], None],
    good: FakeCluster,
    examine: Examine,
) -> None:
    plant(good)
    hide(good)
    code, found = examine()
    assert (code, {each["check"] for each in found if each["level"] == "unknown"}) == (3, {"mode"})
    [(level, text)] = of_configurations(found)
    assert level == "warn"
    assert text.endswith(", unless the server runs with --mode")


def test_what_to_do_stands_below_what_is_wrong(good: FakeCluster, run: Run, folder: Path) -> None:
    drop(f"{CLASSES}/train")(good)
    result = run("doctor", "--policies", str(folder))
    assert (
        """\
fail     priority classes there is no priority class train, which policies give: all-of-it
                          do: create train, or correct the policies; see policies/prerequisites
"""
        in result.output
    )
    assert result.output.endswith("11 ok, 1 fail\n")
    assert max(map(len, result.output.splitlines())) <= 100


def test_no_cluster_is_said(run: Run, fake: FakeCluster) -> None:
    fake.__exit__()
    result = run("doctor")
    assert result.exit_code == 3
    assert result.stderr.startswith("Error: http://127.0.0.1:")
    assert "Traceback" not in result.output
