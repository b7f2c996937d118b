"""Certificates of the webhook: a CA and a serving certificate, made, stored and checked."""
