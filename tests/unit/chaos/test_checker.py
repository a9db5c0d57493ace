"""The chaos run's own judge: what it is there to find, it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.chaos.checker import Container, StoredWindow, lost, tally, touched
from tests.chaos.evidence import Scene
from tests.chaos.game import Entry
from tests.chaos.moments import ENGINE_PHASES, PHASES, draw
from tests.chaos.sweepfiles import a_sweep
from tests.chaos.table import totals

SLOT = ("night", "plain", 1, 0)
OTHER = ("night", "plain", 2, 0)
FOREIGN = Container(
    name="gateway", id="abc", running=True, life=("2026-11-29T20:00:00Z", 0), made={"Image": "proxy", "Env": ["A=1"]}
)


def a_window(window_id: int = 1, *, slot: tuple[str, str, int, int] = SLOT, clean: bool = True) -> StoredWindow:
    return StoredWindow(id=window_id, slot=slot, attempt=window_id, clean=clean, content=f"content {window_id}")


def problems_of(*stored: StoredWindow, planned: tuple[tuple[str, str, int, int], ...] = (SLOT,)) -> str:
    return "; ".join(tally(planned, stored, max_attempts=3).problems)


def test_a_window_that_is_clean_once_is_in_order_whatever_was_flagged_before_it() -> None:
    found = tally([SLOT, OTHER], [a_window(1, clean=False), a_window(2), a_window(3, slot=OTHER)], max_attempts=3)
    assert (found.planned, found.clean, found.once, found.problems) == (2, 2, 2, ())


def test_a_window_flagged_as_often_as_the_plan_allows_is_stored_and_counted_apart() -> None:
    found = tally([SLOT], [a_window(number, clean=False) for number in (1, 2, 3)], max_attempts=3)
    assert (found.clean, found.exhausted, found.once, found.problems) == (0, 1, 1, ())


def test_a_planned_window_that_is_missing_is_found() -> None:
    assert "missing: 0 flagged attempts of 3" in problems_of()
    assert "missing: 2 flagged attempts of 3" in problems_of(a_window(1, clean=False), a_window(2, clean=False))


def test_a_window_that_is_clean_twice_is_found() -> None:
    assert "clean 2 times (windows 1, 2)" in problems_of(a_window(1), a_window(2))


def test_a_window_that_was_measured_again_after_it_was_clean_is_found() -> None:
    assert "measured again after window 1 was clean (window 2)" in problems_of(a_window(1), a_window(2, clean=False))


def test_a_window_that_nobody_planned_is_found() -> None:
    assert "never planned" in problems_of(a_window(1), a_window(2, slot=OTHER))


def test_a_window_that_was_committed_and_is_gone_or_changed_is_found() -> None:
    committed = {1: a_window(1), 2: a_window(2, slot=OTHER)}
    assert lost(committed, [a_window(1), a_window(2, slot=OTHER), a_window(3, slot=OTHER)]) == ()
    assert "was committed and is gone" in lost(committed, [a_window(1)])[0]
    assert "has changed" in lost(committed, [a_window(1), replace(committed[2], content="another")])[0]


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (None, "removed"),
        (replace(FOREIGN, id="def"), "made anew"),
        (replace(FOREIGN, life=("2026-11-29T20:00:01Z", 0)), "touched"),
        (replace(FOREIGN, life=("2026-11-29T20:00:00Z", 1)), "touched"),
        (replace(FOREIGN, running=False), "touched"),
        (replace(FOREIGN, made={"Image": "proxy", "Env": []}), "changed (Env)"),
    ],
)
def test_a_foreign_container_that_was_touched_is_found(after: Container | None, said: str) -> None:
    assert touched(FOREIGN, FOREIGN) == ()
    assert said in "".join(touched(FOREIGN, after))


def test_production_may_be_stopped_and_started_and_nothing_else() -> None:
    production = replace(FOREIGN, life=None)
    assert touched(production, replace(production, running=False)) == ()
    assert "changed (Image)" in touched(production, replace(production, made={"Image": "new", "Env": ["A=1"]}))[0]


def test_the_same_seed_draws_the_same_moments_and_the_first_round_has_every_victim() -> None:
    ways = [draw(7, form="docker", production=True) for _ in range(2)]
    first, second = ([next(way) for _ in range(60)] for way in ways)
    assert first == second
    assert first != [next(moments) for moments in [draw(8, form="docker", production=True)] for _ in range(60)]
    assert len({moment.victim for moment in first[:9]}) == 9
    assert {moment.phase for moment in first if moment.victim != "engine"} == set(PHASES)
    assert {moment.phase for moment in first if moment.victim == "engine"} <= set(ENGINE_PHASES)


def test_without_docker_neither_its_daemon_nor_production_is_waited_for() -> None:
    way = draw(7, form="process", production=False)
    drawn = [next(way) for _ in range(200)]
    assert "dockerd" not in {moment.victim for moment in drawn}
    assert not {"restoring", "stopping production"} & {moment.phase for moment in drawn}


def test_a_sweep_plans_every_config_at_every_concurrency_as_often_as_it_repeats() -> None:
    sweep = a_sweep(3, form="process", image=None, production="vllm")
    assert len(set(sweep.slots)) == len(sweep.slots) == 3 * 2 * 3
    assert {slot[0] for slot in sweep.slots} == {"chaos-3"}


def test_the_totals_say_where_production_is_still_owed() -> None:
    entries = [Entry(1, "chaos-1", "flow", "window", went_on=2.0, served=1.0), Entry(2, "chaos-1", "Postgres", "boot")]
    said = "\n".join(totals(entries, tally([SLOT], [a_window()], max_attempts=3), production=True))
    assert "production serves in 1 of 2" in said
    assert "windows stored exactly once: 1 of 1" in said


def test_the_phase_of_a_sweep_is_read_from_its_rows() -> None:
    scene = Scene(1, "running", "box:1:2:x", 18, 0, None, None, 0, 1, "production_stopping", 0, 0)
    assert scene.phase == "stopping production"
    assert replace(scene, boot_state="starting").phase == "boot"
    assert replace(scene, boot_state="ready").phase == "warm-up"
    assert replace(scene, boot_state="ready", boot_windows=1).phase == "window"
    assert replace(scene, boot_state="stopped", last_event="boot_ready", clean=18).phase == "restoring"
