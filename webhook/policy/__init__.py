"""Policies: their schema, their compilation, and the set that the engine runs."""

from webhook.policy.load import Loaded, load_policy_set
from webhook.policy.policy_set import CompiledPolicy, CompiledRule, PolicySet

__all__ = ["CompiledPolicy", "CompiledRule", "Loaded", "PolicySet", "load_policy_set"]
