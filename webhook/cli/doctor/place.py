"""What all checks look at: the cluster, podgate's place in it, its configurations and its policies."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from webhook.cli.mode import MODES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from webhook.cluster import Api
    from webhook.policy import PolicySet
    from webhook.registration import Configuration

HTTPS = 443
WEBHOOK = "podgate"
CONTROLLER = "podgate-controller"
KNOWN_MODES = {"", *MODES}


class Modes(NamedTuple):
    """`--mode` of both processes: "" where it is not given, None where the Deployment is not there or cannot be read."""

    webhook: str | None
    controller: str | None

    @property
    def served(self) -> str | None:
        """What the webhook does, None where nobody can say: `$(MODE)` is a variable of its container."""
        return self.webhook if self.webhook in KNOWN_MODES else None

    @property
    def differ(self) -> bool:
        """Whether calls are registered for another mode than the webhook's."""
        return {self.webhook, self.controller} <= KNOWN_MODES and self.webhook != self.controller


@dataclass(frozen=True, slots=True)
class Place:
    """One cluster with one podgate.

    Attributes:
        stored: the configurations that are there.
        refused: why the configurations could not be read, "" if they could.
        policy_set: the policies that are loaded, at most in the server's mode; None where they are not known.
        modes: what the Deployments say of it.
    """

    api: Api
    namespace: str
    stored: Mapping[Configuration, dict[str, Any]]
    policy_set: PolicySet | None
    modes: Modes
    probe_namespace: str
    refused: str = ""

    @property
    def entries(self) -> dict[str, dict[str, Any]]:
        """Our entries in all configurations, by name."""
        from webhook.registration import ENTRY_NAMES  # noqa: PLC0415

        found = (entry for each in self.stored.values() for entry in webhooks(each))
        return {entry["name"]: entry for entry in found if entry.get("name") in ENTRY_NAMES}

    @property
    def service(self) -> tuple[str, str] | None:
        """Namespace and name of the Service that our entries name, None where they name none."""
        found = (service_of(entry) for entry in self.entries.values())
        return next((each for each in found if each), None)

    def items(self, path: str, selector: str = "") -> Iterator[dict[str, Any]]:
        """All objects of a collection, or those that a label selector chooses.

        Raises:
            ApiError: they could not be had.
        """
        pages = self.api.pages(path, labelSelector=selector) if selector else self.api.pages(path)
        for page in pages:
            yield from (item for item in page.get("items") or () if isinstance(item, dict))


def mapping(value: Any) -> dict[str, Any]:
    """A map, or an empty one where there is none."""
    return value if isinstance(value, dict) else {}


def name_of(thing: dict[str, Any]) -> str:
    """An object's name."""
    return str(mapping(thing.get("metadata")).get("name") or "")


def webhooks(configuration: dict[str, Any]) -> list[dict[str, Any]]:
    """The entries of a webhook configuration."""
    return [entry for entry in configuration.get("webhooks") or () if isinstance(entry, dict)]


def client_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The `clientConfig` of an entry."""
    return mapping(entry.get("clientConfig"))


def service_of(entry: dict[str, Any]) -> tuple[str, str] | None:
    """Namespace and name of the Service that an entry names."""
    service = mapping(client_of(entry).get("service"))
    return (str(service.get("namespace")), str(service.get("name"))) if service else None


def address_of(entry: dict[str, Any]) -> tuple[str, int] | None:
    """Host and port of the URL of an entry."""
    url = urlsplit(str(client_of(entry).get("url") or ""))
    return (url.hostname, url.port or HTTPS) if url.hostname else None


def bundle_of(entry: dict[str, Any]) -> bytes:
    """The CAs of an entry, PEM; empty where there are none that can be read."""
    return decoded(client_of(entry).get("caBundle"))


def decoded(text: Any) -> bytes:
    """What a value of a Secret or a caBundle stands for; empty where it is no base64."""
    try:
        return base64.b64decode(str(text or ""), validate=True)
    except (binascii.Error, ValueError):
        return b""
