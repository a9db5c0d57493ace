"""`nightsweep effects`: what each setting of a sweep's grid does, alone and together with others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import click

from nightsweep.analysis import effects_shown, sides, text
from nightsweep.cli import filters, places, render
from nightsweep.cli.documents import documents_of, raise_for_kind
from nightsweep.cli.reading import access, find_sweep
from nightsweep.errors import TooManyCells


@click.command("effects")
@click.argument("sweep")
@places.at_option
@filters.filter_options(cells=False, without=("--sweep", "--box", "--image", "--since", "--before"))
@render.output_options
@click.pass_context
def command(ctx: click.Context, *, sweep: str, at: Sequence[places.Place], form: str) -> None:
    """Show main effects and two-way interactions of a sweep's grid on the decode rate.

    SWEEP is a name or an id. Configs of one cell are held against each other, and the effects are over all cells, or those of
    --at. Without --config or --where, the configs of the most common method of speculation make the grid. Corners that were
    not measured are named, with the lines of a sweep file that would. See docs/statistics.md.

    \b
    Example:
      nightsweep effects dflash2-depth
      nightsweep effects dflash2-depth --at T=1.0 --where num_speculative_tokens=5
    """
    with access(ctx).queries() as queries:
        asked = filters.asked(ctx, queries)
        found = find_sweep(queries, sweep)
        windows = queries.windows(replace(asked, sweep=found.sweep_id, with_flagged="no"))
        rows = sides.measured([row for row in windows if places.wanted(row, at)])
        if not rows:
            raise_for_kind(
                queries, replace(asked, sweep=found.sweep_id), of=f"sweep {found.name!r} as asked", options=False
            )
        known = documents_of(queries, rows)
    try:
        shown = effects_shown.shown(rows, known=known, choose=not (asked.config or asked.where))
    except ValueError as error:
        raise TooManyCells(reason=str(error)) from error
    if form == "json":
        render.print_json(effects_shown.effects_document(shown))
    elif form == "csv":
        documents = (effects_shown.effect_document(shown, one) for one in shown.fit.effects)
        render.print_csv(map(dict, documents), fields=effects_shown.EFFECT_FIELDS)
    else:
        _print(shown, name=found.name)


def _print(shown: effects_shown.Shown, *, name: str) -> None:
    if shown.grid.factors:
        streams, temperatures = ({cell[part] for cell in shown.fit.cells} for part in (0, 1))
        degrees = ",".join(text.temperature(Decimal(str(one))) for one in sorted(temperatures))
        cells = f"c={','.join(map(str, sorted(streams)))} and T={degrees}"
        render.show(effects_shown.effects_table(shown, title=f"Effects on the decode rate, {name}, over {cells}"))
        pairs = effects_shown.interactions_table(shown, title="Pairs of settings")
        if pairs is not None:
            render.write([render.Line("")])
            render.show(pairs)
    said = list(effects_shown.warnings(shown))
    if said:
        render.write([render.Line(""), *(render.Line(f"! {warning}", style="single") for warning in said)])
    lines = effects_shown.filling(shown)
    if lines:
        render.write(
            [render.Line(""), render.Line("These lines of a sweep file measure what is missing:", style="title")]
        )
        render.write([render.Line(f"  {line}") for line in lines])
