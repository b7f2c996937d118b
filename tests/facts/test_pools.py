"""Which pools a pod could land in, where one pool describes some nodes of another more exactly."""

from typing import Any

import pytest

from webhook.facts import AcceleratorPool, possible_pools
from webhook.kube.node_affinity import placement_of

GPU = "nvidia.com/gpu"
PRESENT, PRODUCT, FABRIC = "nvidia.com/gpu.present", "nvidia.com/gpu.product", "example.com/fabric"


def pool(name: str, **labels: str) -> AcceleratorPool:
    node_labels = {
        {"present": PRESENT, "product": PRODUCT, "fabric": FABRIC}[k]: v for k, v in labels.items()
    }
    spec = {"resourceNames": [GPU], "nodeLabels": node_labels}
    return AcceleratorPool.model_validate({"name": name, **spec})


ANY = pool("any", present="true")
H100 = pool("h100", present="true", product="H100")
A100 = pool("a100", present="true", product="A100")
H100_IB = pool("h100-ib", present="true", product="H100", fabric="ib")
OTHER_LABELS = pool("by-product-alone", product="H100")


def pod(selector: dict[str, str], *terms: dict[str, list[str]]) -> dict[str, Any]:
    spec: dict[str, Any] = {"nodeSelector": selector}
    if terms:
        wanted = [
            {
                "matchExpressions": [
                    {"key": key, "operator": "In", "values": values} for key, values in t.items()
                ]
            }
            for t in terms
        ]
        spec["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}
        }
    return {"spec": spec}


@pytest.mark.parametrize(
    ("pools", "thing", "expected"),
    [
        pytest.param([ANY, H100], pod({}), ["any", "h100"], id="no placement: all nodes"),
        pytest.param([ANY, H100], pod({PRESENT: "true"}), ["any", "h100"], id="only the general label"),
        pytest.param([ANY, H100], pod({FABRIC: "ib"}), ["any", "h100"], id="a label of neither"),
        pytest.param([ANY, H100], pod({PRODUCT: "L40S"}), ["any"], id="other nodes of the general pool"),
        pytest.param(
            [ANY, H100],
            pod({}, {PRESENT: ["true"], PRODUCT: ["H100", "L40S"]}),
            ["any", "h100"],
            id="one of two values is of no other pool",
        ),
        pytest.param(
            [ANY, H100],
            pod({}, {PRESENT: ["true"], PRODUCT: ["H100"]}, {PRESENT: ["true"]}),
            ["any", "h100"],
            id="another alternative is general",
        ),
        pytest.param(
            [ANY, OTHER_LABELS],
            pod({PRESENT: "true", PRODUCT: "H100"}),
            ["any", "by-product-alone"],
            id="neither is a part of the other",
        ),
        pytest.param([ANY, ANY], pod({PRESENT: "true"}), ["any", "any"], id="the same labels"),
        pytest.param(
            [ANY, H100], pod({PRESENT: "true", PRODUCT: "H100"}), ["h100"], id="sent to the better described"
        ),
        pytest.param(
            [A100, ANY, H100],
            pod({PRESENT: "true"}, {PRODUCT: ["A100", "H100"]}),
            ["a100", "h100"],
            id="sent to one of two",
        ),
        pytest.param(
            [ANY, H100, H100_IB],
            pod({PRESENT: "true", PRODUCT: "H100", FABRIC: "ib"}),
            ["h100-ib"],
            id="the most exact of three",
        ),
        pytest.param(
            [ANY, H100, H100_IB],
            pod({PRESENT: "true", PRODUCT: "H100"}),
            ["h100", "h100-ib"],
            id="the second of three, or the third",
        ),
    ],
)
def test_the_pools_of_a_pod(pools: list[AcceleratorPool], thing: dict[str, Any], expected: list[str]) -> None:
    offering = [pool for pool in pools if pool.offers([GPU])]
    assert [each.name for each in possible_pools(offering, placement_of(thing))] == expected
