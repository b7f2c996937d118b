"""Keep the webhook configurations as the policies need them: only our own fields, and only where they differ."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import structlog

from certs.rotate import split_bundle
from webhook.controller.contest import Contest
from webhook.controller.objects import decoded, encoded, items, mapping
from webhook.registration import CONFIGURATIONS, ENTRY_NAMES, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from webhook.cluster import Api
    from webhook.controller.writing import Writer
    from webhook.registration import Configuration

log = structlog.get_logger()

Wanted = tuple[dict[str, Any], ...]
"""In the order of `CONFIGURATIONS`; one without `webhooks` is not needed."""


@dataclass(frozen=True, slots=True)
class Stored:
    """The configurations as they were read, in the order of `CONFIGURATIONS`; None where there is none."""

    objects: tuple[dict[str, Any] | None, ...]

    @property
    def bundles(self) -> tuple[tuple[bytes, ...], ...]:
        """The CAs of the caBundle of each entry of ours."""
        return tuple(split_bundle(_bundle(entry)) for entry in self.entries())

    def entries(self) -> Iterator[Mapping[str, Any]]:
        """Our entries; what others added stays theirs."""
        for stored in self.objects:
            yield from (entry for entry in _entries(stored) if entry.get("name") in ENTRY_NAMES)


class Configurations:
    """The webhook configurations.

    Args:
        api: The cluster.
        writer: For the configurations.
        generate: What the policies need, given the caBundle, with ``failurePolicy: Fail`` where they say so.
        may_block: Whether ``Fail`` is to be set, and stays where it is set already; else nothing may block.
        probe: What an API server would meet, given a route and a caBundle; nothing where all is well.
        is_known: Whether the policies are known, all of them; else what is stored stays, but for its caBundles.
        monotonic: A clock, for disputes.
    """

    def __init__(
        self,
        api: Api,
        writer: Writer,
        generate: Callable[[bytes], Wanted],
        probe: Callable[[str, bytes], tuple[str, ...]],
        *,
        may_block: bool,
        is_known: Callable[[], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._writer = writer
        self._generate = generate
        self._probe = probe
        self._may_block = may_block
        self._is_known = is_known
        self._monotonic = monotonic
        self._written: dict[Configuration, dict[str, Any]] = {}
        self._contests: dict[Configuration, Contest] = {}
        self._faults: tuple[str, ...] = ()

    @property
    def contested(self) -> int:
        """How many configurations somebody else keeps changing back."""
        return sum(contest.is_on for contest in self._contests.values())

    def read(self) -> Stored:
        """Read them all.

        Raises:
            ApiError: One cannot be read.
        """
        return Stored(tuple(self._api.find(which.path) for which in CONFIGURATIONS))

    def write(self, stored: Stored, bundle: bytes, annotations: Mapping[str, str]) -> bool:
        """Write what differs.

        Args:
            stored: As read before the bundle was.
            bundle: For every caBundle; empty to leave them alone.
            annotations: That the configurations must have.

        Returns:
            Whether something was written.

        Raises:
            ApiError: It could not be written.
        """
        changed = False
        for which, current, wanted in zip(
            CONFIGURATIONS, stored.objects, self._wanted(stored, bundle), strict=True
        ):
            full = _annotated(wanted, annotations)
            changed |= self._write(which, current, full)
        return changed

    def _wanted(self, stored: Stored, bundle: bytes) -> Wanted:
        wanted = self._needed(stored, bundle)
        if self._is_known():
            return wanted
        return tuple(
            _kept(each, bundle) if each else new for each, new in zip(stored.objects, wanted, strict=True)
        )

    def _needed(self, stored: Stored, bundle: bytes) -> Wanted:
        """With ``Fail`` where that is asked for, and is in force already or a call would succeed."""
        wanted = self._generate(bundle)
        entry = next((entry for each in wanted for entry in _entries(each) if _blocks(entry)), None)
        if entry is None or (self._may_block and self._can_block(stored, entry, bundle)):
            return wanted
        return tuple(map(_harmless, wanted))

    def _can_block(self, stored: Stored, entry: Mapping[str, Any], bundle: bytes) -> bool:
        """An outage is no reason to open a gate that is shut already; what is true of another entry is none to shut this one."""
        now = next((each for each in stored.entries() if each.get("name") == entry["name"]), {})
        is_shut = _blocks(now) and _place(now) == _place(entry)
        return is_shut or not self._has_faults(_path(entry), bundle or _bundle(now))

    def _has_faults(self, path: str, bundle: bytes) -> bool:
        faults = self._probe(path, bundle)
        if faults != self._faults:
            self._faults = faults
            if faults:
                log.warning("failurePolicy stays Ignore: a review would fail", faults=faults)
        return bool(faults)

    def _write(self, which: Configuration, current: dict[str, Any] | None, wanted: dict[str, Any]) -> bool:
        if current is None and not wanted["webhooks"]:
            return False
        body = merged(current, wanted)
        if body == current:
            return False
        repairs = self._written.get(which) == wanted
        contest = self._contests.get(which, Contest())
        if repairs and contest.left(self._monotonic()) > 0:
            return False
        reason = "it was missing" if current is None else "it differed from what the policies need"
        if self._writer.store(which.collection, body, reason):
            self._written[which] = wanted
            if repairs:
                self._note_repair(which, contest.repaired(self._monotonic()), current)
        return True  # also after a conflict: look again soon

    def _note_repair(self, which: Configuration, contest: Contest, current: Mapping[str, Any] | None) -> None:
        self._contests[which] = contest
        if contest.is_on:
            log.warning(
                "somebody keeps changing a webhook configuration back: leave webhooks out of what your GitOps tool "
                "compares, or out of what it deploys",
                configuration=str(which),
                managers=_managers(current),
                next_repair_seconds=round(contest.left(self._monotonic())),
            )


def _annotated(wanted: dict[str, Any], annotations: Mapping[str, str]) -> dict[str, Any]:
    if not annotations:
        return wanted
    metadata = mapping(wanted.get("metadata"))
    return {
        **wanted,
        "metadata": {**metadata, "annotations": {**mapping(metadata.get("annotations")), **annotations}},
    }


def _kept(configuration: dict[str, Any], bundle: bytes) -> dict[str, Any]:
    """The configuration as it is stored, with our entries trusting the bundle."""
    client = {"caBundle": encoded(bundle)} if bundle else {}
    ours = [entry for entry in _entries(configuration) if entry.get("name") in ENTRY_NAMES]
    return {
        "metadata": {},
        "webhooks": [
            {**entry, "clientConfig": {**mapping(entry.get("clientConfig")), **client}} for entry in ours
        ],
    }


def _entries(configuration: Mapping[str, Any] | None) -> tuple[Mapping[str, Any], ...]:
    return items((configuration or {}).get("webhooks"))


def _bundle(entry: Mapping[str, Any]) -> bytes:
    return decoded(mapping(entry.get("clientConfig")).get("caBundle"))


def _blocks(entry: Mapping[str, Any]) -> bool:
    return entry.get("failurePolicy") == "Fail"


def _harmless(configuration: dict[str, Any]) -> dict[str, Any]:
    """The configuration with nothing that an outage could block."""
    entries = [{**entry, "failurePolicy": "Ignore"} for entry in configuration["webhooks"]]
    return {**configuration, "webhooks": entries}


def _place(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Where an entry is called; whether a call at another place would succeed is another question."""
    return {key: value for key, value in mapping(entry.get("clientConfig")).items() if key != "caBundle"}


def _path(entry: Mapping[str, Any]) -> str:
    client = mapping(entry.get("clientConfig"))
    return (
        str(mapping(client.get("service")).get("path") or "") or urlsplit(str(client.get("url"))).path or "/"
    )


def _managers(current: Mapping[str, Any] | None) -> list[str]:
    """Who wrote it, but for us."""
    metadata = mapping((current or {}).get("metadata"))
    names = (str(each.get("manager")) for each in items(metadata.get("managedFields")))
    return sorted({name for name in names if name != "podgate"})
