"""`nightsweep history`: one config over time."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence

import click

from nightsweep.analysis import over_time, text
from nightsweep.analysis.grouping import NUMBERS, GroupSummary
from nightsweep.analysis.values import Filters
from nightsweep.cli import filters, places, render
from nightsweep.cli.documents import raise_for_kind
from nightsweep.cli.reading import Queries, access
from nightsweep.errors import NotFound, SeveralConfigs

UNITS = {
    "decode_rate": ("tokens/s", 1.0),
    "report_rate": ("tokens/s", 1.0),
    "step_time": ("ms", 1e3),
    "ttft_p50": ("ms", 1e3),
    "tpot_p50": ("ms", 1e3),
}


@click.command("history")
@click.argument("config", metavar="CONFIG")
@places.at_option
@click.option("--number", type=click.Choice(NUMBERS), default="decode_rate", show_default=True, help="Which number.")
@click.option("--no-changes", is_flag=True, help="Do not look for changes of level: answers at once.")
@filters.filter_options(cells=False, without=("--config",))
@click.option("--json", "as_json", is_flag=True, help="One JSON document; units stand in the key names.")
@click.pass_context
def command(
    ctx: click.Context, *, config: str, at: Sequence[places.Place], number: str, no_changes: bool, as_json: bool
) -> None:
    """Show one config boot by boot: what was measured, what differed from the boot before, and where the level changed.

    CONFIG is a name, or a fingerprint's first 6 characters or more. A name goes on over changes of its config: a new image is
    another fingerprint under the same name, and is marked.

    \b
    Example:
      nightsweep history 'dflash2 k=7' --at c=1,T=0.7
      nightsweep history mtp --number step_time --since 90d
    """
    with access(ctx).queries() as queries:
        asked = filters.asked(ctx, queries)
        if not no_changes:  # the database works for as long as numpy takes to load
            threading.Thread(target=importlib.import_module, args=("nightsweep.analysis.numeric",)).start()
        groups = _groups(queries, asked, config=config, at=at, number=number)
        if not groups:
            of = f"config {config!r} as asked"
            raise_for_kind(queries, places.narrowed(asked, at, config=config), of=of, options=False)
        fingerprints = {str(group.keys["config_fingerprint"]) for group in groups}
        conditions = queries.condition_documents({str(group.keys["conditions"]) for group in groups})
        configs = queries.config_documents(fingerprints)
        loaded = queries.weights({int(group.keys["boot"]) for group in groups})
    series = over_time.series_of(
        groups, conditions=conditions, configs=configs, loaded=loaded, number=number, with_changes=not no_changes
    )
    if not series:
        raise NotFound(
            what=f"{number} in a clean window of config {config!r} as asked",
            hint="`nightsweep cells` lists the cells there are, and which numbers they have",
        )
    if as_json:
        render.print_json({"series": [over_time.series_document(one, number=number) for one in series]})
        return
    unit, factor = UNITS.get(number, ("", 1.0))
    digits = text.decimals(point.spread.mean * factor for one in series for point in one.points)
    for place, one in enumerate(series):
        render.write([render.Line("")] if place else [])
        render.show(over_time.series_table(one, number=number, unit=unit, digits=digits, factor=factor))


def _groups(
    queries: Queries, asked: Filters, *, config: str, at: Sequence[places.Place], number: str
) -> list[GroupSummary]:
    """Return the windows of the one config that is meant, by boot and cell (raises SeveralConfigs)."""
    found = queries.groups(places.narrowed(asked, at, config=config), over_time.KEYS, numbers=(number,))
    names = sorted({str(group.keys["config"]) for group in found})
    same = {str(group.keys["config_fingerprint"]) for group in found}
    if len(names) > 1 and config not in names and len(same) > 1:
        listing = "\n".join(f"  {text.printable(name)}" for name in names)
        raise SeveralConfigs(wanted=config, count=len(names), listing=listing)
    return [group for group in found if places.fits(group.keys["concurrency"], group.keys["temperature"], at)]
