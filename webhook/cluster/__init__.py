"""The Kubernetes API, as raw JSON: the client library's configuration and TLS, none of its models.

The library is imported when a connection is made, not before: it takes a quarter of a second and 43 MiB.
"""

from webhook.cluster.api import Api
from webhook.cluster.errors import ApiError

__all__ = ["Api", "ApiError"]
