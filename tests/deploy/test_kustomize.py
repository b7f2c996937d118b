"""The rules that hold for what is deployed, whatever is chosen."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.deploy.dockerfile import ROOT
from tests.deploy.rendered import (
    BASE,
    COMPONENTS,
    CONTROLLER,
    FOLDERS,
    KUSTOMIZE,
    OVERLAYS,
    WEBHOOK,
    container,
    named,
    of_kind,
    pod_spec,
    rendered,
    rules_of,
    source_files,
)
from webhook.cli.folders import SUFFIXES, TEST_SUFFIXES, read_folders
from webhook.policy import load_policy_set
from webhook.server.app import create_app

if TYPE_CHECKING:
    from pathlib import Path

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
DEPLOYMENTS = [WEBHOOK, CONTROLLER]
#: What a ConfigMap may hold, and what `kubectl apply` can keep of it in an annotation
#: (kubernetes/apimachinery:pkg/api/validation/objectmeta.go, TotalAnnotationSizeLimitB).
ANNOTATIONS_LIMIT = 256 * 1024

each_folder = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
each_deployment = pytest.mark.parametrize("name", DEPLOYMENTS)


@pytest.fixture
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], ...]:
    """The base with every component, as a site's own kustomization would have them."""
    folder = tmp_path_factory.mktemp("site")
    site = {
        "resources": [relative(BASE, folder)],
        "components": [relative(component, folder) for component in COMPONENTS],
        "images": [{"name": "podgate", "newName": "registry.example.org/podgate", "newTag": "x"}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(site))
    return rendered(folder)


def relative(path: Path, folder: Path) -> str:
    return "/".join([".."] * len(folder.parents[:-1]) + [".."]) + str(path)


class TestFiles:
    @pytest.mark.parametrize("file", list(source_files()), ids=lambda file: f"{file.parent.name}/{file.name}")
    def test_each_has_one_object_and_its_name(self, file: Path) -> None:
        (thing,) = yaml.safe_load_all(file.read_text())
        assert file.name == f"{thing['kind'].lower()}-{thing['metadata']['name']}.yaml"

    @pytest.mark.parametrize("folder", [BASE, *COMPONENTS], ids=lambda folder: folder.name)
    def test_each_is_used(self, folder: Path) -> None:
        listed = yaml.safe_load((folder / "kustomization.yaml").read_text()).get("resources", [])
        own = {name for name in listed if not name.startswith("..")}
        assert own == {file.name for file in source_files() if file.parent == folder}

    def test_every_component_has_an_overlay(self) -> None:
        assert [each.name for each in OVERLAYS] == [each.name for each in COMPONENTS]

    def test_all_components_go_together(self, everything: tuple[dict[str, Any], ...]) -> None:
        arguments = container(named(everything, "Deployment", WEBHOOK))["args"]
        assert "--languages=en,zh" in arguments
        assert "--mode=audit" not in arguments
        assert "--certificates=cert-manager" in container(named(everything, "Deployment", CONTROLLER))["args"]
        images = {container(each)["image"] for each in of_kind(everything, "Deployment")}
        assert images == {"registry.example.org/podgate:x"}


class TestPolicies:
    def test_the_config_map_has_every_shipped_policy_and_nothing_else(self) -> None:
        shipped = {
            file.name
            for file in (ROOT / "policies").iterdir()
            if file.name.endswith(SUFFIXES) and not file.name.endswith(TEST_SUFFIXES)
        }
        assert set(named(rendered(BASE), "ConfigMap", "podgate-policies")["data"]) == shipped

    def test_it_is_the_same_set(self, tmp_path: Path) -> None:
        for name, text in named(rendered(BASE), "ConfigMap", "podgate-policies")["data"].items():
            (tmp_path / name).write_text(text)
        from_files, from_map = (
            load_policy_set(read_folders([folder])) for folder in (ROOT / "policies", tmp_path)
        )
        assert from_map.problems == ()
        assert from_map.policy_set.hash == from_files.policy_set.hash

    def test_it_can_be_applied_by_the_client(self) -> None:
        size = len(json.dumps(named(rendered(BASE), "ConfigMap", "podgate-policies")))
        assert size < ANNOTATIONS_LIMIT


class TestEnforcement:
    @pytest.mark.parametrize(
        "folder", [each for each in FOLDERS if each.name != "enforce"], ids=lambda f: f.name
    )
    def test_is_off_where_nobody_asked_for_it(self, folder: Path) -> None:
        for name in (WEBHOOK, CONTROLLER):
            assert "--mode=audit" in container(named(rendered(folder), "Deployment", name))["args"]
        assert (
            of_kind(rendered(folder), "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration") == []
        )

    @pytest.mark.parametrize(("name", "added"), [(WEBHOOK, []), (CONTROLLER, ["--enforce"])])
    def test_the_overlay_takes_away_the_ceiling_of_both(self, name: str, added: list[str]) -> None:
        base, enforce = (
            container(named(rendered(f), "Deployment", name))["args"]
            for f in (BASE, KUSTOMIZE / "overlays/enforce")
        )
        assert [each for each in base if each not in enforce] == ["--mode=audit"]
        assert [each for each in enforce if each not in base] == added

    @pytest.mark.parametrize(("number", "words"), [(0, ["test", "remove"]), (1, ["test", "remove", "add"])])
    def test_a_base_with_other_arguments_is_an_error_and_not_a_wrong_patch(
        self, number: int, words: list[str]
    ) -> None:
        """The patch tests what it removes."""
        patch = yaml.safe_load((KUSTOMIZE / "components/enforce/kustomization.yaml").read_text())["patches"]
        operations = yaml.safe_load(patch[number]["patch"])
        assert [each["op"] for each in operations] == words
        assert operations[0]["path"] == operations[1]["path"]


class TestPods:
    """Restricted Pod Security, and what a component in the path of every pod owes to a cluster."""

    @each_folder
    @each_deployment
    def test_are_restricted(self, folder: Path, name: str) -> None:
        spec = pod_spec(named(rendered(folder), "Deployment", name))
        own = container(named(rendered(folder), "Deployment", name))["securityContext"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 65532
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert own == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & spec.keys()
        assert {next(key for key in volume if key != "name") for volume in spec["volumes"]} <= {
            "configMap",
            "secret",
            "emptyDir",
        }

    @each_deployment
    def test_can_write_only_to_small_volumes(self, name: str) -> None:
        spec = pod_spec(named(rendered(BASE), "Deployment", name))
        writable = {volume["name"]: volume["emptyDir"] for volume in spec["volumes"] if "emptyDir" in volume}
        assert all("sizeLimit" in volume for volume in writable.values())
        for mount in spec["containers"][0]["volumeMounts"]:
            assert mount.get("readOnly", False) is (mount["name"] not in writable)

    @each_deployment
    def test_have_resources_without_a_limit_on_cpu(self, name: str) -> None:
        resources = container(named(rendered(BASE), "Deployment", name))["resources"]
        assert resources["requests"].keys() == {"cpu", "memory", "ephemeral-storage"}
        assert resources["limits"].keys() == {"memory", "ephemeral-storage"}

    @each_deployment
    def test_get_no_variables_that_could_be_options(self, name: str) -> None:
        """A Service called podgate gives its neighbours PODGATE_PORT and the like."""
        assert pod_spec(named(rendered(BASE), "Deployment", name))["enableServiceLinks"] is False

    @each_deployment
    def test_run_the_image_of_this_version(self, name: str) -> None:
        assert container(named(rendered(BASE), "Deployment", name))["image"] == f"podgate:{VERSION}"

    def test_and_everything_else_says_the_version(self) -> None:
        found = {
            each["metadata"]["labels"]["app.kubernetes.io/version"]
            for each in rendered(BASE)
            if each["kind"] != "ConfigMap"
        }
        assert found == {VERSION}

    @each_deployment
    def test_have_a_priority_that_a_quota_permits(self, name: str) -> None:
        priority = pod_spec(named(rendered(BASE), "Deployment", name))["priorityClassName"]
        (quota,) = of_kind(rendered(BASE), "ResourceQuota")
        (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
        assert priority == "system-cluster-critical"
        assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": [priority]}
        replicas = sum(each["spec"]["replicas"] for each in of_kind(rendered(BASE), "Deployment"))
        assert int(quota["spec"]["hard"]["pods"]) > 2 * replicas

    @each_deployment
    def test_are_spread_and_still_scheduled_where_they_cannot_be(self, name: str) -> None:
        deployment = named(rendered(BASE), "Deployment", name)
        spread = pod_spec(deployment)["topologySpreadConstraints"]
        assert "kubernetes.io/hostname" in [each["topologyKey"] for each in spread]
        for each in spread:
            assert each["whenUnsatisfiable"] == "ScheduleAnyway"
            assert each["labelSelector"] == deployment["spec"]["selector"]

    def test_of_the_webhook_roll_over_one_by_one_with_none_missing(self) -> None:
        deployment = named(rendered(BASE), "Deployment", WEBHOOK)
        assert deployment["spec"]["replicas"] == 3
        assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        zones = [each["topologyKey"] for each in pod_spec(deployment)["topologySpreadConstraints"]]
        assert zones == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]

    def test_of_the_webhook_wait_before_they_end_and_have_time_to(self) -> None:
        spec = pod_spec(named(rendered(BASE), "Deployment", WEBHOOK))
        wait = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert wait >= 10
        assert spec["terminationGracePeriodSeconds"] >= wait + 30


class TestProbes:
    @each_deployment
    def test_ask_what_is_there(self, name: str) -> None:
        own = container(named(rendered(BASE), "Deployment", name))
        ports = {port["name"] for port in own.get("ports", [])}
        for probe in (own[key] for key in own if key.endswith("Probe")):
            assert probe["httpGet"]["port"] in ports

    def test_of_the_webhook_are_routes_of_its_application(self) -> None:
        own = container(named(rendered(BASE), "Deployment", WEBHOOK))
        asked = {key: own[key]["httpGet"] for key in own if key.endswith("Probe")}
        assert asked.keys() == {"startupProbe", "livenessProbe", "readinessProbe"}
        assert {each["scheme"] for each in asked.values()} == {"HTTPS"}
        assert asked["livenessProbe"]["path"] == asked["startupProbe"]["path"] == "/livez"
        assert asked["readinessProbe"]["path"] == "/readyz"
        assert {"/livez", "/readyz"} <= routes()


def routes() -> set[str]:
    """The paths that the application answers beside reviews."""
    app = create_app(None, None, answer=None)  # type: ignore[arg-type]
    return {str(rule) for rule in app.url_map.iter_rules()}


class TestReferences:
    @each_folder
    def test_services_budgets_and_network_policies_select_pods_that_there_are(self, folder: Path) -> None:
        labels = [
            each["spec"]["template"]["metadata"]["labels"] for each in of_kind(rendered(folder), "Deployment")
        ]
        for each in of_kind(
            rendered(folder), "Service", "PodDisruptionBudget", "NetworkPolicy", "Deployment"
        ):
            spec = each["spec"]
            selector = spec["podSelector"] if "podSelector" in spec else spec["selector"]
            wanted = selector.get("matchLabels", selector)
            assert wanted
            assert sum(wanted.items() <= found.items() for found in labels) == 1, each["metadata"]["name"]

    @each_folder
    def test_ports_are_those_of_the_container(self, folder: Path) -> None:
        (port,) = container(named(rendered(folder), "Deployment", WEBHOOK))["ports"]
        (service_port,) = named(rendered(folder), "Service", WEBHOOK)["spec"]["ports"]
        (ingress,) = named(rendered(folder), "NetworkPolicy", WEBHOOK)["spec"]["ingress"]
        assert port == {"name": "https", "containerPort": 8443}
        assert (service_port["port"], service_port["targetPort"]) == (443, port["name"])
        assert ingress == {"ports": [{"port": port["name"]}]}

    @each_folder
    def test_the_port_of_the_controller_is_for_those_who_collect_metrics(self, folder: Path) -> None:
        (port,) = container(named(rendered(folder), "Deployment", CONTROLLER))["ports"]
        (ingress,) = named(rendered(folder), "NetworkPolicy", CONTROLLER)["spec"]["ingress"]
        assert ingress["ports"] == [{"port": port["name"]}]
        assert ingress["from"]
        assert all(each["namespaceSelector"]["matchLabels"] for each in ingress["from"])

    @each_folder
    def test_everything_that_is_named_exists(self, folder: Path) -> None:
        objects = rendered(folder)
        accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
        for deployment in of_kind(objects, "Deployment"):
            assert pod_spec(deployment)["serviceAccountName"] in accounts
            for volume in pod_spec(deployment)["volumes"]:
                if "configMap" in volume and not volume["configMap"].get("optional"):
                    assert named(objects, "ConfigMap", volume["configMap"]["name"])
        for binding in of_kind(objects, "RoleBinding", "ClusterRoleBinding"):
            assert {each["name"] for each in binding["subjects"]} <= accounts
            assert {each["namespace"] for each in binding["subjects"]} == {"podgate-system"}
            assert named(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for binding in of_kind(objects, "ValidatingAdmissionPolicyBinding"):
            assert named(objects, "ValidatingAdmissionPolicy", binding["spec"]["policyName"])

    @each_folder
    def test_everything_is_in_our_namespace_or_in_none(self, folder: Path) -> None:
        cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding"}
        cluster_wide |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
        for each in rendered(folder):
            expected = None if each["kind"] in cluster_wide else "podgate-system"
            assert each["metadata"].get("namespace") == expected, each["kind"]

    def test_cert_manager_makes_the_secret_that_is_mounted(self) -> None:
        objects = rendered(KUSTOMIZE / "overlays/cert-manager")
        certificate = named(objects, "Certificate", WEBHOOK)["spec"]
        volumes = pod_spec(named(objects, "Deployment", WEBHOOK))["volumes"]
        mounted = [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]
        assert mounted == [certificate["secretName"]]
        service = named(objects, "Service", WEBHOOK)["metadata"]
        assert f"{service['name']}.{service['namespace']}.svc" in certificate["dnsNames"]
        for issued in of_kind(objects, "Certificate"):
            assert named(objects, "Issuer", issued["spec"]["issuerRef"]["name"])
        authority = named(objects, "Issuer", certificate["issuerRef"]["name"])["spec"]["ca"]["secretName"]
        (of_the_ca,) = (each["spec"] for each in of_kind(objects, "Certificate") if each["spec"].get("isCA"))
        assert authority == of_the_ca["secretName"]


def kinds_of(rule: dict[str, Any]) -> set[tuple[str, str]]:
    """The groups and resources of a rule."""
    return {(group, resource) for group in rule["apiGroups"] for resource in rule["resources"]}


class TestRights:
    @each_folder
    def test_have_no_wildcard_and_no_verb_that_gives_more(self, folder: Path) -> None:
        for role in of_kind(rendered(folder), "Role", "ClusterRole"):
            for rule in role["rules"]:
                words = {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
                assert not words & {"*", "escalate", "bind", "impersonate"}, role["metadata"]["name"]
                assert not any("nonResourceURLs" in each for each in role["rules"])

    @each_folder
    def test_of_the_webhook_are_to_read_and_never_a_secret(self, folder: Path) -> None:
        rules = list(rules_of(rendered(folder), WEBHOOK))
        assert rules
        assert {verb for rule in rules for verb in rule["verbs"]} <= {"get", "list", "watch"}
        assert {resource for rule in rules for resource in rule["resources"]}.isdisjoint({"secrets", "pods"})

    @each_folder
    def test_of_the_controller_name_what_they_change(self, folder: Path) -> None:
        for rule in rules_of(rendered(folder), CONTROLLER):
            changes = set(rule["verbs"]) - {"get", "list", "watch"}
            assert rule.get("resourceNames") or changes <= {"create"}, rule
            assert not changes - {"create", "update", "patch", "delete"}
            if rule.get("resourceNames"):
                assert "create" not in rule["verbs"], "a name cannot limit create"

    def test_of_the_controller_on_secrets_are_by_name(self) -> None:
        reading = [
            rule
            for rule in rules_of(rendered(BASE), CONTROLLER)
            if "secrets" in rule["resources"] and rule["verbs"] != ["create"]
        ]
        assert [rule["resourceNames"] for rule in reading] == [["podgate-ca", "podgate-tls"]]

    def test_under_cert_manager_nobody_may_touch_secrets(self) -> None:
        objects = rendered(KUSTOMIZE / "overlays/cert-manager")
        for account in DEPLOYMENTS:
            assert [rule for rule in rules_of(objects, account) if "secrets" in rule["resources"]] == []

    def test_what_the_controller_may_create_is_limited_by_name_elsewhere(self) -> None:
        """For each kind that RBAC lets it create under any name, the admission policy says which names."""
        policy = named(rendered(BASE), "ValidatingAdmissionPolicy", CONTROLLER)["spec"]
        covered = {kind for rule in policy["matchConstraints"]["resourceRules"] for kind in kinds_of(rule)}
        rules = list(rules_of(rendered(BASE), CONTROLLER))
        created = {kind for rule in rules if "create" in rule["verbs"] for kind in kinds_of(rule)}
        assert created == covered
        names = {
            name for rule in rules if kinds_of(rule) <= created for name in rule.get("resourceNames", [])
        }
        (validation,) = policy["validations"]
        assert set(re.findall(r'"([^"]+)"', validation["expression"])) == names

    def test_and_is_refused_the_rest(self) -> None:
        policy = named(rendered(BASE), "ValidatingAdmissionPolicy", CONTROLLER)["spec"]
        binding = named(rendered(BASE), "ValidatingAdmissionPolicyBinding", CONTROLLER)["spec"]
        (condition,) = policy["matchConditions"]
        account = named(rendered(BASE), "ServiceAccount", CONTROLLER)["metadata"]
        user = f"system:serviceaccount:{account['namespace']}:{account['name']}"
        assert condition["expression"] == f'request.userInfo.username == "{user}"'
        assert policy["failurePolicy"] == "Fail"
        assert binding["validationActions"] == ["Deny"]

    @each_deployment
    def test_come_with_a_token_only_where_it_is_asked_for(self, name: str) -> None:
        assert named(rendered(BASE), "ServiceAccount", name)["automountServiceAccountToken"] is False
        assert pod_spec(named(rendered(BASE), "Deployment", name))["automountServiceAccountToken"] is True

    def test_only_the_group_reads_the_key(self) -> None:
        spec = pod_spec(named(rendered(BASE), "Deployment", WEBHOOK))
        (secret,) = (volume["secret"] for volume in spec["volumes"] if "secret" in volume)
        assert secret["defaultMode"] == 0o440
        assert spec["securityContext"]["fsGroup"] == spec["securityContext"]["runAsGroup"]

    def test_the_key_of_the_ca_is_not_mounted(self) -> None:
        for deployment in of_kind(rendered(BASE), "Deployment"):
            for volume in pod_spec(deployment)["volumes"]:
                if "secret" in volume:
                    assert [item["key"] for item in volume["secret"]["items"]] == ["tls.crt", "tls.key"]


def test_the_namespace_is_restricted() -> None:
    labels = named(rendered(BASE), "Namespace", "podgate-system")["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {
        "restricted"
    }


def test_the_budget_lets_nodes_be_drained() -> None:
    spec = named(rendered(BASE), "PodDisruptionBudget", WEBHOOK)["spec"]
    assert (spec["minAvailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    assert named(rendered(BASE), "Deployment", WEBHOOK)["spec"]["replicas"] > spec["minAvailable"]


def test_kubesphere_finds_its_labels() -> None:
    metadata = named(rendered(KUSTOMIZE / "overlays/kubesphere"), "Namespace", "podgate-system")["metadata"]
    assert metadata["labels"]["kubesphere.io/workspace"] == "system-workspace"
    assert metadata["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_nothing_lies_outside_of_the_two_folders(tmp_path: Path) -> None:
    """So that a remote base needs nothing else of the repository."""
    for name in ("deploy", "policies"):
        shutil.copytree(ROOT / name, tmp_path / name)
    assert rendered(tmp_path / "deploy/kustomize/base") == rendered(BASE)
