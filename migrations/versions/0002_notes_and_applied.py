"""What a reader must know of true numbers, and what a boot did not apply as asked."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Bring the database here."""
    op.add_column(
        "windows",
        sa.Column("notes", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
    )
    op.add_column(
        "boots", sa.Column("applied", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False)
    )


def downgrade() -> None:
    """Take it back."""
    op.drop_column("boots", "applied")
    op.drop_column("windows", "notes")
