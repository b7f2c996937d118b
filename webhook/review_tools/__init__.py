"""Policies and manifests under review, away from a cluster."""
