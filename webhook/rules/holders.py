"""Where a pod's accelerators are, for the rules that write there."""

from webhook.kube.devices import asked_devices
from webhook.kube.pod import Container
from webhook.rules.base import Subject


def devices_in(subject: Subject, holder: Container) -> int:
    """How many accelerators one container holds; a share of one counts as one, and 0 means that it cannot be counted.

    Args:
        subject: the pod that the container is of.
        holder: one that asks for accelerators.
    """
    if len(subject.workload.holders) == 1:  # also one that only an annotation gives its share of a device
        return sum(subject.workload.accelerators.values())
    alone = {"spec": {"containers": [holder.value]}}
    return sum(asked_devices(alone, subject.received.catalogue).counts.values())
