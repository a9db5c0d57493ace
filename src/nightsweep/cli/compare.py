"""`nightsweep compare`: one config against another."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import click

from nightsweep.analysis import compared, sides, text
from nightsweep.analysis.values import Filters, WindowRow
from nightsweep.cli import filters, places, render
from nightsweep.cli.documents import documents_of, family_of, one_kind, raise_for_kind
from nightsweep.cli.reading import Queries, access, find_sweep_id
from nightsweep.errors import NotFound


def parse_ratio(words: str) -> float:
    """Return the ratio of `3%` or `0.03`.

    Raises:
        ValueError: The words are no ratio above 0 and below 1.
    """
    plain = words.strip()
    try:
        value = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise ValueError(f"{words!r} is no share: write 3% or 0.03, above 0 and below 100%")
    return value


def _ratio(ctx: click.Context, param: click.Parameter, value: str) -> float:
    try:
        return parse_ratio(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error


Cells = Mapping[sides.Under, frozenset[sides.Cell]]


@dataclass(frozen=True)
class Meant:
    """The one config that is meant: the filters that find it, and its pools."""

    where: Filters
    pools: Sequence[sides.Pool]

    @property
    def fingerprint(self) -> str:
        """Its fingerprint."""
        return self.pools[0].config_fingerprint


def _meant(wanted: str, queries: Queries, asked: Filters) -> Meant:
    """Return the one config that is meant (raises NotFound, SeveralConfigs)."""
    pattern, where = wanted, asked
    if wanted.startswith("sweep:"):
        sweep, slash, pattern = wanted.removeprefix("sweep:").partition("/")
        if not slash or not pattern:
            raise click.UsageError(f"{wanted!r} names no config: write sweep:NAME/CONFIG")
        if asked.sweep is not None:
            raise click.UsageError(f"{wanted!r} names its sweep: leave --sweep out")
        where = replace(asked, sweep=find_sweep_id(queries, sweep))
    where = replace(where, config=pattern)
    pools = queries.pools(where)
    if not pools:
        raise_for_kind(queries, where, of=f"config {wanted!r}", hint=_hint(pattern, queries))
    return Meant(where, sides.one_config(pools, wanted=pattern))


def _windows_of(side: sides.Chosen, queries: Queries, where: Filters) -> list[WindowRow]:
    """Return the windows that are compared: of years of windows under other conditions, none is read."""
    rows = queries.windows(replace(where, conditions=side.under[0]))
    return [row for row in sides.measured(rows) if side.holds(row)]


def _asked(at: Sequence[places.Place], queries: Queries, a: Meant, b: Meant) -> list[sides.Asked]:
    """Return of each place the cells that each side has there."""
    if not at:
        return []
    of_a, of_b = _cells_of(a, queries), _cells_of(b, queries)
    return [sides.Asked(_at(place, of_a), _at(place, of_b)) for place in at]


def _cells_of(side: Meant, queries: Queries) -> Cells:
    found: dict[sides.Under, set[sides.Cell]] = defaultdict(set)
    for cell in queries.cells(side.where):
        if cell.config_fingerprint == side.fingerprint and cell.decode_rate is not None:
            found[cell.conditions, cell.box, cell.simulated].add((cell.concurrency, cell.temperature))
    return {under: frozenset(cells) for under, cells in found.items()}


def _at(place: places.Place, has: Cells) -> Cells:
    return {
        under: frozenset(cell for cell in cells if places.fits(cell[0], float(cell[1]), [place]))
        for under, cells in has.items()
    }


def _elsewhere(place: places.Place, queries: Queries, *meant: Meant) -> str:
    """Return where each side has a place that none has under the conditions that are compared."""
    told, any_there = [], False
    for name, side in zip("AB", meant, strict=True):
        narrow = places.narrowed(side.where, [place], config=side.where.config or "*")
        pools = [pool for pool in queries.pools(narrow) if pool.config_fingerprint == side.fingerprint]
        sweeps = text.several(sorted({sweep for pool in pools for sweep in pool.sweeps}))
        conditions = text.several(dict.fromkeys(text.short(pool.conditions) for pool in pools))
        told.append(
            f"{name} has it in sweep {sweeps} (conditions {conditions})" if pools else f"{name} as asked has it nowhere"
        )
        any_there = any_there or bool(pools)
    remedy = ": name that sweep (sweep:NAME/CONFIG)" if any_there else ": leave --at out to see the cells there are"
    return f"--at {place.said} was not measured under the conditions compared; {', '.join(told)}{remedy}"


def _hint(pattern: str, queries: Queries) -> str:
    names = queries.config_names()
    if pattern in names:
        return "it is known, but not measured as asked; see `nightsweep cells`"
    near = difflib.get_close_matches(pattern, names, n=3, cutoff=0.5)
    near += [name for name in names if pattern.strip("*").lower() in name.lower() and name not in near][:3]
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    return "`nightsweep cells` lists what was measured"


@click.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@places.at_option
@filters.filter_options(cells=False, without=("--config",))
@click.option(
    "--same-within",
    default="3%",
    show_default=True,
    metavar="SHARE",
    callback=_ratio,
    help="Difference of the rates within which both are called the same.",
)
@click.option("--single-batch", is_flag=True, help="Compare single-batch runs instead of decode windows.")
@click.option("--whole-runs", is_flag=True, help="Compare imported rates over whole runs instead of decode windows.")
@click.option("--across", is_flag=True, help="Compare also across conditions that make it another question.")
@render.output_options
@click.pass_context
def command(
    ctx: click.Context,
    *,
    a: str,
    b: str,
    at: Sequence[places.Place],
    same_within: float,
    single_batch: bool,
    whole_runs: bool,
    across: bool,
    form: str,
) -> None:
    """Compare config B with config A, cell by cell: ratio of decode rates with its interval, and a verdict on B.

    A and B are config names, shell patterns or fingerprints that fit one config each, or sweep:NAME/CONFIG. What differs
    besides the rates is said first. Only windows of equal conditions are pooled: the newest that both sides have in common
    count, and with --at the newest that have its cells. A verdict never rests on one run, and is held to its level over all
    cells together. See docs/statistics.md.

    \b
    Example:
      nightsweep compare 'dflash2 k=5 greedy/standard' 'dflash2 k=7 probabilistic/block'
      nightsweep compare mtp sweep:dflash2-depth/3fa9c1 --at c=1,T=0.7 --same-within 2%
    """
    with access(ctx).queries() as queries:
        kind = one_kind(single_batch=single_batch, whole_runs=whole_runs)
        asked = replace(filters.asked(ctx, queries), with_flagged="no", kind=kind)
        of_a, of_b = (_meant(wanted, queries, asked) for wanted in (a, b))
        known = documents_of(queries, [*of_a.pools, *of_b.pools])
        cells = _asked(at, queries, of_a, of_b)
        choice = sides.chosen(of_a.pools, of_b.pools, known=known, across=across, asked=cells)
        rows = _windows_of(choice.a, queries, of_a.where), _windows_of(choice.b, queries, of_b.where)
        loaded = queries.weights({row.boot_id for side in rows for row in side})
        pairing = sides.paired(choice, *rows, loaded=loaded)
        both = [*pairing.a.rows, *pairing.b.rows]
        absent = [place for place in at if not any(map(place.holds, both))]
        elsewhere = [_elsewhere(place, queries, of_a, of_b) for place in absent]
        family = family_of(queries, both)
    found = compared.compared(
        pairing, family=family, same_within=same_within, wanted=lambda row: places.wanted(row, at)
    )
    if not found:
        raise NotFound(what="a clean window at these cells (--at)", hint="; ".join(elsewhere))
    if form == "json":
        render.print_json(compared.compared_document(pairing, found))
    elif form == "csv":
        render.print_csv(map(compared.cell_document, found), fields=compared.COMPARED_FIELDS)
    else:
        _print(pairing, found, elsewhere)


def _print(pairing: sides.Pairing, found: Sequence[compared.Compared], elsewhere: Sequence[str]) -> None:
    render.write([*(render.Line(line) for line in compared.differing(pairing)), render.Line("")])
    render.show(compared.compared_table(found, title=compared.title_of(pairing), simulated=pairing.simulated))
    render.write([render.Line(line, style="note") for line in elsewhere])
    beside = compared.pooled_table(found, simulated=pairing.simulated)
    if beside is not None:
        render.write([render.Line("")])
        render.show(beside)
