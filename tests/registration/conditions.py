"""Match conditions as an API server evaluates them: with CEL, on objects that it has typed and on what it says of the request."""

from functools import cache
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext.ext_optional import ExtOptional

Json = dict[str, Any]

ENVIRONMENT = cel.NewEnv(
    variables=dict.fromkeys(("object", "oldObject", "request"), cel.Type.DYN), extensions=[ExtOptional()]
)


@cache
def compiled(expression: str) -> Any:
    return ENVIRONMENT.compile(expression)


def typed(value: Any) -> Any:
    """A value as the API server sends it of its own kinds: a null is absent, but for the list that is always written."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items() if item is not None or key == "containers"}
    return [typed(item) for item in value] if isinstance(value, list) else value


def request_of(
    resource: str = "pods", operation: str = "CREATE", namespace: str = "team", **user: Any
) -> Json:
    """The variable `request`; a resource as policies write it."""
    name, _, group = resource.partition(".")
    asked: Json = {
        "operation": operation,
        "resource": {"group": group, "version": "v1", "resource": name},
        "userInfo": {"username": "jane", "groups": ["system:authenticated"], **user},
    }
    return asked | ({"namespace": namespace} if namespace else {})


def evaluate(expression: str, thing: Json, request: Json, old: Json | None = None) -> bool:
    """The value of one condition; an error is a failed assertion."""
    data = {"object": typed(thing), "oldObject": typed(old) if old else None, "request": request}
    value = compiled(expression).eval(ENVIRONMENT.Activation(data))
    assert value.type() == cel.Type.BOOL, value.value()
    return bool(value.value())


def is_called(entry: Json, thing: Json, request: Json, old: Json | None = None) -> bool:
    """Whether the API server would call a webhook: one of its rules fits, and all of its conditions hold."""
    asked = request["resource"]
    fits = any(
        asked["group"] in rule["apiGroups"]
        and asked["resource"] in rule["resources"]
        and request["operation"] in rule["operations"]
        for rule in entry["rules"]
    )
    return fits and all(
        evaluate(each["expression"], thing, request, old) for each in entry["matchConditions"]
    )
