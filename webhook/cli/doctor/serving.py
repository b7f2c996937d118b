"""Is podgate there, with a certificate that the API server trusts, and does it answer?"""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from webhook.cli.doctor.findings import Finding, Level
from webhook.cli.doctor.place import Place, address_of, bundle_of, decoded, mapping, service_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "podgate-tls"  # noqa: S105 - the name of one
SECONDS = 3.0
"""As long as the API server itself waits for the mutating call."""

CERTIFICATE = "certificate"
ENDPOINTS = "endpoints"
RENEW = "podgate controller renews it by itself: look at its log; by hand: podgate certs"


class _Served(NamedTuple):
    """What a server at an address showed.

    Attributes:
        reached: whether anything answered from here.
        problem: why a client that trusts the CA refuses it, "" if it does not.
        expires: when its certificate ends, None where it was refused.
    """

    reached: bool
    problem: str = ""
    expires: datetime | None = None


def check_certificate(place: Place) -> Iterator[Finding]:
    """The CA of every entry against what is served, or against the Secret where the Service cannot be reached from here."""
    judged: set[tuple[object, ...]] = set()
    for entry in place.entries.values():
        bundle, target = bundle_of(entry), address_of(entry) or service_of(entry)
        if not bundle or target is None or (bundle, target) in judged:
            continue
        judged.add((bundle, target))
        address = address_of(entry)
        service = service_of(entry)
        if address:
            yield _judged(entry, _ask(address, address[0], bundle), f"{address[0]}:{address[1]}")
        elif service:
            yield _of_service(place, entry, service, bundle)


def _of_service(place: Place, entry: dict[str, Any], service: tuple[str, str], bundle: bytes) -> Finding:
    namespace, name = service
    for host, port in _addresses(place, service):
        served = _ask((host, port), f"{name}.{namespace}.svc", bundle)
        if served.reached:
            return _judged(entry, served, f"{host}:{port}")
    return _of_secret(place, service, bundle)


def _judged(entry: dict[str, Any], served: _Served, where: str) -> Finding:
    from certs import SERVING_LIFETIME  # noqa: PLC0415

    if not served.reached:
        text = f"nothing answers at {where} from here: {served.problem}"
        return Finding(
            CERTIFICATE, Level.FAIL, text, "is podgate running, and is the address of the entries right?"
        )
    if served.expires is None:
        text = f"{where} serves a certificate that the caBundle of {entry['name']} does not trust: {served.problem}"
        return Finding(
            CERTIFICATE, Level.FAIL, text, f"podgate install --policies DIR --ca-file FILE; {RENEW}"
        )
    left = served.expires - datetime.now(UTC)
    text = f"{where} serves one that the caBundle trusts, until {served.expires:%Y-%m-%d} ({left.days} days)"
    soon = left < SERVING_LIFETIME / 3
    return Finding(CERTIFICATE, Level.WARN if soon else Level.OK, text, RENEW if soon else "")


def _of_secret(place: Place, service: tuple[str, str], bundle: bytes) -> Finding:
    """The pair that the replicas read, where none of them can be reached from here."""
    from certs import Pair, problems_of, service_names  # noqa: PLC0415
    from certs.rotate import split_bundle  # noqa: PLC0415

    namespace, name = service
    stored = place.api.find(f"/api/v1/namespaces/{namespace}/secrets/{SECRET}")
    if stored is None:
        text = f"no replica can be reached from here, and there is no Secret {namespace}/{SECRET} to look at"
        return Finding(CERTIFICATE, Level.UNKNOWN, text, "run podgate doctor in a pod of the cluster")
    data = mapping(stored.get("data"))
    pair = Pair(certificate=decoded(data.get("tls.crt")), key=decoded(data.get("tls.key")))
    now, names = datetime.now(UTC), service_names(name, namespace)[:1]
    problems = [problems_of(pair, at=now, names=names, ca=ca) for ca in split_bundle(bundle)]
    best = min(problems, key=len, default=("the caBundle holds no certificate",))
    if best:
        text = f"Secret {SECRET}: {'; '.join(best)}"
        return Finding(CERTIFICATE, Level.FAIL, text, RENEW)
    return Finding(
        CERTIFICATE,
        Level.OK,
        f"the caBundle trusts that of Secret {SECRET}; no replica could be reached from here",
    )


