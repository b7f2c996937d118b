"""What the API server fills in before admission and rules read, for objects that come from files."""

from collections.abc import Mapping
from typing import Any

from webhook.kube.field_path import list_at, mapping_at


def with_defaults(thing: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    """An object with its namespace and, for a pod, a request wherever there is only a limit.

    Sources: kubernetes/apiserver:pkg/registry/rest/meta.go (EnsureObjectNamespaceMatchesRequestNamespace),
    kubernetes/kubernetes:pkg/apis/core/v1/defaults.go (SetDefaults_Pod; not for ephemeral containers).

    Args:
        thing: the object, read-only; what does not change is shared with the result.
        namespace: where it is created.
    """
    filled = {**thing, "metadata": {**mapping_at(thing, ("metadata",)), "namespace": namespace}}
    spec = mapping_at(thing, ("spec",))
    if thing.get("kind") == "Pod" and spec:
        lists = {
            key: [_with_requests(item) for item in spec[key]]
            for key in ("initContainers", "containers")
            if list_at(spec, (key,))
        }
        filled["spec"] = {**spec, **lists}
    return filled


def _with_requests(container: Any) -> Any:
    limits = mapping_at(container, ("resources", "limits"))
    requests = mapping_at(container, ("resources", "requests"))
    missing = {
        name: value for name, value in limits.items() if value is not None and requests.get(name) is None
    }
    if not missing:
        return container
    return {**container, "resources": {**container["resources"], "requests": {**requests, **missing}}}
