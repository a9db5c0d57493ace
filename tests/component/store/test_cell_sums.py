"""Cells that the database sums up, held against the same windows summed up one by one."""

from __future__ import annotations

import random
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from nightsweep.analysis.grouping import NUMBERS, GroupSummary
from nightsweep.analysis.sides import pools_of
from nightsweep.analysis.summary import summarise
from nightsweep.analysis.values import CellSummary, Filters, Spread
from nightsweep.plan.model import CONTROL_ROUND
from nightsweep.store.group_sums import groups_of_kept, groups_of_windows
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.storekit.builders import (
    EVENING,
    Night,
    a_config,
    a_handle,
    a_night,
    a_plan,
    a_ready,
    a_window,
    some_conditions,
    stopped,
)

CONFIGS = (
    a_config("dflash k=5"),
    a_config("dflash k=7", k=7),
    a_config("mtp [k=3]", k=3, method="mtp"),
    a_config("no speculation", k=None, image="vllm/vllm-openai:v0.27.1"),
)


@pytest.fixture
def nights(store: PostgresStore) -> list[Night]:
    """Two sweeps: several boots, two conditions, flagged windows, one without numbers, notes, and a control's boot."""
    made = []
    for number in range(2):
        plan = a_plan(*CONFIGS, name=f"night-{number}", repeats=9)
        night = a_night(store, plan, owner=f"owner-{number}")
        store.end_boot(night.lease, night.boot_id, stopped(), at=EVENING)
        for config in range(len(CONFIGS)):
            for boot_round in (0, 1, CONTROL_ROUND):
                _measure(store, night, config, boot_round=boot_round, number=number)
        store.release(night.lease, state="done", note="")
        made.append(night)
    return made


def _measure(store: PostgresStore, night: Night, config: int, *, boot_round: int, number: int) -> None:
    chance = random.Random(f"{number} {config} {boot_round}")
    at = EVENING + timedelta(days=number, minutes=10 * config + boot_round)
    key = f"key-{number}-{config}-{boot_round}"
    wanted = night.plan.configs[config]
    night.boot_id = store.begin_boot(night.lease, wanted, boot_round=boot_round, boot_key=key, command=("vllm",), at=at)
    assert wanted.engine.image is not None
    store.boot_started(
        night.lease, night.boot_id, a_handle(key, digest=f"sha256:{config}", refs=(wanted.engine.image,))
    )
    store.boot_ready(night.lease, night.boot_id, a_ready(), at=at)
    for index in range(2):
        for concurrency in (1, 4):
            place: dict[str, Any] = {"concurrency": concurrency, "config": config}
            repeat = index + 2 * min(boot_round, 2)
            flags = ("underfilled", "aborted") if chance.random() < 0.3 else ()
            window = a_window(chance.uniform(20, 30), concurrency=concurrency, flags=flags, started=at)
            if flags and chance.random() < 0.5:
                window = replace(window, numbers=None)
            if chance.random() < 0.3:
                window = replace(window, notes=(f"note {chance.randrange(3)}",))
            under = some_conditions(driver=f"{chance.randrange(2)}")
            night.keep(window, index=repeat, conditions=under, **place)


ASKED = [
    Filters(with_flagged="yes"),
    Filters(config="dflash*", with_flagged="yes"),
    Filters(config="mtp [k=3]", concurrency=(4,), with_flagged="yes"),
    Filters(where=(("speculative.method", "=", "dflash"), ("num_speculative_tokens", ">=", 6)), with_flagged="yes"),
    Filters(sweep=1, with_flagged="yes"),
    Filters(since=EVENING + timedelta(hours=12), with_flagged="yes"),
    Filters(before=EVENING + timedelta(hours=12), box="box-*", with_flagged="yes"),
    Filters(image="*v0.28*", with_flagged="yes"),
]


def test_the_database_sums_up_what_one_by_one_gives(nights: list[Night], queries: Queries, engine: sa.Engine) -> None:
    for filters in ASKED:
        found = queries.cells(filters)
        assert len(found) > 1, filters
        assert _in_order(found) == _in_order(summarise(queries.windows(filters))), filters
    kept = queries.cells(Filters(with_flagged="yes"))
    with engine.begin() as connection:
        connection.execute(sa.text("SELECT nightsweep_sum_up_again()"))
    assert _in_order(queries.cells(Filters(with_flagged="yes"))) == _in_order(kept)


