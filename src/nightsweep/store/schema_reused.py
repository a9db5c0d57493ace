"""The tables of reuse: measurements of earlier sweeps that stand in a sweep's own places. Links, no copies."""

from __future__ import annotations

import sqlalchemy as sa

from nightsweep.store.columns import born, metadata, to

reused_windows = sa.Table(
    "reused_windows",
    metadata,
    to("cells", primary_key=True),
    sa.Column("repeat", sa.Integer, primary_key=True),
    to("windows"),
    born(),
    sa.UniqueConstraint("cell_id", "window_id"),
    sa.Index(None, "window_id"),
)

reused_prefills = sa.Table(
    "reused_prefills",
    metadata,
    to("sweeps", primary_key=True),
    to("configs", primary_key=True),
    sa.Column("tokens", sa.BigInteger, primary_key=True),
    sa.Column("under_load", sa.Integer, primary_key=True),
    sa.Column("repeat", sa.Integer, primary_key=True),
    to("prefills"),
    born(),
    sa.UniqueConstraint("sweep_id", "prefill_id"),
    sa.Index(None, "prefill_id"),
)
