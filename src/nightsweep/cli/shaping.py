"""Which columns of a listing are shown, in which order, how many, and where to: the same options for every list."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from nightsweep.analysis import records
from nightsweep.analysis.documents import Document, finite, header_of
from nightsweep.cli import render
from nightsweep.cli.outputs import OutputFile, write_file
from nightsweep.errors import ExtraMissing

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """What was asked for.

    Attributes:
        columns: Words for columns; empty is all of them.
        sort: Words for columns, each with "-" for the greatest first.
        limit: Rows at most; None is all.
        parquet: File to write.
    """

    columns: tuple[str, ...] = ()
    sort: tuple[str, ...] = ()
    limit: int | None = None
    parquet: Path | None = None

    def arranged(self, items: Sequence[T], *, record: Callable[[T], Mapping[str, Any]]) -> list[T]:
        """Return the items in the asked order, cut at the limit (raises BadParameter for a column that there is not)."""
        try:
            return records.in_order(items, self.sort, record=record)[: self.limit]
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--sort") from error

    def names(self, fields: Sequence[str]) -> list[str]:
        """Return the chosen columns' names (raises BadParameter for one that there is not, of the order, too)."""
        every = [path.replace(".", "_") for path in fields]
        self.arranged([dict.fromkeys(every)], record=lambda names: names)  # of an empty list, too
        try:
            return list(dict.fromkeys(records.column_of(word, every) for word in self.columns)) or every
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--columns") from error


def shape_options(command: F) -> F:
    """Add `--columns`, `--sort`, `--limit` and `--parquet`; the command takes them by these names, for `Shape`."""
    options = (
        click.option(
            "--columns", metavar="A,B", callback=_words, help="Only these columns; --csv shows which there are."
        ),
        click.option("--sort", metavar="A,-B", callback=_words, help="In this order; -B from the greatest down."),
        click.option("--limit", metavar="N", type=click.IntRange(min=1), help="At most so many rows."),
        click.option(
            "--parquet",
            metavar="FILE",
            type=OutputFile(),
            help="Write a Parquet file (needs nightsweep[notebook]).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True)
class Listing:
    """Rows of one kind, ready to be shown.

    Attributes:
        name: Key of the rows in the JSON document.
        documents: One for each row.
        fields: Columns as paths into a document.
        rows: What makes rows of CSV, of such paths, where that needs no documents.
    """

    name: str
    documents: Sequence[Document]
    fields: Sequence[str]
    title: str
    simulated: bool = False
    rows: Callable[[Sequence[str]], Sequence[Sequence[Any]]] | None = None

    @property
    def columns(self) -> list[str]:
        """All columns by name."""
        return list(header_of(self.fields))

    def paths(self, names: Sequence[str]) -> list[str]:
        """Return the paths of columns, in the order of their names."""
        path_of = dict(zip(self.columns, self.fields, strict=True))
        return [path_of[name] for name in names]

    def records(self, names: Sequence[str]) -> list[records.Record]:
        """Return the rows as flat records of some columns, in the order of their names."""
        paths = self.paths(names)
        return [records.record_of(document, paths) for document in self.documents]


def shown(listing: Listing, shape: Shape, *, form: str) -> bool:
    """Show the rows as asked for, and return True; False where the listing's own table is what was asked for."""
    names = shape.names(listing.fields)
    if shape.parquet is not None and form != "table":
        raise click.UsageError(f"--parquet writes its file and prints nothing: leave --{form} out, or ask once more")
    if shape.parquet is not None:
        write_parquet(listing.records(names), columns=names, path=shape.parquet)
        return True
    if form == "csv":
        chosen = listing.paths(names)
        if listing.rows is None:
            render.print_csv(listing.documents, fields=chosen)
        else:
            render.print_rows(header_of(chosen), listing.rows(chosen))
        return True
    if not shape.columns:
        return False
    names = names if form == "json" else records.with_runs(names, listing.columns)
    rows = listing.records(names)
    if form == "json":
        render.print_json({listing.name: rows})
    else:
        render.show(records.columns_table(rows, columns=names, title=listing.title, simulated=listing.simulated))
    return True


def show(listing: Listing, shape: Shape, *, form: str, asked: str, table: Callable[[], None]) -> None:
    """Show a listing in the form that was asked for.

    Args:
        asked: The filters in words, for a listing without rows.
        table: Prints the listing's own table.
    """
    if shown(listing, shape, form=form):
        return
    if form == "json":
        render.print_json({listing.name: listing.documents})
    elif not listing.documents:
        render.write([render.Line(f"no {listing.name} match {asked}".rstrip())])
    else:
        table()


def write_parquet(rows: Sequence[records.Record], *, columns: Sequence[str], path: Path) -> None:
    """Write the records as a Parquet file; mappings become JSON text.

    Raises:
        ExtraMissing: pyarrow is not installed.
        Unwritable: The file cannot be written.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ExtraMissing(what="--parquet", package="pyarrow", extra="notebook") from error
    table = pyarrow.table({name: [_cell(row[name]) for row in rows] for name in columns})
    written = pyarrow.BufferOutputStream()
    parquet.write_table(table, written)
    write_file(path, written.getvalue().to_pybytes())
    click.echo(f"wrote {len(rows):,} rows to {path}", err=True)


def _cell(value: Any) -> Any:
    if isinstance(value, Mapping):
        return json.dumps(finite(value), sort_keys=True)
    return list(value) if isinstance(value, tuple) else value


def _words(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    words = tuple(word.strip() for word in (value or "").split(",") if word.strip())
    if value is not None and not words:
        raise click.BadParameter("names no column", ctx=ctx, param=param)
    return words
