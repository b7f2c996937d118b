"""``podgate bench``: how long reviews take under a site's policies, beside a server that always allows."""

from __future__ import annotations

import hashlib
import os
import platform
import signal
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from webhook.cli.folders import PathParameter, read_folders, shown
from webhook.cli.targets import print_text, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from webhook.admission import Answer, Endpoint
    from webhook.benchmark.load import Server
    from webhook.benchmark.measure import Row
    from webhook.benchmark.saved import Figures
    from webhook.engine import Gate

EPILOG = """\b
Exit codes:
  0  measured; with --compare, no row is more than 15 % worse
  1  with --compare, a row is more than 15 % worse
  2  wrong usage, an invalid policy, manifest or facts file, or a file that does not fit
  3  a server did not start or did not answer, or podgate has a bug

\b
Examples:
  podgate bench --save before.json
  podgate bench --compare before.json
  podgate bench pods/ --policies policies/ --facts facts/ --connections 16"""

PATHS = {
    "mutate": "/mutate?timeout=3s",
    "validate/fail": "/validate/fail?timeout=2s",
    "validate/ignore": "/validate/ignore?timeout=2s",
}
"""The three calls that an API server makes for each object, as webhook entries have them."""

FLOOR, OURS = "floor", "ours"
FLOOR_PROGRAM = "from webhook.cli.bench import serve_floor; serve_floor()"
TURN_SECONDS = 0.5
"""Of one server, before it is the other's turn: what disturbs the machine lasts longer, and falls on both."""

WARM_UP_SECONDS = 1.0
TIME = "2026-01-01T00:00:00Z"
"""Of the objects that are made up; always the same, so that figures of two days are of the same reviews."""

WORSE_CODE = 1


class BenchError(click.ClickException):
    """A server did not start or did not answer."""

    exit_code = 3


class FileError(click.ClickException):
    """A file does not fit."""

    exit_code = 2


class Calls(NamedTuple):
    """The bodies of the two kinds of call for one object."""

    mutate: bytes
    validate: bytes


@click.command("bench", epilog=EPILOG)
@click.argument("manifests", nargs=-1, metavar="[MANIFEST]...")
@click.option(
    "--policies",
    "-p",
    multiple=True,
    type=PathParameter(),
    metavar="DIR",
    help="Policies; repeatable. Those shipped with podgate if none is given.",
)
@click.option(
    "--facts",
    multiple=True,
    type=PathParameter(),
    metavar="DIR",
    help="What the cluster has; repeatable. The prerequisites of the shipped policies if none is given.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 3600),
    default=6.0,
    show_default=True,
    help="How long each server is measured with each call.",
)
@click.option(
    "--connections",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Callers at the same time.",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the figures there, as JSON.",
)
@click.option(
    "--compare",
    "compared",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Compare with figures that were saved.",
)
def command(
    *,
    manifests: tuple[str, ...],
    policies: tuple[Path, ...],
    facts: tuple[Path, ...],
    seconds: float,
    connections: int,
    save: Path | None,
    compared: Path | None,
) -> None:
    """Measure how long reviews take under your policies.

    MANIFEST is a file or folder of objects to review, or of AdmissionReviews that were recorded; the pods of `podgate
    demo` if none is given. Starts `podgate serve` on 127.0.0.1 twice, with your policies and with a view that always
    allows (the floor: what TLS, HTTP, the log line and the metrics cost), and calls both by turns. The share of the
    floor is that of the shortest times of each review: it depends little on the machine or on what else it does.
    """
    from webhook.benchmark.saved import Figures, SavedError, compare, render, to_json  # noqa: PLC0415 - as in all commands

    before = _saved(compared) if compared else None
    policies, facts = policies or (_shipped(),), facts or (_shipped() / "prerequisites",)
    gate = _gate(policies, facts)
    calls = _calls(manifests, gate)
    rows = _measured(calls, policies, facts, seconds, connections)
    now = Figures(_machine(), _hash_of(calls), gate.policy_set.hash, tuple(rows))
    try:
        beside = compare(before, now) if before else []
    except SavedError as error:
        raise FileError(f"{shown(compared or Path())}: {error}") from error
    print_text(
        f"{now.machine}\n{len(gate.policy_set)} policies, hash {now.policies}; {len(calls)} objects\n\n{render(rows, beside)}"
    )
    if save:
        write_file(save, to_json(now).decode())
    click.get_current_context().exit(WORSE_CODE if any(each.is_worse for each in beside) else 0)


