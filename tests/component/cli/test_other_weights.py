"""Boots of one config that loaded different weights, as a model repository that changed under its name brings: it is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from nightsweep.cli.compare import command as compare
from nightsweep.cli.history import command as history
from nightsweep.store.postgres import PostgresStore
from nightsweep.units import GiB
from tests.storekit.builders import (
    EVENING,
    a_config,
    a_night,
    a_plan,
    a_ready,
    a_window,
    some_conditions,
    some_facts,
    stopped,
)

from .test_importing import Desk, a_table, desk

__all__ = ["desk"]

HEADER = "config,engine,model,box,concurrency,temperature,decode_rate,boot,weights_gib,date"
LINE = "w1,vllm,org/model,box-a,1,0.7"


def a_boot(rate: float, word: str, weights: str, day: str) -> list[str]:
    return [f"{LINE},{rate + tenth},{word},{weights},{day}" for tenth in (0, 0.1)]


@pytest.fixture
def changed(desk: Desk, tmp_path: Path) -> Desk:
    """Two imports of one config under equal conditions, with 20 GiB in May and 35 GiB in June."""
    for name, lines in {
        "may": a_boot(20, "x", "20", "2026-05-01"),
        "june": a_boot(30, "y", "35", "2026-06-01"),
    }.items():
        desk.bring(a_table(tmp_path, *lines, name=f"{name}.csv", header=HEADER))
    return desk


def test_weights_that_changed_between_two_imports_are_what_differs(changed: Desk) -> None:
    sides = ("sweep:may/w1", "sweep:june/w1")
    said = changed.call(compare, *sides).output
    assert "Differs besides the config:\n  weights: 20.0 GiB -> 35.0 GiB\n" in said
    assert "Nothing else differs" not in said
    told = changed.listed(compare, *sides, "--json")
    assert told["condition_differences"] == [
        {"name": "weights", "a": "20.0 GiB", "b": "35.0 GiB", "meaningless": False}
    ]
    assert (told["a"]["weights_gib"], told["b"]["weights_gib"]) == ([20.0], [35.0])


def test_history_marks_the_boot_at_which_the_weights_changed(changed: Desk) -> None:
    (series,) = changed.listed(history, "w1", "--json")["series"]
    assert [point["differs_from_last"] for point in series["points"]] == [[], ["weights: 20.0 GiB → 35.0 GiB"]]
    assert "weights: 20.0 GiB → 35.0 GiB" in changed.call(history, "w1").output


def test_a_side_whose_own_boots_loaded_different_weights_says_so(desk: Desk, tmp_path: Path) -> None:
    lines = [*a_boot(20, "x", "20", "2026-05-01"), *a_boot(30, "y", "35", "2026-06-01")]
    other = [
        line.replace("w1,", "w2,").replace("org/model", "org/model,5") for line in a_boot(25, "z", "", "2026-06-01")
    ]
    header = HEADER.replace("model,", "model,args.max-num-seqs,")
    lines = [line.replace("org/model", "org/model,") for line in lines]
    desk.bring(a_table(tmp_path, *lines, *other, header=header))
    said = desk.call(compare, "w1", "w2").output
    assert "A: its boots loaded different weights (20.0 GiB, 35.0 GiB): its means are of all of them." in said
    assert "weights:" not in said  # of B's nobody told any


@pytest.mark.parametrize(("loaded", "differs"), [(24.95, False), (31.5, True)])
def test_weights_of_measured_boots_are_held_against_each_other_within_half_a_percent(
    engine: sa.Engine, store: PostgresStore, *, loaded: float, differs: bool
) -> None:
    night = a_night(store, a_plan(a_config("k=5"), a_config("k=7", k=7), name="night"))
    for config, weights in enumerate((24.92, loaded)):
        if config:
            night.boot("boot-2", config=config, at=EVENING)
        facts = some_facts(weights=GiB(weights))
        store.boot_ready(night.lease, night.boot_id, replace(a_ready(), facts=facts), at=EVENING)
        for index in range(2):
            night.keep(a_window(20.0 + index), index=index, config=config, conditions=some_conditions())
        store.end_boot(night.lease, night.boot_id, replace(stopped(), facts=facts), at=EVENING)
    a, b = (config.name for config in night.plan.configs)
    said = Desk(engine, store).call(compare, a, b).output
    assert ("  weights: 24.9 GiB -> 31.5 GiB" in said) == differs
    assert ("2 things differ at once" in said) == differs
