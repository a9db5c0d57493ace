"""The sums by cell and conditions. The database keeps them itself, by triggers, as windows are stored (migrations 0010, 0013)."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from nightsweep.store.columns import column, maybe, metadata, time, to, words

NUMBERS = (
    "decode_rate",
    "acceptance_length",
    "acceptance_rate",
    "step_time_s",
    "tokens_per_step_and_stream",
    "occupancy",
    "streams_per_step",
    "report_rate",
    "ttft_p50_s",
    "tpot_p50_s",
)
"""What is summed up: each with windows, boots, mean, sum of squared deviations from it, least and most."""


def _numbers() -> list[sa.Column[Any]]:
    made: list[sa.Column[Any]] = []
    for name in NUMBERS:
        made += [column(f"{name}_{part}", sa.Integer) for part in ("n", "boots")]
        made += [maybe(f"{name}_mean", sa.Double), column(f"{name}_m2", sa.Double)]
        made += [maybe(f"{name}_{part}", sa.Double) for part in ("min", "max")]
    return made


cell_summaries = sa.Table(
    "cell_summaries",
    metadata,
    to("configs"),
    column("kind", sa.Text),
    column("concurrency", sa.Integer),
    column("temperature", sa.Numeric(4, 2)),
    to("conditions"),
    column("box", sa.Text),
    column("simulated", sa.Boolean),
    column("first_window_id", sa.BigInteger),
    column("newest_window_id", sa.BigInteger),
    column("flagged", sa.Integer),
    column("flag_counts", JSONB, server_default=sa.text("'{}'::jsonb")),
    words("engine_versions"),
    words("not_applied"),
    words("notes"),
    *_numbers(),
    time("first_at"),
    time("last_at"),
    sa.PrimaryKeyConstraint(
        "config_id", "kind", "concurrency", "temperature", "conditions_id", "box", "simulated", name="pk_cell_summaries"
    ),
)

boot_summaries = sa.Table(
    "boot_summaries",
    metadata,
    sa.Column("boot_id", sa.BigInteger, sa.ForeignKey("boots.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("kind", sa.Text, primary_key=True),
    column("places", ARRAY(sa.Text)),  # conditions:concurrency:temperature of its clean windows, each once, in order
)
