"""What was expected of cells, with when that was written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from nightsweep.analysis.expected import Expected
from nightsweep.plan.expect import Prediction
from nightsweep.plan.words import DECODE
from nightsweep.ports import Lease
from nightsweep.store.catalog import config_id
from nightsweep.store.codec import clean_text, two_decimals
from nightsweep.store.leases import hold
from nightsweep.store.schema import cells, configs, expectations, reused_windows, sweep_configs, windows


def predict(connection: sa.Connection, lease: Lease, predictions: Sequence[Prediction], *, at: datetime) -> None:
    """Keep what is expected; what is kept already stays as it was first written.

    Raises:
        LeaseLost: The sweep was taken over.
        NotFound: A config that no sweep has.
    """
    hold(connection, lease)
    ids = {name: config_id(connection, name) for one in predictions for name in (one.config, one.against) if name}
    for one in predictions:
        values = {
            "sweep_id": lease.sweep_id,
            "config_id": ids[one.config],
            "concurrency": one.concurrency,
            "temperature": two_decimals(one.temperature),
            "quantity": one.quantity,
            "source": one.source,
            "low": one.low,
            "high": one.high,
            "against_id": ids[one.against] if one.against else None,
            "basis": clean_text(one.basis),
            "content_key": one.content_key,
            "written_at": at,
        }
        late = connection.scalar(sa.select(_measured(values)))
        connection.execute(insert(expectations).values(**values, after_fact=late).on_conflict_do_nothing())


def _measured(values: dict[str, Any]) -> sa.ColumnElement[bool]:
    """Whether the cell has a window, flagged or not, its own or one taken over."""
    of_cell = [cells.c[key] == values[key] for key in ("sweep_id", "config_id", "concurrency", "temperature")]
    own = sa.exists().where(windows.c.cell_id == cells.c.id, cells.c.kind == DECODE, *of_cell)
    taken = sa.exists().where(reused_windows.c.cell_id == cells.c.id, cells.c.kind == DECODE, *of_cell)
    return own | taken


def expected_of(sweep_id: int) -> sa.Select[Any]:
    """Return the SELECT of a sweep's expectations, in the plan's order; `expected` makes a value of a row."""
    other = configs.alias("against")
    named = sa.and_(
        sweep_configs.c.sweep_id == expectations.c.sweep_id, sweep_configs.c.config_id == expectations.c.config_id
    )
    return (
        sa.select(
            expectations,
            configs.c.hash.label("config_fingerprint"),
            sweep_configs.c.name.label("config"),
            other.c.hash.label("against_fingerprint"),
            other.c.name.label("against"),
        )
        .join(configs, configs.c.id == expectations.c.config_id)
        .join(sweep_configs, named)
        .outerjoin(other, other.c.id == expectations.c.against_id)
        .where(expectations.c.sweep_id == sweep_id)
        .order_by(
            sweep_configs.c.position,
            expectations.c.temperature,
            expectations.c.concurrency,
            expectations.c.quantity,
            expectations.c.id,
        )
    )


def expected(row: Any) -> Expected:
    """Return an expectation as it is kept."""
    return Expected(
        prediction=Prediction(
            config=row.config_fingerprint,
            concurrency=row.concurrency,
            temperature=row.temperature,
            quantity=row.quantity,
            source=row.source,
            low=row.low,
            high=row.high,
            against=row.against_fingerprint,
            basis=row.basis,
        ),
        config=row.config,
        against=row.against,
        written=row.written_at,
        after_fact=row.after_fact,
    )