def serve_floor() -> None:
    """Run `podgate` with the other view."""
    from webhook.cli.main import main  # noqa: PLC0415
    from webhook.server import gateway  # noqa: PLC0415
    from webhook.server.app import create_app  # noqa: PLC0415

    vars(gateway)["create_app"] = partial(create_app, answer=always_allow)
    main()


def always_allow(body: bytes, endpoint: Endpoint, **_: Any) -> Answer:
    """The smallest answer that the API server takes; its body has to be read as JSON for the uid."""
    import orjson  # noqa: PLC0415

    from webhook.admission import Answer, ReviewRecord  # noqa: PLC0415

    uid = orjson.loads(body)["request"]["uid"]
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": True},
    }
    record = ReviewRecord(uid, "", endpoint, "CREATE", "Pod", "", "", "", False, "allow", (), (), "", 0)
    return Answer(orjson.dumps(review), record)


def _shipped() -> Path:
    from webhook.demonstration.gateway import SHIPPED  # noqa: PLC0415

    return SHIPPED


def _gate(policies: Sequence[Path], facts: Sequence[Path]) -> Gate:
    """The engine itself, for the objects as the validating calls get them."""
    from webhook.cli.check import read  # noqa: PLC0415
    from webhook.engine import Gate  # noqa: PLC0415
    from webhook.output.problems import render_problems  # noqa: PLC0415
    from webhook.policy import load_policy_set  # noqa: PLC0415
    from webhook.review_tools.manifests import facts_in  # noqa: PLC0415

    loaded = load_policy_set(read_folders(policies))
    documents, problems = read([str(path) for path in facts], loaded.policy_set.templates, quoted=False)
    print_text(render_problems((*loaded.problems, *problems)), err=True)
    if loaded.has_errors or any(not problem.is_warning for problem in problems):
        raise FileError("nothing was measured: mend the policies and facts first")
    return Gate(loaded.policy_set, facts_in(documents, None))


def _calls(manifests: Sequence[str], gate: Gate) -> list[Calls]:
    import orjson  # noqa: PLC0415

    from webhook.admission import BadReviewError, parse_review  # noqa: PLC0415
    from webhook.engine import mutate  # noqa: PLC0415

    found: list[Calls] = []
    for source, review in _given(manifests, gate) if manifests else _built_in():
        body = orjson.dumps(review)
        try:
            outcome = mutate(gate, parse_review(body))
        except BadReviewError as error:
            raise FileError(f"{source}: a recorded review cannot be used: {error}") from error
        changed = {**review, "request": {**review["request"], "object": outcome.object}}
        found.append(Calls(body, orjson.dumps(changed)))
    if not found:
        raise FileError(
            "there is nothing to review in these files: give pods, claims, or what has templates of pods"
        )
    return found


def _built_in() -> Iterator[tuple[str, Mapping[str, Any]]]:
    from webhook.demonstration.api_server import received  # noqa: PLC0415
    from webhook.demonstration.reviews import review  # noqa: PLC0415
    from webhook.demonstration.workloads import read_workloads  # noqa: PLC0415

    for workload in read_workloads():
        if workload.object["kind"] == "Pod":
            yield workload.name, review(workload, received(workload, TIME, {}), "mutate")


