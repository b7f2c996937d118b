"""Certificates and policies change while reviews come in: not one fails, and each answer is wholly old or new."""

from __future__ import annotations

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import certs
from tests.server.running import (
    Running,
    answers,
    eventually,
    post,
    review,
    worker_of,
    workers_of,
    write_pair,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CERTIFICATE_RELOADS = "podgate_certificate_reload_total"
POLICY_RELOADS = "podgate_policy_reload_total"


class Load:
    """Reviews on kept-alive and on new connections, until the end of the block."""

    def __init__(self, gateway: Running) -> None:
        self.gateway = gateway
        self.answers: list[str] = []
        self.failures: list[str] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._call, args=(kept,)) for kept in (True, True, False)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(5)

    def has_come_to(self, answer: str) -> bool:
        """Whether the last answer was this one."""
        return self.answers[-1:] == [answer]

    def _call(self, kept: bool) -> None:
        client = self.gateway.client()
        while not self._over.is_set():
            try:
                status, answer = post(client, review())
                self.answers.append(warnings(answer)[0])
                if status != 200:
                    self.failures.append(str(status))
            except Exception as error:  # noqa: BLE001  # whatever it is, it must not happen
                self.failures.append(repr(error))
            if not kept:
                client.close()
        client.close()


def warnings(answer: Any) -> list[str]:
    found: list[str] = answer["response"]["warnings"]
    return found


def config_map(folder: Path, files: dict[str, str]) -> None:
    """Replace a mounted ConfigMap as the kubelet does."""
    generation = folder / f"..{time.monotonic_ns()}"
    generation.mkdir()
    for name, text in files.items():
        (generation / name).write_text(text)
    (folder / "..data_tmp").symlink_to(generation.name)
    (folder / "..data_tmp").rename(folder / "..data")
    for name in files:
        if not (folder / name).is_symlink():
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(f"..data/{name}")


def test_policies_change_under_load(folder: Path, start: Callable[..., Running]) -> None:
    policies = folder / "policies"
    config_map(policies, {"a.yaml": "0", "b.yaml": "0"})
    gateway = start()
    with Load(gateway) as load:
        for number in range(1, 8):
            config_map(policies, {"a.yaml": str(number), "b.yaml": str(number)})
            eventually(partial(load.has_come_to, f"{number}+{number}"))
    assert load.failures == []
    assert set(load.answers) == {f"{number}+{number}" for number in range(8)}
    assert gateway.metric(POLICY_RELOADS + '{result="success"}') == 7


def test_every_worker_changes_over(folder: Path, start: Callable[..., Running]) -> None:
    gateway = start(workers=2)
    with Load(gateway) as load:
        (folder / "policies" / "a.yaml").write_text("two")
        eventually(lambda: len(load.answers) > 50 and set(load.answers[-50:]) == {"two"})
    assert load.failures == []


def test_the_certificate_changes_under_load(
    folder: Path, ca: certs.Pair, start: Callable[..., Running]
) -> None:
    gateway = start()
    serials = {serial(gateway)}
    with Load(gateway) as load:
        for _ in range(5):
            write_pair(folder, ca)
            eventually(lambda: serial(gateway) not in serials)
            serials.add(serial(gateway))
    assert load.failures == []
    assert len(load.answers) > 50
    assert len(serials) == 6
    assert gateway.metric(CERTIFICATE_RELOADS + '{result="success"}') == 5
    assert gateway.metric(CERTIFICATE_RELOADS + '{result="error"}') == 0


def test_a_wrong_key_keeps_the_last_good_pair(
    folder: Path, ca: certs.Pair, start: Callable[..., Running]
) -> None:
    gateway = start()
    good = serial(gateway)
    other = certs.new_ca(now=certs.expiry_of(ca.certificate).replace(year=2026))
    certs.write_pairs(folder, ca=ca, serving=certs.Pair(certs.read_pair(folder).certificate, other.key))
    eventually(lambda: gateway.metric(CERTIFICATE_RELOADS + '{result="error"}') == 1)
    assert [serial(gateway) for _ in range(5)] == [good] * 5
    assert gateway.log().count("certificate not loaded, the last good pair stays") == 1
    status, body = gateway.get("/readyz")
    assert status == 200
    assert b"KEY_VALUES_MISMATCH" in body
    write_pair(folder, ca)
    eventually(lambda: serial(gateway) != good)
    assert b"KEY_VALUES_MISMATCH" not in gateway.get("/readyz")[1]


def test_missing_files_keep_the_last_good_pair(folder: Path, start: Callable[..., Running]) -> None:
    gateway = start()
    (folder / "tls.key").unlink()
    eventually(lambda: gateway.metric(CERTIFICATE_RELOADS + '{result="error"}') == 1)
    assert gateway.post(review())[0] == 200


