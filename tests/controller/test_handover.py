"""No call fails by a hand-over: whenever controllers are killed, however late things arrive, and with two at once."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.controller.handover_world import Stepped, World
from tests.controller.parts import CA_SECRET
from webhook.controller.objects import read_authority

number = st.integers(0, 5)
moves = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.integers(0, 1), st.integers(1, 12)),
        st.tuples(st.just("kill"), st.integers(0, 1)),
        st.tuples(st.just("tick"), st.sampled_from([1, 10, 60, 120, 700])),
        st.tuples(st.just("sync"), number),
        st.tuples(st.just("silence"), number),
        st.tuples(st.just("stick"), number),
        st.tuples(st.just("start_replica")),
        st.tuples(st.just("appear")),
        st.tuples(st.just("stop_replica")),
        st.tuples(st.just("ask")),
    ),
    max_size=60,
)


def signer(world: World) -> bytes:
    authority = read_authority(world.cluster[CA_SECRET])
    assert authority is not None
    return authority.signer.certificate


def free(world: World) -> None:
    """No kubelet stays stuck."""
    for replica in world.replicas:
        replica.stuck = False
    world.tick(200)


def do(world: World, controllers: list[Stepped], move: tuple[object, ...]) -> None:
    match move:
        case ("run", int(which), int(calls)):
            for _ in range(calls):
                controllers[which].advance()
                world.check()
        case ("kill", int(which)):
            controllers[which].kill()
        case (str(name), *numbers):
            getattr(world, name)(*numbers)
        case _:
            raise AssertionError(move)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(moves)
def test_no_call_can_fail_and_it_comes_to_an_end(todo: list[tuple[object, ...]]) -> None:
    world = World()
    world.check()
    controllers = [Stepped(world), Stepped(world)]
    world.ask()
    before = signer(world)
    for move in todo:
        do(world, controllers, move)
        world.check()
    for controller in controllers:
        controller.kill()
    free(world)
    world.settle(world.check)
    assert world.trusted == 1
    assert signer(world) != before


@pytest.mark.parametrize("stalled_after", range(1, 8))
def test_one_that_stalls_between_two_calls_and_goes_on_when_the_other_is_further(stalled_after: int) -> None:
    for ahead in range(12):
        world = World()
        stalled, other = Stepped(world), Stepped(world)
        for _ in range(stalled_after):
            stalled.advance()
        world.ask()
        for _ in range(ahead):
            other.finish(world.check)
            world.tick(50)
        stalled.finish(world.check)
        world.settle(world.check)
        assert world.trusted == 1, ahead


def test_the_configurations_are_deleted_in_the_middle() -> None:
    for ahead in range(12):
        world = World()
        world.ask()
        controller = Stepped(world)
        for _ in range(ahead):
            controller.finish(world.check)
            world.tick(30)
        world.unregister()
        world.settle(world.check)
        assert world.trusted == 1, ahead


def test_a_stuck_kubelet_keeps_the_old_ca_trusted() -> None:
    world = World()
    world.ask()
    world.stick(0)
    world.settle(world.check)
    assert world.trusted == 2
    free(world)
    world.settle(world.check)
    assert world.trusted == 1


def test_a_replica_that_starts_in_the_middle_is_waited_for() -> None:
    """It mounted the old pair, and nobody sees it until its kubelet has brought the new one."""
    world = World()
    world.ask()
    controller = Stepped(world)
    world.start_replica()
    while len(world.pairs.all) == 1:
        controller.finish(world.check)
        world.tick(5)
    for number in range(3):
        world.sync(number)
    for _ in range(20):
        controller.finish(world.check)
        world.tick(5)
    world.appear()
    world.check()


def test_killed_after_each_call_of_a_whole_hand_over() -> None:
    """A controller that never lives for more than so many calls still brings the hand-over to its end."""
    for life in (9, 10, 11, 12, 14, 17, 23):
        world = World()
        world.ask()
        before = signer(world)
        controller = Stepped(world)
        for _ in range(80):
            for _ in range(life):
                controller.advance()
                world.check()
            controller.kill()
            world.tick(20)
            world.check()
        assert (world.trusted, signer(world) != before) == (1, True), life
