"""Every run by itself: the tables of published reports, which list their runs instead of a mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from nightsweep.analysis import listings, text
from nightsweep.analysis.series import Key, Known, drawn, key_of
from nightsweep.analysis.stated import stated_of
from nightsweep.analysis.summary import spread_of
from nightsweep.analysis.tables import SINGLE_BATCH_NOTE, Column, Group, Row, Table
from nightsweep.analysis.values import BootRow, WindowRow

BOOTS_APART = " | "
"""Between the runs of two boots."""


def runs_table(windows: Sequence[WindowRow], known: Known, *, simulated: bool) -> Table | None:
    """Return the decode rate of every clean window, a row for each cell; None without any.

    Units:
        tokens / second, all streams together.
    """
    cells: defaultdict[Key, defaultdict[tuple[Decimal, int], list[WindowRow]]] = defaultdict(lambda: defaultdict(list))
    for row in drawn(windows):
        if row.decode_rate is not None:
            cells[key_of(row)][row.temperature, row.concurrency].append(row)
    if not cells:
        return None
    digits = text.decimals(row.decode_rate or 0.0 for row in drawn(windows))

    def row_of(place: tuple[Decimal, int], rows: Sequence[WindowRow]) -> Row:
        boots = len({row.boot_id for row in rows})
        runs = runs_of([(row.boot_id, row.decode_rate or 0.0) for row in rows], digits=digits)
        rate = spread_of(
            [row.decode_rate or 0.0 for row in rows], boots=(), stated=stated_of(row.notes for row in rows)
        )
        values = (str(place[1]), text.temperature(place[0]), text.runs(rate), str(boots), runs)
        return Row(values, mark="single" if rate is not None and rate.runs == 1 else "")

    groups = tuple(
        Group(name, tuple(row_of(place, cells[key][place]) for place in sorted(cells[key])))
        for key, name in known.names.items()
        if key in cells
    )
    columns = (
        Column("streams"),
        Column("T"),
        Column("n"),
        Column("boots"),
        Column("decode rate of each run", "tokens/s", right=False),
    )
    notes = ("in the order they were measured; a bar parts the runs of two boots",)
    return Table("Every clean window", columns, groups, label="config", notes=notes, simulated=simulated)


def runs_of(runs: Sequence[tuple[int, float]], *, digits: int) -> str:
    """Return (boot, value) pairs as "161.8 167.8 | 160.9": in order, boots apart."""
    by_boot: dict[int, list[str]] = {}
    for boot, value in runs:
        by_boot.setdefault(boot, []).append(text.number(value, digits=digits))
    return BOOTS_APART.join(" ".join(values) for values in by_boot.values())


def single_batch_runs_table(
    windows: Sequence[WindowRow], *, boots: Sequence[BootRow], known: Known, simulated: bool
) -> Table | None:
    """Return single-batch runs side by side, with acceptance length and what the boot tells; None without any.

    Units:
        tokens / second, tokens, GiB.
    """
    cells: defaultdict[tuple[Key, Decimal], list[WindowRow]] = defaultdict(list)
    for row in drawn(windows):
        if row.decode_rate is not None:
            cells[key_of(row), row.temperature].append(row)
    if not cells:
        return None
    most = max(map(len, cells.values()))
    digits = text.decimals(row.decode_rate or 0.0 for row in drawn(windows))
    by_boot = {boot.boot_id: boot for boot in boots}

    def row_of(key: Key, temperature: Decimal, rows: Sequence[WindowRow]) -> Row:
        rates = [text.number(row.decode_rate, digits=digits) for row in rows] + [text.ABSENT] * (most - len(rows))
        lengths = [(row.acceptance_length, row.boot_id) for row in rows if row.acceptance_length is not None]
        length = spread_of([value for value, _ in lengths], boots=(boot for _, boot in lengths))
        known_rates = [(row.decode_rate, row.boot_id) for row in rows if row.decode_rate is not None]
        rate = spread_of([value for value, _ in known_rates], boots=(boot for _, boot in known_rates))
        boot = by_boot.get(rows[-1].boot_id)
        return Row(
            (
                known.names[key],
                text.temperature(temperature),
                *rates,
                text.with_range(length, digits=2, of=rate),
                text.ABSENT if boot is None else listings.kv_tokens(boot),
                text.ABSENT if boot is None else text.number(boot.weights, digits=2),
            ),
            mark="single" if len(rows) == stated_of(row.notes for row in rows) == 1 else "",
        )

    order = list(known.names)
    places = sorted(cells, key=lambda place: (order.index(place[0]), place[1]))
    rows = tuple(row_of(key, temperature, cells[key, temperature]) for key, temperature in places)
    title = "Single batch: every run, and what its boot tells"
    return Table(title, _columns(most), (Group("", rows),), notes=(SINGLE_BATCH_NOTE,), simulated=simulated)


def _columns(most: int) -> tuple[Column, ...]:
    return (
        Column("config", right=False),
        Column("T"),
        *(Column(f"run {number}", "tokens/s") for number in range(1, most + 1)),
        Column("acceptance length"),
        Column("KV cache", "tokens"),
        Column("weights", "GiB"),
    )
