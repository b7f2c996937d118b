"""Cases C: amounts of resources."""

from fractions import Fraction

import pytest
import yaml

from tests.cases.observing import HERE, Answer, Case, Json, Report
from tests.cases.texts import asked, first_container, gpu_limit, with_gpu
from webhook.kube.quantity import QuantityError, parse_quantity

WHOLE = "nvidia.com/gpu is no whole number, and Kubernetes counts devices in whole numbers"
PERCENT = "spec.containers: nvidia.com/gpumem-percentage is not within 1 and 100"


def fraction(place: str, container: str, amount: str) -> str:
    field = f'spec.containers["{container}"].resources.requests.memory'
    return f"{place} warning: {field}: expected whole bytes, found '{amount}'"


def two_cpus(request: Json) -> None:
    first_container(request)["resources"]["limits"]["cpu"] = "2000m"


def two_gpus(request: Json) -> None:
    first_container(request)["resources"]["limits"]["nvidia.com/gpu"] = "2e0"


def gpu_without_cpu(request: Json) -> None:
    with_gpu(request)
    del first_container(request)["resources"]["requests"]


CASES = (
    Case("C1", ("exactly-one",), (Answer(),), acts=False),
    Case(
        "C1", ("exactly-one",), (Answer(denied=("spec.containers: a cpu limit is not 1",)),), alter=two_cpus
    ),
    Case(
        "C1",
        ("exactly-one",),
        (
            Answer(
                denied=(
                    "spec.containers: a GPU limit is not 1",
                    f"{gpu_limit('c0')}: 2 nvidia.com/gpu asked, only 1 are allowed per container",
                )
            ),
        ),
        alter=two_gpus,
    ),
    Case(
        "C2",
        ("memory-exact",),
        Report(
            1,
            {"Pod c2 in team-a": "refused"},
            (
                "14:3 memory-exact/most fail deny spec.containers: container c2 has a limit above 256M of memory",
            ),
        ),
    ),
    Case(
        "C5",
        ("p-cap-8",),
        Report(
            1,
            {"Pod c5 in team-a": "refused"},
            (
                f"14:63 p-cap-8/cap fail deny {gpu_limit('c1')}: 0.5 {WHOLE}",
                f"15:63 p-cap-8/cap fail deny {gpu_limit('c2')}: 500m {WHOLE}",
            ),
        ),
    ),
    Case(
        "C6",
        ("p-cap-8",),
        Report(
            1,
            {"Pod c6 in team-a": "refused"},
            (
                (
                    '14:100 p-cap-8/cap fail deny spec.containers["c1"].resources.requests["huawei.com/ascend"]: '
                    "huawei.com/ascend has request 6 and limit 8, which must be equal"
                ),
                (
                    '15:65 p-cap-8/cap fail deny spec.containers["c2"].resources.requests["nvidia.com/gpu"]: '
                    "nvidia.com/gpu has a request of 1 but no limit, which Kubernetes refuses"
                ),
            ),
        ),
    ),
    Case(
        "C9",
        ("p-sched", "p-vis"),
        (Answer({"spec.containers[0].env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]}),),
    ),
    Case("C10", ("percent",), (Answer(denied=(PERCENT,)), Answer(denied=(PERCENT,)), Answer())),
    Case(
        "C13",
        ("memory-at-least",),
        Report(
            1,
            {"Pod c13 in team-a": "refused"},
            (
                "15:3 memory-at-least/least fail deny spec.containers: container c1 requests less than 256Mi of memory",
            ),
            problems=(fraction("15:57", "c1", "400m"), fraction("16:57", "c2", "1288490188800m")),
        ),
    ),
    # A limit is never put beside a request that somebody stated, so it is never below one.
    Case("C15", ("cpu-limit",), (Answer(),), acts=False),
    Case("C15", ("cpu-limit",), (Answer(),), alter=with_gpu, acts=False),
    Case(
        "C15",
        ("cpu-limit",),
        (
            Answer(
                {
                    "spec.containers[0].resources.limits.cpu": "300m",
                    "spec.containers[0].resources.requests": {"cpu": "300m"},
                }
            ),
        ),
        alter=gpu_without_cpu,
    ),
    Case(
        "C17",
        ("p-cap-4", "p-sched"),
        (
            Answer(
                denied=(f"{gpu_limit('main')}: -1 nvidia.com/gpu is below zero, which Kubernetes refuses",)
            ),
        ),
    ),
    Case(
        "C18",
        ("cap-names",),
        (
            Answer(
                denied=(
                    f"{gpu_limit('m', resource='nvidia.com/mig-3g.40gb')}: {asked(2, 1, resource='nvidia.com/mig-3g.40gb')}",
                )
            ),
            Answer(),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected


def c14() -> Json:
    found: Json = yaml.safe_load(next(HERE.glob("C14-*.yaml")).read_bytes())
    return found


@pytest.mark.parametrize("text", c14()["invalid"])
def test_c14_what_kubernetes_refuses_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_quantity(text)


@pytest.mark.parametrize(("text", "value"), c14()["valid"].items())
def test_c14_what_kubernetes_reads_has_its_value(text: str, value: str) -> None:
    assert parse_quantity(text) == Fraction(value)
