"""Values of objects on one line, as YAML has them."""

import json
import re
from typing import Any

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@-]*\Z")
_NO_STRING = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""Words that YAML 1.1 reads as something else than a string (https://yaml.org/type/bool.html)."""


def flow(value: Any) -> str:
    """A JSON value in YAML's flow style: strings bare where YAML reads them as such, else quoted as in JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str) and _PLAIN.match(value) and value.lower() not in _NO_STRING:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
