"""What is most likely not meant in policies that load: every finding is a warning with its place."""

from webhook.policy.lint.conflicts import conflicts
from webhook.policy.lint.names import misspelt_names
from webhook.policy.lint.reach import unreachable
from webhook.policy.lint.sources import Sources

__all__ = ["Sources", "conflicts", "misspelt_names", "unreachable"]