def _given(manifests: Sequence[str], gate: Gate) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The reviews in files, and those of the objects in them, each with the name of its file."""
    from webhook.cli.check import read  # noqa: PLC0415
    from webhook.output.problems import render_problems  # noqa: PLC0415
    from webhook.review_tools.manifests import Caller, manifests_in, request_for  # noqa: PLC0415

    documents, problems = read(manifests, gate.policy_set.templates)
    print_text(render_problems(problems), err=True)
    if any(not problem.is_warning for problem in problems):
        raise FileError("nothing was measured: mend the manifests first")
    every = [manifest for document in documents for manifest in manifests_in(document)]
    for number, (document, _, thing) in enumerate(every):
        if thing.get("kind") == "AdmissionReview":
            yield document.source, thing
            continue
        request = request_for(thing, Caller(), gate.policy_set.templates)
        if request is not None:
            raw = {**request.raw, "uid": f"bench-{number}", "dryRun": False, "object": request.object}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": raw}
            yield document.source, review


def _measured(
    calls: Sequence[Calls], policies: Sequence[Path], facts: Sequence[Path], seconds: float, connections: int
) -> list[Row]:
    from webhook.benchmark.load import LoadError, load, post  # noqa: PLC0415
    from webhook.benchmark.measure import measure, row_of  # noqa: PLC0415
    from webhook.demonstration.gateway import GatewayError  # noqa: PLC0415

    turns = max(1, round(seconds / TURN_SECONDS))
    rows: list[Row] = []
    requests = {
        name: [post(path, each.mutate if name == "mutate" else each.validate) for each in calls]
        for name, path in PATHS.items()
    }
    try:
        with _servers(policies, facts) as servers, _progress(len(PATHS) * len(servers) * turns) as told:
            for server in servers.values():
                load(
                    server,
                    [call for each in requests.values() for call in each],
                    connections,
                    WARM_UP_SECONDS,
                )
            for name, sent in requests.items():
                found = measure(
                    servers,
                    dict.fromkeys(servers, sent),
                    connections=connections,
                    turns=turns,
                    seconds=seconds / turns,
                    told=told,
                )
                rows.append(row_of(f"{name} ({FLOOR})", connections, found[FLOOR], found[FLOOR]))
                rows.append(row_of(name, connections, found[OURS], found[FLOOR]))
    except (GatewayError, LoadError) as error:
        raise BenchError(str(error)) from error
    return rows


@contextmanager
def _servers(policies: Sequence[Path], facts: Sequence[Path]) -> Iterator[dict[str, Server]]:
    from webhook.benchmark.load import Server  # noqa: PLC0415
    from webhook.demonstration.gateway import HOST, PROGRAM, running_gateway  # noqa: PLC0415

    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)  # so that the servers are stopped, as on Ctrl-C
    with ExitStack() as stack:
        found = {}
        for name, program in ((FLOOR, FLOOR_PROGRAM), (OURS, PROGRAM)):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="podgate-bench-")))
            gateway = stack.enter_context(running_gateway(folder, policies, facts, "en", program=program))
            found[name] = Server(HOST, gateway.port, gateway.ca)
        yield found


@contextmanager
def _progress(turns: int) -> Iterator[Any]:
    """What to call after each turn: a bar moves where a person looks."""
    with click.progressbar(
        length=turns, label="measuring", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        yield partial(bar.update, 1)


def _machine() -> str:
    return (
        f"{platform.python_implementation()} {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"
    )


def _hash_of(calls: Sequence[Calls]) -> str:
    digest = hashlib.sha256()
    for each in calls:
        digest.update(each.mutate)
    return digest.hexdigest()[:12]


def _saved(file: Path) -> Figures:
    from webhook.benchmark.saved import SavedError, from_json  # noqa: PLC0415

    try:
        return from_json(file.read_bytes())
    except OSError as error:
        raise FileError(
            f"{shown(file)}: cannot be read ({os.strerror(error.errno or 0)}); save figures first"
        ) from error
    except SavedError as error:
        raise FileError(f"{shown(file)}: {error}") from error