def test_the_views_say_what_the_commands_say(nights: list[Night], queries: Queries, engine: sa.Engine) -> None:
    with engine.connect() as connection:
        rows = {
            (row.config_fingerprint, row.concurrency, row.conditions): row
            for row in connection.execute(sa.text("SELECT * FROM cells_clean"))
        }
        flat = connection.execute(sa.text("SELECT count(*) FROM windows_flat WHERE clean")).scalar_one()
        booted = connection.execute(sa.text("SELECT count(*), min(cold_start_s) FROM boots_flat")).one()
        per_night = connection.execute(sa.text("SELECT sum(windows) AS windows, count(*) AS nights FROM nights")).one()
    cells = queries.cells(Filters(with_flagged="yes"))
    assert len(rows) == len(cells)
    for cell in cells:
        row = rows[cell.config_fingerprint, cell.concurrency, cell.conditions]
        assert row.windows_flagged == cell.flagged
        assert row.decode_rate_n == (cell.decode_rate.n if cell.decode_rate else 0)
        assert row.decode_rate_cv == pytest.approx(cell.decode_rate.cv if cell.decode_rate else None)
    assert flat == len(queries.windows(Filters()))
    assert tuple(booted) == (26, 420.0)
    assert (per_night.windows, per_night.nights) == (len(queries.windows(Filters(with_flagged="yes"))), 2)


def test_groups_hold_every_clean_window_once_and_say_what_they_pool(nights: list[Night], queries: Queries) -> None:
    counted = [row for row in queries.windows(Filters()) if not row.control]
    for key in ("method", "num_speculative_tokens", "args.max-model-len", "image", "sweep", "box", "night"):
        groups = queries.groups(Filters(with_flagged="yes"), (key,))
        rates = [group.numbers["decode_rate"] for group in groups]
        assert sum(rate.n for rate in rates if rate is not None) == len(counted), key
        assert len({str(group.keys[key]) for group in groups}) == len(groups)
    (group,) = queries.groups(Filters(config="dflash k=5"), ("method",))
    rows = [row for row in queries.windows(Filters(config="dflash k=5")) if not row.control]
    rate = group.numbers["decode_rate"]
    assert rate is not None
    assert group.keys == {"method": "dflash"}
    assert (group.cells, group.conditions) == (2, 2)
    assert (rate.n, rate.boots) == (len(rows), len({row.boot_id for row in rows}))
    assert rate.mean == pytest.approx(sum(row.decode_rate or 0 for row in rows) / len(rows))


BY: list[tuple[str, ...]] = [
    ("method",),
    ("method", "concurrency"),
    ("image", "temperature"),
    ("num_speculative_tokens",),
    ("args.max-model-len", "box"),
    ("source",),
    ("conditions", "concurrency"),
    ("config_fingerprint", "concurrency", "temperature", "conditions"),
]
OVER_ALL = [
    Filters(with_flagged="yes"),
    Filters(with_flagged="yes", concurrency=(4,)),
    Filters(with_flagged="yes", where=(("method", "=", "dflash"),), box="box-*"),
    Filters(with_flagged="yes", imported=False),
]


def test_groups_over_the_whole_history_are_the_same_from_kept_sums_as_from_every_window(
    nights: list[Night], engine: sa.Engine
) -> None:
    _equal_over_all(engine)
    kept_of_boots = "SELECT * FROM boot_summaries ORDER BY boot_id, kind"
    with engine.begin() as connection:
        before = connection.execute(sa.text(kept_of_boots)).all()
        connection.execute(sa.text("SELECT nightsweep_sum_up_again()"))
        assert connection.execute(sa.text(kept_of_boots)).all() == before
        assert len(before) == 2 * 2 * len(CONFIGS), "a control's boots are in no sum"
    with engine.begin() as connection:  # some numbers are absent from some windows, some from all of a config
        connection.execute(sa.text("ALTER TABLE windows DISABLE TRIGGER USER"))
        connection.execute(sa.text("UPDATE windows SET ttft = NULL WHERE id % 3 = 0"))
        of_mtp = "SELECT c.id FROM cells c JOIN configs f ON f.id = c.config_id WHERE f.method = 'mtp'"
        connection.execute(sa.text(f"UPDATE windows SET acceptance_length = NULL WHERE cell_id IN ({of_mtp})"))
        connection.execute(sa.text("ALTER TABLE windows ENABLE TRIGGER USER"))
        connection.execute(sa.text("SELECT nightsweep_sum_up_again()"))
        spreads = connection.execute(
            sa.text("SELECT acceptance_length_n, acceptance_length_sd, acceptance_length_cv FROM cells_clean")
        ).all()
    assert {n == 0 for n, *_ in spreads} == {True, False}
    for n, sd, cv in spreads:
        assert (sd is None) == (cv is None) == (n < 2), "of none and of one run there is no spread, not one of 0"
    _equal_over_all(engine)


def _equal_over_all(engine: sa.Engine) -> None:
    with engine.connect() as connection:
        for filters in OVER_ALL:
            for by in BY:
                kept = groups_of_kept(connection, filters, by, NUMBERS)
                read = groups_of_windows(connection, filters, by, NUMBERS)
                assert kept, (filters, by)
                assert [_rough(group) for group in kept] == [_rough(group) for group in read], (filters, by)


