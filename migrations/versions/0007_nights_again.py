"""A night that broke off is tried again: how often, when next; and a night that somebody cancelled says so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None

STATES = "night_state IN ('queued', 'submitted', 'running', 'done', 'partial', 'failed', 'skipped', 'missed'"


def upgrade() -> None:
    """Bring the database here."""
    op.add_column("schedules", sa.Column("runs", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("schedules", sa.Column("fruitless", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("schedules", sa.Column("retry_at", sa.DateTime(timezone=True), nullable=True))
    op.drop_constraint(op.f("ck_schedules_night_state"), "schedules")
    op.create_check_constraint(op.f("ck_schedules_night_state"), "schedules", STATES + ", 'cancelled')")


def downgrade() -> None:
    """Take it back."""
    op.execute("UPDATE schedules SET night_state = 'skipped' WHERE night_state = 'cancelled'")
    op.drop_constraint(op.f("ck_schedules_night_state"), "schedules")
    op.create_check_constraint(op.f("ck_schedules_night_state"), "schedules", STATES + ")")
    op.drop_column("schedules", "retry_at")
    op.drop_column("schedules", "fruitless")
    op.drop_column("schedules", "runs")
