"""What of an open intent stays, and what is new, when another sweep finds it open and takes production over."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from nightsweep.store.columns import NOW
from nightsweep.store.schema_nights import production_intents as table

RECORD = "record"
"""Key of an intent's facts: all that bringing production back needs."""

TAKEN_OVER = "taken_over"
"""Key of an intent's facts: the sweeps (`sweep_id`) that had it before the one that has it now, oldest first, and when each
lost it to the next (`at`)."""

REPLACED = "replaced"
"""Key of an intent's facts: records of containers in whose place somebody made another one, oldest first."""

OF_SWEEP = ("sweep_id", "restore_by")
OF_CONTAINER = ("container_id", "image", "image_digest", "entrypoint", "command")


def newest(excluded: Any, *, replaces: bool) -> dict[str, Any]:
    """Return the values that an open intent takes from the one that is opened in its place.

    Args:
        replaces: What is recorded now is to come back instead; what was recorded before is kept beside it.
    """
    names = (*OF_SWEEP, *(OF_CONTAINER if replaces else ()))
    return {**{name: excluded[name] for name in names}, "facts": _facts(excluded, replaces=replaces)}


def of_sweep(sweep_id: int) -> sa.ColumnElement[bool]:
    """Return whether a sweep took an intent's production down, whoever has it now."""
    return sa.or_(table.c.sweep_id == sweep_id, table.c.facts[TAKEN_OVER].contains([{"sweep_id": sweep_id}]))


def taken_over(row: Any, *, sweep_id: int) -> datetime | None:
    """Return since when a later sweep has an intent that was a sweep's; None where it still is that sweep's own."""
    return None if row.sweep_id == sweep_id else datetime.fromisoformat(row.facts[TAKEN_OVER][-1]["at"])


def _facts(excluded: Any, *, replaces: bool) -> sa.ColumnElement[Any]:
    facts: Any = table.c.facts
    who = ("sweep_id", table.c.sweep_id, "at", NOW)
    if replaces:
        old = (*who, "container_id", table.c.container_id, RECORD, table.c.facts[RECORD])
        facts = facts.concat(excluded.facts).concat(_appended(REPLACED, *old))
    handed = facts.concat(_appended(TAKEN_OVER, *who))
    return sa.case((table.c.sweep_id != excluded.sweep_id, handed), else_=facts)


def _appended(key: str, *entry: Any) -> Any:
    """Return a document of one list of the facts, with an entry of keys and values in turn at its end."""
    listed = sa.func.coalesce(table.c.facts[key], sa.cast([], JSONB), type_=JSONB)
    added = sa.func.jsonb_build_array(sa.func.jsonb_build_object(*entry, type_=JSONB), type_=JSONB)
    return sa.func.jsonb_build_object(key, listed.concat(added), type_=JSONB)
