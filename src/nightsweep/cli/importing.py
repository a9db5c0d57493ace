"""`nightsweep import`: other tools' results, so that a history does not start empty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import click
from click.core import ParameterSource

from nightsweep.analysis import text
from nightsweep.analysis.import_reading import Said, read_file, said_columns
from nightsweep.analysis.imported import ImportedFile, ImportedRow, boots_at_odds, told_apart, tools_of
from nightsweep.analysis.tables import Column, Group, Row, Table
from nightsweep.cli import render
from nightsweep.errors import InvalidImport

if TYPE_CHECKING:
    from nightsweep.store.imports import Kept, OtherName
    from nightsweep.store.unimported import Removed

ROWS_SHOWN = 200
MOST_PROBLEMS = 20
OF_A_REMOVAL = ("remove", "dry_run", "as_json")
NOT_RESULTS = ("warmup.json", "summary.json", ".failure.json", ".pytorch.json", "-failure.json")
"""How files end that a sweep or a client writes beside its results."""


class Imports(Protocol):
    """What the command asks of the store."""

    def keep(self, files: Sequence[ImportedFile], *, name: str, at: datetime) -> list[Kept]:
        """Keep the files' rows."""

    def remove(self, name: str) -> list[Removed]:
        """Remove imported sweeps; return them."""

    def removal(self, name: str) -> list[Removed]:
        """Return what removing them would take out."""

    def trial(self, files: Sequence[ImportedFile], *, name: str, at: datetime) -> list[Kept]:
        """Return what keeping them would bring."""


@dataclass(frozen=True)
class Reach:
    """What the command reaches; passed as the click context's object to store somewhere else."""

    imports: Callable[[], AbstractContextManager[Imports]]
    now: Callable[[], datetime]


def _zone(ctx: click.Context, param: click.Parameter, value: str) -> tzinfo:
    try:
        return ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise click.BadParameter(f"{value!r} is no time zone: write Europe/Amsterdam", ctx=ctx, param=param) from error


