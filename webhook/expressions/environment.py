"""The variables and functions that expressions can use, and CEL's compiler for them."""

from typing import Final

from cel_expr_python import cel
from cel_expr_python.ext.ext_optional import ExtOptional

from webhook.expressions.functions import podgate_extension

# The variables that hold JSON: bound only for the expressions that name them.
JSON_VARIABLES: Final = ("object", "oldObject", "request", "namespaceObject")

WORKLOAD_VARIABLES: Final = {
    "workload.class": cel.Type.STRING,
    "workload.communication": cel.Type.STRING,
    "workload.accelerators": cel.Type.INT,
    "workload.vendor": cel.Type.STRING,
    "workload.owner": cel.Type.STRING,
    "workload.replicas": cel.Type.INT,
}

ENVIRONMENT: Final = cel.NewEnv(
    variables=dict.fromkeys(JSON_VARIABLES, cel.Type.DYN) | WORKLOAD_VARIABLES,
    extensions=[ExtOptional(), podgate_extension()],
)

_PATTERN_ENVIRONMENT: Final = cel.NewEnv(variables={"pattern": cel.Type.STRING})
_PATTERN_CHECK: Final = _PATTERN_ENVIRONMENT.compile('"".matches(pattern)')


def pattern_fault(pattern: str) -> str:
    """What CEL's own regular expressions (RE2) have against a pattern; empty where it is good."""
    value = _PATTERN_CHECK.eval(_PATTERN_ENVIRONMENT.Activation({"pattern": pattern}))
    if value.type() != cel.Type.ERROR:
        return ""
    # "INVALID_ARGUMENT: invalid regular expression: missing ): (" without the status.
    return str(value.value()).partition(": ")[2]
