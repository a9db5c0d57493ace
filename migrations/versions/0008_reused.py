"""Measurements of earlier sweeps that stand in a sweep's own places: links, no copies."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Bring the database here."""
    op.create_table(
        "reused_windows",
        sa.Column("cell_id", sa.BigInteger(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("window_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["cell_id"], ["cells.id"], name=op.f("fk_reused_windows_cell_id")),
        sa.ForeignKeyConstraint(["window_id"], ["windows.id"], name=op.f("fk_reused_windows_window_id")),
        sa.PrimaryKeyConstraint("cell_id", "repeat", name=op.f("pk_reused_windows")),
        sa.UniqueConstraint("cell_id", "window_id", name=op.f("uq_reused_windows_cell_id_window_id")),
    )
    op.create_index(op.f("ix_reused_windows_window_id"), "reused_windows", ["window_id"])
    op.create_table(
        "reused_prefills",
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("config_id", sa.BigInteger(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("under_load", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("prefill_id", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name=op.f("fk_reused_prefills_config_id")),
        sa.ForeignKeyConstraint(["prefill_id"], ["prefills.id"], name=op.f("fk_reused_prefills_prefill_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_reused_prefills_sweep_id")),
        sa.PrimaryKeyConstraint(
            "sweep_id", "config_id", "tokens", "under_load", "repeat", name=op.f("pk_reused_prefills")
        ),
        sa.UniqueConstraint("sweep_id", "prefill_id", name=op.f("uq_reused_prefills_sweep_id_prefill_id")),
    )
    op.create_index(op.f("ix_reused_prefills_prefill_id"), "reused_prefills", ["prefill_id"])


def downgrade() -> None:
    """Take it back."""
    op.drop_table("reused_prefills")
    op.drop_table("reused_windows")
