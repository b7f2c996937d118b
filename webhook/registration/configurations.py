"""The webhook configurations that a policy set needs."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from webhook.engine.annotations import POLICIES
from webhook.engine.exempt import DAEMON_SET_CONTROLLER, MIRROR_ANNOTATION, NODES_GROUP
from webhook.policy import PolicySet
from webhook.registration.cel import TRUE, all_of, any_of, quoted
from webhook.registration.condition import match_condition
from webhook.registration.demands import Entry, late_entry, mutating_entry, validating_entry
from webhook.registration.objects import (
    POD,
    full_name,
    is_any_of,
    leaves_pods_alone,
    template_paths,
)
from webhook.registration.rules import rules, updated

NAME = "gate.podgate.dev"
LATE_NAME = "zzz.gate.podgate.dev"
"""Mutating webhooks are called in the order of their configurations' names
(kubernetes/apiserver:pkg/admission/configuration/mutating_webhook_manager.go): the first comes before Kueue's, and the late one
after all that do not begin with more than three z."""

MUTATE = "mutate.podgate.dev"
MUTATE_LATE = "late.mutate.podgate.dev"
VALIDATE_FAIL = "fail.validate.podgate.dev"
VALIDATE_IGNORE = "ignore.validate.podgate.dev"
ENTRY_NAMES = (MUTATE, MUTATE_LATE, VALIDATE_FAIL, VALIDATE_IGNORE)

TIMEOUTS = {MUTATE: 3, MUTATE_LATE: 2, VALIDATE_FAIL: 2, VALIDATE_IGNORE: 2}
"""Seconds; they add up where podgate hangs. A review takes milliseconds; the rest is for a replica that dies, and another."""

NAMESPACE = "podgate-system"
SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""On every namespace, and nobody can change it (kubernetes/kubernetes:pkg/apis/core/v1/defaults.go, SetDefaults_Namespace)."""

LABELS = {"app.kubernetes.io/managed-by": "podgate", "app.kubernetes.io/name": "podgate"}
ANNOTATIONS = {"admissions.enforcer/disabled": "true"}
"""AKS would otherwise write selectors of its own into every configuration, again and again."""

SERVICE_PORT = 443
API_VERSION = "admissionregistration.k8s.io/v1"

NO_UPDATE = 'request.operation != "UPDATE"'
NOT_BEING_DELETED = any_of((NO_UPDATE, "!has(object.metadata.deletionTimestamp)"))
"""Of updates alone: a server-side apply that creates an object may bring the time of its deletion along."""

NOTHING_WRITTEN = f"!({quoted(POLICIES)} in object.?metadata.?annotations.orValue({{}}))"
"""Of the late entry: what the first has changed needs no second call; should another webhook change it after that, the API server
calls the first again."""

FailurePolicy = Literal["Ignore", "Fail"]


