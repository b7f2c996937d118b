"""How long until the next request."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.watch import Pace

PACE = Pace()


@pytest.mark.parametrize(
    ("failures", "draw", "more", "expected"),
    [
        pytest.param(0, 0.0, {}, 1.0, id="nothing is wrong"),
        pytest.param(0, 1.0, {"elapsed": 300.0}, 0.0, id="a stream that ended after its time"),
        pytest.param(0, 1.0, {"elapsed": 0.4}, 0.6, id="a stream right after a list"),
        pytest.param(1, 0.0, {}, 1.0, id="a first failure"),
        pytest.param(1, 1.0, {}, 1.25, id="a first failure, with all the jitter"),
        pytest.param(2, 0.0, {}, 2.0, id="a second"),
        pytest.param(3, 0.5, {}, 4.5, id="a third"),
        pytest.param(4, 0.0, {}, 4.0, id="the longest"),
        pytest.param(4, 1.0, {}, 5.0, id="the longest, with all the jitter"),
        pytest.param(9**9, 1.0, {}, 5.0, id="after many failures"),
        pytest.param(9, 0.0, {"elapsed": 8.0}, 0.0, id="after a hang there is nothing to wait for"),
        pytest.param(9, 1.0, {"status": 403}, 8.0, id="forbidden"),
        pytest.param(9, 0.0, {"status": 404}, 6.4, id="no such kind"),
        pytest.param(
            1, 0.0, {"status": 403}, 1.0, id="forbidden for the first time: perhaps it is just starting"
        ),
        pytest.param(1, 0.0, {"retry_after": 3.0}, 3.0, id="the server says when"),
        pytest.param(1, 0.0, {"retry_after": 600.0}, 5.0, id="the server asks for too long"),
        pytest.param(1, 0.0, {"retry_after": 0.0}, 1.0, id="the server wants no wait"),
    ],
)
def test_the_wait(failures: int, draw: float, more: dict[str, float], expected: float) -> None:
    wait = PACE.wait(failures, draw=draw, **{"elapsed": 0.0, **more})  # type: ignore[arg-type]
    assert wait == pytest.approx(expected)


@given(
    failures=st.integers(0, 10**6),
    draw=st.floats(0, 1),
    elapsed=st.floats(0, 1000),
    status=st.sampled_from([0, 403, 404, 410, 429, 500]),
    retry_after=st.none() | st.floats(0, 10**6),
)
def test_requests_are_a_second_apart_and_never_far(
    failures: int, draw: float, elapsed: float, status: int, retry_after: float | None
) -> None:
    wait = PACE.wait(failures, draw=draw, elapsed=elapsed, status=status, retry_after=retry_after)
    assert wait + elapsed >= 1.0
    assert 0 <= wait <= (8.0 if status in (403, 404) else 5.0)


def test_how_long_a_stream_is_to_last() -> None:
    assert (PACE.watch_seconds(0.0), PACE.watch_seconds(0.5), PACE.watch_seconds(1.0)) == (240, 360, 480)
