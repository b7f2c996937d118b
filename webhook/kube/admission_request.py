"""An admission request: what the API server asks about, free of the wire's details."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class AdmissionRequest(NamedTuple):
    """One request, in the words of kubernetes/api:admission/v1/types.go.

    Attributes:
        group: of the resource; the kind's differs for some subresources (`deployments/scale`, `pods/eviction`).
        object: the new object, read-only; None on DELETE.
        old_object: the stored object, read-only; None on CREATE.
        replicas: how many such pods a controller's template stands for; 1 for an object of its own.
        from_api_server: whether the object went through an API server's defaulting; False for files.
        raw: the request as JSON, of which expressions see all but the objects.
    """

    kind: str
    resource: str
    object: Mapping[str, Any] | None
    uid: str = ""
    group: str = ""
    version: str = "v1"
    subresource: str = ""
    operation: str = "CREATE"
    namespace: str = ""
    name: str = ""
    username: str = ""
    groups: tuple[str, ...] = ()
    old_object: Mapping[str, Any] | None = None
    dry_run: bool = False
    from_api_server: bool = True
    replicas: int = 1
    raw: Mapping[str, Any] = {}

    @property
    def resource_name(self) -> str:
        """The resource as policies write it: `pods`, `jobs.batch`, `pods/resize`."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{name}/{self.subresource}" if self.subresource else name

    @property
    def shown_name(self) -> str:
        """The object's name, or what its generated name begins with."""
        metadata = (self.object or {}).get("metadata")
        prefix = metadata.get("generateName") if isinstance(metadata, Mapping) else None
        return self.name or (f"{prefix}<generated>" if isinstance(prefix, str) and prefix else "")
