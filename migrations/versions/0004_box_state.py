"""What the box did while a window was measured: a summary beside the window, and the samples."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Bring the database here."""
    op.add_column("windows", sa.Column("box", postgresql.JSONB(), nullable=True))
    op.create_table(
        "box_samples",
        sa.Column("window_id", sa.BigInteger(), nullable=False),
        sa.Column("n_samples", sa.Integer(), nullable=False),
        sa.Column("codec", sa.Text(), nullable=False),
        sa.Column("n_bytes", sa.Integer(), nullable=False),
        sa.Column("data", postgresql.BYTEA(), nullable=False),
        sa.ForeignKeyConstraint(["window_id"], ["windows.id"], name=op.f("fk_box_samples_window_id")),
        sa.PrimaryKeyConstraint("window_id", name=op.f("pk_box_samples")),
    )


def downgrade() -> None:
    """Take it back."""
    op.drop_table("box_samples")
    op.drop_column("windows", "box")
