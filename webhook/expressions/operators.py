"""CEL's inner names of operators, as authors write them."""

_WRITTEN = {"_?_:_": "? :", "_[_]": "[]", "_[?_]": "[?]", "_?._": ".?", "@in": "in"}


def written(function: str) -> str:
    """The operator behind a name such as `_>_`; any other name as it is."""
    return _WRITTEN.get(function) or function.strip("_")
