import pytest

from webhook.rules.bindings import count_of

COUNTED = {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.5gb": 4, "amd.com/gpu": 1}

PATTERNS: dict[str, tuple[tuple[str, ...], int]] = {
    "none": ((), 0),
    "no such device": (("intel.com/*",), 0),
    "one": (("amd.com/gpu",), 1),
    "all of a vendor": (("nvidia.com/*",), 6),
    "either of two": (("amd.com/gpu", "nvidia.com/gpu"), 3),
    "a device that fits two counts once": (("*/gpu", "nvidia.com/*"), 7),
}


@pytest.mark.parametrize(("patterns", "count"), PATTERNS.values(), ids=PATTERNS)
def test_count_of(patterns: tuple[str, ...], count: int) -> None:
    assert count_of(COUNTED, patterns) == count
