"""Kinds of parameters that several rule types share."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, model_validator

from webhook.documents.schema import Schema
from webhook.kube.draft import Replace
from webhook.kube.node_affinity import Operator, Requirement
from webhook.kube.quantity import Quantity, QuantityError, parse_quantity
from webhook.kube.selectors import compile_label_selector

_WHOLE = re.compile(r"-?[0-9]{1,18}\Z")


def _replace(value: Any) -> Replace:
    if value in ("defaulted", "never", "always"):
        return Replace(value)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return Replace("defaulted", tuple(value))
    raise ValueError("expected defaulted, never, always, or a list of values that may be replaced")


ReplaceParameter = Annotated[Replace, PlainValidator(_replace)]
"""`replace:` of a setter, see `webhook.kube.draft.Replace`."""


def _amount(text: str) -> str:
    if _parsed(text) <= 0:
        raise ValueError("expected an amount above zero, such as 500m or 16")
    return text


def _bytes(text: str) -> str:
    amount = _parsed(text)
    if amount <= 0 or not isinstance(amount, int):
        raise ValueError("expected whole bytes above zero, such as 512Mi or 16Gi")
    return text


def _parsed(text: str) -> Quantity:
    try:
        return parse_quantity(text)
    except QuantityError:
        return 0


AmountParameter = Annotated[str, AfterValidator(_amount)]
"""A quantity above zero, as it is written."""

BytesParameter = Annotated[str, AfterValidator(_bytes)]
"""A quantity of whole bytes above zero, as it is written: to Kubernetes zero often means "without bound"."""


class RequirementParameter(Schema):
    """A requirement on a node label, in Kubernetes' own words."""

    key: str
    operator: Operator
    values: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _accepted(self) -> "RequirementParameter":
        """What Kubernetes refuses (pkg/apis/core/validation, ValidateNodeSelectorRequirement), and every pod with it."""
        if self.operator in ("Gt", "Lt"):
            if len(self.values) != 1 or not _WHOLE.match(self.values[0]):
                raise ValueError(f"{self.operator} takes one whole number, in quotes")
            compile_label_selector({"matchExpressions": [{"key": self.key, "operator": "Exists"}]})
        else:
            # A label selector knows the other operators by the same rules.
            compile_label_selector({"matchExpressions": [self.requirement.to_json()]})
        return self

    @property
    def requirement(self) -> Requirement:
        """As the algebra of node affinity takes it."""
        return Requirement(self.key, self.operator, self.values)
