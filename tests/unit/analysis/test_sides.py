"""Which windows are compared, what is said to differ, and what is refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from nightsweep.analysis.compared import compared, compared_table, differing
from nightsweep.analysis.sides import Documents, Pairing, chosen, one_config, pools_of
from nightsweep.analysis.sides import paired as of_choice
from nightsweep.analysis.values import WindowRow
from nightsweep.errors import NotComparable, SeveralConfigs

from .builders import EVENING, a_window

COMMON: dict[str, Any] = {"box": "bf", "prompts": "p" * 64, "software": "1.0", "engine": "vllm", "model": "m"}
BOX = {"bf": {"cpu": "x", "kernel": "6.8", "docker": "28"}, "bg": {"cpu": "x", "kernel": "6.9", "docker": "29"}}


def windows(name: str, conditions: str, *rates: float, day: int = 0, **facts: Any) -> list[WindowRow]:
    return [
        a_window(
            window_id=hash((name, conditions, i, rate)),
            config=name,
            config_fingerprint=f"fp-{name}",
            conditions=conditions,
            decode_rate=rate,
            repeat=i,
            started=EVENING + timedelta(days=day, minutes=i),
            **facts,
        )
        for i, rate in enumerate(rates)
    ]


def paired(a: list[WindowRow], b: list[WindowRow], *, known: Documents, across: bool = False) -> Pairing:
    """Return both sides as `compare` makes them: chosen by counts, then only with the windows of the choice."""
    choice = chosen(pools_of(a), pools_of(b), known=known, across=across)
    return of_choice(choice, [row for row in a if choice.a.holds(row)], [row for row in b if choice.b.holds(row)])


def documents(**conditions: dict[str, Any]) -> Documents:
    configs = {
        "fp-a": {"image": "i", "speculative": {"method": "dflash", "k": 5}},
        "fp-b": {"image": "i", "speculative": {"method": "dflash", "k": 7}},
    }
    return Documents({key: {**COMMON, **own} for key, own in conditions.items()}, configs, BOX)


def test_settings_and_conditions_that_differ_are_said_and_two_at_once_are_no_cause() -> None:
    known = documents(ca={"config": "fp-a"}, cb={"config": "fp-b", "box": "bg", "engine_version": "0.29"})
    pairing = paired(windows("a", "ca", 20.0, 21.0), windows("b", "cb", 30.0, 31.0), known=known)
    assert [(one.name, one.a, one.b) for one in pairing.settings] == [("speculative.k", "5", "7")]
    assert [one.name for one in pairing.conditions] == ["box.kernel", "engine_version"]
    said = "\n".join(differing(pairing))
    assert "3 things differ at once" in said
    assert "  box.kernel: 6.8 -> 6.9" in said


def test_the_newest_conditions_that_both_have_are_taken_and_the_others_are_named() -> None:
    known = documents(old={}, new={"software": "1.1"}, newest={"software": "1.2"}, b_old={}, b_new={"software": "1.1"})
    a = [*windows("a", "old", 20.0), *windows("a", "new", 21.0, day=1), *windows("a", "newest", 22.0, day=2)]
    b = [*windows("b", "b_old", 30.0), *windows("b", "b_new", 31.0, day=3)]
    pairing = paired(a, b, known=known)
    assert (pairing.a.conditions, pairing.b.conditions) == ("new", "b_new")
    assert not pairing.conditions
    assert (pairing.a.left_out, pairing.a.left_out_for) == (2, ("software",))
    assert "A: 2 windows under other conditions left out (they differ in software)." in list(differing(pairing))


def test_a_pool_counts_what_may_enter_a_mean_and_no_flagged_or_control_window() -> None:
    clean = windows("a", "ca", 20.0, 21.0)
    rows = [*clean, clean[0], *windows("a", "ca", 5.0, flags=("aborted",)), *windows("a", "ca", 9.0, boot_round=1000)]
    (pool,) = pools_of(rows)
    assert (pool.windows, pool.newest, pool.sweeps) == (2, clean[1].started, ("night",))


def test_another_prompt_set_is_refused_unless_told_and_then_marked() -> None:
    known = documents(ca={}, cb={"prompts": "q" * 64})
    sides = windows("a", "ca", 20.0), windows("b", "cb", 30.0)
    with pytest.raises(NotComparable, match=r"prompts .*--across"):
        paired(*sides, known=known)
    pairing = paired(*sides, known=known, across=True)
    assert any(line.startswith("  prompts: ") and line.endswith("(!)") for line in differing(pairing))


def test_simulated_numbers_are_never_held_against_real_ones() -> None:
    known = documents(ca={}, cb={})
    with pytest.raises(NotComparable, match="simulated"):
        paired(windows("a", "ca", 20.0), windows("b", "cb", 30.0, simulated=True), known=known, across=True)


def test_a_config_is_not_compared_with_its_own_windows() -> None:
    rows = windows("a", "ca", 20.0, 21.0)
    with pytest.raises(NotComparable, match="same windows"):
        paired(rows, rows, known=documents(ca={}))


def test_a_pattern_that_fits_several_configs_lists_them() -> None:
    rows = [*windows("dflash k=5", "c", 1.0), *windows("dflash k=7", "c", 2.0, 3.0)]
    with pytest.raises(SeveralConfigs) as raised:
        one_config(pools_of(rows), wanted="dflash*")
    assert "dflash k=7  (2 windows, the newest of 2026-11-28 22:31 UTC; sweeps night)" in str(raised.value)
    assert {pool.config for pool in one_config(pools_of(rows), wanted="dflash k=7")} == {"dflash k=7"}


def test_the_table_shows_runs_and_range_beside_every_mean_and_marks_a_lone_run() -> None:
    known = documents(ca={}, cb={})
    a, b = windows("a", "ca", 20.0, 21.0, 19.0), windows("b", "cb", 34.0)
    found = compared(paired(a, b, known=known), family=[], same_within=0.03)
    table = compared_table(found, title="t", simulated=False)
    (row,) = table.groups[0].rows
    assert row.values[3] == "3 in 1 boot: 19.0–21.0"
    assert row.values[5] == "1 in 1 boot: one run"
    assert row.values[8].startswith("undecided, needs about ")
    assert row.mark == "single"
    assert "these boots" in table.notes[0]
