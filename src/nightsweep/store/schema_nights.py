"""The tables of nights: what the service starts by itself, and production that it owes."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from nightsweep.store.columns import born, column, document, identity, maybe, metadata, one_of, time, to, words

NIGHT_STATES = ("queued", "submitted", "running", "done", "partial", "failed", "skipped", "missed", "cancelled")

schedules = sa.Table(
    "schedules",
    metadata,
    identity(),
    # The service's own name of its box: a schedule is made before any sweep of it has run.
    column("box", sa.Text),
    column("name", sa.Text),
    column("file_text", sa.Text),
    column("source", sa.Text),
    maybe("base", sa.Text),
    maybe("cron", sa.Text),
    column("timezone", sa.Text),
    maybe("until_time", sa.Text),
    column("priority", sa.Integer, server_default=sa.text("0")),
    column("paused", sa.Boolean, server_default=sa.false()),
    time("once_at"),
    time("night_start"),
    maybe("night_state", sa.Text),
    maybe("note", sa.Text),
    maybe("prefect_run", sa.Text),
    to("sweeps", nullable=True),
    column("runs", sa.Integer, server_default=sa.text("0")),
    column("fruitless", sa.Integer, server_default=sa.text("0")),
    time("retry_at"),
    born(),
    # When cron or zone last changed: no start before it is owed.
    sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
    sa.UniqueConstraint("box", "name"),
    one_of("night_state", NIGHT_STATES),
)

production_intents = sa.Table(
    "production_intents",
    metadata,
    identity(),
    to("boxes"),
    to("sweeps"),
    column("container_name", sa.Text),
    column("container_id", sa.Text),
    column("image", sa.Text),
    maybe("image_digest", sa.Text),
    words("entrypoint"),
    words("command"),
    document("facts"),
    time("restore_by"),
    time("opened_at", nullable=False),
    time("stopped_at"),
    time("restore_started_at"),
    time("closed_at"),
    maybe("outcome", sa.Text),
    document("checks"),
    # What it had served by then; NULL where nobody looked.
    maybe("traffic", JSONB),
    sa.Index(
        "uq_production_intents_one_open",
        "box_id",
        "container_name",
        unique=True,
        postgresql_where=sa.text("closed_at IS NULL"),
    ),
)
