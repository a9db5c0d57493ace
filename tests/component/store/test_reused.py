"""What a sweep took over is read as its own, with where it is from, and is listed once where no sweep is named."""

from __future__ import annotations

import sqlalchemy as sa

from nightsweep.analysis.report import report_markdown
from nightsweep.analysis.summary import summarise
from nightsweep.analysis.values import Filters
from nightsweep.plan.reuse import Link
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from tests.storekit.builders import Night, a_config, a_night, a_plan


def a_pair(engine: sa.Engine) -> tuple[Night, Night]:
    """Return a sweep with two windows and a prefill, and one that took one of the windows and the prefill over."""
    store = PostgresStore(engine)
    first = a_night(store)
    first.keep(), first.keep(index=1), first.keep_prefill()
    store.release(first.lease, state="done", note="")
    second = a_night(store, a_plan(a_config(k=7), *first.plan.configs, name="changed"))
    second.keep()
    taken = [row for row in store.reusable(second.sweep_id).rows if row.repeat == 0 and row.sweep_id == first.sweep_id]
    store.reuse(second.lease, [Link(row.kind, row.place, 1, row.row_id, row.sweep_id) for row in taken])
    return first, second


def test_a_sweeps_windows_are_its_own_and_those_it_took_over(engine: sa.Engine, queries: Queries) -> None:
    first, second = a_pair(engine)
    rows = queries.windows(Filters(sweep=second.sweep_id))
    assert [(row.sweep_id, row.sweep_name, row.repeat, row.reused_from) for row in rows] == [
        (second.sweep_id, "changed", 0, None),
        (second.sweep_id, "changed", 1, first.sweep_id),
    ]
    assert rows[1].notes == (f"reused from sweep {first.sweep_id}",)
    prefills = queries.prefills(Filters(sweep=second.sweep_id))
    assert [(row.sweep_id, row.repeat, row.reused_from) for row in prefills] == [(second.sweep_id, 1, first.sweep_id)]


def test_without_a_sweep_named_nothing_is_listed_twice(engine: sa.Engine, queries: Queries) -> None:
    a_pair(engine)
    rows = queries.windows(Filters())
    assert [row.window_id for row in rows] == [1, 2, 3]
    assert {row.reused_from for row in rows} == {None}
    assert len(queries.prefills(Filters())) == 1
    assert sum(cell.decode_rate.n for cell in summarise(rows) if cell.decode_rate is not None) == 3


def test_the_sweep_that_measured_them_shows_nothing_of_it(engine: sa.Engine, queries: Queries) -> None:
    first, _ = a_pair(engine)
    assert [row.reused_from for row in queries.windows(Filters(sweep=first.sweep_id))] == [None, None]
    assert queries.sweep_of(str(first.sweep_id)).reused == {}


def test_a_sweep_counts_what_it_took_over_as_clean_and_says_from_where(engine: sa.Engine, queries: Queries) -> None:
    first, second = a_pair(engine)
    row = queries.sweep_of(str(second.sweep_id))
    assert (row.repeats_clean, row.reused) == (2, {first.sweep_id: 2})


def test_the_report_says_what_is_reused(engine: sa.Engine, queries: Queries) -> None:
    first, second = a_pair(engine)
    of_sweep = Filters(sweep=second.sweep_id, with_flagged="yes")
    report = report_markdown(
        queries.sweep_of(str(second.sweep_id))._replace(state="done"),
        boots=queries.boots(of_sweep),
        windows=queries.windows(of_sweep),
        prefills=queries.prefills(of_sweep),
        plan=second.plan,
        software_version="test",
    )
    assert f"reused from sweep {first.sweep_id}: 2 measurements" in report
    assert f"by sweep: sweep {first.sweep_id} (2)" in report
