"""Facts about the cluster, from Kubernetes objects as `kubectl get -o yaml` prints them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from webhook.facts.accessor import accessor_refuses
from webhook.kube.field_path import list_at, mapping_at, value_at
from webhook.kube.pod import quantities
from webhook.kube.quantity import Quantity

T = TypeVar("T")

GROUPS = {
    "Accessor": "storage.kubesphere.io",
    "Namespace": "",
    "Node": "",
    "PersistentVolumeClaim": "",
    "PriorityClass": "scheduling.k8s.io",
    "ResourceClaim": "resource.k8s.io",
    "ResourceClaimTemplate": "resource.k8s.io",
    "StorageClass": "storage.k8s.io",
    "VolumeAttributesClass": "storage.k8s.io",
}
"""The API groups of the kinds that are asked about; an object that names another group is not meant."""

DEFAULT_CLASS_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
"""Either marks a default class (kubernetes/kubernetes:pkg/apis/storage/v1/util/helpers.go, IsDefaultAnnotation)."""
POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
WORKSPACE_LABEL = "kubesphere.io/workspace"
"""KubeSphere puts a namespace into a workspace by this label (kubesphere/kubesphere:pkg/constants/constants.go)."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A fact that is not known, and why: never to be read as absent.

    Attributes:
        needs: the kind of the objects that would tell, "" where no object would.
    """

    why: str
    needs: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Namespace:
    """What a policy may ask about a namespace."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    @property
    def workspace(self) -> str:
        """Its KubeSphere workspace, "" if it is in none."""
        return self.labels.get(WORKSPACE_LABEL, "")


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A scheduling.k8s.io PriorityClass; by default it preempts lower priorities (kubernetes/api:scheduling/v1/types.go).

    Attributes:
        value: the priority of its pods; the highest is scheduled first.
    """

    name: str
    value: int
    preemption_policy: str
    global_default: bool


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A storage.k8s.io StorageClass."""

    name: str
    provisioner: str
    is_default: bool

    @property
    def is_cephfs(self) -> bool:
        """Whether CephFS serves it."""
        return self._is_of("cephfs.csi.ceph.com")

    @property
    def is_rbd(self) -> bool:
        """Whether Ceph's block devices serve it."""
        return self._is_of("rbd.csi.ceph.com")

    def _is_of(self, driver: str) -> bool:
        """Whether a driver of ceph-csi serves it, under any operator's prefix (ceph/ceph-csi:examples)."""
        return self.provisioner == driver or self.provisioner.endswith(f".{driver}")


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that are alike in labels, allocatable resources and taints.

    Attributes:
        allocatable: of one of them, by resource name.
    """

    labels: Mapping[str, str]
    allocatable: Mapping[str, Quantity]
    taints: tuple[Mapping[str, Any], ...]


UNKNOWN_WITHOUT_FACTS = "no facts about the cluster were given"

_Table = Mapping[str, Mapping[str, Any]]

LateNamespace = Callable[[str], Mapping[str, Any] | None]
"""Gives a namespace by its name, perhaps after a while; None if it does not come."""

FORGETTABLE = 1000
"""Results of parsing that are kept of objects that are gone: more than that, and all of those are dropped."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one cluster.

    A kind of which at least one object (or an empty List of it) was given is known completely; any other kind is unknown.

    Attributes:
        tables: by kind, by `namespace/name` (or name), the objects.
        pod_security_default: the Pod Security level of namespaces without a label, which stands in a file of the API
            server that no API shows; None if nobody said it.
        reasons: by kind, why nothing is known of it, where there is a better reason than that nobody gave it.
        late_namespace: gives a namespace that is not in the table but may be on its way, None if it does not come; asked
            at most once for a name.
    """

    tables: Mapping[str, _Table] = field(default_factory=dict)
    pod_security_default: str | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    late_namespace: LateNamespace | None = field(default=None, compare=False)
    # What was parsed, with what it was parsed from: it is shared by facts that differ in a few objects.
    _parsed: dict[str, dict[str, tuple[Any, Any]]] = field(default_factory=dict, compare=False)
    _late: dict[str, Namespace | None] = field(default_factory=dict, compare=False)

    @classmethod
    def from_objects(
        cls, objects: Iterable[Mapping[str, Any]], pod_security_default: str | None = None
    ) -> "Facts":
        """Facts from objects and Lists of objects.

        Args:
            objects: Kubernetes objects; a `…List` counts for its kind even when it is empty.
            pod_security_default: see the class.
        """
        tables: dict[str, dict[str, Mapping[str, Any]]] = {}
        for thing in objects:
            said = str(thing.get("kind") or "")
            listed = said.removesuffix("List")
            is_list = listed != said
            if is_list and listed and _is_of_group(thing, listed):
                tables.setdefault(listed, {})
            for item in list_at(thing, ("items",)) if is_list else [thing]:
                kind = str(value_at(item, ("kind",)) or listed)
                if isinstance(item, Mapping) and _is_of_group(item, kind):
                    tables.setdefault(kind, {})[_key(item)] = item
        return cls(tables, pod_security_default)

    def with_table(self, kind: str, table: _Table) -> "Facts":
        """These facts with other objects of one kind; what was parsed of objects that stay is kept.

        Args:
            kind: of all the objects.
            table: by `namespace/name` (or name).
        """
        parsed = self._parsed.get(kind, {})
        if len(parsed) > len(table) + FORGETTABLE:
            self._parsed[kind] = {key: known for key, known in parsed.items() if key in table}
        return replace(self, tables={**self.tables, kind: table}, _late={})

    def without(self, kind: str, why: str) -> "Facts":
        """These facts with nothing known of one kind.

        Args:
            kind: of which nothing is known now, such as `PriorityClass`.
            why: a reason, fit for the text of a denial.
        """
        tables = {known: table for known, table in self.tables.items() if known != kind}
        return replace(self, tables=tables, reasons={**self.reasons, kind: why}, _late={})

    def waiting(self, late_namespace: LateNamespace) -> "Facts":
        """These facts for one review that can wait for a namespace."""
        return replace(self, late_namespace=late_namespace, _late={})

    def namespace(self, name: str) -> Namespace | Unknown:
        """A namespace; one that is not among those given is unknown, since the request shows that it exists."""
        found = self._get("Namespace", name, _namespace) or self._latecomer(name)
        if found is not None:
            return found
        said = "is not known yet" if self.late_namespace else "is not among the facts given"
        return Unknown(f"namespace {name} {said}", "Namespace")

    def pod_security(self, namespace: str) -> str | Unknown:
        """The Pod Security level that the API server enforces in a namespace: privileged, baseline or restricted."""
        found = self.namespace(namespace)
        level = "" if isinstance(found, Unknown) else found.labels.get(POD_SECURITY_LABEL, "")
        if level:
            return level
        if isinstance(found, Unknown):
            return found
        return self.pod_security_default or Unknown(
            f"namespace {namespace} has no label {POD_SECURITY_LABEL}, and the cluster's default was not given"
        )

    def priority_class(self, name: str) -> PriorityClass | Unknown | None:
        """A priority class by its name."""
        return self._get("PriorityClass", name, _priority_class)

    def default_priority_class(self) -> PriorityClass | Unknown | None:
        """The class with `globalDefault: true`; of several the one with the lowest value, as the Priority plugin picks it.

        Source: kubernetes/kubernetes:plugin/pkg/admission/priority/admission.go, getDefaultPriorityClass.
        """
        defaults = self._all("PriorityClass", _priority_class)
        if isinstance(defaults, Unknown):
            return defaults
        return min((c for c in defaults if c.global_default), key=lambda c: c.value, default=None)

    def storage_class(self, name: str) -> StorageClass | Unknown | None:
        """A storage class by its name."""
        return self._get("StorageClass", name, _storage_class)

    def default_storage_classes(self) -> tuple[StorageClass, ...] | Unknown:
        """The classes that are marked as default; the API server fills in the newest of them."""
        found = self._all("StorageClass", _storage_class)
        return found if isinstance(found, Unknown) else tuple(c for c in found if c.is_default)

    def volume_attributes_driver(self, name: str) -> str | Unknown | None:
        """The driver of a VolumeAttributesClass."""
        return self._get("VolumeAttributesClass", name, lambda o: str(o.get("driverName") or ""))

    def claim_class(self, namespace: str, name: str) -> str | Unknown | None:
        """The storage class of the existing claim `name` in `namespace`, "" if it has none; None where there is no such claim."""
        return self._get(
            "PersistentVolumeClaim",
            f"{namespace}/{name}",
            lambda o: str(value_at(o, ("spec", "storageClassName")) or ""),
        )

    def nodes(self) -> tuple[NodeGroup, ...] | Unknown:
        """All nodes that pods may be scheduled to."""
        found = self._all("Node", _node)
        return found if isinstance(found, Unknown) else tuple(node for node in found if node is not None)

    def device_classes(self, namespace: str, claim: Mapping[str, Any]) -> tuple[str, ...] | Unknown:
        """The device classes that one entry of a pod's `resourceClaims` asks for.

        Args:
            namespace: the pod's, where its claims and their templates are.
            claim: the entry; it names a ResourceClaim or a ResourceClaimTemplate.
        """
        template, name = claim.get("resourceClaimTemplateName"), claim.get("resourceClaimName")
        kind = "ResourceClaimTemplate" if template else "ResourceClaim"
        found = self._get(kind, f"{namespace}/{template or name}", _device_classes)
        return (
            found
            if found is not None
            else Unknown(f"{kind} {namespace}/{template or name} is not among the facts", kind)
        )

    def accessor_refusal(self, storage_class: str, namespace: str) -> str:
        """Which KubeSphere accessor is known to refuse `storage_class` in `namespace`, by its name; "" if none is."""
        found = self.namespace(namespace)
        known = None if isinstance(found, Unknown) else (found.labels, found.workspace)
        for name, accessor in self.tables.get("Accessor", {}).items():
            is_of_class = value_at(accessor, ("spec", "storageClassName")) == storage_class
            if is_of_class and accessor_refuses(accessor, namespace, known):
                return name
        return ""

    def _latecomer(self, name: str) -> Namespace | None:
        if self.late_namespace is None or not name:
            return None
        if name not in self._late:
            found = self.late_namespace(name)
            self._late[name] = None if found is None else _namespace(found)
        return self._late[name]

    def _all(self, kind: str, parse: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...] | Unknown:
        table = self.tables.get(kind)
        if table is None:
            return self._missing(kind)
        return self._once(kind, "", table, lambda: tuple(map(parse, table.values())))

    def _get(self, kind: str, key: str, parse: Callable[[Mapping[str, Any]], T]) -> T | Unknown | None:
        table = self.tables.get(kind)
        if table is None:
            return self._missing(kind)
        item = table.get(key)
        return None if item is None else self._once(kind, key, item, lambda: parse(item))

    def _once(self, kind: str, key: str, source: Any, parse: Callable[[], T]) -> T:
        """What is parsed from a source, which is the same object as long as it says the same."""
        parsed = self._parsed.setdefault(kind, {})
        known = parsed.get(key)
        if known is None or known[0] is not source:
            known = parsed[key] = (source, parse())
        found: T = known[1]
        return found

    def _missing(self, kind: str) -> Unknown:
        why = f"no {kind} is among the facts given" if self.tables else UNKNOWN_WITHOUT_FACTS
        return Unknown(self.reasons.get(kind, why), kind)


def _is_of_group(item: Mapping[str, Any], kind: str) -> bool:
    """Whether an object is of the kind that is meant: other API groups may have kinds of the same name."""
    version = item.get("apiVersion")
    if not isinstance(version, str) or kind not in GROUPS:
        return True
    return version.rpartition("/")[0] == GROUPS[kind]


def _key(item: Mapping[str, Any]) -> str:
    metadata = mapping_at(item, ("metadata",))
    namespace, name = metadata.get("namespace"), str(metadata.get("name") or "")
    return f"{namespace}/{name}" if namespace else name


def _texts(value: Mapping[str, Any]) -> dict[str, str]:
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _namespace(item: Mapping[str, Any]) -> Namespace:
    metadata = mapping_at(item, ("metadata",))
    labels, annotations = mapping_at(metadata, ("labels",)), mapping_at(metadata, ("annotations",))
    return Namespace(str(metadata.get("name")), _texts(labels), _texts(annotations))


def _priority_class(item: Mapping[str, Any]) -> PriorityClass:
    value = item.get("value")
    return PriorityClass(
        _key(item),
        value if type(value) is int else 0,
        str(item.get("preemptionPolicy") or "PreemptLowerPriority"),
        item.get("globalDefault") is True,
    )


def _storage_class(item: Mapping[str, Any]) -> StorageClass:
    annotations = mapping_at(item, ("metadata", "annotations"))
    is_default = any(annotations.get(name) == "true" for name in DEFAULT_CLASS_ANNOTATIONS)
    return StorageClass(_key(item), str(item.get("provisioner") or ""), is_default)


def _node(item: Mapping[str, Any]) -> NodeGroup | None:
    if value_at(item, ("spec", "unschedulable")) is True:
        return None
    taints = tuple(taint for taint in list_at(item, ("spec", "taints")) if isinstance(taint, Mapping))
    allocatable = quantities(mapping_at(item, ("status", "allocatable")))
    return NodeGroup(_texts(mapping_at(item, ("metadata", "labels"))), allocatable, taints)


def _device_classes(item: Mapping[str, Any]) -> tuple[str, ...]:
    """`spec.devices.requests[].deviceClassName` (v1beta1) or `…exactly.deviceClassName`, `…firstAvailable[]` (v1beta2, v1)."""
    spec = mapping_at(item, ("spec", "spec")) or mapping_at(item, ("spec",))
    classes: list[str] = []
    for request in list_at(spec, ("devices", "requests")):
        for part in (request, value_at(request, ("exactly",)), *list_at(request, ("firstAvailable",))):
            name = value_at(part, ("deviceClassName",))
            if isinstance(name, str):
                classes.append(name)
    return tuple(classes)
