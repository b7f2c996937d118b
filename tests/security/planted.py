"""Objects, policies and facts that carry a marker wherever somebody may have put a secret.

Every planted text contains `MARKER`, or `ENCODED` where the field holds base64; each place has a text of its own, so
that a find says where it came from.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import yaml

from tests.engine.gates import GPU, File, policy
from tests.property.sets import in_mode, rich_files

Json = dict[str, Any]

MARKER = "5eCr3T"
ENCODED = b64encode(MARKER.encode()).decode()
"""Six bytes are whole groups of base64: the text stays the same whatever follows."""


def secret(place: str) -> str:
    """The text planted in a place."""
    return f"{MARKER}-{place}"


def encoded(place: str) -> str:
    """The same as Secrets hold it."""
    return b64encode(secret(place).encode()).decode()


def leaks(text: str) -> list[str]:
    """What of the planted texts a channel shows, with what stands around it."""
    found = []
    for marker in (MARKER, ENCODED, MARKER.encode().hex()):
        start = text.find(marker)
        if start >= 0:
            found.append(text[max(0, start - 120) : start + 60])
    return found


def container(name: str, gpus: int = 0, **more: Any) -> Json:
    """A container with secrets in each field that takes free text."""
    environment = [
        {"name": "TOKEN", "value": secret(f"{name}-env")},
        {"name": "NUMBER", "value": secret(f"{name}-number")},
        {"name": "NCCL_DEBUG", "value": secret(f"{name}-nccl")},
        {"name": "NCCL_IB_HCA", "value": secret(f"{name}-hca")},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": secret(f"{name}-devices")},
        {"name": "MASTER_ADDR", "value": secret(f"{name}-master")},
        {"name": "WORLD_SIZE", "value": secret(f"{name}-world")},
        {
            "name": "FROM",
            "valueFrom": {"secretKeyRef": {"name": secret(f"{name}-ref"), "key": secret("key")}},
        },
    ]
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    return {
        "name": name,
        "image": "registry.example.org/train:1",
        "command": ["sh", "-c", f"login --password {secret(f'{name}-command')}"],
        "args": [f"--token={secret(f'{name}-args')}"],
        "env": environment,
        "envFrom": [{"secretRef": {"name": secret(f"{name}-envFrom")}}],
        "resources": resources,
        "readinessProbe": {"httpGet": {"httpHeaders": [{"name": "a", "value": secret(f"{name}-header")}]}},
        "lifecycle": {"preStop": {"exec": {"command": [secret(f"{name}-hook")]}}},
        **more,
    }


def pod_spec(gpus: int, **more: Any) -> Json:
    """A pod that many rules find fault with."""
    return {
        "containers": [container("main", gpus, securityContext={"privileged": True}), container("app2")],
        "initContainers": [container("setup"), container("proxy", restartPolicy="Always")],
        "imagePullSecrets": [{"name": secret("pull")}],
        "volumes": [
            {"name": "token", "secret": {"secretName": secret("volume")}},
            {"name": "disk", "csi": {"driver": "x", "volumeAttributes": {"key": secret("csi")}}},
        ],
        **more,
    }


def client_annotations(place: str) -> Json:
    """What clients leave on objects."""
    return {
        "kubectl.kubernetes.io/last-applied-configuration": f'{{"data":"{secret(place)}"}}',
        "example.org/token": secret(f"{place}-annotation"),
    }


def pod(gpus: int = 16, **more: Any) -> Json:
    """A bare pod."""
    metadata = {"name": "trainer", "namespace": "llm-train", "annotations": client_annotations("pod")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(gpus, **more)}


def deployment() -> Json:
    """The same below a controller."""
    template = {"metadata": {"labels": {"app": "x"}, "annotations": client_annotations("template")}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "server",
            "namespace": "llm-train",
            "annotations": client_annotations("deployment"),
        },
        "spec": {"replicas": 2, "template": {**template, "spec": pod_spec(16)}},
    }


def claim() -> Json:
    """A claim that gets a storage class."""
    metadata = {"name": "corpus", "namespace": "llm-train", "annotations": client_annotations("claim")}
    size = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteMany"], "resources": size}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


OBJECTS = {
    "a refused pod": pod(),
    "a pod that is changed": pod(2),
    "a pod without accelerators": pod(0),
    "a pod with fields of wrong types": pod(
        8,
        hostNetwork=secret("type"),
        tolerations=secret("tolerations"),
        affinity=[secret("affinity")],
        priority=secret("priority"),
    ),
    "a controller": deployment(),
    "a claim": claim(),
}


def secret_objects() -> list[Json]:
    """What a folder of facts may hold by accident: `kubectl get all,secret,configmap -o yaml`."""
    secret_ = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db", "namespace": "llm-train", "annotations": client_annotations("secret")},
        "data": {"password": encoded("data")},
        "stringData": {"password": secret("stringData")},
    }
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "app", "namespace": "llm-train"},
        "data": {"app.ini": f"password = {secret('configmap')}\n"},
    }
    return [secret_, config, {"apiVersion": "v1", "kind": "List", "items": [secret_, config, pod()]}]


#: Secrets that YAML takes for something else: its complaints must not repeat them.
MALFORMED = {
    "alias": f"password: *{MARKER}\n",
    "tag": f"password: !{MARKER} x\n",
    "verbatim-tag": f"password: !<{MARKER}> x\n",
    "directive": f"%{MARKER} x\n---\na: b\n",
    "escape": f'password: "\\q{MARKER}"\n',
    "unclosed": f'password: "{MARKER}\n',
    "merge": f"<<: {MARKER}\na: b\n",
    "no-map": f"{MARKER}\n",
    "indent": f"a: b\n   c: {MARKER}\n  d: {MARKER}\n",
    "at": f"password: @{MARKER}\n",
    "percent": f"password: %{MARKER}\n",
    "colon": f"password: {MARKER}: x\n",
    "block": f"password: |{MARKER}\n  x\n",
    "anchor-twice": f"password: &{MARKER} &{MARKER} x\n",
    "int-tag": f"password: !!int {MARKER}\n",
    "binary-tag": f"password: !!binary {MARKER}!!\n",
    "timestamp-tag": f"password: !!timestamp {MARKER}\n",
    "document-end": f"a: b\n... {MARKER}\n",
    "json": f'{{"password": {MARKER}}}\n',
    "kind": f"apiVersion: v1\nkind: Secret\ndata: {MARKER}\nmetadata: {MARKER}\n",
    "namespace": f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: x, labels: {MARKER}}}\n",
}

#: Conditions whose evaluation fails on a secret, each in another way.
CONDITIONS = (
    "int(object.spec.containers[0].env[1].value) > 3",
    "double(object.spec.containers[0].env[1].value) > 3.0",
    "bool(object.spec.containers[0].env[0].value)",
    "timestamp(object.spec.containers[0].env[0].value) > timestamp('2026-01-01T00:00:00Z')",
    "duration(object.spec.containers[0].args[0]) > duration('1s')",
    "object.spec.containers[0].env[0].value.length > 3",
    "{'a': true}[object.spec.containers[0].env[0].value]",
    "dyn({'a': {'b': true}})[object.spec.containers[0].command[2]].b",
    "object.metadata.annotations[object.spec.containers[0].env[0].value] == 'x'",
    "object.spec.containers[0].env[0].value.split('-')[7] == 'x'",
    "dyn(object.spec.containers[0].env[0].value) + 1 == 2",
    "[1, 2][dyn(object.spec.containers[0].env[0].value)] == 1",
    "quantity(object.spec.containers[0].env[0].value) > quantity('1')",
    "object.spec.containers[0].env[0].value",
    "object.spec.imagePullSecrets[0].name == 'x'",
    "object.spec.containers.all(c, c.env.all(e, int(e.value) > 0))",
)


def files(mode: str, start: int = 0) -> list[File]:
    """A set that touches everything, with policies of its own whose values are secrets."""
    environment = {"PASSWORD": secret("policy"), "NCCL_DEBUG": secret("policy-nccl")}
    both = {"containers": "all", "env": environment, "labels": {"own": "x"}}
    fabric = {"resourceNames": ["rdma/own"], "env": {"OWN_FABRIC": secret("policy-fabric")}}
    conditions = [
        policy(
            f"condition-{number}",
            {"expression": {"resources": ["pods"], "validations": [{"expression": text}]}},
        )
        for number, text in enumerate(CONDITIONS)
    ]
    own = [policy("own-environment", {"setFields": both}), policy("own-fabric", {"requestRDMA": fabric})]
    return in_mode([*rich_files(), *own, *conditions], mode)


def as_yaml(things: list[Json]) -> str:
    """Documents of one file."""
    return yaml.safe_dump_all(things, sort_keys=False)