def test_a_group_over_the_whole_history_reads_no_window_that_has_numbers_of_its_own(
    nights: list[Night], queries: Queries, engine: sa.Engine
) -> None:
    asked: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda _c, _cursor, text, *_more: asked.append(text))
    assert queries.groups(Filters(with_flagged="yes"), ("method",))
    assert not any("windows.decode_rate" in text for text in asked)
    asked.clear()
    assert queries.groups(Filters(with_flagged="yes"), ("sweep",))
    assert any("windows.decode_rate" in text for text in asked)


def test_the_database_counts_the_pools_of_a_comparison_as_one_by_one(nights: list[Night], queries: Queries) -> None:
    for filters in (*ASKED, Filters(), Filters(sweep=2)):
        pools = queries.pools(filters)
        assert pools, filters
        assert set(pools) == set(pools_of(queries.windows(filters))), filters
    one = queries.pools(Filters())[0]
    under = queries.windows(Filters(config=one.config, conditions=one.conditions))
    assert {row.conditions for row in under} == {one.conditions}
    assert one.windows == len([row for row in under if not row.control])
    assert {cell.conditions for cell in queries.cells(Filters(conditions=one.conditions))} == {one.conditions}


def test_configs_are_listed_once_with_what_was_measured(nights: list[Night], queries: Queries) -> None:
    found = {row.names: row for row in queries.configs(Filters())}
    assert set(found) == {(config.name,) for config in CONFIGS}
    one = found["dflash k=7",]
    counted = [row for row in queries.windows(Filters(config="dflash k=7")) if not row.control]
    assert (one.sweeps, one.boots, one.windows_clean) == (2, 6, len(counted))
    assert [row.names for row in queries.configs(Filters(where=(("method", "=", "mtp"),)))] == [("mtp [k=3]",)]


WHERE: list[tuple[tuple[str, str, Any], int]] = [
    (("args.max-model-len", "=", 4096), 4),
    (("args.max-model-len", ">", 4096), 0),
    (("env.VLLM_LOGGING_LEVEL", "=", "INFO"), 4),
    (("image", "=", "vllm/vllm-openai:v0.27.1"), 1),
    (("config.model", "=", "org/model"), 4),
    (("engine", "=", "vllm"), 4),
    (("secrets", "=", "HF_TOKEN"), 4),
    (("speculative", "=", None), 1),
    (("container.gpus", "=", "all"), 0),
]


def test_any_key_of_the_config_is_a_filter(nights: list[Night], queries: Queries) -> None:
    found = [(where, len(queries.configs(Filters(where=(where,))))) for where, _ in WHERE]
    assert found == WHERE


def _in_order(cells: list[CellSummary]) -> list[dict[str, Any]]:
    """Return cells whose order is not a matter of which of several conditions came first."""
    return [_rough(cell) for cell in sorted(cells, key=lambda cell: (cell.config, cell.concurrency, cell.conditions))]


def _rough(cell: CellSummary | GroupSummary) -> dict[str, Any]:
    """Return a cell, or a group, with its floats to 12 digits: two ways to sum up differ in the last ones."""

    def plain(value: Any) -> Any:
        if isinstance(value, Spread):
            return {key: None if item is None else float(f"{item:.11g}") for key, item in value._asdict().items()}
        return {key: plain(item) for key, item in value.items()} if isinstance(value, dict) else value

    document = {
        name: plain(value)
        for name, value in (cell._asdict() if isinstance(cell, CellSummary) else asdict(cell)).items()
    }
    assert all(not isinstance(value, Spread) for value in document.values())
    if "notes" in document:
        document["notes"] = sorted(document["notes"])
    return document


def test_the_examples_of_the_sql_page_run(nights: list[Night], engine: sa.Engine) -> None:
    page = (Path(__file__).parents[3] / "docs" / "sql.md").read_text(encoding="utf-8")
    ours = {"mtp k=3": "mtp [k=3]", "spark-1": "box-a"}
    for name, own in ours.items():
        assert page.count(f"'{name}'") == 1
        page = page.replace(f"'{name}'", f"'{own}'")
    code = "\n".join(
        line for line in page.splitlines() if line.startswith("    ") and not line.strip().startswith("--")
    )
    statements = [part.strip() for part in code.replace("$__timeFilter(started_at)", "true").split(";")]
    asked = [part for part in statements if part.startswith("SELECT") or "\n    SELECT" in part]
    assert len(asked) == 6
    assert all("NOT simulated" in part for part in asked), "the views hold what was simulated, too"
    assert all("source = 'measured'" in part or "FROM nights" in part for part in asked), "and what was imported"
    with engine.connect() as connection:
        counts = [
            len(connection.exec_driver_sql(part[part.index("SELECT") :].replace("%", "%%")).all()) for part in asked
        ]
    assert counts[0] > 0
    assert counts[2] > 0
    assert counts[3] > 0
    assert counts[4] == 2