class Configuration(NamedTuple):
    """Which object of the API a configuration is."""

    kind: Literal["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def collection(self) -> str:
        """The path of all objects of the kind."""
        return f"/apis/{API_VERSION}/{self.kind.lower()}s"

    @property
    def path(self) -> str:
        """The path of the object."""
        return f"{self.collection}/{self.name}"


FIRST = Configuration("MutatingWebhookConfiguration", NAME)
LATE = Configuration("MutatingWebhookConfiguration", LATE_NAME)
VALIDATING = Configuration("ValidatingWebhookConfiguration", NAME)
CONFIGURATIONS = (FIRST, LATE, VALIDATING)
"""In the order in which they are called, and are written: what the last verifies, the others have set."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server finds podgate: a Service or a URL.

    Attributes:
        service: namespace and name, None where `url` is given.
        port: of the Service.
        url: what comes before the paths, such as `https://10.0.0.7:8443`; "" where `service` is given.
        ca_bundle: PEM; empty where another (cert-manager, the controller) writes it.
    """

    service: tuple[str, str] | None = None
    port: int = SERVICE_PORT
    url: str = ""
    ca_bundle: bytes = b""

    def client_config(self, path: str) -> dict[str, Any]:
        """A `clientConfig` for one of podgate's paths, such as `/mutate`."""
        found: dict[str, Any] = {}
        if self.service:
            namespace, name = self.service
            found["service"] = {"namespace": namespace, "name": name, "port": self.port, "path": path}
        else:
            found["url"] = f"{self.url.rstrip('/')}{path}"
        if self.ca_bundle:
            found["caBundle"] = base64.b64encode(self.ca_bundle).decode()
        return found


def excluded(extra: Iterable[str] = (), own: str = NAMESPACE) -> tuple[str, ...]:
    """The namespaces that podgate is not called for: Kubernetes' own, podgate's `own`, and `extra` ones; sorted."""
    return tuple(sorted({*SYSTEM_NAMESPACES, own, *extra}))


def webhook_configurations(
    policy_set: PolicySet,
    endpoint: Endpoint,
    *,
    excluded_namespaces: Iterable[str] = (),
    enforce_failure_policy: bool = False,
) -> tuple[dict[str, Any], ...]:
    """All configurations for a policy set, in the order of `CONFIGURATIONS`; one without `webhooks` is not needed.

    Every field of our entries is given, those with a default too, so that what somebody else wrote there is seen.

    Args:
        policy_set: the policies in force.
        endpoint: where podgate is.
        excluded_namespaces: besides Kubernetes' own and podgate's.
        enforce_failure_policy: whether the entry of policies with `failurePolicy: Fail` says so; else an outage blocks nothing.
    """
    own = endpoint.service[0] if endpoint.service else NAMESPACE
    make = _Maker(policy_set, endpoint, excluded(excluded_namespaces, own))
    fail: FailurePolicy = "Fail" if enforce_failure_policy else "Ignore"
    entries = {
        FIRST: [make.entry(MUTATE, "/mutate", mutating_entry(policy_set), "Ignore")],
        LATE: [make.entry(MUTATE_LATE, "/mutate", late_entry(policy_set), "Ignore")],
        VALIDATING: [
            make.entry(VALIDATE_FAIL, "/validate/fail", validating_entry(policy_set, "Fail"), fail),
            make.entry(VALIDATE_IGNORE, "/validate/ignore", validating_entry(policy_set, "Ignore"), "Ignore"),
        ],
    }
    return tuple(_configuration(each, entries[each]) for each in CONFIGURATIONS)


def _configuration(which: Configuration, entries: list[dict[str, Any]]) -> dict[str, Any]:
    metadata = {"name": which.name, "labels": dict(LABELS), "annotations": dict(ANNOTATIONS)}
    needed = [entry for entry in entries if entry["rules"]]
    return {"apiVersion": API_VERSION, "kind": which.kind, "metadata": metadata, "webhooks": needed}


@dataclass(frozen=True, slots=True)
class _Maker:
    """What all entries have in common."""

    policy_set: PolicySet
    endpoint: Endpoint
    excluded: tuple[str, ...]

    def entry(self, name: str, path: str, entry: Entry, failure_policy: FailurePolicy) -> dict[str, Any]:
        called_for = rules(entry)
        outside = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": list(self.excluded)}
        found: dict[str, Any] = {
            "name": name,
            "admissionReviewVersions": ["v1"],
            "clientConfig": self.endpoint.client_config(path),
            "failurePolicy": failure_policy,
            "matchConditions": self._conditions(entry, has_updates=updated(called_for)),
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [outside]},
            "objectSelector": {},  # whoever writes an object must not exempt it
            "rules": called_for,
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUTS[name],
        }
        return found | ({"reinvocationPolicy": "IfNeeded"} if entry.mutating else {})

    def _conditions(self, entry: Entry, *, has_updates: bool) -> list[dict[str, str]]:
        """All must hold; the cheap ones first."""
        of_updates = {"not-being-deleted": NOT_BEING_DELETED, "spec-changed": self._spec_changed(entry)}
        found = {
            **({"nothing-written": NOTHING_WRITTEN} if entry.late else {}),
            "no-mirror-pod": _no_mirror_pod(),
            "no-daemonset-pod": _no_daemon_set_pod(),
            **(of_updates if has_updates else {}),
            "concerns-a-policy": match_condition(self.policy_set, entry),
        }
        return [{"name": name, "expression": text} for name, text in found.items() if text != TRUE]

    def _spec_changed(self, entry: Entry) -> str:
        """An update that leaves the spec, or the pod template, alone concerns no rule, unless it judges more than that."""
        templates = _looked_at_alone(self.policy_set, entry)
        unlike = {*entry.judges_metadata, *_templates_beyond_spec(self.policy_set, entry, templates)}
        return any_of((NO_UPDATE, f"!({leaves_pods_alone(templates, sorted(unlike))})"))


def _looked_at_alone(policy_set: PolicySet, entry: Entry) -> dict[str, str]:
    """The templates for the sake of which alone updates of their kinds are asked about; no rule judges the objects themselves."""
    judged = {full_name(demand.target) for demand in entry.demands if "UPDATE" in demand.operations}
    kinds = [kind for kind in policy_set.templates.kinds if kind.resource in entry.templates]
    return {name: path for name, path in template_paths(kinds).items() if name not in judged}


def _templates_beyond_spec(policy_set: PolicySet, entry: Entry, known: Mapping[str, str]) -> set[str]:
    """Kinds that keep a template elsewhere than below `spec`, and at no known path."""
    return {
        kind.resource
        for kind in policy_set.templates.kinds
        if kind.resource in entry.templates
        and full_name(kind.resource) not in known
        and any((*place.template.head, *place.template.tail)[:1] != ("spec",) for place in kind.places)
    }


def _no_mirror_pod() -> str:
    """A node's picture of a static pod; by the caller, for an annotation alone is anybody's."""
    groups = all_of(("has(request.userInfo.groups)", f"{quoted(NODES_GROUP)} in request.userInfo.groups"))
    mark = all_of(
        ("has(object.metadata.annotations)", f"{quoted(MIRROR_ANNOTATION)} in object.metadata.annotations")
    )
    return f"!({all_of((is_any_of((POD,)), groups, mark))})"


def _no_daemon_set_pod() -> str:
    user = all_of(
        ("has(request.userInfo.username)", f"request.userInfo.username == {quoted(DAEMON_SET_CONTROLLER)}")
    )
    return f"!({all_of((is_any_of((POD,)), user))})"
