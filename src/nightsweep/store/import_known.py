"""Which rows of an import are stored already: one is known by its content, also where its config was called otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Sequence

import sqlalchemy as sa

from nightsweep.analysis.imported import ImportedFile, contents, contents_under
from nightsweep.store.schema import cells, configs, imports, sweeps, windows


def known_contents(connection: sa.Connection) -> dict[str, str]:
    """Return the content hashes of all imported windows, with the names of their sweeps."""
    source = windows.join(cells, cells.c.id == windows.c.cell_id).join(sweeps, sweeps.c.id == cells.c.sweep_id)
    wanted = sa.select(windows.c.content_hash, sweeps.c.name).select_from(source)
    wanted = wanted.where(cells.c.sweep_id.in_(sa.select(imports.c.sweep_id)))
    return {str(row.content_hash): str(row.name) for row in connection.execute(wanted)}


def known_otherwise(
    connection: sa.Connection, files: Sequence[ImportedFile], known: Container[str]
) -> dict[str, tuple[str, str]]:
    """Return the rows that stand under another name of their config and differ in nothing else.

    Returns:
        By a row's content hash, the hash that is stored, and the name that this holds.
    """
    names = _names(connection, {row.fingerprint for file in files for row in file.rows})
    found = {}
    for file in files:
        for content, others in zip(contents(file.rows), contents_under(file.rows, names), strict=True):
            stored = None if content in known else next((other for other in others if other in known), None)
            if stored is not None:
                found[content] = (stored, others[stored])
    return found


def _names(connection: sa.Connection, fingerprints: Collection[str]) -> dict[str, list[str]]:
    """Return what files have called these configs, by fingerprint: the names that their rows' content hashes hold."""
    source = windows.join(cells, cells.c.id == windows.c.cell_id).join(configs, configs.c.id == cells.c.config_id)
    imported = windows.c.facts["imported"]
    written = sa.func.btrim(imported["columns"]["config"].astext)  # of rows that were kept without "named"
    name = sa.func.coalesce(imported["named"].astext, written).label("name")
    wanted = sa.select(configs.c.hash, name).select_from(source).distinct().order_by(configs.c.hash, name)
    wanted = wanted.where(cells.c.sweep_id.in_(sa.select(imports.c.sweep_id)), configs.c.hash.in_(fingerprints))
    found = defaultdict(list)
    for row in connection.execute(wanted):
        if row.name:
            found[str(row.hash)].append(str(row.name))
    return found
