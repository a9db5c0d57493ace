"""The report's plots of cells: decode rate and step time by concurrency, acceptance by position, spread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from nightsweep.analysis import text
from nightsweep.analysis.plots import Curves, Figure, Series, Strip, Strips
from nightsweep.analysis.series import Key, Known, drawn, key_of, panels_of, series_by_position, series_by_streams
from nightsweep.analysis.summary import spread_of
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import Spread, WindowRow

LOG_FROM = 12.0
"""Where the greatest value is so many times the least, an axis from 0 hides the least: it is logarithmic then."""

PANELS = "Each config has a panel; the means of the others stand pale behind it."


@dataclass(frozen=True)
class Measured:
    """What the plots are made of.

    Attributes:
        rows: Decode windows, or another client's whole runs, flagged ones too; those are counted, and drawn nowhere.
        known: The report's series.
        whole: Whether they are whole runs: their rate is none of a window, and is called by its own name.
    """

    rows: Sequence[WindowRow]
    known: Known
    simulated: bool
    whole: bool = False

    def at(self, temperature: Decimal) -> Measured:
        """Return the windows of one temperature."""
        return replace(self, rows=[row for row in self.rows if row.temperature == temperature])

    @property
    def rate(self) -> str:
        """What its rates are called."""
        return "rate over the whole run" if self.whole else "decode rate"

    @property
    def row(self) -> str:
        """What one of its rows is called."""
        return "run" if self.whole else "window"

    @property
    def dots(self) -> str:
        """What a dot is, as a sentence, and the line."""
        return f"Each dot is one clean {self.row}, the whisker goes from the least to the most, and the line through the means."

    def name(self, name: str) -> str:
        """Return a figure's name, apart from that of the same figure of windows."""
        return f"whole-run-{name}" if self.whole else name

    def title(self, title: str) -> str:
        """Return a figure's title, which says so where it is of whole runs."""
        return f"{title}, whole runs" if self.whole else title

    @property
    def streams(self) -> list[int]:
        """Concurrencies with a clean window, the fewest first."""
        return sorted({row.concurrency for row in drawn(self.rows)})

    @property
    def left_out(self) -> str:
        """How many flagged windows are not drawn, as a sentence; empty without any."""
        flagged = sum(bool(row.flags) for row in self.rows)
        if not flagged:
            return ""
        return f"{text.plural(flagged, f'flagged {self.row}')} {'is' if flagged == 1 else 'are'} not drawn."


def decode_rate_figure(measured: Measured, *, temperature: Decimal) -> Figure:
    """Return decode rate by concurrency at one temperature. Units: tokens / second, all streams together."""
    here = measured.at(temperature)
    series = series_by_streams(here.rows, here.known, value_of=lambda row: row.decode_rate, streams=here.streams)
    values = [value for one in series for mark in one.marks for value in mark.values]
    log = bool(values) and 0 < LOG_FROM * min(values) < max(values)
    axis = "The axis of rates is logarithmic." if log else "The axis of rates begins at 0."
    return _curves(
        here,
        series,
        name=f"{'whole-run' if here.whole else 'decode'}-rate-{slug(temperature)}",
        title=f"{here.rate.capitalize()} by concurrency at T={text.temperature(temperature)}",
        y_label=f"{here.rate}, all streams (tokens/s)" + (", log scale" if log else ""),
        axis=axis,
        log=log,
        missing=f"no clean {here.row} has a rate" if here.whole else "no clean window has a decode rate",
    )


def step_time_figure(measured: Measured, *, temperature: Decimal) -> Figure:
    """Return step time by concurrency at one temperature. Units: milliseconds."""
    here = measured.at(temperature)
    series = series_by_streams(
        here.rows,
        here.known,
        value_of=lambda row: None if row.step_time is None else row.step_time * 1000,
        streams=here.streams,
    )
    return _curves(
        here,
        series,
        name=f"step-time-{slug(temperature)}",
        title=f"Step time by concurrency at T={text.temperature(temperature)}",
        y_label="step time (ms)",
        axis="The axis of times begins at 0.",
        missing="no clean window has a step time: the engine exposes no step counter",
    )


def _curves(
    here: Measured,
    series: Sequence[Series],
    *,
    name: str,
    title: str,
    y_label: str,
    axis: str,
    missing: str,
    log: bool = False,
) -> Figure:
    if not series:
        return Figure(name, title, "", None, missing, here.simulated)
    panels = panels_of(series, places=[str(streams) for streams in here.streams])
    said = (here.dots, PANELS if len(panels) > 1 else "", axis, here.left_out)
    plot = Curves("concurrency (streams), n below", y_label, panels, log)
    return Figure(name, title, _caption(said), plot, simulated=here.simulated)


def acceptance_figure(measured: Measured, *, temperature: Decimal) -> Figure:
    """Return acceptance by draft position at one temperature, of all concurrencies. Units: percent of drafts."""
    here = measured.at(temperature)
    series = series_by_position(here.rows, here.known)
    name = here.name(f"acceptance-{slug(temperature)}")
    title = here.title(f"Acceptance by draft position at T={text.temperature(temperature)}")
    if not series:
        missing = (
            f"no clean {here.row} has acceptance by position: nothing speculates, or the engine does not expose it"
        )
        return Figure(name, title, "", None, missing, here.simulated)
    deepest = max(len(one.marks) for one in series)
    panels = panels_of(series, places=[str(position) for position in range(deepest)])
    said = (
        "Position i is accepted at i / drafts, in percent.",
        here.dots,
        f"{here.row.capitalize()}s of all concurrencies stand together.",
        PANELS if len(panels) > 1 else "",
        here.left_out,
    )
    plot = Curves("draft position (0 first), n below", "accepted / drafts (%)", panels, top=100.0)
    return Figure(name, title, _caption(said), plot, simulated=here.simulated)


