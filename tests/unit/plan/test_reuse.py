"""Which measurements of earlier sweeps stand in a new one's places."""

from __future__ import annotations

from datetime import timedelta

from nightsweep.plan.model import CONTROL_ROUND, DECODE
from nightsweep.plan.order import slots
from nightsweep.plan.remaining import temperature_key
from nightsweep.plan.reuse import PREFILL, Kept, Link, Place, open_slots, taken_over
from tests.fakes.clock import EVENING
from tests.unit.plan.builders import a_plan

PLACE: Place = ("a" * 64, 4, "0.70")
OTHER: Place = ("b" * 64, 4, "0.70")
OWN, EARLIER, LATER = 9, 1, 2


def kept(
    row: int, *, repeat: int = 0, sweep: int = EARLIER, conditions: str = "same", place: Place = PLACE, at: float = 0.0
) -> Kept:
    return Kept(row, DECODE, place, repeat, sweep, conditions, EVENING + timedelta(seconds=at))


def links(
    *rows: Kept, repeats: set[int], usable: tuple[str, ...] = ("same",), linked: tuple[int, ...] = ()
) -> dict[int, int]:
    """Return repeat -> row."""
    found = taken_over(
        {(DECODE, PLACE): repeats},
        rows,
        own=OWN,
        usable=frozenset(usable),
        linked=frozenset((DECODE, row) for row in linked),
    )
    return {link.repeat: link.row_id for link in found}


def test_a_measurement_keeps_its_number_and_the_others_fill_what_is_open() -> None:
    assert links(kept(10, repeat=1), kept(11, repeat=7), repeats={0, 1, 2}) == {1: 10, 0: 11}


def test_no_measurement_stands_in_two_places_and_none_twice() -> None:
    rows = (kept(10, repeat=0), kept(11, repeat=0, sweep=LATER))
    assert links(*rows, repeats={0, 1, 2}) == {0: 10, 1: 11}
    assert links(*rows, repeats={2}, linked=(10,)) == {2: 11}


def test_a_repeat_that_has_its_own_measurement_is_not_open() -> None:
    assert links(kept(10, repeat=0), repeats=set()) == {}


def test_other_conditions_are_not_taken_over() -> None:
    assert links(kept(10, conditions="other"), repeats={0}) == {}


def test_what_is_taken_over_for_a_config_is_all_of_one_kind_of_conditions_the_newest() -> None:
    rows = (kept(10, at=1.0, conditions="old"), kept(11, at=5.0), kept(12, at=2.0, repeat=1))
    assert links(*rows, repeats={0, 1}, usable=("same", "old")) == {0: 11, 1: 12}


def test_what_the_sweep_measured_itself_decides_which_conditions_pool_with_it() -> None:
    rows = (kept(10, at=1.0, conditions="old"), kept(11, at=5.0), kept(12, sweep=OWN, conditions="old", repeat=1))
    assert links(*rows, repeats={0, 2}, usable=("same", "old")) == {0: 10}


def test_a_controls_extra_windows_are_not_taken_over() -> None:
    assert links(kept(10, repeat=CONTROL_ROUND), repeats={0}) == {}


def test_kinds_and_cells_are_never_mixed() -> None:
    rows = [kept(10, place=OTHER), Kept(11, PREFILL, PLACE, 0, EARLIER, "same", EVENING)]
    assert links(*rows, repeats={0}) == {}
    found = taken_over({(PREFILL, PLACE): {0}}, rows, own=OWN, usable=frozenset({"same"}), linked=frozenset())
    assert found == (Link(PREFILL, PLACE, 0, 11, EARLIER),)


def test_open_are_all_repeats_of_a_plan_without_a_clean_measurement() -> None:
    plan = a_plan()
    cell = (plan.configs[0].fingerprint, 1, temperature_key(plan.probe.temperature[0]))
    stored = {(*cell, 0): (True, 1), (*cell, 1): (False, 3)}
    found = open_slots(plan, windows=stored, prefills={}, single_batches={})
    assert sum(len(repeats) for repeats in found.values()) == slots(plan) - 1
    assert found[(DECODE, cell)] == {1, 2}


def test_a_controls_extra_boots_are_never_open_for_it() -> None:
    plan = a_plan(("schedule:", "control: plain\nschedule:"))
    assert plan.control is not None
    found = open_slots(plan, windows={}, prefills={}, single_batches={})
    assert max(repeat for repeats in found.values() for repeat in repeats) < CONTROL_ROUND
