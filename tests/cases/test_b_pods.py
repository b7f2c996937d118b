"""Cases B: the shapes that pods have."""

import orjson
import pytest
import yaml

from tests.admission.wire import call
from tests.cases.observing import HERE, Answer, Case, Json, Report, facts, policy_set
from tests.cases.texts import asked, first_container, gpu_limit, privileged, with_gpu
from webhook.admission import Endpoint

FIELDS = ("p-sched", "p-tol", "p-ann", "p-env", "p-vis", "p-shm", "p-rdma", "p-node", "p-prio", "p-sc")
ALL = (*FIELDS, "p-cap-4", "p-priv", "p-reg")
VOID = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
TAINT = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
ACCEL = [{"key": "accel", "operator": "In", "values": ["gpu"]}]
TERM = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
SCHEDULED = Answer({"spec.schedulerName": "gpu-scheduler"})
ENVIRONMENT = "sets NVIDIA_VISIBLE_DEVICES, which gives it accelerators that others hold"


def by_alice(request: Json) -> None:
    """A client's pod that calls itself a mirror."""
    request["userInfo"] = {"username": "alice", "groups": ["team-a", "system:authenticated"]}


def by_the_daemon_set_controller(request: Json) -> None:
    request["userInfo"]["username"] = "system:serviceaccount:kube-system:daemon-set-controller"


def on_its_own_network(request: Json) -> None:
    with_gpu(request)
    del request["object"]["spec"]["hostNetwork"]


def living(request: Json) -> None:
    """The container has become privileged, in a pod that is not being deleted."""
    for which in ("object", "oldObject"):
        del request[which]["metadata"]["deletionTimestamp"]
    del request["oldObject"]["spec"]["containers"][0]["securityContext"]


def without_finalizer_alone(request: Json) -> None:
    """The same update of a pod that is not being deleted."""
    for which in ("object", "oldObject"):
        del request[which]["metadata"]["deletionTimestamp"]


def unpinned(request: Json) -> None:
    del request["object"]["spec"]["nodeName"]


def named_eval(request: Json) -> None:
    request["object"]["metadata"]["generateName"] = "eval-"


def with_bad_app_image(request: Json) -> None:
    """The app container was let in before the policy; only what is new is judged."""
    for which in ("object", "oldObject"):
        request[which]["spec"]["containers"][0]["image"] = "docker.io/library/app:1"


