"""A site's own accelerators and kinds."""

from __future__ import annotations

from webhook.kube.accelerators import shipped_catalogue
from webhook.kube.templates import shipped_templates
from webhook.review_tools.site_data import SiteData, site_data

KINDS = b"""\
kinds:
- group: example.org
  kind: Cluster
  resource: clusters.example.org
  pods:
  - template: spec.template
"""
ACCELERATORS = b"""\
vendors:
  acme:
    resources:
    - names: [acme.example/npu]
      role: device
"""


def said(found: SiteData) -> list[str]:
    return [str(problem) for problem in found.problems]


def test_without_files_it_is_the_shipped_data() -> None:
    found = site_data([], [])
    assert found.catalogue is shipped_catalogue()
    assert found.templates is shipped_templates()


def test_files_lie_on_top_of_the_shipped_data() -> None:
    found = site_data([("k.yaml", KINDS)], [("a.yaml", ACCELERATORS)])
    assert said(found) == []
    assert found.templates.kind_of("example.org", "Cluster")
    assert found.templates.kind_of("apps", "Deployment")
    assert found.catalogue.vendors == shipped_catalogue().vendors | {"acme"}


def test_a_fault_has_its_place_and_takes_no_other_file_down() -> None:
    bad = KINDS.replace(b"template: spec", b"templat: spec")
    found = site_data([("bad.yaml", bad), ("k.yaml", KINDS)], [])
    assert [line.partition("\n")[0] for line in said(found)] == [
        "bad.yaml:6:5: kinds[0].pods[0].template is missing (add template: …)",
        "bad.yaml:6:5: unknown key 'templat' in kinds[0].pods[0] (did you mean template?)",
    ]
    assert found.templates.kind_of("example.org", "Cluster")


def test_a_fault_of_accelerators() -> None:
    found = site_data([], [("a.yaml", ACCELERATORS.replace(b"device", b"devise"))])
    assert said(found) == [
        "a.yaml:5:13: vendors.acme.resources[0].role: expected one of device, memory, cores, other, found 'devise'"
    ]


def test_files_of_another_shape() -> None:
    found = site_data([("k.yaml", b"- a\n"), ("empty.yaml", b"# nothing\n")], [("a.yaml", b"kinds: []\n")])
    assert [line.partition("\n")[0] for line in said(found)] == [
        "k.yaml:1:1: the document: expected a map, found a list",
        "empty.yaml: the file is empty",
        "a.yaml:1:1: kinds: unknown key, expected one of vendors, rdmaResources",
    ]


def test_yaml_that_cannot_be_parsed() -> None:
    found = site_data([("k.yaml", b"kinds: [\n")], [])
    assert len(found.problems) == 1
    assert found.templates is shipped_templates()
