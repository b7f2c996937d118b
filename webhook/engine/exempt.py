"""Requests that no rule may look at: decided by the caller and the operation, never by what the object says of itself."""

from webhook.kube.admission_request import AdmissionRequest
from webhook.kube.field_path import mapping_at, value_at

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""Set by the kubelet on the API's picture of a static pod, and by nobody else: NodeRestriction lets nodes create only these."""

NODES_GROUP = "system:nodes"
DAEMON_SET_CONTROLLER = "system:serviceaccount:kube-system:daemon-set-controller"


def exemption(request: AdmissionRequest) -> str:
    """Why the request is allowed at once; "" if rules shall look at it.

    An owner reference to a DaemonSet is no reason: anyone who may create pods can write one.
    """
    if request.operation not in ("CREATE", "UPDATE"):
        return f"{request.operation} is always allowed"
    if request.object is None:
        return "there is no object"
    if request.operation == "UPDATE" and value_at(request.object, ("metadata", "deletionTimestamp")):
        return "the object is being deleted"
    if request.kind == "Pod" and NODES_GROUP in request.groups and _is_mirror(request):
        return "a node's mirror pod"
    if request.kind == "Pod" and request.username == DAEMON_SET_CONTROLLER:
        return "a DaemonSet's pod, made by its controller"
    return ""


def _is_mirror(request: AdmissionRequest) -> bool:
    return MIRROR_ANNOTATION in mapping_at(request.object, ("metadata", "annotations"))
