"""What a config gives against what it costs: KV cache tokens against rate, one stream against many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from nightsweep.analysis import text
from nightsweep.analysis.figures import Measured, slug
from nightsweep.analysis.plots import Field, Fields, Figure, Spot
from nightsweep.analysis.series import Key, drawn, key_of, run_counts
from nightsweep.analysis.stated import stated_of
from nightsweep.analysis.summary import spread_of
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.analysis.values import BootRow, Spread

NEAR = 0.5
"""Where the least is at least this share of the most, an axis that begins at 0 would leave half of it empty."""

Values = Mapping[Key, Sequence[tuple[float, int]]]
"""(value, boot) of every run, by series."""


def kv_figure(measured: Measured, *, boots: Sequence[BootRow], temperature: Decimal) -> Figure:
    """Return KV cache tokens against decode rate, at the fewest and at the most streams. Units: tokens, tokens / second."""
    here = measured.at(temperature)
    name = f"kv-tokens-{slug(temperature)}"
    title = f"KV cache tokens against decode rate at T={text.temperature(temperature)}"
    tokens = kv_by_series(here, boots)
    ends = list(dict.fromkeys((here.streams[0], here.streams[-1]))) if here.streams else []
    fields = []
    for streams in ends:
        label = f"decode rate at {text.plural(streams, 'stream')} (tokens/s)"
        spots = spots_of(here, rates_at(here, streams), tokens)
        if spots:
            fields.append(field_of(spots, title=text.plural(streams, "stream"), x_label=label, y_label=KV_LABEL))
    if not fields:
        missing = "no boot of a measured config states its KV cache tokens"
        return Figure(name, title, "", None, missing, here.simulated)
    said = _caption(fields, here, more="more room for long or many requests is up, a higher rate is right")
    return Figure(name, title, said, Fields(tuple(fields)), simulated=here.simulated)


KV_LABEL = "KV cache (tokens)"


def pareto_figure(measured: Measured, *, temperature: Decimal) -> Figure:
    """Return the rate at the fewest streams against that at the most. Units: tokens / second, all streams together."""
    here = measured.at(temperature)
    name = here.name(f"pareto-{slug(temperature)}")
    title = here.title(f"Few streams against many at T={text.temperature(temperature)}")
    if len(here.streams) < 2:
        return Figure(name, title, "", None, "one concurrency alone was measured", here.simulated)
    few, many = here.streams[0], here.streams[-1]
    spots = spots_of(here, rates_at(here, few), rates_at(here, many))
    if not spots:
        missing = f"no config has clean {here.row}s both at {text.plural(few, 'stream')} and at {many}"
        return Figure(name, title, "", None, missing, here.simulated)
    field = field_of(
        spots,
        title="",
        x_label=f"{here.rate} at {text.plural(few, 'stream')} (tokens/s)",
        y_label=f"{here.rate} at {text.plural(many, 'stream')}, all together (tokens/s)",
    )
    said = _caption([field], here, more="up and right is better")
    return Figure(name, title, said, Fields((field,)), simulated=here.simulated)


def tradeoff_table(measured: Measured, *, boots: Sequence[BootRow], temperature: Decimal) -> Table | None:
    """Return the numbers of both plots, with acceptance lengths; None without any.

    Units:
        tokens / second, all streams together; tokens.
    """
    here = measured.at(temperature)
    if not here.streams:
        return None
    ends = list(dict.fromkeys((here.streams[0], here.streams[-1])))
    rates = {streams: rates_at(here, streams) for streams in ends}
    tokens = kv_by_series(here, boots)
    ahead = {spot.name for spot in spots_of(here, rates[ends[0]], rates[ends[-1]]) if spot.ahead}
    measured_keys = {key for found in rates.values() for key in found}
    digits = {
        streams: text.decimals(one.mean for one in map(_spread, found.values()) if one is not None)
        for streams, found in rates.items()
    }

    def row_of(key: Key, name: str) -> Row:
        fields: list[str] = []
        for streams in ends:
            here_of = [row for row in drawn(here.rows) if key_of(row) == key and row.concurrency == streams]
            rate = _spread(rates[streams].get(key, ()), stated=stated_of(row.notes for row in here_of))
            fields += [
                text.number(None if rate is None else rate.mean, digits=digits[streams]),
                text.runs(rate),
                "0" if rate is None else str(rate.boots),
                text.value_range(rate, digits=digits[streams]),
            ]
        fields.append(acceptance_said(here, key))
        kv = _spread(tokens.get(key, ()))
        both = ("yes" if name in ahead else "",) if len(ends) > 1 else ()
        return Row((name, *fields, text.with_range(kv, digits=0), "0" if kv is None else str(kv.boots), *both))

    rows = tuple(row_of(key, name) for key, name in here.known.names.items() if key in measured_keys)
    title = f"Few streams, many streams, acceptance and KV cache at T={text.temperature(temperature)}"
    return Table(title, _columns(ends), (Group("", rows),), simulated=here.simulated)


def _columns(ends: Sequence[int]) -> tuple[Column, ...]:
    columns = [Column("config", right=False)]
    for streams in ends:
        at = f"at {text.plural(streams, 'stream')}"
        columns += [Column(f"decode rate {at}", "tokens/s"), Column("n"), Column("boots"), Column("range", "tokens/s")]
    columns += [Column("acceptance length", f"at {text.plural(ends[0], 'stream')}; over all")]
    columns += [Column("KV cache", "tokens"), Column("boots that say so")]
    columns += [Column("not beaten in both rates", right=False)] if len(ends) > 1 else []
    return tuple(columns)


def acceptance_said(measured: Measured, key: Key) -> str:
    """Return a config's mean acceptance length at the fewest streams, and the least and most of its cells' means."""
    cells: defaultdict[int, list[tuple[float, int]]] = defaultdict(list)
    for row in drawn(measured.rows):
        if key_of(row) == key and row.acceptance_length is not None:
            cells[row.concurrency].append((row.acceptance_length, row.boot_id))
    means = {streams: _sure(lengths).mean for streams, lengths in cells.items()}
    if not means:
        return text.ABSENT
    first = text.number(means.get(measured.streams[0]), digits=2)
    return f"{first}; {min(means.values()):.2f}–{max(means.values()):.2f}" if len(means) > 1 else first


# --- spots -----------------------------------------------------------------------------------------------------------


def rates_at(measured: Measured, streams: int) -> dict[Key, list[tuple[float, int]]]:
    """Return decode rates of the clean windows at one concurrency."""
    found: defaultdict[Key, list[tuple[float, int]]] = defaultdict(list)
    for row in drawn(measured.rows):
        if row.concurrency == streams and row.decode_rate is not None:
            found[key_of(row)].append((row.decode_rate, row.boot_id))
    return dict(found)


def kv_by_series(measured: Measured, boots: Sequence[BootRow]) -> dict[Key, list[tuple[float, int]]]:
    """Return the KV cache tokens of the boots that the drawn windows come from, by the boot log or its second source."""
    stated = {boot.boot_id: tokens for boot in boots if (tokens := kv_tokens_of(boot)) is not None}
    found: defaultdict[Key, dict[int, float]] = defaultdict(dict)
    for row in drawn(measured.rows):
        if row.boot_id in stated:
            found[key_of(row)][row.boot_id] = stated[row.boot_id]
    return {key: [(tokens, boot) for boot, tokens in by_boot.items()] for key, by_boot in found.items()}


def kv_tokens_of(boot: BootRow) -> float | None:
    """Return a boot's KV cache tokens as its log states them, else as another source does; None where none does."""
    if boot.kv_tokens is not None:
        return float(boot.kv_tokens)
    second = (budget.get("tokens") for budget in boot.kv_second.values())
    return next((float(tokens) for tokens in second if tokens is not None), None)


