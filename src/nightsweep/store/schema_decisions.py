"""The tables of what was expected before a run, and of what was decided after it."""

from __future__ import annotations

import sqlalchemy as sa

from nightsweep.plan.words import QUANTITIES, SOURCES
from nightsweep.store.columns import born, column, document, identity, maybe, metadata, one_of, time, to, words

expectations = sa.Table(
    "expectations",
    metadata,
    identity(),
    to("sweeps"),
    to("configs"),
    column("concurrency", sa.Integer),
    column("temperature", sa.Numeric(4, 2)),
    column("quantity", sa.Text),
    column("source", sa.Text),
    maybe("low", sa.Double),
    maybe("high", sa.Double),
    to("configs", name="against_id", nullable=True),
    column("basis", sa.Text),
    # Over what is expected of what: written once, however often the sweep is started.
    column("content_key", sa.Text),
    time("written_at", nullable=False),
    column("after_fact", sa.Boolean),
    born(),
    sa.UniqueConstraint("sweep_id", "content_key"),
    one_of("quantity", QUANTITIES),
    one_of("source", SOURCES),
    sa.CheckConstraint("low IS NOT NULL OR high IS NOT NULL", name="says_something"),
    sa.CheckConstraint("(quantity = 'ratio') = (against_id IS NOT NULL)", name="ratio_is_against_another"),
)

decisions = sa.Table(
    "decisions",
    metadata,
    identity(),
    to("sweeps"),
    to("configs", name="chosen_id"),
    to("configs", name="fallback_id"),
    column("question", sa.Text),
    words("factors"),
    document("evidence"),
    document("premises"),
    document("accepted"),
    time("decided_at", nullable=False),
    time("retired_at"),
    maybe("retired_why", sa.Text),
    born(),
    sa.CheckConstraint("(retired_at IS NULL) = (retired_why IS NULL)", name="retired_says_why"),
    sa.Index(None, "sweep_id"),
)

decision_windows = sa.Table(
    "decision_windows",
    metadata,
    to("decisions", primary_key=True),
    to("windows", primary_key=True),
    sa.Index(None, "window_id"),
)
