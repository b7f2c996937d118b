"""Which resource names are accelerators, which are RDMA devices, and what marks the nodes that have them.

The catalogue is data (accelerators.yaml); a site adds names of its own with a document of the same shape.
"""

import copy
import importlib.resources
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, get_args

import yaml

from webhook.documents import Path
from webhook.kube.globs import compile_glob, glob_matches

Role = Literal["device", "memory", "cores", "other"]
Sharing = Literal["none", "mig", "timeSlice", "memorySlice"]

# A DNS subdomain of 253 characters, a slash and a name of 63 (kubernetes/apimachinery:pkg/util/validation).
# Longer ones are no resource names; they would only fill the cache.
MAX_NAME_LENGTH = 317
# Far above the number of names in a cluster, and less than a megabyte.
_CACHED_NAMES = 4096

# A device class serves this resource name too, when the scheduler maps extended resources to DRA
# (kubernetes/enhancements:keps/sig-scheduling/5004-dra-extended-resource).
DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

# What an error shows of a value.
_MAX_SHOWN = 40

_ROLES: tuple[str, ...] = get_args(Role)
_SHARINGS: tuple[str, ...] = get_args(Sharing)


@dataclass(frozen=True, slots=True)
class Resource:
    """What a resource name stands for.

    Attributes:
        vendor: Whose device; empty for a device class that nobody has named.
        role: ``device`` is counted; ``memory`` and ``cores`` say what share of a device; ``other`` is none.
        sharing: How a device is shared; of memory and cores, how the device beside them is shared.
        counts_as: The device that memory or cores ask for where the container names none; empty: nothing.
        per_device: How many units make one device; None: a device is one, any share is of one.
    """

    vendor: str
    role: Role
    sharing: Sharing = "none"
    counts_as: str = ""
    per_device: int | None = None


class CatalogueProblem(NamedTuple):
    """One fault of a catalogue document: where in it, and what was expected and found."""

    path: Path
    text: str

    def __str__(self) -> str:
        return f"{_written(self.path)}: {self.text}" if self.path else self.text


