"""`nightsweep report`: a sweep's report as Markdown or as one HTML page, with plots."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
from click.core import ParameterSource

from nightsweep import __version__
from nightsweep.analysis import markdown
from nightsweep.analysis.blocks import Block, Paragraph, figures_of, without_plots
from nightsweep.analysis.values import Filters
from nightsweep.cli.documents import documents_of
from nightsweep.cli.outputs import OutputFile, output_option, write_file, write_output
from nightsweep.cli.reading import Queries, access, find_sweep
from nightsweep.errors import ExtraMissing, Unwritable
from nightsweep.plan.model import SINGLE_BATCH, WHOLE_RUN
from nightsweep.service.files import is_replaced

if TYPE_CHECKING:
    from nightsweep.analysis.report import Reported
    from nightsweep.drawing import Drawing

EVENTS_READ = 5000
"""Newest events of a sweep that are looked through for pauses."""

INSTALL = "pip install 'nightsweep[report]'"


@click.command("report")
@click.argument("sweep")
@click.option("--html", type=OutputFile(), metavar="FILE", help="Write one HTML page with plots; it needs no network.")
@click.option(
    "--markdown", "beside", type=OutputFile(), metavar="FILE", help="Write Markdown, with plots in a folder beside it."
)
@output_option
@click.pass_context
def command(ctx: click.Context, *, sweep: str, html: Path | None, beside: Path | None, output: Path | None) -> None:
    """Write a sweep's report: what ran, boots, cells with run counts, plots, timeline, flagged windows, caveats.

    SWEEP is a name (the newest of that name) or an id. With -o, and without --html and --markdown, it is Markdown without plots.
    Plots are drawn by matplotlib (pip install 'nightsweep[report]'); without it, everything else is there.

    \b
    Example:
      nightsweep report dflash2-depth --html dflash2-depth.html
      nightsweep report dflash2-depth --markdown night.md     (plots in night-plots/)
      nightsweep report dflash2-depth -o dflash2-depth.md
    """
    from nightsweep.analysis.report import report_blocks, title_of

    _refuse_mistaken({"--html": html, "--markdown": beside, "-o": output})
    with access(ctx).queries() as queries:
        told = _told(queries, sweep)
    blocks = report_blocks(told)
    asked = ctx.get_parameter_source("output") is not ParameterSource.DEFAULT  # `-o -` is standard output, too
    if asked or (html is None and beside is None):
        write_output(output, markdown.document(without_plots(blocks)))
    if html is None and beside is None:
        return
    drawn = _drawn(blocks)
    said = _said(blocks, drawn)
    if html is not None:
        from nightsweep.analysis.page import page

        inside = {name: drawing.for_page for name, drawing in (drawn or {}).items()}
        write_output(html, page(said, title=title_of(told.sweep), drawings=inside))
    if beside is not None and is_replaced(beside):
        pictures = _write_pictures(beside, drawn or {})
        write_output(beside, markdown.document(said, pictures=pictures))
    elif beside is not None:  # a pipe has no folder beside it
        write_output(beside, markdown.document(without_plots(blocks)))


def _refuse_mistaken(outputs: Mapping[str, Path | None]) -> None:
    """Refuse files that have no folder, and one file for two outputs (raises BadParameter, UsageError)."""
    by_place: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise click.BadParameter(f"directory {path.absolute().parent} does not exist", param_hint=option)
        first = by_place.setdefault(os.path.realpath(path), option) if is_replaced(path) else option
        if first != option:
            raise click.UsageError(f"{first} and {option} are one file, {path}: give each its own")


def _told(queries: Queries, sweep: str) -> Reported:
    from nightsweep.analysis.report import Reported

    found = find_sweep(queries, sweep)
    of_sweep = Filters(sweep=found.sweep_id, with_flagged="yes")
    windows = queries.windows(of_sweep)
    single_batches, whole_runs = (queries.windows(replace(of_sweep, kind=kind)) for kind in (SINGLE_BATCH, WHOLE_RUN))
    return Reported(
        found,
        boots=queries.boots(of_sweep),
        windows=windows,
        prefills=queries.prefills(of_sweep),
        single_batches=single_batches,
        whole_runs=whole_runs,
        plan=queries.sweep_plan(found.sweep_id),
        expected=queries.expectations(found.sweep_id),
        production=queries.productions(found.sweep_id),
        events=queries.events(found.sweep_id, limit=EVENTS_READ),
        documents=documents_of(queries, [*windows, *single_batches, *whole_runs]),
        software_version=__version__,
    )


def _drawn(blocks: Sequence[Block]) -> Mapping[str, Drawing] | None:
    """Return each plot's drawing by its name; None, and a line to stderr, where matplotlib is not installed."""
    import nightsweep.analysis.numeric  # noqa: F401 (numpy without threads, before matplotlib loads it with them)
    from nightsweep.drawing import can_draw, drawings

    if not can_draw():
        missing = ExtraMissing(what="drawing the plots", package="matplotlib", extra="report")
        click.echo(f"warning: {missing}", err=True)
        return None
    return drawings(figures_of(blocks))


def _said(blocks: Sequence[Block], drawn: Mapping[str, Drawing] | None) -> Sequence[Block]:
    """Return the document; one whose plots could not be drawn says so after its title."""
    if drawn is not None:
        return blocks
    line = f"No plots: drawing them needs matplotlib, which `{INSTALL}` brings."
    return [blocks[0], Paragraph(line, loud=True), *without_plots(blocks[1:])]


def _write_pictures(document: Path, drawn: Mapping[str, Drawing]) -> dict[str, str]:
    """Write the plots into a folder beside the document; return where each lies, as the document refers to it."""
    folder = document.absolute().parent / f"{document.stem}-plots"
    if drawn:
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise Unwritable(path=str(folder), reason=error.strerror or str(error)) from error
    for name, drawing in drawn.items():
        write_file(folder / f"{name}.svg", drawing.for_file)
    return {name: f"{quote(folder.name)}/{name}.svg" for name in drawn}
