"""``podgate schema``: the schemas of podgate's kinds, for editors."""

from __future__ import annotations

import json
from difflib import get_close_matches

import click

from webhook.cli.targets import print_text

EPILOG = """\b
Examples:
  podgate schema > podgate.schema.json
  # and as the first line of a policy file, for yaml-language-server:
  # yaml-language-server: $schema=podgate.schema.json"""


@click.command("schema", epilog=EPILOG)
@click.argument("kind", required=False, metavar="[KIND]")
def command(*, kind: str | None) -> None:
    """Print the JSON Schema of podgate's kinds.

    KIND is PodPolicy, PodPolicyOverride, PodPolicyException or AcceleratorPool: its schema is structural, as
    a CustomResourceDefinition asks for. Without it, one schema for files of all of them, for editors.
    """
    from webhook.policy.json_schema import (  # noqa: PLC0415 - the core is imported when it is needed
        DRAFT,
        SPECS,
        json_schema,
        json_schema_of_all,
    )

    if kind is not None and kind not in SPECS:
        near = get_close_matches(kind.lower(), {name.lower(): name for name in SPECS}, n=1)
        named = next((name for name in SPECS if near and name.lower() == near[0]), "")
        hint = f"did you mean {named}?" if named else f"it may be: {', '.join(SPECS)}"
        raise click.UsageError(f"there is no kind {kind!r}; {hint}")
    schema = json_schema_of_all() if kind is None else json_schema(kind)
    print_text(json.dumps({"$schema": DRAFT, **schema}, indent=2, ensure_ascii=False) + "\n")
