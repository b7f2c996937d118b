"""What makes a pod's RDMA somebody's choice, for the rules that request it and those that require it."""

import re
from collections.abc import Mapping
from typing import Any

from webhook.documents import Path
from webhook.facts import Unknown
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.kube.pod import Container
from webhook.rules.base import Subject

INJECTOR_ANNOTATIONS = (
    "cni.spidernet.io/rdma-resource-inject",
    "cni.spidernet.io/network-resource-inject",
    "k8s.v1.cni.cncf.io/networks",
    "networking.gke.io/interfaces",
)
"""Whoever sets one of these gives the pod its network devices.

Sources: spidernet-io/spiderpool:pkg/podmanager/utils.go, k8snetworkplumbingwg/network-resources-injector:pkg/webhook/webhook.go.
"""

SWITCH = "NCCL_IB_DISABLE"
"""Any number but 0 (NVIDIA/nccl:src/transport/net_ib/init.cc)."""

_NOT_ZERO = re.compile(r"\s*[+-]?(?:0[xX]0*[1-9a-fA-F]|0*[1-9])")
"""How a number begins that C's strtoll takes for another than 0; any other text is no number (NVIDIA/nccl:src/misc/param.cc)."""

_OWN = frozenset(INJECTOR_ANNOTATIONS)
_INHERITED = frozenset(name for name in INJECTOR_ANNOTATIONS if name.startswith("cni."))
"""Those that count on the namespace, too."""

DEVICE_FOLDER = ("dev", "infiniband")


def injector(subject: Subject) -> str:
    """The annotation, of the pod or of its namespace, by which another webhook gives the pod its devices; "" if none."""
    namespace = subject.received.namespace
    inherited = {} if isinstance(namespace, Unknown) else namespace.annotations
    own = mapping_at(subject.object, ("metadata", "annotations"))
    if _OWN.isdisjoint(own) and _INHERITED.isdisjoint(inherited):
        return ""
    return next(n for n in INJECTOR_ANNOTATIONS if n in own or (n in _INHERITED and n in inherited))


def switched_off(holder: Container) -> Path:
    """Where a container switches RDMA off, () if it does not; of two entries with one name the last counts."""
    entries = list_at(holder.value, ("env",))
    found = [i for i, entry in enumerate(entries) if type(entry) is dict and entry.get("name") == SWITCH]
    if not found:
        return ()
    value = value_at(entries[found[-1]], ("value",))
    is_on = isinstance(value, str) and _NOT_ZERO.match(value)
    return (*holder.path, "env", found[-1]) if is_on else ()


def plain_capability(name: Any) -> str:
    """A capability as container runtimes compare them: without its prefix, in capitals."""
    return str(name).upper().removeprefix("CAP_")


def added_capabilities(context: Mapping[str, Any]) -> frozenset[str]:
    """What a security context adds."""
    return frozenset(map(plain_capability, list_at(context, ("capabilities", "add"))))


def dropped_capabilities(context: Mapping[str, Any]) -> frozenset[str]:
    """What a security context drops."""
    return frozenset(map(plain_capability, list_at(context, ("capabilities", "drop"))))
