"""The webhook configurations that a policy set needs: for which objects the API server calls podgate, and how.

Pure: `webhook.cli` and `webhook.controller` write them into a cluster.
"""

from webhook.registration.configurations import (
    CONFIGURATIONS,
    ENTRY_NAMES,
    LATE_NAME,
    MUTATE,
    MUTATE_LATE,
    NAME,
    NAMESPACE,
    VALIDATE_FAIL,
    VALIDATE_IGNORE,
    Configuration,
    Endpoint,
    excluded,
    webhook_configurations,
)
from webhook.registration.merge import merged, without_ours
from webhook.registration.scope import Scope, explain_scope

__all__ = [
    "CONFIGURATIONS",
    "ENTRY_NAMES",
    "LATE_NAME",
    "MUTATE",
    "MUTATE_LATE",
    "NAME",
    "NAMESPACE",
    "VALIDATE_FAIL",
    "VALIDATE_IGNORE",
    "Configuration",
    "Endpoint",
    "Scope",
    "excluded",
    "explain_scope",
    "merged",
    "webhook_configurations",
    "without_ours",
]