@pytest.mark.parametrize(
    ("break_it", "result", "fault"),
    [
        pytest.param(lambda f: (f / "a.yaml").write_text("broken"), "error", "it is broken", id="an error"),
        pytest.param(
            lambda f: (f / "b.yaml").write_text("broken"),
            "error",
            "it is broken",
            id="an error beside a good file",
        ),
        pytest.param(
            lambda f: (f / "a.yaml").unlink(), "empty", "no policy is left in the folders", id="empty"
        ),
        pytest.param(
            lambda f: f.rename(f.with_name("gone")), "unreadable", "No such file or directory", id="missing"
        ),
        pytest.param(
            lambda f: ((f / "a.yaml").unlink(), (f / "a.yaml").symlink_to("/nowhere")),
            "empty",
            "",
            id="a dangling link",
        ),
    ],
)
def test_the_old_policies_stay(
    break_it: Callable[[Path], object], result: str, fault: str, folder: Path, start: Callable[..., Running]
) -> None:
    gateway = start()
    break_it(folder / "policies")
    eventually(lambda: gateway.metric(f'{POLICY_RELOADS}{{result="{result}"}}') == 1)
    assert warnings(gateway.post(review())[1])[0] == "one"
    status, body = gateway.get("/readyz")
    assert status == 200
    assert fault.encode() in body
    time.sleep(0.3)
    assert gateway.log().count("policies not loaded, the old set stays") == 1
    assert gateway.metric(f'{POLICY_RELOADS}{{result="{result}"}}') == 1


def test_a_repaired_folder_is_loaded(folder: Path, start: Callable[..., Running]) -> None:
    gateway = start()
    (folder / "policies" / "a.yaml").write_text("broken")
    eventually(lambda: b"it is broken" in gateway.get("/readyz")[1])
    (folder / "policies" / "a.yaml").write_text("two")
    eventually(lambda: warnings(gateway.post(review())[1])[0] == "two")
    assert b'"fault":"","problems":[]' in gateway.get("/readyz")[1]


def test_the_series_of_a_removed_policy_go(folder: Path, start: Callable[..., Running]) -> None:
    gateway = start()
    assert gateway.metric('podgate_policy_info{mode="enforce",policy="one",revision="one"}') == 1
    (folder / "policies" / "a.yaml").write_text("two")
    eventually(lambda: gateway.metric('podgate_policy_info{mode="enforce",policy="two",revision="two"}') == 1)
    assert b'policy="one",revision' not in gateway.get("/metrics")[1]


def test_not_one_good_policy_is_not_ready_until_there_is(folder: Path, start: Callable[..., Running]) -> None:
    (folder / "policies" / "a.yaml").write_text("broken")
    gateway = start()
    assert gateway.get("/readyz")[0] == 503
    (folder / "policies" / "b.yaml").write_text("good")
    eventually(lambda: gateway.get("/readyz")[0] == 200)
    assert warnings(gateway.post(review())[1])[0] == "good"


def test_workers_share_their_counts(start: Callable[..., Running]) -> None:
    gateway = start(workers=2)
    for _ in range(20):
        gateway.post(review())
    line = 'podgate_admission_requests_total{decision="allow",dry_run="false",kind="Pod",operation="CREATE",webhook="mutate"}'
    assert gateway.metric(line) == 20
    assert gateway.metric("podgate_inflight_requests") == 0
    assert gateway.get("/metrics")[1].count(b"podgate_build_info{") == 1


def test_the_shared_counts_leave_nothing_behind(start: Callable[..., Running]) -> None:
    gateway = start(workers=2)
    folders = [name for name in os.listdir("/dev/shm") if name.startswith("podgate-metrics-")]  # noqa: PTH208
    assert folders
    gateway.process.terminate()
    gateway.process.wait(5)
    assert len([n for n in os.listdir("/dev/shm") if n.startswith("podgate-metrics-")]) < len(folders)  # noqa: PTH208


def shared_files(gateway: Running) -> list[str]:
    """The files in which the workers share their counts."""
    maps = Path(f"/proc/{worker_of(gateway)}/maps").read_text()
    (folder,) = {Path(line.split()[-1]).parent for line in maps.splitlines() if "podgate-metrics-" in line}
    return sorted(path.name for path in folder.iterdir())


def has_replaced(gateway: Running, before: set[int]) -> bool:
    now = workers_of(gateway)
    return len(now) == len(before) and now != before


def test_workers_that_die_keep_their_counts_and_leave_no_files(start: Callable[..., Running]) -> None:
    """Each new one would have files of its own, in memory, and every scrape read them all."""
    gateway = start(workers=2)
    line = 'podgate_admission_requests_total{decision="allow",dry_run="false",kind="Pod",operation="CREATE",webhook="mutate"}'
    for number in range(1, 4):
        gateway.post(review())
        assert gateway.metric(line) == number
        before = workers_of(gateway)
        os.kill(min(before), signal.SIGKILL)
        eventually(partial(has_replaced, gateway, before), 10)
        eventually(lambda: answers(gateway), 10)
    assert gateway.metric(line) == 3
    assert gateway.metric("podgate_inflight_requests") == 0
    kinds = ("counter", "gauge_livesum", "histogram")
    assert set(shared_files(gateway)) <= {f"{kind}_{place}.db" for kind in kinds for place in (1, 2)}


def serial(gateway: Running) -> bytes:
    """The certificate that a new connection is shown."""
    with gateway.tls() as connection:
        return connection.getpeercert(binary_form=True) or b""


def test_a_worker_that_dies_is_replaced_by_one_with_the_policies_of_now(
    folder: Path, start: Callable[..., Running]
) -> None:
    """It inherits what the arbiter read at the start, and finds out at once that this is old."""
    gateway = start()
    (folder / "policies" / "a.yaml").write_text("two")
    eventually(lambda: warnings(gateway.post(review())[1])[0] == "two")
    os.kill(worker_of(gateway), signal.SIGKILL)
    eventually(lambda: answers(gateway), 10)
    eventually(lambda: warnings(gateway.post(review())[1])[0] == "two")
