"""`nightsweep show`: everything that stands behind a number."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import click

from nightsweep.analysis import documents, listings, text, wholes
from nightsweep.analysis.cell_documents import cell_document
from nightsweep.analysis.summary import summarise
from nightsweep.analysis.values import BootRow
from nightsweep.analysis.whole import WholeBoot, WholeWindow, derived_again
from nightsweep.cli import boots, places, render
from nightsweep.cli.reading import Queries, access
from nightsweep.cli.render import Line
from nightsweep.cli.windows_behind import windows_behind

ID = click.IntRange(min=1, max=2**63 - 1)
SEVERAL_BOOTS = "a cell may have several boots: --log needs `show boot ID` or `show window ID`"


@click.command("show")
@click.argument("what", type=click.Choice(["window", "boot", "cell"]))
@click.argument("wanted", metavar="ID")
@places.at_option
@click.option("--sweep", metavar="NAME|ID", help="Of a cell that is named by its config: only this sweep's windows.")
@click.option("--log", "with_log", is_flag=True, help="Print the boot's whole log instead (of a window: its boot's).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document with all raw data, metrics pages too.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    what: str,
    wanted: str,
    at: Sequence[places.Place],
    sweep: str | None,
    with_log: bool,
    as_json: bool,
) -> None:
    """Show a window, boot or cell with its raw data.

    A cell is also named by its config (a name, a shell pattern or a fingerprint), as `cells` lists it: then --at and --sweep say
    which windows of it, and the newest sweeps' are shown first.

    A window's numbers are derived again from its raw readings and held against those that are stored. A boot has its facts
    with the lines they came from; a cell, its windows one by one.

    \b
    Example:
      nightsweep show window 4711
      nightsweep show boot 17 --log
      nightsweep show cell 12 --json
      nightsweep show cell 'dflash2 k=7' --at c=1,T=0.7
    """
    named = what == "cell" and not wanted.isdigit()
    if not named and (at or sweep is not None):
        raise click.UsageError(
            "--at and --sweep need a cell that is named by its config: show cell CONFIG --at c=1,T=0.7"
        )
    if named and with_log:
        raise click.UsageError(SEVERAL_BOOTS)
    number = 0 if named else int(ID(wanted, None, ctx))
    with access(ctx).queries() as queries:
        if named:
            _windows_of(queries, wanted, at=at, sweep=sweep, as_json=as_json)
        elif with_log:
            _log(queries, what, number)
        elif what == "window":
            _window(queries.whole_window(number), as_json=as_json)
        elif what == "boot":
            _boot(queries.whole_boot(number), as_json=as_json)
        else:
            _cell(queries, number, as_json=as_json)


def _log(queries: Queries, what: str, number: int) -> None:
    if what == "cell":
        raise click.UsageError(SEVERAL_BOOTS)
    boot = number if what == "boot" else queries.whole_window(number).boot.boot_id
    boots.print_log(queries.boot_log(boot), boot=boot)


def _window(window: WholeWindow, *, as_json: bool) -> None:
    if as_json:
        render.print_json(wholes.whole_window_document(window))
        return
    row, raw = window.row, window.raw
    simulated = f" [{text.SIMULATED}]" if row.simulated else ""
    head = f"Window {row.window_id}: {text.printable(row.config)}, {text.plural(row.concurrency, 'stream')}, "
    render.write([Line(f"{head}T={text.temperature(row.temperature)}{simulated}", style="title")])
    render.write([Line(f"  {derived_again(window).said}", style="strong")])
    for flag in row.flags:
        render.write([Line(f"  flag {flag}: {text.printable(row.flag_details.get(flag, ''))}", style="flagged")])
    for note in row.notes:
        render.write([Line(f"  note: {text.printable(note)}", style="note")])
    place = {"sweep": f"{row.sweep_name} ({row.sweep_id})", "cell": window.cell_id, "boot": row.boot_id, "box": row.box}
    stored = wholes.stored_shown(window)
    opened = None if raw.before is None else raw.before.at
    seen = (
        *((wholes.counters_table(raw),) if window.has_readings else ()),
        *((wholes.requests_table(raw.requests, opened=opened),) if window.has_requests else ()),
    )
    counted = {"repeat": row.repeat + 1}  # from 1, as all lists have it; --json has the index
    _tables(wholes.facts_table({**place, **stored, **counted}, title="Stored"), *seen)
    for name, side in (("before", raw.before), ("after", raw.after)):
        if side is not None:
            said = f"at {side.at:.6f} s ± {side.uncertainty * 1e3:.2f} ms, {side.wall:%Y-%m-%d %H:%M:%S} UTC"
            render.write(
                [Line(f"reading {name}: {said}, page of {text.count(len(side.raw))} bytes (--json prints it)")]
            )
    if window.box_samples:
        render.write([Line(f"box samples: {len(window.box_samples)} (--json prints them)")])
    _documents({"Box state": row.box_state, "Conditions": window.conditions, "Config": window.config_document})
    _command(window.boot)


def _boot(boot: WholeBoot, *, as_json: bool) -> None:
    if as_json:
        render.print_json(wholes.whole_boot_document(boot))
        return
    render.print_boots([boot.row], title=f"Boot {boot.row.boot_id}")
    shown = {name: value for name, value in boot.stored.items() if name not in ("facts", "applied", "command", "fence")}
    _tables(wholes.facts_table(shown, title="Stored"))
    if boot.row.facts.get("facts"):
        _tables(wholes.statements_table(boot.row.facts))
    proof = {} if boot.row.source else boot.stored.get("applied") or {}
    render.write([Line(""), Line("Applied config", style="title")])
    render.write([Line(f"  {line}") for line in (_proven(boot.row, proof), *listings.boot_notes(boot.row)) if line])
    _documents({"Proof": proof, "Config": boot.config_document})
    _command(boot.row)
    if boot.windows:
        _tables(wholes.windows_table(boot.windows, title="Windows"))
    if boot.prefills:
        _tables(listings.prefill_rows_table(boot.prefills, title="Prefills"))


def _proven(boot: BootRow, proof: Mapping[str, Any]) -> str:
    """Return what is known of whether a boot's config was applied; empty where its notes say what was not."""
    if boot.source:
        return f"no proof: {boot.source}, and an import proves nothing; the config is what its file states"
    if not proof:
        return "no proof: the boot was never ready"
    return "" if proof.get("not_applied") else "everything was applied as asked"


