"""Expectations are kept before anything of their cells is measured."""

from __future__ import annotations

from dataclasses import replace

from nightsweep.plan.model import Expectation, SweepPlan
from tests.unit.sweep.builders import World, a_config, a_plan


def expecting(plan: SweepPlan, *expect: Expectation, bandwidth: float | None = None) -> SweepPlan:
    return replace(plan, expect=expect, memory_bandwidth=bandwidth)


RATE = Expectation("mtp", "decode_rate", 20.0, 40.0)


def test_what_the_file_expects_is_kept_before_the_first_window() -> None:
    world = World()
    world.play(expecting(a_plan(), RATE))
    kept = list(world.store.predictions.values())
    first = min(row.result.raw.started for row in world.store.windows.values())  # type: ignore[union-attr]
    assert len(kept) == 2  # two concurrencies
    assert all(at <= first and not late for _, at, late in kept)


def test_an_expectation_that_comes_when_the_numbers_are_there_is_marked() -> None:
    world = World()
    world.play(a_plan())
    world.play(expecting(a_plan(), RATE))
    assert [late for _, _, late in world.store.predictions.values()] == [True, True]


def test_a_second_start_leaves_the_time_of_the_first_writing() -> None:
    world = World()
    world.play(expecting(a_plan(repeats=1), RATE))
    before = dict(world.store.predictions)
    world.play(expecting(a_plan(repeats=2), RATE))
    assert world.store.predictions == before


def test_without_known_weights_or_bandwidth_nothing_is_estimated() -> None:
    world = World()
    world.play(a_plan(a_config()))
    world.play(expecting(a_plan(a_config("other", k=5)), bandwidth=273e9))  # the fake engine's log tells no weights
    assert world.store.predictions == {}
