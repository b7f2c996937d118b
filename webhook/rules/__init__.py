"""Rule types, one file each; a new file is found by itself."""

import pkgutil
from functools import cache
from importlib import import_module

from webhook.rules.base import MutatingRule, Rule, ValidatingRule

__all__ = ["MutatingRule", "Rule", "ValidatingRule", "rule_types"]


@cache
def rule_types() -> dict[str, type[Rule]]:
    """All rule types by the name that policies use, sorted.

    Raises:
        RuntimeError: two files define the same type.
    """
    found: dict[str, type[Rule]] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for candidate in vars(import_module(module.name)).values():
            is_type = isinstance(candidate, type) and issubclass(candidate, Rule) and candidate.type
            if is_type and found.setdefault(candidate.type, candidate) is not candidate:
                raise RuntimeError(f"two rule types are called {candidate.type}")
    return dict(sorted(found.items()))
