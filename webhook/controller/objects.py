"""The two Secrets, read and written: what `certs.rotate` knows, as Kubernetes objects."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import TYPE_CHECKING, Any

from certs import Pair
from certs.rotate import Authority, Stamp, split_bundle

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

AUTHORITY_SECRET = "podgate-ca"  # noqa: S105  # a name
SERVING_SECRET = "podgate-tls"  # noqa: S105  # a name

CA_CERTIFICATE, CA_KEY, TRUSTED = "ca.crt", "ca.key", "trusted.crt"
CERTIFICATE, KEY = "tls.crt", "tls.key"

#: On `AUTHORITY_SECRET`: any value asks for a new CA, once.
ROTATE = "podgate.dev/rotate"
IN_FORCE = "podgate.dev/trusted-since"
STORED = "podgate.dev/stored-since"


def mapping(value: Any) -> Mapping[str, Any]:
    """The value, if it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> tuple[Mapping[str, Any], ...]:
    """The objects in the value, if it is a list."""
    return tuple(mapping(item) for item in value) if isinstance(value, list) else ()


def decoded(value: Any) -> bytes:
    """What a Secret's or a caBundle's text stands for; nothing where it is no base64."""
    try:
        return base64.b64decode(value) if isinstance(value, str) else b""
    except ValueError:
        return b""


def encoded(data: bytes) -> str:
    """The text for a Secret or a caBundle."""
    return base64.b64encode(data).decode()


def read_authority(secret: Mapping[str, Any] | None) -> Authority | None:
    """The authority in its Secret; None where there is none, or it names nobody to trust."""
    data = mapping((secret or {}).get("data"))
    trusted = split_bundle(decoded(data.get(TRUSTED)))
    if not trusted:
        return None
    annotations = _annotations(secret)
    return Authority(
        signer=Pair(decoded(data.get(CA_CERTIFICATE)), decoded(data.get(CA_KEY))),
        trusted=trusted,
        in_force=_stamp(annotations.get(IN_FORCE)),
        stored=_stamp(annotations.get(STORED)),
        asked=bool(annotations.get(ROTATE)),
    )


def authority_secret(
    current: Mapping[str, Any] | None, namespace: str, authority: Authority
) -> dict[str, Any]:
    """The Secret that holds the authority; labels and annotations of others stay."""
    return _secret(
        current,
        (namespace, AUTHORITY_SECRET, "Opaque"),
        {
            CA_CERTIFICATE: authority.signer.certificate,
            CA_KEY: authority.signer.key,
            TRUSTED: b"".join(authority.trusted),
        },
        {
            IN_FORCE: _text(authority.in_force),
            STORED: _text(authority.stored),
            ROTATE: str(_annotations(current).get(ROTATE) or "now") if authority.asked else "",
        },
    )


def read_serving(secret: Mapping[str, Any] | None) -> tuple[Pair | None, tuple[bytes, ...]]:
    """The serving pair, None where a part is missing, and the CAs beside it."""
    data = mapping((secret or {}).get("data"))
    certificate, key = decoded(data.get(CERTIFICATE)), decoded(data.get(KEY))
    return (
        Pair(certificate, key) if certificate and key else None,
        split_bundle(decoded(data.get(CA_CERTIFICATE))),
    )


def serving_secret(
    current: Mapping[str, Any] | None, namespace: str, serving: Pair, trusted: Iterable[bytes]
) -> dict[str, Any]:
    """The Secret that the webhook mounts."""
    return _secret(
        current,
        (namespace, SERVING_SECRET, "kubernetes.io/tls"),
        {CERTIFICATE: serving.certificate, KEY: serving.key, CA_CERTIFICATE: b"".join(trusted)},
        {},
    )


def _secret(
    current: Mapping[str, Any] | None,
    identity: tuple[str, str, str],
    data: Mapping[str, bytes],
    annotations: Mapping[str, str],
) -> dict[str, Any]:
    namespace, name, kind = identity
    metadata = dict(mapping((current or {}).get("metadata"))) or {"name": name, "namespace": namespace}
    ours = {key: value for key, value in annotations.items() if value}
    others = {key: value for key, value in _annotations(current).items() if key not in annotations}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": (current or {}).get("type") or kind,  # it cannot be changed
        "metadata": {**metadata, "annotations": {**others, **ours}},
        "data": {
            **mapping((current or {}).get("data")),
            **{key: encoded(value) for key, value in data.items()},
        },
    }


def _annotations(secret: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return mapping(mapping((secret or {}).get("metadata")).get("annotations"))


def _text(stamp: Stamp | None) -> str:
    return f"{stamp.fingerprint} {stamp.since.isoformat()}" if stamp else ""


def _stamp(text: Any) -> Stamp | None:
    name, _, time = text.partition(" ") if isinstance(text, str) else ("", "", "")
    try:
        since = datetime.fromisoformat(time)
    except ValueError:
        return None
    return Stamp(name, since) if since.tzinfo else None
