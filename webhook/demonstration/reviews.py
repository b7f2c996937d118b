"""AdmissionReviews as the API server writes them (kubernetes/apiserver:pkg/admission/plugin/webhook/request)."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from webhook.kube.templates import shipped_templates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.demonstration.workloads import Workload

CORE_RESOURCES = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims"}
NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names (kubernetes/apimachinery:pkg/util/rand), without vowels, so that no words come of it."""


def review(workload: Workload, thing: Mapping[str, Any], webhook: str) -> dict[str, Any]:
    """The review by which a webhook is asked about the creation of an object.

    Args:
        workload: whose sender asks.
        thing: the object as it is when the webhook is called.
        webhook: the webhook's name; each call has a uid of its own.
    """
    sender, metadata = workload.sender, thing["metadata"]
    group, _, version = thing["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": thing["kind"]}
    resource = {"group": group, "version": version, "resource": _resource_of(group, thing["kind"])}
    request = {
        "uid": _uid(workload, webhook),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        **({"name": metadata["name"]} if "name" in metadata else {}),
        "namespace": metadata["namespace"],
        "operation": "CREATE",
        "userInfo": {
            "username": sender.username,
            "uid": _uid(workload, sender.username),
            "groups": list(sender.groups),
        },
        "object": thing,
        "oldObject": None,
        "dryRun": False,
        "options": {
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": sender.field_manager,
        },
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def about_to_be_stored(workload: Workload, thing: Mapping[str, Any], time: str) -> dict[str, Any]:
    """The object as validating webhooks see it, with a name, a uid and a time (kubernetes/apiserver:pkg/registry/rest/create.go).

    Args:
        workload: where the object comes from.
        thing: the object after the mutating webhooks, read-only.
        time: of the call, RFC 3339.
    """
    metadata = thing["metadata"]
    uid = _uid(workload, "object")
    name = metadata.get("name") or metadata["generateName"] + _suffix(uid)
    is_core = thing["kind"] in CORE_RESOURCES
    # The first generation of what has a spec that controllers follow; a pod's and a claim's are set later or never.
    generation = {} if is_core else {"generation": 1}
    return {
        **thing,
        "metadata": {**metadata, "name": name, "uid": uid, "creationTimestamp": time, **generation},
        **({"status": {"phase": "Pending"}} if is_core else {}),
    }


def _resource_of(group: str, kind: str) -> str:
    """The resource's name in paths; of controllers as webhook/kube/templates/templates.yaml has it, `deployments.apps`.

    Raises:
        KeyError: there is no such kind.
    """
    if not group:
        return CORE_RESOURCES[kind]
    known = shipped_templates().kind_of(group, kind)
    if known is None:
        raise KeyError(f"{kind} of group {group}")
    return known.resource.removesuffix(f".{group}")


def _uid(workload: Workload, purpose: str) -> str:
    """The same one in every run, so that a recorded answer can be compared."""
    return str(uuid5(NAMESPACE_URL, f"{workload.object['metadata']['namespace']}/{workload.name}/{purpose}"))


def _suffix(uid: str) -> str:
    return "".join(
        NAME_CHARACTERS[b % len(NAME_CHARACTERS)] for b in hashlib.sha256(uid.encode()).digest()[:5]
    )
