"""The rules of a webhook entry: of which resources and at which operations it is called."""

from collections.abc import Iterable, Iterator
from typing import Any

from webhook.policy.policy_set import POD_SUBRESOURCES
from webhook.registration.demands import PODS, Entry
from webhook.registration.objects import BUILT_IN_GROUPS

CREATE, UPDATE = "CREATE", "UPDATE"
"""Never DELETE or CONNECT: both are always allowed."""


def rules(entry: Entry) -> list[dict[str, Any]]:
    """The `rules` of an entry, resources of one group and with the same operations together."""
    operations: dict[tuple[str, str], set[str]] = {}
    for resource, operation in _called_for(entry):
        name, _, group = resource.partition(".")
        operations.setdefault((group, name), set()).add(operation)
    together: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, name), found in sorted(operations.items()):
        together.setdefault((group, tuple(sorted(found))), []).append(name)
    return [_rule(group, list(wanted), names) for (group, wanted), names in together.items()]


def _rule(group: str, operations: list[str], names: list[str]) -> dict[str, Any]:
    # The places of templates hold for every version of a kind that is no built-in one.
    versions = ["v1"] if group in BUILT_IN_GROUPS else ["*"]
    return {
        "apiGroups": [group],
        "apiVersions": versions,
        "operations": operations,
        "resources": names,
        "scope": "*",
    }


def _called_for(entry: Entry) -> Iterator[tuple[str, str]]:
    yield from _of_targets(entry)
    for resource in sorted(entry.templates):
        yield from ((resource, operation) for operation in ((CREATE,) if entry.late else (CREATE, UPDATE)))
    if entry.mutating and not entry.late:
        # Whoever created a pod with our annotations of his own has them taken away, whatever the policies are.
        yield PODS, CREATE
        if any(demand.target == PODS for demand in entry.demands):
            yield PODS, UPDATE  # where an update drops what was appended to a list, it is put back


def _of_targets(entry: Entry) -> Iterator[tuple[str, str]]:
    for demand in entry.demands:
        for operation in sorted(demand.operations):
            yield demand.target, operation
            if (demand.target, operation) == (PODS, UPDATE) and not entry.mutating:
                yield from ((resource, UPDATE) for resource in POD_SUBRESOURCES)


def updated(found: Iterable[dict[str, Any]]) -> bool:
    """Whether some rule is about updates."""
    return any(UPDATE in rule["operations"] for rule in found)