def spots_of(measured: Measured, x: Values, y: Values) -> tuple[Spot, ...]:
    """Return the configs that have both numbers, and which of them no other one beats in both."""
    both = [(key, name) for key, name in measured.known.names.items() if x.get(key) and y.get(key)]
    spreads = {key: (_sure(x[key]), _sure(y[key])) for key, _ in both}
    front = not_beaten({key: (a.mean, b.mean) for key, (a, b) in spreads.items()})
    return tuple(
        Spot(
            name,
            measured.known.style(key),
            *spreads[key],
            tuple(value for value, _ in x[key]),
            tuple(value for value, _ in y[key]),
            ahead=key in front,
        )
        for key, name in both
    )


def not_beaten(means: Mapping[Key, tuple[float, float]]) -> set[Key]:
    """Return those that no other has at least as much of both and more of one."""
    return {
        key
        for key, (x, y) in means.items()
        if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in means.values())
    }


def field_of(spots: tuple[Spot, ...], *, title: str, x_label: str, y_label: str) -> Field:
    """Return the field, with where its axes begin."""
    x_from = begins_at(value for spot in spots for value in spot.x_values)
    y_from = begins_at(value for spot in spots for value in spot.y_values)
    return Field(title, x_label, y_label, spots, x_from, y_from)


def begins_at(values: Iterable[float]) -> float:
    """Return where an axis begins: at 0, or a little below the least where 0 would leave half of it empty."""
    seen = list(values)
    low, high = min(seen, default=0.0), max(seen, default=0.0)
    if low <= 0 or low < NEAR * high:
        return 0.0
    return max(0.0, low - max(high - low, 0.05 * high) * 0.25)


def _spread(values: Sequence[tuple[float, int]], *, stated: int | None = 1) -> Spread | None:
    return spread_of([value for value, _ in values], boots=(boot for _, boot in values), stated=stated)


def _sure(values: Sequence[tuple[float, int]]) -> Spread:
    found = _spread(values)
    assert found is not None, "a spot has values"
    return found


def _values(spot: Spot) -> tuple[tuple[float, ...], tuple[float, ...]]:
    return spot.x_values, spot.y_values


def _caption(fields: Sequence[Field], here: Measured, *, more: str) -> str:
    cut = any(field.x_from or field.y_from for field in fields)
    spots = [spot for field in fields for spot in field.spots]
    across, up = (run_counts([len(values) for values in each]) for each in zip(*map(_values, spots), strict=True))
    sentences = (
        f"Each config is the mean of its {here.row}s with whiskers from the least to the most, each {here.row} a dot; {more}.",
        f"Across it has {across}, up {up}.",
        "The line joins the configs that no other one beats in both numbers, by their means: ranges that overlap leave it open.",
        "An axis does not begin at 0 where that would leave half of it empty." if cut else "The axes begin at 0.",
        here.left_out,
    )
    return " ".join(sentence for sentence in sentences if sentence)
