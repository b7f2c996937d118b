import pytest

from webhook.engine.decide import decide, weakest_action, worst_action, worst_result
from webhook.engine.outcome import Action
from webhook.rules.base import Finding, Mode, Result

# Of a fail, and of an error under failurePolicy Fail: mode | what is done under each ceiling
CEILINGS = (Mode.DISABLED, Mode.AUDIT, Mode.WARN, Mode.ENFORCE)
ANSWERED = {
    Mode.DISABLED: "none none   none   none",
    Mode.AUDIT: "   none record record record",
    Mode.WARN: "    none record warn   warn",
    Mode.ENFORCE: " none record warn   deny",
}
IGNORED_ERROR = "record record record record"
NOTHING = "none none none none"


def expected(result: Result, mode: Mode, failure_policy: str) -> list[str]:
    if result is Result.FAIL or (result is Result.ERROR and failure_policy == "Fail"):
        return ANSWERED[mode].split()
    return (IGNORED_ERROR if result is Result.ERROR else NOTHING).split()


CELLS = [
    (result, mode, failure_policy, ceiling, action)
    for result in Result
    for mode in Mode
    for failure_policy in ("Ignore", "Fail")
    for ceiling, action in zip(CEILINGS, expected(result, mode, failure_policy), strict=True)
]


@pytest.mark.parametrize(
    ("result", "mode", "failure_policy", "ceiling", "action"),
    CELLS,
    ids=[f"{cell[0]}-{cell[1]}-{cell[2]}-at most {cell[3]}" for cell in CELLS],
)
def test_decide(result: Result, mode: Mode, failure_policy: str, ceiling: Mode, action: str) -> None:
    finding = Finding(result, "text", ceiling=ceiling)
    assert decide(finding, mode, failure_policy) is Action(action)  # type: ignore[arg-type]


def test_every_cell_is_there() -> None:
    assert len(CELLS) == len(Result) * len(Mode) * 2 * len(Mode) == 128


RESULTS: dict[str, tuple[str, Result]] = {
    "nothing": ("", Result.PASS),
    "a pass": ("pass", Result.PASS),
    "skip": ("skip", Result.SKIP),
    "error before skip": ("skip error", Result.ERROR),
    "fail before error": ("error fail skip", Result.FAIL),
}


@pytest.mark.parametrize(("found", "worst"), RESULTS.values(), ids=RESULTS)
def test_worst_result(found: str, worst: Result) -> None:
    assert worst_result(tuple(Finding(Result(each), "text") for each in found.split())) is worst


def test_actions_have_an_order() -> None:
    none, record, warn, deny = Action
    assert worst_action([]) is none
    assert worst_action([warn, deny, record]) is deny
    assert worst_action([record, none]) is record
    assert weakest_action(deny, record) is record
    assert weakest_action(none, warn) is none
