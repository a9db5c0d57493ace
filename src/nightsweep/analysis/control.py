"""A control's windows over the night: how far the box drifted while the other configs were measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal

from nightsweep.analysis import text
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import WindowRow

CellKey = tuple[str, str, int, Decimal]


def control_table(windows: Sequence[WindowRow], *, title: str) -> Table | None:
    """Return the clean windows of every cell that has a control window, in the order of the night; None without any.

    A config's own repeats stand between its extra ones: they are the same measurement at other times. Each rate is also told
    as its distance from the mean of them all, in percent.
    """
    groups = tuple(_group(key, rows) for key, rows in sorted(_cells(windows).items(), key=lambda item: item[0][1:]))
    if not groups:
        return None
    return Table(
        title=title,
        label="cell",
        columns=(
            Column("at", "UTC", right=False),
            Column("boot"),
            Column("repeat", right=False),
            Column("decode rate", "tokens/s"),
            Column("from the mean", "%"),
        ),
        groups=groups,
        notes=tuple(drift_sentences(windows)),
        simulated=any(row.simulated for row in windows),
    )


def drift_sentences(windows: Sequence[WindowRow]) -> Iterator[str]:
    """Yield how far each cell of the control moved over the night."""
    for (_, name, streams, temperature), rows in sorted(_cells(windows).items(), key=lambda item: item[0][1:]):
        rates = [row.decode_rate for row in rows if row.decode_rate is not None]
        if len(rates) < 2:
            continue
        mean = sum(rates) / len(rates)
        first, last = rates[0], rates[-1]
        yield (
            f"{text.printable(name)} at {text.plural(streams, 'stream')}, T={text.temperature(temperature)}: "
            f"{first:.1f} tokens/s first, {last:.1f} last ({100 * (last / first - 1):+.1f}%); "
            f"least to most {100 * (max(rates) - min(rates)) / mean:.1f}% of the mean (n={len(rates)})"
        )


def _cells(windows: Sequence[WindowRow]) -> dict[CellKey, list[WindowRow]]:
    found: defaultdict[CellKey, list[WindowRow]] = defaultdict(list)
    for row in windows:
        if not row.flags and row.decode_rate is not None:
            found[(row.config_fingerprint, row.config, row.concurrency, row.temperature)].append(row)
    return {
        key: sorted(rows, key=lambda row: (row.started, row.window_id))
        for key, rows in found.items()
        if any(row.control for row in rows)
    }


def _group(key: CellKey, rows: Sequence[WindowRow]) -> Group:
    _, name, streams, temperature = key
    mean = sum(row.decode_rate or 0.0 for row in rows) / len(rows)
    heading = f"{text.printable(name)}, {text.plural(streams, 'stream')}, T={text.temperature(temperature)}"
    return Group(heading, tuple(_row(row, mean=mean) for row in rows))


def _row(row: WindowRow, *, mean: float) -> Row:
    rate = row.decode_rate or 0.0
    repeat = "control" if row.control else f"#{row.repeat + 1}"
    away = f"{100 * (rate / mean - 1):+.1f}" if mean else text.ABSENT
    return Row((text.moment(row.started), str(row.boot_id), repeat, f"{rate:.1f}", away))
