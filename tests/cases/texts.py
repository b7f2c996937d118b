"""Sentences that many cases expect."""

from tests.cases.observing import Json


def privileged(container: str) -> str:
    """What forbidBypass says of a container."""
    return f"container {container} is privileged, which gives it every device of the node past the scheduler"


def asked(count: int, limit: int, whose: str = "pod", resource: str = "nvidia.com/gpu") -> str:
    """What limitAcceleratorCount says."""
    return f"{count} {resource} asked, at most {limit} per {whose}"


def gpu_limit(container: str, of: str = "spec.containers", resource: str = "nvidia.com/gpu") -> str:
    """The place of a container's limit."""
    return f'{of}["{container}"].resources.limits["{resource}"]'


def first_container(request: Json) -> Json:
    """The first container of a request's pod, to be altered."""
    found: Json = request["object"]["spec"]["containers"][0]
    return found


def with_gpu(request: Json) -> None:
    """The first container asks for a GPU."""
    first_container(request).setdefault("resources", {}).setdefault("limits", {})["nvidia.com/gpu"] = 1
