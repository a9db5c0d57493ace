"""Readings of production's traffic in an intent's document: the newest, and those before it while the intent stayed open."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB, JSONPATH

from nightsweep.measurement.traffic import ENOUGH

EARLIER = "earlier"
"""Key of the readings that a newer one took the place of, newest first."""

KEPT = 9
"""Earlier readings of one open intent: of so many sweeps that died one after another without bringing production back."""

Document = sa.ColumnElement[Any]


def telling(document: Document) -> sa.ColumnElement[bool]:
    """Return whether a reading tells a mean, as `Traffic.unknown` has it; NULL of no document."""
    there = [document.has_key(name) for name in ("prompt_tokens", "generation_tokens")]
    enough = sa.func.coalesce(document["requests"] >= sa.cast(ENOUGH, JSONB), sa.false())
    return sa.and_(enough, ~document.has_key("problem"), *there)


def read_at(document: Document) -> sa.ColumnElement[datetime]:
    """Return when a reading was made."""
    return sa.cast(document["read"].astext, sa.DateTime(timezone=True))


def each(document: Document) -> sa.TableValuedAlias:
    """Return a document's readings as rows of one column, `value`."""
    every = sa.func.jsonb_build_array(document, type_=JSONB).concat(_earlier(document))
    return sa.func.jsonb_array_elements(every).table_valued(sa.column("value", JSONB), name="reading")


def kept(old: Document, new: Document, *, tells: bool) -> sa.ColumnElement[Any]:
    """Return the document of an open intent after another reading.

    A count of production that ran once more is the newest; what was counted before it stays beside it, for what was measured
    then. Where production was down (no reading) or nothing could be counted, the old one stays, with its own time.

    Args:
        tells: Whether the new one tells a mean.
    """
    if not tells:
        return sa.func.coalesce(old, new)
    alone = old.op("-")(sa.literal(EARLIER, sa.Text))
    before = sa.func.jsonb_build_array(alone, type_=JSONB).concat(_earlier(old))
    before = sa.func.jsonb_path_query_array(before, sa.cast(f"$[0 to {KEPT - 1}]", JSONPATH))
    with_before = new.concat(sa.func.jsonb_build_object(EARLIER, before, type_=JSONB))
    return sa.case((old["read"] == new["read"], old), (telling(old), with_before), else_=new)


def _earlier(document: Document) -> sa.ColumnElement[Any]:
    return sa.func.coalesce(document[EARLIER], sa.cast([], JSONB), type_=JSONB)
