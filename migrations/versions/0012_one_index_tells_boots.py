"""The index of clean windows tells their boots and times, so that a group over the whole history reads it alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | None = None
depends_on: str | None = None

NAME = "uq_windows_one_clean_per_repeat"
BEFORE = ["decode_rate", "acceptance_length", "step_time_s", "conditions_id"]


def _made_with(columns: list[str]) -> None:
    op.drop_index(NAME, table_name="windows")
    op.create_index(
        NAME,
        "windows",
        ["cell_id", "repeat"],
        unique=True,
        postgresql_where=sa.text("clean"),
        postgresql_include=columns,
    )


def upgrade() -> None:
    """Bring the database here."""
    _made_with([*BEFORE, "boot_id", "started_at"])


def downgrade() -> None:
    """Take it back."""
    _made_with(BEFORE)