def _ask(address: tuple[str, int], name: str, bundle: bytes) -> _Served:
    try:
        context = ssl.create_default_context(cadata=bundle.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError):
        return _Served(reached=True, problem="the caBundle holds no certificate")
    try:
        with (
            socket.create_connection(address, SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=name) as tls,
        ):
            return _Served(reached=True, expires=_end_of(tls))
    except ssl.SSLCertVerificationError as error:
        return _Served(reached=True, problem=error.verify_message)
    except ssl.SSLError as error:
        return _Served(reached=True, problem=str(error.reason or error))
    except OSError as error:
        return _Served(reached=False, problem=error.strerror or str(error))


def _end_of(tls: ssl.SSLSocket) -> datetime:
    seconds = ssl.cert_time_to_seconds(str(mapping(tls.getpeercert()).get("notAfter")))
    return datetime.fromtimestamp(seconds, UTC)


def _slices(place: Place, service: tuple[str, str]) -> Iterator[dict[str, Any]]:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{service[0]}/endpointslices"
    yield from place.items(path, f"kubernetes.io/service-name={service[1]}")


def _addresses(place: Place, service: tuple[str, str]) -> list[tuple[str, int]]:
    """The addresses of ready replicas."""
    return [
        (str(address), int(port["port"]))
        for each in _slices(place, service)
        for endpoint in each.get("endpoints") or ()
        if mapping(endpoint.get("conditions")).get("ready") is not False
        for address in endpoint.get("addresses") or ()
        for port in each.get("ports") or ()
        if port.get("port")
    ]


def check_endpoints(place: Place) -> Iterator[Finding]:
    """The Service and who is behind it."""
    service = place.service
    if service is None:
        if place.entries:
            yield Finding(ENDPOINTS, Level.OK, "the entries name a URL: there is no Service to look at")
        return
    shown = "/".join(service)
    if place.api.find(f"/api/v1/namespaces/{service[0]}/services/{service[1]}") is None:
        todo = "deploy podgate, or run podgate uninstall"
        yield Finding(ENDPOINTS, Level.FAIL, f"there is no Service {shown}, and the entries name it", todo)
        return
    ready = len({host for host, _ in _addresses(place, service)})
    if ready == 0:
        todo = f"kubectl -n {service[0]} get pods; an emergency: podgate uninstall"
        yield Finding(ENDPOINTS, Level.FAIL, f"Service {shown} has no ready replica behind it", todo)
    elif ready == 1:
        text = f"Service {shown} has one ready replica: while it restarts, nobody answers"
        yield Finding(
            ENDPOINTS, Level.WARN, text, f"kubectl -n {service[0]} scale deployment {service[1]} --replicas=3"
        )
    else:
        yield Finding(ENDPOINTS, Level.OK, f"Service {shown} has {ready} ready replicas")


PROBE = "probe pod"


def check_probe(place: Place) -> Iterator[Finding]:
    """A pod that is created in a dry run: does the API server get an answer?"""
    from webhook.cli.probe import probe  # noqa: PLC0415
    from webhook.registration import MUTATE  # noqa: PLC0415

    if MUTATE not in place.entries and not place.refused:
        return
    found = probe(place.api, place.probe_namespace)
    where = f"a dry run in namespace {place.probe_namespace}"
    if found.answered:
        yield Finding(PROBE, Level.OK, f"{where} was answered by podgate")
    elif found.answered is False:
        text = f"{where} shows no answer of podgate{f': {found.text}' if found.text else ''}"
        yield Finding(PROBE, Level.FAIL, text, "see the other checks, and the log of the replicas")
    else:
        todo = "try another namespace: --probe-namespace NS"
        yield Finding(PROBE, Level.UNKNOWN, f"{where} was refused before podgate: {found.text}", todo)
