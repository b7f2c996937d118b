"""`podgate schema`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from webhook.cli.main import podgate
from webhook.policy.json_schema import SPECS, json_schema, json_schema_of_all


def run(*arguments: str) -> Result:
    return CliRunner().invoke(podgate, ["schema", *arguments])


@pytest.mark.parametrize("kind", SPECS)
def test_one_kind(kind: str) -> None:
    result = run(kind)
    found = json.loads(result.stdout)
    assert found.pop("$schema") == "http://json-schema.org/draft-07/schema#"
    assert (result.exit_code, found) == (0, json_schema(kind))


def test_all_kinds() -> None:
    found = json.loads(run().stdout)
    del found["$schema"]
    assert found == json_schema_of_all()