def acceptance_table(measured: Measured, *, temperature: Decimal) -> Table | None:
    """Return acceptance by position as mean (least–most) in percent; None without any."""
    here = measured.at(temperature)
    series = series_by_position(here.rows, here.known)
    if not series:
        return None
    deepest = max(len(one.marks) for one in series)

    def row_of(one: Series) -> Row:
        spreads = [mark.spread for mark in one.marks]
        fields = [_percent(spread) for spread in spreads] + [text.ABSENT] * (deepest - len(spreads))
        most = max(spreads, key=lambda spread: spread.n)
        boots = max(spread.boots for spread in spreads)
        return Row((one.name, text.runs(most), str(boots), *fields), mark="single" if most.runs == 1 else "")

    columns = (
        Column("config", right=False),
        Column("n"),
        Column("boots"),
        *(Column(f"position {at}", "%") for at in range(deepest)),
    )
    title = f"Acceptance by position at T={text.temperature(temperature)}: mean (least–most) over {here.row}s"
    return Table(title, columns, (Group("", tuple(map(row_of, series))),), simulated=here.simulated)


def _percent(spread: Spread) -> str:
    return text.with_range(spread, digits=0)


# --- spread ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Deviations:
    """How far a config's windows lie from the means of their own cells, in percent of those.

    Attributes:
        cells: Cells with two clean windows or more.
        widest: (range as a ratio of the mean, streams, temperature) of the cell that is widest.
    """

    key: Key
    name: str
    cells: int
    boots: int
    values: tuple[float, ...]
    widest: tuple[float, int, Decimal]


def deviations(measured: Measured) -> list[Deviations]:
    """Return the deviations of each config that has a cell with two clean windows; a lone run tells nothing of spread."""
    cells: defaultdict[Key, defaultdict[tuple[int, Decimal], list[WindowRow]]] = defaultdict(lambda: defaultdict(list))
    for row in drawn(measured.rows):
        if row.decode_rate:
            cells[key_of(row)][row.concurrency, row.temperature].append(row)
    found = []
    for key, name in measured.known.names.items():
        several = {place: rows for place, rows in cells[key].items() if len(rows) > 1}
        if several:
            found.append(_deviations(key, name, several))
    return found


def _deviations(key: Key, name: str, cells: dict[tuple[int, Decimal], list[WindowRow]]) -> Deviations:
    values: list[float] = []
    widest = (-1.0, 0, Decimal(0))
    for (streams, temperature), rows in sorted(cells.items()):
        rates = [row.decode_rate or 0.0 for row in rows]
        spread = spread_of(rates, boots=(row.boot_id for row in rows))
        assert spread is not None, "a cell has windows"
        values += [100 * (rate / spread.mean - 1) for rate in rates]
        widest = max(widest, (spread.relative_range or 0.0, streams, temperature))
    boots = len({row.boot_id for rows in cells.values() for row in rows})
    return Deviations(key, name, len(cells), boots, tuple(values), widest)


def spread_figure(measured: Measured) -> Figure:
    """Return how far each window lies from its cell's mean, a row for each config. Units: percent."""
    found = deviations(measured)
    name, title = measured.name("spread"), f"Spread: each {measured.row} against the mean of its cell"
    if not found:
        missing = f"no cell has two clean {measured.row}s: one run tells nothing of spread"
        return Figure(name, title, "", None, missing, measured.simulated)
    rows = tuple(Strip(one.name, f"n={len(one.values)}", measured.known.style(one.key), one.values) for one in found)
    said = (
        f"Each dot is one clean {measured.row}: its {measured.rate} against the mean of all {measured.row}s of its own cell.",
        f"Cells with one {measured.row} are left out.",
        measured.left_out,
    )
    plot = Strips(f"{measured.rate} against its cell's mean (%)", rows)
    return Figure(name, title, _caption(said), plot, simulated=measured.simulated)


def spread_table(measured: Measured) -> Table | None:
    """Return the numbers of the spread's plot; None without any."""
    found = deviations(measured)
    if not found:
        return None

    def row_of(one: Deviations) -> Row:
        width, streams, temperature = one.widest
        at = f"{text.plural(streams, 'stream')}, T={text.temperature(temperature)}"
        least, most = min(one.values), max(one.values)
        return Row(
            (
                one.name,
                str(one.cells),
                str(len(one.values)),
                str(one.boots),
                f"{least:+.1f} to {most:+.1f}",
                f"{text.percent(width, digits=1)} ({at})",
            )
        )

    columns = (
        Column("config", right=False),
        Column("cells"),
        Column("n"),
        Column("boots"),
        Column("least to most", "% of the cell's mean"),
        Column("widest cell: range / mean", right=False),
    )
    rates = "rates over whole runs" if measured.whole else "decode rates"
    title = f"Spread of {rates} inside the cells that have two clean {measured.row}s or more"
    return Table(title, columns, (Group("", tuple(map(row_of, found))),), simulated=measured.simulated)


def _caption(sentences: Sequence[str]) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def slug(temperature: Decimal) -> str:
    """Return a temperature as part of a figure's name, which is a file's name, too; imports may not know it."""
    said = text.temperature(temperature)
    return f"t{said.replace('.', '-')}" if said[0].isdigit() else "t-unknown"
