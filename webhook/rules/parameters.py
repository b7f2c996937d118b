"""Kinds of parameters that several rule types share."""

from typing import Annotated, Any

from pydantic import Field, PlainValidator

from webhook.documents.schema import Schema
from webhook.kube.draft import Replace
from webhook.kube.node_affinity import Requirement


def _replace(value: Any) -> Replace:
    if isinstance(value, Replace):
        return value
    if value in ("defaulted", "never", "always"):
        return Replace(value)
    if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
        return Replace("defaulted", tuple(value))
    raise ValueError("expected defaulted, never, always, or a list of values that may be replaced")


ReplaceParameter = Annotated[Replace, PlainValidator(_replace)]
"""`replace:` of a setter, see `webhook.kube.draft.Replace`."""


class RequirementParameter(Schema):
    """A requirement on a node label, in Kubernetes' own words."""

    key: str
    operator: Annotated[str, Field(pattern="^(In|NotIn|Exists|DoesNotExist|Gt|Lt)$")]
    values: tuple[str, ...] = Field(default=(), strict=False)

    @property
    def requirement(self) -> Requirement:
        """As the algebra of node affinity takes it."""
        return Requirement(self.key, self.operator, self.values)
