"""KubeSphere's storage class accessors: in which namespaces and workspaces claims may use a class.

An accessor refuses a claim whose namespace does not pass its field rules and its label rules, or whose workspace does not pass.
Rules are ORed, the expressions of one ANDed; where there are no rules, everything passes
(kubesphere/storageclass-accessor:webhook/validation.go, selector.go).
"""

from collections.abc import Mapping
from typing import Any

from webhook.kube.field_path import list_at, value_at

ACTIVE = "Active"
"""The phase of a namespace in which something can be created."""


def accessor_refuses(
    accessor: Mapping[str, Any], namespace: str, known: tuple[Mapping[str, str], str] | None
) -> bool:
    """Whether an accessor is known to refuse its class in a namespace.

    Args:
        accessor: the Accessor object.
        namespace: the namespace's name.
        known: its labels and its workspace ("" if it is in none); None where they are not known.
    """
    by_name = list_at(accessor, ("spec", "namespaceSelector", "fieldSelector"))
    if not _fields_pass(by_name, {"Name": namespace, "Status": ACTIVE}):
        return True
    if known is None:
        return False
    labels, workspace = known
    if not _labels_pass(list_at(accessor, ("spec", "namespaceSelector", "labelSelector")), labels):
        return True
    by_workspace = list_at(accessor, ("spec", "workspaceSelector", "fieldSelector"))
    # The accessor itself passes over the status of a workspace.
    return bool(workspace) and not _fields_pass(by_workspace, {"Name": workspace})


def _fields_pass(rules: list[Any], fields: Mapping[str, str]) -> bool:
    return not rules or any(
        all(
            _admits(expression, fields.get(str(value_at(expression, ("field",)))))
            for expression in list_at(rule, ("fieldExpressions",))
        )
        for rule in rules
    )


def _labels_pass(rules: list[Any], labels: Mapping[str, str]) -> bool:
    return not rules or any(
        all(
            # An expression without values lets everything pass.
            not list_at(expression, ("values",))
            or _admits(expression, labels.get(str(value_at(expression, ("key",))), ""))
            for expression in list_at(rule, ("matchExpressions",))
        )
        for rule in rules
    )


def _admits(expression: Any, value: str | None) -> bool:
    operator = value_at(expression, ("operator",))
    if value is None or operator not in ("In", "NotIn"):
        return True
    return (value in list_at(expression, ("values",))) is (operator == "In")
