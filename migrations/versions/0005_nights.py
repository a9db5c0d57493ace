"""Nights: sweeps that the service starts by itself, wishes to stop, and how production came back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Bring the database here."""
    op.create_table(
        "schedules",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("box", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("file_text", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("base", sa.Text(), nullable=True),
        sa.Column("cron", sa.Text(), nullable=True),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("until_time", sa.Text(), nullable=True),
        sa.Column("priority", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("paused", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("once_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("night_start", sa.DateTime(timezone=True), nullable=True),
        sa.Column("night_state", sa.Text(), nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("prefect_run", sa.Text(), nullable=True),
        sa.Column("sweep_id", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "night_state IN ('queued', 'submitted', 'running', 'done', 'partial', 'failed', 'skipped', 'missed')",
            name=op.f("ck_schedules_night_state"),
        ),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_schedules_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schedules")),
        sa.UniqueConstraint("box", "name", name=op.f("uq_schedules_box_name")),
    )
    op.add_column("sweeps", sa.Column("stop_wish", sa.Text(), nullable=True))
    op.create_check_constraint(op.f("ck_sweeps_stop_wish"), "sweeps", "stop_wish IN ('finish', 'drop', 'pause')")
    op.add_column(
        "production_intents",
        sa.Column("checks", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
    )
    op.add_column("production_intents", sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("production_intents", sa.Column("restore_started_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Take it back."""
    op.drop_column("production_intents", "restore_started_at")
    op.drop_column("production_intents", "stopped_at")
    op.drop_column("production_intents", "checks")
    op.drop_constraint(op.f("ck_sweeps_stop_wish"), "sweeps")
    op.drop_column("sweeps", "stop_wish")
    op.drop_table("schedules")
