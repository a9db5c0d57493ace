"""Tables that list every run: those of the published reports."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from nightsweep.analysis.runs import runs_of, runs_table, single_batch_runs_table
from nightsweep.analysis.series import known_series
from nightsweep.analysis.tables import Table
from nightsweep.analysis.values import WindowRow
from nightsweep.plan.model import SINGLE_BATCH

from .builders import a_boot, a_window, seed_night

DRAFTERS: dict[str, tuple[tuple[float, float], float | None, int | None]] = {
    "none": ((82.93, 82.91), None, None),
    "built-in MTP": ((118.17, 118.04), 1.93, None),
    "DSpark BF16, block 7": ((158.70, 158.97), 3.01, 34_377),
    "DSpark NVFP4 (retrained), block 7": ((176.72, 176.87), 3.15, 55_285),
}
"""The published RTX 5090 report: runs, accepted length, KV pool tokens."""


def single_batch_night() -> tuple[list[WindowRow], list[Any]]:
    windows, boots = [], []
    for boot, (name, (rates, length, kv)) in enumerate(DRAFTERS.items(), start=1):
        boots.append(a_boot(boot_id=boot, config=name, config_fingerprint=name, kv_tokens=kv, kv_second={}))
        for run, rate in enumerate(rates):
            windows.append(
                a_window(
                    window_id=len(windows),
                    boot_id=boot,
                    config=name,
                    config_fingerprint=name,
                    kind=SINGLE_BATCH,
                    repeat=run,
                    temperature=Decimal("0.0"),
                    decode_rate=rate,
                    acceptance_length=length,
                )
            )
    return windows, boots


def rows_of(table: Table | None) -> list[tuple[str, ...]]:
    assert table is not None
    return [row.values for group in table.groups for row in group.rows]


def test_the_table_of_drafters_is_the_published_one() -> None:
    windows, boots = single_batch_night()
    known = known_series(windows, fingerprints=[])
    rows = rows_of(single_batch_runs_table(windows, boots=boots, known=known, simulated=False))
    assert [(row[0], row[2], row[3], row[4].split(" ")[0], row[5]) for row in rows] == [
        ("none", "82.9", "82.9", "–", "–"),
        ("built-in MTP", "118.2", "118.0", "1.93", "–"),
        ("DSpark BF16, block 7", "158.7", "159.0", "3.01", "34,377"),
        ("DSpark NVFP4 (retrained), block 7", "176.7", "176.9", "3.15", "55,285"),
    ]


def test_every_run_of_the_seed_night_is_listed_in_its_order() -> None:
    _, _, windows, _, plan = seed_night()
    known = known_series(windows, fingerprints=[config.fingerprint for config in plan.configs])
    table = runs_table(windows, known, simulated=False)
    assert table is not None
    listed = {
        (group.heading, row.values[0], row.values[1]): row.values[4] for group in table.groups for row in group.rows
    }
    assert listed["dflash2 k=5 probabilistic/standard", "8", "0.7"] == "161.8 167.8 160.9"
    assert listed["dflash2 k=7 probabilistic/block", "1", "0.7"] == "39.7 33.1 31.5"


def test_runs_of_two_boots_are_parted() -> None:
    assert runs_of([(1, 161.8), (1, 167.8), (2, 160.9)], digits=1) == "161.8 167.8 | 160.9"


def test_nothing_measured_is_no_table() -> None:
    known = known_series([], fingerprints=[])
    assert runs_table([], known, simulated=False) is None
    assert single_batch_runs_table([], boots=[], known=known, simulated=False) is None


def test_an_acceptance_length_of_fewer_runs_than_are_listed_says_of_how_many() -> None:
    windows = [
        a_window(window_id=i, kind=SINGLE_BATCH, repeat=i, decode_rate=80.0 + i, acceptance_length=2.5 if i else None)
        for i in range(3)
    ]
    (row,) = rows_of(
        single_batch_runs_table(windows, boots=[], known=known_series(windows, fingerprints=[]), simulated=False)
    )
    assert row[5] == "2.50 (n=2; 2.50–2.50)"
