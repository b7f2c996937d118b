"""Which cluster, and as whom: the client library's reading of kubeconfigs and of a pod's own account."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from webhook.cluster.errors import ApiError
from webhook.cluster.patience import HangingError

if TYPE_CHECKING:
    from webhook.cluster.patience import Patience

#: Present in every pod (kubernetes/client-go:rest/config.go, InClusterConfig).
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NOWHERE = (
    "no cluster: there is no --kubeconfig, no $KUBECONFIG, no ServiceAccount of a pod and no ~/.kube/config; "
    "name a file with --kubeconfig"
)
_HANGS = "the plugin that gives the credentials does not end: does it wait for somebody at a terminal?"


class CredentialsError(Exception):
    """The credentials cannot be used; the text does not hold them."""


class Source(NamedTuple):
    """Where the configuration stands.

    Attributes:
        kubeconfig: Files, separated as in ``$KUBECONFIG``; "" for the pod's ServiceAccount.
        context: The context to use, None for the current one.
    """

    kubeconfig: str
    context: str | None

    def __str__(self) -> str:
        context = f", context {self.context}" if self.context else ""
        return f"{self.kubeconfig or 'the ServiceAccount of the pod'}{context}"


def find_source(kubeconfig: Path | None, context: str | None) -> Source:
    """Where to read from: ``--kubeconfig``, ``$KUBECONFIG``, the pod's ServiceAccount, ``~/.kube/config``.

    Nothing of the client library is imported for it, and no file is read.

    Raises:
        ApiError: The file is not there, or there is nothing to read from.
    """
    named = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    if named:
        if not any(Path(part).expanduser().is_file() for part in named.split(os.pathsep) if part):
            origin = "" if kubeconfig else " (from $KUBECONFIG)"
            raise ApiError(f"{named}{origin}: no such file; name a kubeconfig with --kubeconfig")
        return Source(named, context)
    if os.environ.get(_IN_CLUSTER) and not context:
        return Source("", None)
    usual = Path("~/.kube/config").expanduser()
    if not usual.is_file():
        raise ApiError(_NOWHERE)
    return Source(str(usual), context)


def own_namespace() -> str:
    """The namespace of the pod that this runs in, "" outside of one."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def load(source: Source, patience: Patience) -> Any:
    """The client library's ``Configuration``, read anew.

    Args:
        source: Where it stands.
        patience: With a plugin that a kubeconfig names.

    Raises:
        ApiError: It cannot be read, or holds no usable credentials.
    """
    from kubernetes.client import Configuration  # noqa: PLC0415  # late: see the package
    from kubernetes.config import (  # noqa: PLC0415
        ConfigException,
        load_incluster_config,
        load_kube_config,
    )

    configuration = Configuration()
    try:
        if source.kubeconfig:
            read = partial(
                load_kube_config, source.kubeconfig, source.context, configuration, persist_config=False
            )
            patience.do(read)
        else:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]
    except HangingError as error:
        raise ApiError(f"{source}: {_HANGS}") from error
    except ConfigException as error:
        raise ApiError(f"{source}: {error}") from error
    except Exception as error:  # the library lets YAML, key and type errors of a broken file through
        raise ApiError(f"{source}: cannot be read: {type(error).__name__}; is it a kubeconfig?") from error
    return configuration


def authorization(configuration: Any, patience: Patience) -> str | None:
    """What to send as ``Authorization``, None for nothing.

    A pod's token is read again when the last reading is a minute old: it is replaced each hour. A plugin is asked again when
    what it gave has ended.

    Args:
        configuration: The client library's.
        patience: With the plugin.

    Raises:
        CredentialsError: It cannot be read, or sent: the library for HTTP would show it in its own error.
    """
    try:
        value = patience.do(partial(configuration.get_api_key_with_prefix, "BearerToken"))
    except HangingError as error:
        raise CredentialsError(_HANGS) from error
    except Exception as error:  # of the file or of the plugin that has it
        raise CredentialsError(f"the credentials cannot be read ({type(error).__name__})") from error
    if value is None:
        return None
    sent = str(value).strip()  # most files end with a line end
    if not (sent.isascii() and sent.isprintable()):
        raise CredentialsError("the token holds characters that no token has: is its file intact?")
    return sent
