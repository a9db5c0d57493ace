"""Wishes to stop are one column: a cancel is a wish to finish the window, and a paused sweep is a state of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None

STATES = "state IN ('planned', 'running', 'done', 'partial', 'failed', 'cancelled', 'interrupted'"


def upgrade() -> None:
    """Bring the database here."""
    op.execute("UPDATE sweeps SET stop_wish = 'finish' WHERE cancel_requested AND stop_wish IS NULL")
    op.drop_column("sweeps", "cancel_requested")
    op.drop_constraint(op.f("ck_sweeps_state"), "sweeps")
    op.create_check_constraint(op.f("ck_sweeps_state"), "sweeps", STATES + ", 'paused')")


def downgrade() -> None:
    """Take it back."""
    op.execute("UPDATE sweeps SET state = 'partial' WHERE state = 'paused'")
    op.drop_constraint(op.f("ck_sweeps_state"), "sweeps")
    op.create_check_constraint(op.f("ck_sweeps_state"), "sweeps", STATES + ")")
    op.add_column(
        "sweeps", sa.Column("cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False)
    )
    op.execute("UPDATE sweeps SET cancel_requested = true WHERE stop_wish IS NOT NULL")