def _cell(queries: Queries, number: int, *, as_json: bool) -> None:
    rows = queries.windows_of_cell(number)
    cells = summarise(rows)
    if as_json:
        documented = [documents.window_document(row) for row in rows]
        render.print_json({"cells": [cell_document(cell) for cell in cells], "windows": documented})
    elif not rows:
        render.write([Line(f"cell {number} has no windows")])
    else:
        render.print_cells(cells, title=f"Cell {number} of sweep {text.printable(rows[0].sweep_name)}")
        _tables(wholes.windows_table(rows, title="Windows"))


def _windows_of(queries: Queries, config: str, *, at: Sequence[places.Place], sweep: str | None, as_json: bool) -> None:
    found, left = windows_behind(queries, config, at=at, sweep=sweep)
    rows = [row for _, windows in found for row in windows]
    cells = summarise(rows)
    if as_json:
        documented = [documents.window_document(row) for row in rows]
        render.print_json({"cells": [cell_document(cell) for cell in cells], "windows": documented, "left_out": left})
        return
    render.print_cells(cells, title="Cells of these windows")
    _tables(*(wholes.windows_table(windows, title=title) for title, windows in found))
    if left:
        render.write(
            [Line(f"{text.plural(left, 'window')} of older sweeps left out: name one (--sweep)", style="note")]
        )


def _tables(*shown: Any) -> None:
    for table in shown:
        render.write([Line("")])
        render.show(table)


def _documents(named: Mapping[str, Any]) -> None:
    for name, document in named.items():
        if document:
            lines: Sequence[str] = json.dumps(
                documents.finite(document), indent=2, default=documents.plain_json
            ).splitlines()
            render.write([Line(""), Line(name, style="title"), *(Line(line) for line in lines)])


def _command(boot: BootRow) -> None:
    if boot.command:
        render.write([Line(""), Line("Command", style="title"), Line(text.printable(shlex.join(boot.command)))])
