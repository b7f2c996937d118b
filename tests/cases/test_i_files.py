"""Cases I: files as people and tools write them."""

import pytest

from tests.cases.observing import Case, Report
from tests.cases.texts import asked, gpu_limit, privileged


def refused(place: str, container: str = "m") -> str:
    return (
        f'{place} p-priv/privileged fail deny spec.containers["{container}"].securityContext.privileged: '
        f"{privileged(container)}"
    )


def unquoted(place: str, text: str, means: str, *, instead: str = "", level: str = "warning") -> str:
    wanted = f'{instead}, or "{text}" in quotes' if instead else f'"{text}" in quotes'
    return f'{place} {level}: expected {wanted}, found unquoted "{text}", which Kubernetes reads as {means}'


CASES = (
    Case("I1", ("p-priv",), Report(0), acts=False),
    Case(
        "I2",
        ("p-priv",),
        Report(
            1,
            {"Pod good-one in team-a": "unmatched", "Pod bad-one in team-a": "refused"},
            (refused("23:75"),),
        ),
    ),
    Case(
        "I8",
        ("p-priv",),
        Report(2, problems=("14:10 error: expected YAML, found an unrendered Helm template",)),
        acts=False,
    ),
    Case("I10", ("p-priv",), Report(0, {"Pod i10 in team-a": "unmatched"}), acts=False),
    Case(
        "I11",
        ("p-priv-owner",),
        Report(
            1,
            {"Pod same in team-a": "refused", "Pod same in team-b": "refused"},
            (
                (
                    "12:20 p-priv-owner/privileged fail deny spec.containers: a container is privileged; "
                    'ask a\\u0001b ]]> <c> & "d"'
                ),
                "17:20 p-priv-owner/privileged fail deny spec.containers: a container is privileged; ask e",
            ),
        ),
    ),
    Case(
        "I13",
        ("p-priv",),
        Report(
            1,
            {"Pod i13-one in team-a": "refused", "Pod i13-two in team-a": "refused"},
            (refused("16:35"), refused("26:35")),
        ),
    ),
    Case(
        "I14",
        ("p-priv",),
        Report(
            1, {"Pod i14-pod in team-a": "refused"}, (refused("27:35"),), skipped=("ConfigMap i14 in team-a",)
        ),
    ),
    Case(
        "I15",
        ("p-cap-4",),
        Report(
            2,
            problems=(
                '19:5 error: expected each key once, found "resources" again, which is on line 18 already',
                '20:3 error: expected each key once, found "nodeSelector" again, which is on line 14 already',
            ),
        ),
        acts=False,
    ),
    Case(
        "I16",
        ("p-priv",),
        Report(
            2,
            {"Pod i16 in team-a": "unmatched"},
            problems=(
                unquoted("15:10", "yes", "true", instead="true", level="error"),
                unquoted("17:11", "y", "true", instead="true", level="error"),
                unquoted("23:24", "on", "true", instead="true", level="error"),
                unquoted("24:24", "NO", "false", instead="false", level="error"),
            ),
        ),
        acts=False,
    ),
    Case(
        "I17",
        ("p-cap-8",),
        Report(
            0,
            {"Pod i17 in team-a": "passed"},
            problems=(
                unquoted("16:29", "1:30", "text and others as a number to base 60"),
                unquoted("19:25", "010", "the octal number 8", instead="8"),
            ),
        ),
    ),
    # The count is told by a limit of 4: it is 8, and not 10.
    Case(
        "I17",
        ("p-cap-4",),
        Report(
            1,
            {"Pod i17 in team-a": "refused"},
            (f"19:25 p-cap-4/cap fail deny {gpu_limit('m')}: {asked(8, 4)}",),
            problems=(
                unquoted("16:29", "1:30", "text and others as a number to base 60"),
                unquoted("19:25", "010", "the octal number 8", instead="8"),
            ),
        ),
    ),
    Case(
        "I18",
        ("p-ann",),
        Report(
            0,
            {"Pod i18 in team-a": "passed"},
            changes={'i18 metadata.annotations["policy.example.com/checked"]': "true"},
            problems=(
                unquoted("15:14", "2026-01-31", "text and others as a date"),
                unquoted("16:12", "2026-01-31T10:00:00Z", "text and others as a date"),
            ),
        ),
    ),
    Case(
        "I20",
        ("p-priv",),
        Report(
            2,
            problems=(
                '12:31 error: expected a value of type float, found ""',
                '12:53 warning: expected "=" in quotes, found unquoted "=", which Kubernetes reads as text and others refuse',
            ),
        ),
        acts=False,
    ),
    Case(
        "I21",
        ("p-priv",),
        Report(
            1,
            {"Pod i21 in team-a": "refused"},
            (refused("30:35"),),
            skipped=(
                "CustomResourceDefinition things.example.org",
                "CustomResourceDefinition others.example.org",
                "Thing t in team-a",
            ),
        ),
    ),
    Case(
        "I24",
        ("p-cap-container-4",),
        Report(
            1,
            {"Pod i24 in team-a": "refused"},
            (f"22:42 p-cap-container-4/cap fail deny {gpu_limit('c2')}: {asked(8, 4, 'container')}",),
        ),
    ),
    # A null annotation is none.
    Case(
        "I26",
        ("p-priv",),
        Report(
            2,
            {"Pod i26 in team-a": "unmatched"},
            problems=(
                "14:18 error: metadata.labels.tier: expected text, found a number",
                '20:22 error: spec.containers["m"].command[1]: expected text, found a number',
                '21:28 error: spec.containers["m"].env["A"].value: expected text, found a boolean',
            ),
        ),
        acts=False,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    assert case.observe() == case.expected