CASES = (
    Case(
        "B1",
        ("p-sched", "p-tol"),
        (Answer({"spec.schedulerName": "gpu-scheduler", "spec.tolerations": [TAINT]}),),
    ),
    Case(
        "B2",
        ("p-cap-1",),
        (Answer(denied=(f"{gpu_limit('watch', 'spec.initContainers')}: {asked(2, 1)}",)),),
    ),
    Case(
        "B4",
        ("p-reg",),
        (
            Answer(
                denied=(
                    "spec.ephemeralContainers: ephemeral container dbg has an image that is not from registry.local",
                )
            ),
        ),
    ),
    Case(
        "B4",
        ("p-reg",),
        (
            Answer(
                denied=(
                    "spec.ephemeralContainers: ephemeral container dbg has an image that is not from registry.local",
                )
            ),
        ),
        alter=with_bad_app_image,
    ),
    Case(
        "B5",
        ("p-vis",),
        (
            Answer(
                denied=(
                    f'spec.ephemeralContainers["dbg"].env["NVIDIA_VISIBLE_DEVICES"]: ephemeral container dbg {ENVIRONMENT}',
                )
            ),
        ),
    ),
    Case(
        "B6",
        ("cpu-at-most-3",),
        Report(
            1,
            {"Pod b6 in team-a": "refused"},
            (
                "16:3 cpu-at-most-3/default skip none spec.containers: no container of the pod holds an accelerator",
                "16:3 cpu-at-most-3/most skip none spec.containers: the pod asks for no accelerator",
                "14:31 cpu-at-most-3/pod fail deny spec.resources.requests.cpu: the pod asks for more than 3 cpus",
            ),
        ),
    ),
    Case("B7", ALL, (Answer(),), acts=False),
    Case(
        "B7",
        ("p-priv",),
        (Answer(denied=(f'spec.containers["main"].securityContext.privileged: {privileged("main")}',)),),
        alter=by_alice,
    ),
    Case("B9", ("p-sched-train",), (SCHEDULED,)),
    Case("B9", ("p-sched-train",), (Answer(),), alter=named_eval, acts=False),
    # A template is judged as the pod foo-… that comes of it.
    Case(
        "B10",
        ("p-priv-foo",),
        Report(
            1,
            {"Deployment foo in team-a": "refused"},
            (
                '21:39 p-priv-foo/privileged fail deny spec.template.spec.containers["main"].securityContext.privileged: '
                + privileged("main"),
            ),
        ),
    ),
    Case("B11", ("p-sched",), (SCHEDULED,)),
    Case(
        "B12",
        ("p-cap-4",),
        Report(
            1,
            {
                "CronJob b12-cron in team-a": "refused",
                "Job b12-job in team-a": "refused",
                "PyTorchJob b12-pt in team-a": "refused",
            },
            (
                f"15:134 p-cap-4/cap fail deny {gpu_limit('m', 'spec.jobTemplate.spec.template.spec.containers')}: {asked(8, 4)}",
                f"20:118 p-cap-4/cap fail deny {gpu_limit('m', 'spec.template.spec.containers')}: {asked(8, 4)}",
                (
                    "25:146 p-cap-4/cap fail deny "
                    f"{gpu_limit('pytorch', 'spec.pytorchReplicaSpecs.Worker.template.spec.containers')}: {asked(8, 4)}"
                ),
            ),
            skipped=("Thing b12-unknown in team-a",),
        ),
    ),
    Case(
        "B13",
        ("p-priv", "p-sched"),
        (
            Answer(
                {"spec.schedulerName": "gpu-scheduler"},
                (f'spec.containers["agent"].securityContext.privileged: {privileged("agent")}',),
            ),
        ),
    ),
    Case("B15", ("p-rdma",), (Answer(),), acts=False),
    Case("B15", ("p-rdma",), (Answer(),), alter=with_gpu, acts=False),
    Case(
        "B15",
        ("p-rdma",),
        (
            Answer(
                {
                    "spec.containers[0].resources.limits.rdma/hca_shared_devices_a": "1",
                    "spec.containers[0].resources.requests": {"rdma/hca_shared_devices_a": "1"},
                    "spec.containers[0].securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                }
            ),
        ),
        alter=on_its_own_network,
    ),
    # Whoever writes a DaemonSet into the owners is no DaemonSet: the requirement is added beside matchFields, which stay.
    Case("B16", ("p-node",), (Answer({f"{TERM}.matchExpressions": ACCEL}),)),
    Case("B16", ("p-node",), (Answer(),), alter=by_the_daemon_set_controller, acts=False),
    Case("B18", ("p-priv", "p-sched", "p-node", "p-env"), (Answer(),), acts=False),
    Case(
        "B18",
        ("p-priv", "p-sched", "p-node", "p-env"),
        (Answer(),),
        alter=without_finalizer_alone,
        acts=False,
    ),
    Case(
        "B18",
        ("p-priv", "p-sched", "p-node", "p-env"),
        (Answer(denied=(f'spec.containers["main"].securityContext.privileged: {privileged("main")}',)),),
        alter=living,
    ),
    Case("B19", ("p-sched",), (SCHEDULED, Answer())),
    Case(
        "B21",
        ("no-node-name",),
        (
            Answer(
                denied=(
                    (
                        "spec.nodeName: the pod asks for 1 nvidia.com/gpu and is pinned to node gpu-7, past the scheduler, "
                        "which alone knows where devices are free"
                    ),
                )
            ),
        ),
    ),
    Case("B21", ("no-node-name",), (Answer(),), alter=unpinned, acts=False),
    # Of all the reference policies only p-vis says something of a pod without a GPU.
    Case(
        "B22", ALL, (Answer({"spec.containers[0].env": [VOID]}), Answer({"spec.containers[0].env[0]": VOID}))
    ),
    Case(
        "B23",
        ("no-claims",),
        (
            Answer(
                denied=("spec.resourceClaims: device claims cannot be counted, so this namespace has none",)
            ),
        ),
    ),
    Case("B23", ("p-cap-0",), (Answer(),), acts=False),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected


def test_b23_a_limit_says_that_claims_cannot_be_counted() -> None:
    """It neither refuses nor passes: what it cannot count is written down as skipped."""
    (review,) = yaml.safe_load_all(next(HERE.glob("B23-*.yaml")).read_bytes())
    answer = call(orjson.dumps(review), Endpoint.VALIDATE, policy_set(("p-cap-0",)), facts=facts())
    assert answer.record.results == (("p-cap-0", "cap", "skip", "enforce"),)


def test_b15_the_reason_is_written_down() -> None:
    (review,) = yaml.safe_load_all(next(HERE.glob("B15-*.yaml")).read_bytes())
    with_gpu(review["request"])
    answer = call(orjson.dumps(review), Endpoint.MUTATE, policy_set(("p-rdma",)), facts=facts())
    assert answer.record.results == (("p-rdma", "device", "skip", "enforce"),)
    assert first_container(review["request"])["name"] == "exporter"
