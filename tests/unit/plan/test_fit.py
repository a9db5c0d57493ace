"""Does the next boot still fit: estimates that are high, and say what they are made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nightsweep.plan.estimate import PER_WINDOW
from nightsweep.plan.fit import (
    FREEING,
    Longest,
    PastStart,
    PastStarts,
    engine_start,
    first_that_fits,
    high,
    least_seconds,
    production_start,
    program_of,
    reserve,
    round_seconds,
    why_not,
)
from nightsweep.plan.model import Production
from nightsweep.plan.order import boot_tasks
from nightsweep.units import Seconds
from tests.unit.plan.builders import a_plan

PLAN = a_plan()
PLAIN, K4, K5 = PLAN.configs
TASKS = boot_tasks(PLAN)
NOTHING = PastStarts()
PRODUCTION = Production("prod", ready_timeout=Seconds(900.0))


def a_start(config: object, seconds: float, *, count: int = 10) -> PastStart:
    method = (config.speculative or {}).get("method")  # type: ignore[attr-defined]
    program = program_of(config.document)  # type: ignore[attr-defined]
    return PastStart(config.fingerprint, program, method, Longest(Seconds(seconds), count))  # type: ignore[attr-defined]


def past(*starts: PastStart, **restores: Longest) -> PastStarts:
    return PastStarts(engines=starts, restores=restores)


def test_an_estimate_is_beyond_the_longest_start_and_the_less_so_the_more_are_known() -> None:
    known = [high(Longest(Seconds(100.0), count)) for count in (1, 2, 5, 10, 1000)]
    assert known == pytest.approx([160.0, 135.0, 120.0, 115.0, 110.05])


def test_a_configs_own_past_counts_before_that_of_its_like_and_that_before_the_boxs() -> None:
    everything = past(a_start(PLAIN, 900.0), a_start(K4, 400.0), a_start(K5, 300.0))
    assert engine_start(K5, everything).seconds == pytest.approx(300.0 * 1.15)
    assert engine_start(K5, past(a_start(PLAIN, 900.0), a_start(K4, 400.0))).seconds == pytest.approx(400.0 * 1.15)
    assert engine_start(K5, past(a_start(PLAIN, 900.0))).seconds == pytest.approx(900.0 * 1.15)
    assert "this config (300 s)" in engine_start(K5, everything).source


def test_without_any_past_a_default_is_taken_and_said_to_be_one() -> None:
    told = engine_start(K5, NOTHING)
    assert told.seconds == 360.0
    assert "a default" in told.source


def test_a_start_is_never_reckoned_with_longer_than_it_may_take() -> None:
    assert engine_start(K5, past(a_start(K5, 1190.0, count=1))).seconds == K5.engine.boot_timeout
    late = past(prod=Longest(Seconds(890.0), 1))
    assert production_start(PRODUCTION, late, image=None).seconds == 900.0


def test_production_is_reckoned_by_its_own_past_else_by_its_image_else_by_its_limit() -> None:
    image = program_of(PLAIN.document)
    engines = a_start(PLAIN, 300.0)
    own = production_start(PRODUCTION, past(engines, prod=Longest(Seconds(200.0), 5)), image=image)
    assert own.seconds == pytest.approx(240.0)
    assert production_start(PRODUCTION, past(engines), image=image).seconds == pytest.approx(345.0)
    assert production_start(PRODUCTION, past(engines), image="another/image").seconds == 900.0
    assert "ready_timeout" in production_start(PRODUCTION, NOTHING, image=image).source


def test_the_end_of_a_night_is_kept_free_for_an_engines_stop_and_productions_start() -> None:
    start = production_start(PRODUCTION, past(prod=Longest(Seconds(200.0), 5)), image=None)
    stop = PLAIN.engine.stop_grace + FREEING
    assert reserve(PLAN, start).seconds == pytest.approx(stop + 240.0)
    assert reserve(PLAN, None).seconds == pytest.approx(stop)


def test_a_round_is_one_window_of_each_cell_that_is_left() -> None:
    window = PLAN.probe.window + PER_WINDOW
    assert round_seconds(PLAN, TASKS[0]) == pytest.approx(PLAN.probe.warmup + 4 * window)
    one_cell = replace(TASKS[0], repeats=tuple(r for r in TASKS[0].repeats if r.cell == TASKS[0].repeats[0].cell))
    assert round_seconds(PLAN, one_cell) == pytest.approx(PLAN.probe.warmup + window)
    assert least_seconds(PLAN, TASKS[0]) == pytest.approx(PLAN.probe.warmup + window)


def test_the_first_boot_that_fits_is_made_and_the_order_kept_otherwise() -> None:
    known = past(a_start(PLAIN, 600.0), a_start(K4, 100.0), a_start(K5, 100.0))
    needs = round_seconds(PLAN, TASKS[0])
    assert first_that_fits(PLAN, TASKS, known, left=Seconds(700.0 + needs), fresh=False) == 0
    assert first_that_fits(PLAN, TASKS, known, left=Seconds(200.0 + needs), fresh=False) == 1
    assert first_that_fits(PLAN, TASKS, known, left=Seconds(100.0 + needs), fresh=False) is None


def test_the_first_boot_of_a_night_needs_room_for_one_window_only() -> None:
    known = past(*(a_start(config, 100.0) for config in PLAN.configs))
    left = Seconds(115.0 + least_seconds(PLAN, TASKS[0]) + 1.0)
    assert first_that_fits(PLAN, TASKS, known, left=left, fresh=True) == 0
    assert first_that_fits(PLAN, TASKS, known, left=left, fresh=False) is None


def test_why_a_boot_does_not_fit_is_said_with_the_figures() -> None:
    told = why_not(PLAN, TASKS[0], past(a_start(PLAIN, 600.0)), left=Seconds(120.0), fresh=False)
    assert "plain needs 206 s for a round of windows" in told
    assert "690 s, by the longest of 10 past cold starts of this config (600 s)" in told
    assert "120 s are left" in told


def test_many_configs_are_looked_through_at_once() -> None:
    known = past(*(replace(a_start(PLAIN, 500.0), config=f"{n:064x}") for n in range(5000)))
    assert engine_start(K5, known).source.startswith("550 s, by the longest of 50000 past cold starts of this box")