def _columns(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Mapping[str, str]:
    try:
        return said_columns(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error


@click.command("import")
@click.argument("paths", metavar="FILE...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--name", metavar="NAME", help="What the sweep is called; without it, as the file or the folder is.")
@click.option("--box", metavar="NAME", help="The box that it was measured on, or `unknown`.")
@click.option("--temperature", metavar="T", help="Of all rows, or `unknown`: vLLM's client does not write it.")
@click.option("--date", metavar="DATE", help="When all of it was measured: 2026-05-12, 2026-05, or `unknown`.")
@click.option(
    "--timezone", "zone", default="UTC", show_default=True, callback=_zone, help="Of moments that name no zone."
)
@click.option(
    "--set",
    "columns",
    metavar="COLUMN=VALUE",
    multiple=True,
    callback=_columns,
    help="A column of all rows, whatever the files have there: image=..., speculative.method=mtp. Repeatable.",
)
@click.option("--skip-open-loop", is_flag=True, help="Leave out runs that held no number of streams.")
@click.option("--remove", metavar="NAME", help="Take imported sweeps of this name out again, instead of importing.")
@click.option("--dry-run", is_flag=True, help="Show what would be stored, or removed, and change nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
@click.pass_context
def command(
    ctx: click.Context,
    *,
    paths: tuple[Path, ...],
    name: str | None,
    box: str | None,
    temperature: str | None,
    date: str | None,
    zone: tzinfo,
    columns: Mapping[str, str],
    skip_open_loop: bool,
    remove: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Import results of `vllm bench serve --save-result`, of `vllm bench sweep` (its folder), or a plain CSV.

    What is imported is labelled everywhere, never pooled with windows that were measured here, and compared with them only with
    --across. All of it is stored or nothing, and nothing twice. See docs/importing.md for the columns.

    \b
    Example:
      nightsweep import results.json --box spark-1 --temperature 0.7 --set engine=vllm --set speculative.method=mtp
      nightsweep import results/20260512_221500 --box spark-1 --temperature 0 --dry-run
      nightsweep import table.csv --name spring
      nightsweep import --remove spring
    """
    reached = ctx.find_object(Reach) or _wired()
    if (remove is None) == (not paths):
        raise click.UsageError("name files to import, or --remove NAME")
    if remove is not None:
        _nothing_else(ctx)
        _remove(reached, remove, dry_run=dry_run, as_json=as_json)
        return
    given = _given(columns, {"box": box, "temperature": temperature, "date": date})
    files = _read(paths, Said(given, zone, now=reached.now(), skip_open_loop=skip_open_loop))
    called = name or _named(paths)
    with reached.imports() as store:
        kept = (store.trial if dry_run else store.keep)(files, name=called, at=reached.now())
    if as_json:
        render.print_json(_document(files, kept, name=called, stored=not dry_run))
    else:
        _print(files, kept, name=called, dry_run=dry_run)


def _nothing_else(ctx: click.Context) -> None:
    """Raise UsageError where an option is given that says nothing of a removal."""
    said = [
        max(param.opts, key=len)
        for param in ctx.command.params
        if param.name not in OF_A_REMOVAL and ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    ]
    if said:
        raise click.UsageError(f"--remove takes whole sweeps out, on every box: leave {' and '.join(said)} out")


def _remove(reached: Reach, name: str, *, dry_run: bool, as_json: bool) -> None:
    with reached.imports() as store:
        removed = (store.removal if dry_run else store.remove)(name)
    if as_json:
        gone = [{"sweep_id": one.sweep_id, "box": one.box, "rows_removed": one.rows} for one in removed]
        render.print_json({"name": name, "removed": not dry_run, "sweeps": gone})
        return
    would = "would be " if dry_run else ""
    lines = [
        f"sweep {name} of box {one.box} (id {one.sweep_id}): {text.plural(one.rows, 'imported row')} {would}removed"
        for one in removed
    ]
    render.write([render.Line(line) for line in lines])


def _given(columns: Mapping[str, str], options: Mapping[str, str | None]) -> dict[str, str]:
    """Return the columns that stand for every row (raises UsageError where --set and an option say different things)."""
    given = dict(columns)
    for column, value in options.items():
        if value is not None and given.setdefault(column, value) != value:
            raise click.UsageError(f"--{column} {value} and --set {column}={given[column]}: say one of them")
    return given


# --- files -----------------------------------------------------------------------------------------------------------


def _read(paths: Sequence[Path], said: Said) -> list[ImportedFile]:
    """Return all files' rows (raises InvalidImport with what is wrong in all of them)."""
    files, problems = [], []
    for path, name, of_sweep in (one for given in paths for one in _found(given)):
        try:
            files.append(
                read_file(_bytes(path), name=name, said=said, of_sweep=of_sweep, folder=path.absolute().parent.name)
            )
        except InvalidImport as error:
            problems += error.facts["problems"]
    problems = problems or [*told_apart(files), *boots_at_odds(files)][:MOST_PROBLEMS]
    if problems:
        raise InvalidImport(problems=tuple(problems))
    if not any(file.rows for file in files):
        left_out = [one for file in files for one in file.skipped] or ["no row is left to import"]
        raise InvalidImport(problems=tuple(left_out))
    return files


def _found(path: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield the files that a path stands for: (where, what it is called, whether a sweep's folder holds it)."""
    if not path.is_dir():
        yield path, path.name, False
        return
    runs = sorted(path.rglob("run=*.json"))
    results = [one for one in sorted(path.glob("*.json")) if not one.name.endswith(NOT_RESULTS)]
    runs = [one for one in runs if not one.name.endswith(NOT_RESULTS)]
    if not runs and not results:
        said = "the folder holds neither results of a sweep (SERVE-...-BENCH-.../run=0.json) nor of a client (*.json)"
        raise InvalidImport(problems=(f"{path.name}: {said}",))
    for one in runs or results:
        yield one, one.relative_to(path).as_posix(), bool(runs)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidImport(problems=(f"{path}: {error.strerror or error}",)) from error


def _named(paths: Sequence[Path]) -> str:
    first = paths[0].resolve()
    if len(paths) > 1 and not first.is_dir():
        return first.parent.name
    return first.name if first.is_dir() else first.stem


# --- what is said ----------------------------------------------------------------------------------------------------


def _print(files: Sequence[ImportedFile], kept: Sequence[Kept], *, name: str, dry_run: bool) -> None:
    rows = [row for file in files for row in file.rows]
    if dry_run:
        render.show(_table(rows, title=f"{name}: what would be stored"))
        render.write([render.Line("")])
    render.write([render.Line(line) for line in _said(files, kept, name=name, dry_run=dry_run)])


def _said(files: Sequence[ImportedFile], kept: Sequence[Kept], *, name: str, dry_run: bool) -> Iterator[str]:
    would = "would be " if dry_run else ""
    for one in kept:
        known = sum(one.known.values())
        where = f"sweep {name} of box {one.box}" + (f" (id {one.sweep_id})" if one.sweep_id and not dry_run else "")
        new = f"{text.plural(one.added, 'row')} of {text.plural(one.configs, 'config')} {would}stored in {where}"
        yield new if one.added else f"nothing new for box {one.box}"
        if known:
            yield f"  {text.plural(known, 'row')} stored already, in sweep {text.several(one.known)}: left alone"
        yield from (f"  {_called_there(config, name)}" for config, name in one.known_as.items())
        yield from (f"  {_renamed(other)}" for other in one.other_names)
    flagged = Counter(flag for file in files for row in file.rows for flag in row.flags)
    for flag, times in flagged.items():
        yield f"{text.plural(times, 'row')} flagged {flag}: stored, and in no mean"
    notes = dict.fromkeys(note for file in files for row in file.rows for note in row.all_notes)
    yield from (f"note: {note}" for note in notes)
    yield from (f"left out: {skipped}" for file in files for skipped in file.skipped)
    listed = [f"`nightsweep cells --sweep {one.sweep_id}`" for one in kept if one.added]
    if listed and not dry_run:  # by id: the sweeps of several boxes have one name
        yield f"{' and '.join(listed)} {'lists' if len(listed) == 1 else 'list'} them"


def _renamed(one: OtherName) -> str:
    config, known_as, sweep = map(text.printable, (one.config, one.known_as, one.sweep))
    if one.here:
        return (
            f"config {config} has the content of {known_as}, and is called so: in sweep {sweep} the first name stands"
        )
    return f"config {config} has the content of {known_as} in sweep {sweep}: one config, of which equal conditions pool"


def _called_there(config: str, name: str) -> str:
    config, name = text.printable(config), text.printable(name)
    return f"config {config} is called {name} there: rows that differ in the config's name alone are not stored twice"


def _table(rows: Sequence[ImportedRow], *, title: str) -> Table:
    columns = (
        Column("config", right=False),
        Column("kind", right=False),
        Column("streams"),
        Column("T"),
        Column("rate", "tokens/s"),
        Column("runs"),
        Column("measured", "UTC", right=False),
        Column("box", right=False),
        Column("from", right=False),
    )
    lines = tuple(
        Row(
            (
                text.printable(row.config),
                row.kind,
                str(row.concurrency),
                text.temperature(row.temperature),
                text.number(row.rate, digits=2),
                text.ABSENT if row.runs is None else str(row.runs),
                text.ABSENT if row.date is None else text.moment(row.date),
                text.printable(row.box),
                text.printable(row.place),
            ),
            mark="flagged" if row.flags else "",
        )
        for row in rows[:ROWS_SHOWN]
    )
    notes = (f"and {len(rows) - ROWS_SHOWN} more rows",) if len(rows) > ROWS_SHOWN else ()
    return Table(title, columns, (Group("", lines),), notes=notes)


def _document(files: Sequence[ImportedFile], kept: Sequence[Kept], *, name: str, stored: bool) -> dict[str, Any]:
    return {
        "name": name,
        "stored": stored,
        "tools": tools_of(files),
        "boxes": [
            {
                "box": one.box,
                "sweep_id": one.sweep_id if stored else None,
                "rows_added": one.added,
                "configs": one.configs,
                "rows_known": dict(one.known),
                "rows_known_as": dict(one.known_as),
                "other_names": [
                    {
                        "config": other.config,
                        "known_as": other.known_as,
                        "sweep": other.sweep,
                        "stored_as": other.known_as if other.here else other.config,
                    }
                    for other in one.other_names
                ],
            }
            for one in kept
        ],
        "skipped": [skipped for file in files for skipped in file.skipped],
        "rows": [_row_document(row) for file in files for row in file.rows],
    }


def _row_document(row: ImportedRow) -> dict[str, Any]:
    return {
        "config": row.config,
        "config_fingerprint": row.fingerprint,
        "kind": row.kind,
        "concurrency": row.concurrency,
        "temperature": text.temperature_or_none(row.temperature),
        "rate_tokens_per_second": row.rate,
        "runs": row.runs,
        "date": None if row.date is None else row.date.isoformat(),
        "box": row.box,
        "source": row.source,
        "file": row.file,
        "line": row.line,
        "conditions": row.all_conditions,
        "flags": dict(row.flags),
        "notes": list(row.all_notes),
    }


def _wired() -> Reach:
    from nightsweep import wiring

    return Reach(imports=lambda: wiring.open_imports(wiring.settings()), now=lambda: datetime.now(UTC))
