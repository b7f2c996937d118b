"""Pods and claims as an API server sends them to a webhook: defaulted, with managedFields of who sent them."""

from typing import Any

import orjson
from hypothesis import strategies as st

from tests.engine.gates import GPU, Json, managed_fields
from webhook.kube.node_affinity import REQUIRED

MIG, HAMI_MEMORY, ASCEND, RDMA, AMD = (
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/gpumem",
    "huawei.com/Ascend910",
    "rdma/ib",
    "amd.com/gpu",
)
OWNERS = [
    "",
    "kubeflow.org/PyTorchJob",
    "batch/Job",
    "apps/ReplicaSet",
    "apps/StatefulSet",
    "kubeflow.org/Notebook",
]
LABELS: list[Json | None] = [
    None,
    {},
    {"app": "web"},
    {"tier": "gold"},
    {"training.kubeflow.org/job-name": "j", "training.kubeflow.org/replica-type": "worker"},
    {"podgate.dev/workload": "training"},
    {"podgate.dev/workload": "notebook", "tier": "gold"},
    {"llm-d.ai/role": "prefill"},
    {"kueue.x-k8s.io/queue-name": "gpu"},
]
ANNOTATIONS: list[Json | None] = [
    None,
    {},
    {"own/key": "x"},
    {"podgate.dev/io-pattern": "random"},
    {"podgate.dev/changes": "[]", "podgate.dev/policies": "0123456789ab", "podgate.dev/decision": "aaaaaaaa"},
    {"podgate.dev/skip": "storage: own classes; cap: not allowed"},
    {"k8s.v1.cni.cncf.io/networks": "sriov"},
]
ENV: list[Json] = [
    {"name": "NCCL_DEBUG", "value": "WARN"},
    {"name": "NCCL_IB_DISABLE", "value": "0"},
    {"name": "NCCL_IB_DISABLE", "value": "1"},
    {"name": "WORLD_SIZE", "value": "4"},
    {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
]
TOLERATIONS = [
    {"key": GPU, "operator": "Exists", "effect": "NoSchedule"},
    {"effect": "NoSchedule", "operator": "Exists", "key": GPU},
    {"key": GPU, "operator": "Exists"},
    {"key": GPU, "operator": "Equal", "value": "present", "effect": "NoSchedule"},
    {"key": "team", "value": "a"},
    {"operator": "Exists"},
    {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    },
]
EXPRESSIONS = [
    {"key": "zone", "operator": "In", "values": ["a", "b"]},
    {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]},
    {"key": "nvidia.com/gpu.present", "operator": "Exists"},
    {"key": "nvidia.com/gpu.present", "operator": "In", "values": ["false"]},
    {"key": "pool", "operator": "In", "values": ["a100"]},
    {"key": "pool", "operator": "NotIn", "values": ["h100"]},
    {"key": "nvidia.com/gpu.count", "operator": "Gt", "values": ["4"]},
]
SELECTORS: list[Any] = [
    *(..., ..., ..., None, {}, {"zone": "a"}, {"nvidia.com/gpu.present": "true"}),
    *({"pool": "h100"}, {"pool": "h100"}, {"pool": "a100"}),
]
SECURITY: list[Json | None] = [
    None,
    {},
    {"capabilities": None},
    {"capabilities": {"drop": ["ALL"]}},
    {"capabilities": {"add": ["ipc_lock"]}},
    {"privileged": True},
]

# what a container asks for: the common ones more often
AMOUNTS: list[Json] = [
    {},
    {},
    {"cpu": "2"},
    {GPU: "1"},
    {GPU: "4", "cpu": "8"},
    {GPU: "8"},
    {GPU: 16},
    {GPU: "0"},
    {GPU: "1", HAMI_MEMORY: "8000"},
    {MIG: "1"},
    {ASCEND: "1"},
    {ASCEND: "1"},
    {ASCEND: "8"},
    {AMD: "1"},
    {GPU: "2", RDMA: "1"},
    {RDMA: "1"},
]


def resources(amounts: Json) -> Json:
    """A limit and, as the API server fills it in, a request of the same amount."""
    return {"limits": dict(amounts), "requests": dict(amounts)} if amounts else {}


