"""Kubernetes itself, as far as an admission gate must know it.

Kubernetes objects stay the raw mappings that arrived; nothing here writes to them, null equals absent, and a
value of the wrong JSON type counts as absent.
"""
