"""`docs/schema.md` is of this schema: every table is in it, and nothing that is not there."""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa

from nightsweep.store.schema import metadata

TEXT = (Path(__file__).parents[3] / "docs" / "schema.md").read_text(encoding="utf-8")
DRAWING = TEXT.split("```mermaid", 1)[1].split("```", 1)[0]


def rows_of_the_table_list() -> dict[str, str]:
    return dict(re.findall(r"^\| `(\w+)` \| (.*)$", TEXT.split("## What cannot happen")[0], re.MULTILINE))


def boxes_of_the_drawing() -> dict[str, list[str]]:
    found = re.findall(r"^ +(\w+) \{ (.*) \}$", DRAWING, re.MULTILINE)
    return {table: [part.split()[1] for part in re.split(r" {2,}", columns)] for table, columns in found}


def constraint_names() -> set[str]:
    names: set[str] = set()
    for table in metadata.tables.values():
        names |= {str(index.name) for index in table.indexes}
        names |= {_named(each) for each in table.constraints}
    return names


def _named(constraint: sa.Constraint) -> str:
    from sqlalchemy.dialects import postgresql

    compiled = str(sa.schema.AddConstraint(constraint).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    return compiled.split("ADD CONSTRAINT ", 1)[1].split(" ", 1)[0]


def test_every_table_is_described_and_drawn_and_no_other() -> None:
    assert set(rows_of_the_table_list()) == set(metadata.tables)
    assert set(boxes_of_the_drawing()) == set(metadata.tables)


def test_every_column_that_is_drawn_is_there() -> None:
    for table, columns in boxes_of_the_drawing().items():
        assert set(columns) <= set(metadata.tables[table].c.keys()), table


def test_every_column_that_is_described_is_there() -> None:
    for table, text in rows_of_the_table_list().items():
        named = {word for word in re.findall(r"`(\w+)`", text) if word not in metadata.tables}
        assert named <= set(metadata.tables[table].c.keys()), table


def test_the_lines_of_the_drawing_are_the_foreign_keys() -> None:
    drawn = set(re.findall(r"^ +(\w+) \|\|--\S+ (\w+) :", DRAWING, re.MULTILINE))
    keys = {
        (foreign.column.table.name, table.name) for table in metadata.tables.values() for foreign in table.foreign_keys
    }
    assert drawn == keys


def test_every_constraint_that_is_named_is_there() -> None:
    named = set(re.findall(r"`((?:uq|ck)_\w+)`", TEXT))
    assert named
    assert named <= constraint_names()