@st.composite
def containers(draw: st.DrawFn, name: str, *, claims: bool = False) -> Json:
    """One container."""
    found: Json = {
        "name": name,
        "image": "registry.local/x:1",
        "resources": resources(draw(st.sampled_from(AMOUNTS))),
    }
    if claims and draw(st.booleans()):
        found["resources"]["claims"] = [{"name": "gpu"}]
    env = draw(st.none() | st.lists(st.sampled_from(ENV), max_size=2, unique_by=lambda each: each["name"]))
    if env is not None or draw(st.booleans()):
        found["env"] = env
    security = draw(st.sampled_from(SECURITY))
    if security is not None:
        found["securityContext"] = security
    return found


def some(draw: st.DrawFn, choices: list[Any], most: int) -> Any:
    """A list of different choices, an empty one, null, or (as `...`) nothing at all."""
    kind = draw(st.sampled_from(["absent", "absent", "null", "list", "list"]))
    if kind == "absent":
        return ...
    if kind == "null":
        return None
    return draw(st.lists(st.sampled_from(choices), max_size=most, unique_by=repr))


def node_affinity(draw: st.DrawFn) -> Any:
    """Required node affinity of up to three terms, some of them empty."""
    if draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from([..., None, {}, {"podAffinity": {}}]))
    expressions = st.lists(st.sampled_from(EXPRESSIONS), max_size=2, unique_by=repr)
    terms: list[Json] = [
        draw(
            st.sampled_from(
                [{}, {"matchExpressions": None}, {"matchExpressions": each}, {"matchExpressions": each}]
            )
        )
        for each in draw(st.lists(expressions, min_size=1, max_size=3))
    ]
    if draw(st.integers(0, 5)) == 0:
        terms.append({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]})
    return {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": terms}}}


def volumes(draw: st.DrawFn) -> Any:
    """Volumes, generic ephemeral ones among them."""
    mode = draw(st.sampled_from(["ReadWriteOnce", "ReadWriteMany"]))
    template: Json = {"spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}}
    template["spec"] |= draw(st.sampled_from([{}, {"storageClassName": None}, {"storageClassName": "own"}]))
    return some(
        draw,
        [
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
            {"name": "ib", "hostPath": {"path": "/dev/infiniband"}},
        ],
        2,
    )


def priority(draw: st.DrawFn) -> tuple[Json, Json]:
    """What a client sent of its priority, and what the Priority plugin filled in."""
    numbers = {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"}
    return draw(
        st.sampled_from(
            [
                ({}, numbers),
                ({}, numbers | {"priorityClassName": "cluster-default", "priority": 100}),
                ({"priorityClassName": "cluster-default"}, numbers | {"priority": 100}),
                ({"priorityClassName": "ai-interactive"}, {"priority": 100_000, "preemptionPolicy": "Never"}),
                ({"priorityClassName": "ai-train-high"}, numbers | {"priority": 1_000_000}),
                ({"priorityClassName": "system-node-critical"}, numbers | {"priority": 2_000_001_000}),
            ]
        )
    )


@st.composite
def pods(draw: st.DrawFn, *, managed: bool | None = None) -> Json:
    """A pod on CREATE.

    Args:
        draw: given by hypothesis.
        managed: whether it has managedFields; drawn where None.
    """
    claims = draw(st.integers(0, 9)) == 0
    sent: Json = {
        "containers": [
            draw(containers(f"app{n}", claims=claims)) for n in range(draw(st.integers(1, 3)))
        ],
        "nodeSelector": draw(st.sampled_from(SELECTORS)),
        "tolerations": some(draw, TOLERATIONS, 3),
        "affinity": node_affinity(draw),
        "volumes": volumes(draw),
        "hostNetwork": draw(st.sampled_from([..., ..., ..., ..., False, True])),
        "resources": draw(st.sampled_from([..., ..., ..., {"requests": {"cpu": "4"}, "limits": {"memory": "1Gi"}}])),
    }  # fmt: skip
    if claims:
        sent["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    for key, most in (("initContainers", 2), ("ephemeralContainers", 1)):
        count = draw(st.integers(-2, most))
        if count >= 0:
            sent[key] = [draw(containers(f"{key[:4]}{n}")) for n in range(count)] or draw(
                st.sampled_from([None, []])
            )
    for each in sent.get("initContainers") or []:
        each.update(draw(st.sampled_from([{}, {"restartPolicy": "Always"}])))
    for each in sent.get("ephemeralContainers") or []:
        each.pop("resources")  # an API server refuses any
    sent = {key: value for key, value in sent.items() if value is not ...}
    of_client, filled_in = priority(draw)
    sent |= of_client
    metadata: Json = {"generateName": "p-", "namespace": draw(st.sampled_from(["training", "web"]))}
    for key, value in (
        ("labels", draw(st.sampled_from(LABELS))),
        ("annotations", draw(st.sampled_from(ANNOTATIONS))),
    ):
        if value is not None:
            metadata[key] = dict(value)
    owner = draw(st.sampled_from(OWNERS))
    if owner:
        group, _, kind = owner.rpartition("/")
        metadata["ownerReferences"] = [
            {"apiVersion": f"{group}/v1", "kind": kind, "name": "o", "uid": "u", "controller": True}
        ]
    if managed if managed is not None else draw(st.integers(0, 3)) > 0:
        metadata["managedFields"] = managed_fields(sent, **metadata)
    spec = {"schedulerName": "default-scheduler", "restartPolicy": "Always"} | sent | filled_in
    return as_received({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def as_received(thing: Json) -> Json:
    """As JSON gives it: no two places of it are one object."""
    found: Json = orjson.loads(orjson.dumps(thing))
    return found


@st.composite
def additions(draw: st.DrawFn) -> Json:
    """What another webhook may add to a pod: a container, a toleration, a label that classifies nothing.

    The container brings no network of its own: what it would keep us from writing is written already.
    """
    found: Json = {}
    if draw(st.booleans()):
        asked = draw(st.sampled_from([{}, {"cpu": "1"}, {GPU: "1"}, {GPU: "4"}, {ASCEND: "8"}, {MIG: "1"}]))
        env = draw(st.sampled_from([None, [], [ENV[0]]]))
        security = draw(st.sampled_from(SECURITY))
        found["container"] = {
            "name": "late",
            "resources": resources(asked),
            "env": env,
            "securityContext": security,
        }
    if draw(st.booleans()):
        found["toleration"] = draw(st.sampled_from(TOLERATIONS))
    if draw(st.booleans()) or not found:
        found["label"] = draw(st.sampled_from([("istio.io/rev", "1"), ("app", "late")]))
    return as_received(found)


def add(thing: Json, addition: Json) -> Json:
    """The pod after the other webhook."""
    spec, metadata = dict(thing["spec"]), dict(thing["metadata"])
    if "container" in addition:
        spec["containers"] = [*spec["containers"], addition["container"]]
    if "toleration" in addition:
        spec["tolerations"] = [*(spec.get("tolerations") or []), addition["toleration"]]
    if "label" in addition:
        key, value = addition["label"]
        metadata["labels"] = (metadata.get("labels") or {}) | {key: value}
    return thing | {"spec": spec, "metadata": metadata}


@st.composite
def claims(draw: st.DrawFn) -> Json:
    """A PersistentVolumeClaim on CREATE."""
    spec: Json = {
        "accessModes": draw(
            st.sampled_from([["ReadWriteOnce"], ["ReadWriteMany"], ["ReadWriteOncePod"], [], None])
        ),
        "resources": {"requests": {"storage": "1Gi"}},
    }
    spec |= draw(
        st.sampled_from(
            [
                {},
                {"storageClassName": None},
                {"storageClassName": ""},
                {"storageClassName": "own"},
                {"volumeName": "v"},
                {"volumeMode": "Block"},
                {"selector": {"matchLabels": {"a": "b"}}},
                {"dataSource": {"kind": "PersistentVolumeClaim", "name": "c"}},
            ]
        )
    )
    metadata: Json = {"name": "c", "namespace": "training", "managedFields": managed_fields(spec)}
    filled_in = (
        draw(st.sampled_from([{}, {"storageClassName": "local-path"}]))
        if "storageClassName" not in spec
        else {}
    )
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata
        | draw(st.sampled_from([{}, {"annotations": {"podgate.dev/io-pattern": "sequential"}}])),
        "spec": spec | filled_in,
    }
    return as_received(claim)
