"""Certificates of the webhook: a CA and a serving certificate, made, stored and checked."""

from certs.check import expiry_of, problems_of
from certs.files import read_pair, write_pairs
from certs.issue import CA_LIFETIME, SERVING_LIFETIME, IssueError, Pair, new_ca, service_names, serving_pair

__all__ = [
    "CA_LIFETIME",
    "SERVING_LIFETIME",
    "IssueError",
    "Pair",
    "expiry_of",
    "new_ca",
    "problems_of",
    "read_pair",
    "service_names",
    "serving_pair",
    "write_pairs",
]
