"""``podgate demo``: workloads through a real gateway, without a cluster."""

from __future__ import annotations

import http.client
import signal
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.languages import Languages
from webhook.cli.targets import print_text, wants_colour

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from webhook.demonstration.gateway import Gateway
    from webhook.demonstration.workloads import Workload

REVIEW_FILE = "review.json"


EPILOG = """\b
Exit codes:
  0  everything was shown, whatever the policies say
  1  the gateway did not start or did not answer
  2  wrong usage
  3  podgate has a bug"""


@click.command("demo", epilog=EPILOG)
@click.option(
    "--policies",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="DIR",
    help="Policies; repeatable. Those shipped with podgate if none is given.",
)
@click.option(
    "--facts",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="DIR",
    help="What the cluster has; repeatable. The prerequisites of the shipped policies if none is given.",
)
@click.option("--keep", is_flag=True, help="Stay up at the end, and say how to call the gateway.")
@click.option(
    "--languages", type=Languages(), default="en", show_default=True, help="Of denials: en,zh or zh,en."
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=None,
    metavar="N",
    help="On 127.0.0.1; a free one if not given.",
)
@click.option("--no-color", is_flag=True, help="No colours; NO_COLOR does the same.")
def command(
    *,
    policies: tuple[Path, ...],
    facts: tuple[Path, ...],
    keep: bool,
    languages: tuple[str, ...],
    port: int | None,
    no_color: bool,
) -> None:
    """Show what the gate does with pods, claims and controllers, without a cluster.

    Makes certificates in a temporary folder, starts `podgate serve` on a free port of 127.0.0.1, calls it over TLS as
    an API server would, prints each verdict with what was changed, and cleans up. Beside the shipped policies it
    has one exception of its own, which ends in five days.
    """
    from webhook.demonstration.gateway import SHIPPED, GatewayError, running_gateway  # noqa: PLC0415

    chosen_facts = facts or (SHIPPED / "prerequisites",)
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.default_int_handler)  # so that all is cleaned up, as on Ctrl-C
    try:
        with (
            tempfile.TemporaryDirectory(prefix="podgate-demo-") as folder,
            running_gateway(
                Path(folder),
                policies or (SHIPPED, _site_policies(Path(folder))),
                chosen_facts,
                ",".join(languages),
                port or 0,
            ) as gateway,
        ):
            _run(gateway, chosen_facts, colour=wants_colour(no_color=no_color))
            if keep:
                _stay(gateway)
    except GatewayError as error:
        raise click.ClickException(str(error)) from error


def _site_policies(folder: Path) -> Path:
    from webhook.demonstration.site_policies import write_exception  # noqa: PLC0415

    site = folder / "site"
    site.mkdir()
    write_exception(site, datetime.now(UTC).date())
    return site


def _run(gateway: Gateway, facts: Sequence[Path], *, colour: bool) -> None:
    from webhook.demonstration.api_server import received  # noqa: PLC0415
    from webhook.demonstration.calls import create  # noqa: PLC0415
    from webhook.demonstration.report import paint_ansi, paint_nothing, render_result, render_summary  # noqa: PLC0415
    from webhook.demonstration.workloads import read_workloads  # noqa: PLC0415

    started = time.monotonic()
    paint = paint_ansi if colour else paint_nothing
    classes = _priority_classes(facts)
    results = []
    try:
        connection = gateway.connect()
        print_text(_headline(gateway, connection) + "\n")
        for number, workload in enumerate(read_workloads(), 1):
            now = _now()
            results.append(create(connection, workload, received(workload, now, classes), now))
            print_text(render_result(number, results[-1], paint) + "\n")
        connection.close()
    except (OSError, http.client.HTTPException) as error:
        raise gateway.complaint(f"the gateway did not answer ({type(error).__name__}: {error})") from error
    print_text(render_summary(results, time.monotonic() - started))


def _headline(gateway: Gateway, connection: http.client.HTTPSConnection) -> str:
    import orjson  # noqa: PLC0415

    connection.request("GET", "/readyz")
    state = orjson.loads(connection.getresponse().read())
    lines = [f"podgate serve at {gateway.url}: {state['policies']} policies, hash {state['hash']}"]
    return "\n".join([*lines, *state["problems"]]) + "\n"


def _priority_classes(facts: Sequence[Path]) -> dict[str, Mapping[str, Any]]:
    """What the API server's Priority plugin knows."""
    from webhook.cli.folders import read_folders  # noqa: PLC0415
    from webhook.documents import listed_objects, read_documents  # noqa: PLC0415
    from webhook.kube.field_path import value_at  # noqa: PLC0415

    readings = [read_documents(data, source, strict=False) for source, data in read_folders(facts)]
    things = [thing for r in readings for d in r.documents for _, thing in listed_objects(d)]
    classes = [thing for thing in things if thing.get("kind") == "PriorityClass"]
    return {str(value_at(thing, ("metadata", "name"))): thing for thing in classes}


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _stay(gateway: Gateway) -> None:
    """Say how to reach the gateway, and wait for Ctrl-C."""
    from webhook.demonstration.workloads import read_workloads  # noqa: PLC0415

    try:
        print_text(_invitation(gateway, read_workloads()[0]))
        gateway.process.wait()
    except KeyboardInterrupt:
        click.echo("stopping")
        return
    raise gateway.complaint("the gateway ended by itself")


def _invitation(gateway: Gateway, workload: Workload) -> str:
    import orjson  # noqa: PLC0415

    from webhook.demonstration.api_server import received  # noqa: PLC0415
    from webhook.demonstration.calls import MUTATING, VALIDATING  # noqa: PLC0415
    from webhook.demonstration.reviews import review  # noqa: PLC0415

    file = gateway.folder / REVIEW_FILE
    thing = review(workload, received(workload, _now(), {}), MUTATING[0])
    file.write_bytes(orjson.dumps(thing, option=orjson.OPT_INDENT_2))
    name, path = VALIDATING[0]
    return f"""
The gateway stays up until Ctrl-C. Call it:

  curl --cacert {gateway.ca} -H 'Content-Type: application/json' \\
    --data @{file} '{gateway.url}{MUTATING[1]}'

or let an API server on this machine call it:

  apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingWebhookConfiguration
  metadata:
    name: podgate-demo
  webhooks:
  - name: {name}
    clientConfig:
      url: {gateway.url}{path.partition("?")[0]}
      caBundle: {gateway.ca_bundle}
    rules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [pods]
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Ignore
    timeoutSeconds: 2
"""
