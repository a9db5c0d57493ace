"""What production had served when it was taken down is kept with its intent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Bring the database here."""
    op.add_column("production_intents", sa.Column("traffic", postgresql.JSONB(), nullable=True))


def downgrade() -> None:
    """Take it back."""
    op.drop_column("production_intents", "traffic")