class CatalogueError(ValueError):
    """A catalogue document that cannot be used, with all of its faults."""

    def __init__(self, problems: Iterable[CatalogueProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class Catalogue:
    """What is known about accelerators. Immutable; answers are cached by name.

    Build one with `from_value`; `merged` lays further ones on top of it.
    """

    def __init__(self, layers: tuple["_Layer", ...]) -> None:
        self._layers = layers
        self._resource = lru_cache(_CACHED_NAMES)(self._find_resource)
        self._is_rdma = lru_cache(_CACHED_NAMES)(self._find_rdma)
        self._node_label_vendors = lru_cache(_CACHED_NAMES)(self._find_node_label_vendors)
        self._taint_vendors = lru_cache(_CACHED_NAMES)(self._find_taint_vendors)

    @classmethod
    def from_value(cls, value: object) -> "Catalogue":
        """The catalogue that a document describes.

        Raises:
            CatalogueError: The document is not of the shape that accelerators.yaml explains; all faults are
                listed.
        """
        return cls((_Reader().read(value),))

    def merged(self, *extras: "Catalogue") -> "Catalogue":
        """This catalogue with others on top: what the last one says of a name holds."""
        return Catalogue(tuple(chain(self._layers, *(extra._layers for extra in extras))))  # noqa: SLF001 - its own class

    def canonical(self) -> dict[str, Any]:
        """All that the catalogue says, as a JSON value: equal values mean equal answers."""
        return {"layers": [copy.deepcopy(layer.source) for layer in self._layers]}

    @property
    def vendors(self) -> frozenset[str]:
        """Every vendor that has an entry."""
        return frozenset(chain.from_iterable(layer.vendors for layer in self._layers))

    def resource(self, name: str) -> Resource | None:
        """What a resource name stands for, None where it is not known."""
        return self._resource(name) if len(name) <= MAX_NAME_LENGTH else None

    def is_rdma(self, name: str) -> bool:
        """Whether a resource name is a device for remote memory access."""
        return len(name) <= MAX_NAME_LENGTH and self._is_rdma(name)

    def device_class(self, name: str) -> Resource | None:
        """The device that a DRA device class hands out, None where the class is not known."""
        return _find(name, (layer.device_classes for layer in reversed(self._layers)))

    def node_label_vendors(self, key: str, value: str | None = None) -> frozenset[str]:
        """The vendors whose nodes carry this label.

        Args:
            key: The label's key.
            value: Its value; None asks for any value, as a selector with ``Exists`` does.
        """
        is_short = len(key) + len(value or "") <= MAX_NAME_LENGTH
        return (self._node_label_vendors if is_short else self._find_node_label_vendors)(key, value)

    def taint_vendors(self, key: str) -> frozenset[str]:
        """The vendors whose nodes carry this taint; a device's own name is one by convention.

        The convention is kubernetes/kubernetes:plugin/pkg/admission/extendedresourcetoleration/admission.go.
        """
        is_short = len(key) <= MAX_NAME_LENGTH
        return (self._taint_vendors if is_short else self._find_taint_vendors)(key)

    def _find_taint_vendors(self, key: str) -> frozenset[str]:
        marks = chain.from_iterable(layer.taints for layer in self._layers)
        vendors = {mark.vendor for mark in marks if mark.matches(key, None)}
        resource = self.resource(key)
        if resource and resource.role == "device":
            vendors.add(resource.vendor)
        return frozenset(vendors)

    def _find_resource(self, name: str) -> Resource | None:
        found = _find(name, (layer.resources for layer in reversed(self._layers)))
        if found is None and name.startswith(DEVICE_CLASS_PREFIX):
            # Countable either way, but a class that nobody has named may be only a NIC: no accelerator.
            return self.device_class(name.removeprefix(DEVICE_CLASS_PREFIX)) or _UNKNOWN_CLASS
        return found

    def _find_node_label_vendors(self, key: str, value: str | None) -> frozenset[str]:
        marks = chain.from_iterable(layer.node_labels for layer in self._layers)
        return frozenset(mark.vendor for mark in marks if mark.matches(key, value))

    def _find_rdma(self, name: str) -> bool:
        return any(layer.rdma.find(name) for layer in self._layers)


@cache
def shipped_catalogue() -> Catalogue:
    """The catalogue that podgate brings along, read once."""
    text = importlib.resources.files(__package__).joinpath("accelerators.yaml").read_bytes()
    return Catalogue.from_value(yaml.load(text, yaml.CSafeLoader))


_UNKNOWN_CLASS = Resource("", "other")
_Value = TypeVar("_Value")
_ANY_DOMAIN = "*"


class _Names(Generic[_Value]):
    """A value by name: exact names first, then patterns in the order they were written.

    Patterns are kept by what stands before the slash; one with a star there comes after all others. An object may
    name a hundred thousand resources: each must meet few patterns.
    """

    def __init__(self) -> None:
        self._exact: dict[str, _Value] = {}
        self._patterns: dict[str, list[tuple[Callable[[str], bool], _Value]]] = {}

    def put(self, name: str, value: _Value) -> None:
        if "*" in name:
            domain = name.partition("/")[0]
            key = _ANY_DOMAIN if "*" in domain else domain
            self._patterns.setdefault(key, []).append((compile_glob(name), value))
        else:
            self._exact[name] = value

    def find(self, name: str) -> _Value | None:
        if name in self._exact:
            return self._exact[name]
        for key in (name.partition("/")[0], _ANY_DOMAIN):
            for matches, value in self._patterns.get(key, ()):
                if matches(name):
                    return value
        return None


def _find(name: str, layers: Iterable[_Names[_Value]]) -> _Value | None:
    return next((value for layer in layers if (value := layer.find(name)) is not None), None)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A label or taint key, with a value or without, that the nodes of a vendor carry."""

    vendor: str
    key: str
    value: str | None

    def matches(self, key: str, value: str | None) -> bool:
        if not glob_matches(self.key, key):
            return False
        return self.value is None or value is None or glob_matches(self.value, value)


@dataclass(frozen=True, slots=True)
class _Layer:
    """One document, made ready to be asked."""

    source: Any
    vendors: list[str] = field(default_factory=list)
    resources: _Names[Resource] = field(default_factory=_Names)
    device_classes: _Names[Resource] = field(default_factory=_Names)
    node_labels: list[_Mark] = field(default_factory=list)
    taints: list[_Mark] = field(default_factory=list)
    rdma: _Names[Literal[True]] = field(default_factory=_Names)


class _Reader:
    """Reads a catalogue document, and notes every fault on the way."""

    def __init__(self) -> None:
        self._problems: list[CatalogueProblem] = []
        self._first_seen: dict[str, Path] = {}

    def read(self, value: object) -> _Layer:
        layer = _Layer(copy.deepcopy(value))
        document = self._map((), value, ("vendors", "rdmaResources"))
        vendors = self._map(("vendors",), document.get("vendors"))
        for vendor, entry in vendors.items():
            self._read_vendor(layer, vendor, entry)
        for _, name in self._texts(("rdmaResources",), document.get("rdmaResources"), _NAME):
            layer.rdma.put(name, True)
        if self._problems:
            raise CatalogueError(self._problems)
        return layer

    def _read_vendor(self, layer: _Layer, vendor: str, value: object) -> None:
        path = ("vendors", vendor)
        if not _VENDOR.pattern.fullmatch(vendor):
            self._fault(path, _VENDOR.expected, vendor)
        entry = self._map(path, value, ("resources", "deviceClasses", "nodeLabels", "taints"))
        layer.vendors.append(vendor)
        for key, names, pattern in (
            ("resources", layer.resources, _NAME),
            ("deviceClasses", layer.device_classes, _CLASS),
        ):
            for index, item in enumerate(self._list((*path, key), entry.get(key))):
                self._read_names((*path, key, index), item, vendor, names, pattern)
        for key, marks, pattern in (
            ("nodeLabels", layer.node_labels, _LABEL),
            ("taints", layer.taints, _NAME),
        ):
            for _, text in self._texts((*path, key), entry.get(key), pattern):
                label, equals, wanted = text.partition("=")
                marks.append(_Mark(vendor, label, wanted if equals else None))

    def _read_names(
        self, path: Path, value: object, vendor: str, into: _Names[Resource], pattern: "_Pattern"
    ) -> None:
        is_resource = pattern is _NAME
        entry = self._map(path, value, _RESOURCE_KEYS if is_resource else _CLASS_KEYS)
        role = self._choice((*path, "role"), entry.get("role"), _ROLES) if is_resource else "device"
        sharing = self._choice((*path, "sharing"), entry.get("sharing", "none"), _SHARINGS)
        resource = Resource(
            vendor, cast("Role", role), cast("Sharing", sharing), *self._read_counting(path, entry, role)
        )
        if not entry.get("names"):
            self._fault((*path, "names"), "a list of at least one name", entry.get("names"))
        for name_path, name in self._texts((*path, "names"), entry.get("names"), pattern):
            self._note_first(name_path, name)
            into.put(name, resource)

    def _read_counting(self, path: Path, entry: Mapping[str, Any], role: str) -> tuple[str, int | None]:
        counts_as, per_device = entry.get("countsAs"), entry.get("perDevice")
        if counts_as is not None:
            if role not in {"memory", "cores"}:
                self._problems.append(
                    CatalogueProblem((*path, "countsAs"), "belongs to the roles memory and cores only")
                )
            self._text((*path, "countsAs"), counts_as, _EXACT_NAME)
        if per_device is not None and not (type(per_device) is int and per_device > 0):
            self._fault((*path, "perDevice"), "a whole number from 1", per_device)
        return counts_as or "", per_device

    def _note_first(self, path: Path, name: str) -> None:
        first = self._first_seen.setdefault(name, path)
        if first != path:
            self._problems.append(CatalogueProblem(path, f"{name} stands at {_written(first)} already"))

    def _map(self, path: Path, value: object, keys: tuple[str, ...] = ()) -> Mapping[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._fault(path, "a map", value)
            return {}
        for key in value:
            if keys and key not in keys:
                self._problems.append(
                    CatalogueProblem((*path, str(key)), f"unknown key, expected one of {', '.join(keys)}")
                )
        return {str(key): item for key, item in value.items()}

    def _list(self, path: Path, value: object) -> list[Any]:
        if value is None:
            return []
        if not isinstance(value, list):
            self._fault(path, "a list", value)
            return []
        return value

    def _texts(self, path: Path, value: object, pattern: "_Pattern") -> list[tuple[Path, str]]:
        items = [((*path, index), item) for index, item in enumerate(self._list(path, value))]
        return [(place, item) for place, item in items if self._text(place, item, pattern)]

    def _text(self, path: Path, value: object, pattern: "_Pattern") -> bool:
        if isinstance(value, str) and len(value) <= MAX_NAME_LENGTH and pattern.pattern.fullmatch(value):
            return True
        self._fault(path, pattern.expected, value)
        return False

    def _choice(self, path: Path, value: object, choices: tuple[str, ...]) -> str:
        if isinstance(value, str) and value in choices:
            return value
        self._fault(path, f"one of {', '.join(choices)}", value)
        return choices[0]

    def _fault(self, path: Path, expected: str, found: object) -> None:
        self._problems.append(CatalogueProblem(path, f"expected {expected}, found {_shown(found)}"))


class _Pattern(NamedTuple):
    pattern: re.Pattern[str]
    expected: str


# Of one character class each: nothing to backtrack into.
_VENDOR = _Pattern(re.compile(r"[a-z][a-z0-9-]{0,62}"), "a vendor in lower-case letters, digits and -")
_NAME = _Pattern(
    re.compile(r"[A-Za-z0-9*._-]+/[A-Za-z0-9*._-]+"), "a name such as nvidia.com/gpu or nvidia.com/mig-*"
)
_EXACT_NAME = _Pattern(
    re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+"), "a name such as nvidia.com/gpu, without *"
)
_CLASS = _Pattern(re.compile(r"[a-z0-9*.-]+"), "the name of a DeviceClass such as gpu.nvidia.com")
_LABEL = _Pattern(
    re.compile(r"[A-Za-z0-9*._/-]+(?:=[A-Za-z0-9*._-]+)?"),
    "a label key such as nvidia.com/gpu.present, or key=value",
)
_RESOURCE_KEYS = ("names", "role", "sharing", "countsAs", "perDevice")
_CLASS_KEYS = ("names", "sharing")


def _written(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = value if isinstance(value, str) else str(value).lower()
    return ascii(text[:_MAX_SHOWN])
