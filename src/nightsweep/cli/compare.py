"""`nightsweep compare`: one config against another."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

import click

from nightsweep.analysis import compared, sides
from nightsweep.analysis.values import Filters, WindowRow
from nightsweep.cli import filters, places, render
from nightsweep.cli.documents import documents_of, family_of, one_kind, raise_for_kind
from nightsweep.cli.reading import Queries, access, find_sweep_id
from nightsweep.errors import NotFound
from nightsweep.plan.words import DECODE


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


def _meant(wanted: str, queries: Queries, asked: Filters) -> tuple[Filters, list[sides.Pool]]:
    """Return the filters that find the one config that is meant, and its pools (raises NotFound, SeveralConfigs)."""
    pattern, where = wanted, asked
    if wanted.startswith("sweep:"):
        sweep, slash, pattern = wanted.removeprefix("sweep:").partition("/")
        if not slash or not pattern:
            raise click.UsageError(f"{wanted!r} names no config: write sweep:NAME/CONFIG")
        where = replace(asked, sweep=find_sweep_id(queries, sweep))
    where = replace(where, config=pattern)
    pools = queries.pools(where)
    if not pools:
        raise_for_kind(queries, where, of=f"config {wanted!r}", hint=_hint(pattern, queries))
    return where, sides.one_config(pools, wanted=pattern)


def _windows_of(side: sides.Chosen, queries: Queries, where: Filters) -> list[WindowRow]:
    """Return the windows that are compared: of years of windows under other conditions, none is read."""
    rows = queries.windows(replace(where, conditions=side.under[0]))
    return [row for row in sides.measured(rows) if side.holds(row)]


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
    count. A verdict never rests on one run, and is held to its level over all cells together. See docs/statistics.md.

    \b
    Example:
      nightsweep compare 'dflash2 k=5 greedy/standard' 'dflash2 k=7 probabilistic/block'
      nightsweep compare mtp sweep:dflash2-depth/3fa9c1 --at c=1,T=0.7 --same-within 2%
    """
    with access(ctx).queries() as queries:
        kind = one_kind(single_batch=single_batch, whole_runs=whole_runs)
        asked = replace(filters.asked(ctx, queries), with_flagged="no", kind=kind)
        (where_a, pools_a), (where_b, pools_b) = (_meant(wanted, queries, asked) for wanted in (a, b))
        known = documents_of(queries, [*pools_a, *pools_b])
        choice = sides.chosen(pools_a, pools_b, known=known, across=across)
        rows = _windows_of(choice.a, queries, where_a), _windows_of(choice.b, queries, where_b)
        pairing = sides.paired(choice, *rows)
        family = family_of(queries, [*pairing.a.rows, *pairing.b.rows])
    found = compared.compared(
        pairing, family=family, same_within=same_within, wanted=lambda row: places.wanted(row, at)
    )
    if not found:
        raise NotFound(what="a clean window at these cells (--at)", hint="leave --at out to see the cells there are")
    if form == "json":
        render.print_json(compared.compared_document(pairing, found))
    elif form == "csv":
        render.print_csv(map(compared.cell_document, found), fields=compared.COMPARED_FIELDS)
    else:
        _print(pairing, found)


def _print(pairing: sides.Pairing, found: Sequence[compared.Compared]) -> None:
    render.write([*(render.Line(line) for line in compared.differing(pairing)), render.Line("")])
    render.show(compared.compared_table(found, title=compared.title_of(pairing), simulated=pairing.simulated))
    # Single-batch runs have one concurrency; prefill is in a whole run's rate, which is no multiple of the acceptance length.
    windows = pairing.a.rows[0].kind == DECODE
    beside = compared.pooled_table(found, simulated=pairing.simulated) if windows else None
    if beside is not None:
        render.write([render.Line("")])
        render.show(beside)
