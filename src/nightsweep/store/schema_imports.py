"""The table of imports: what came from another tool's files, and is weaker for it."""

from __future__ import annotations

import sqlalchemy as sa

from nightsweep.store.columns import born, column, identity, metadata, time, to

imports = sa.Table(
    "imports",
    metadata,
    identity(),
    to("sweeps"),
    column("tool", sa.Text),
    # Its name alone: where it lay on somebody's disk is nobody's business.
    column("file", sa.Text),
    column("content_hash", sa.Text),
    column("rows_found", sa.Integer),
    column("rows_added", sa.Integer),
    time("imported_at", nullable=False),
    born(),
    sa.UniqueConstraint("sweep_id", "content_hash"),
)
