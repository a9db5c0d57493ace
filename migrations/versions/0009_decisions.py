"""What was expected before a run, and what was decided after it with its premises."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    """Bring the database here."""
    _expectations()
    _decisions()


def _expectations() -> None:
    op.create_table(
        "expectations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("config_id", sa.BigInteger(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("temperature", sa.Numeric(precision=4, scale=2), nullable=False),
        sa.Column("quantity", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("against_id", sa.BigInteger(), nullable=True),
        sa.Column("basis", sa.Text(), nullable=False),
        sa.Column("content_key", sa.Text(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("after_fact", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "quantity IN ('decode_rate', 'acceptance_length', 'step_time', 'ratio')",
            name=op.f("ck_expectations_quantity"),
        ),
        sa.CheckConstraint("source IN ('file', 'bandwidth')", name=op.f("ck_expectations_source")),
        sa.CheckConstraint("low IS NOT NULL OR high IS NOT NULL", name=op.f("ck_expectations_says_something")),
        sa.CheckConstraint(
            "(quantity = 'ratio') = (against_id IS NOT NULL)", name=op.f("ck_expectations_ratio_is_against_another")
        ),
        sa.ForeignKeyConstraint(["against_id"], ["configs.id"], name=op.f("fk_expectations_against_id")),
        sa.ForeignKeyConstraint(["config_id"], ["configs.id"], name=op.f("fk_expectations_config_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_expectations_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_expectations")),
        sa.UniqueConstraint("sweep_id", "content_key", name=op.f("uq_expectations_sweep_id_content_key")),
    )


def _decisions() -> None:
    empty = sa.text("'{}'::jsonb")
    op.create_table(
        "decisions",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("chosen_id", sa.BigInteger(), nullable=False),
        sa.Column("fallback_id", sa.BigInteger(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("factors", postgresql.ARRAY(sa.Text()), server_default=sa.text("'{}'::text[]"), nullable=False),
        sa.Column("evidence", postgresql.JSONB(), server_default=empty, nullable=False),
        sa.Column("premises", postgresql.JSONB(), server_default=empty, nullable=False),
        sa.Column("accepted", postgresql.JSONB(), server_default=empty, nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("retired_why", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("(retired_at IS NULL) = (retired_why IS NULL)", name=op.f("ck_decisions_retired_says_why")),
        sa.ForeignKeyConstraint(["chosen_id"], ["configs.id"], name=op.f("fk_decisions_chosen_id")),
        sa.ForeignKeyConstraint(["fallback_id"], ["configs.id"], name=op.f("fk_decisions_fallback_id")),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_decisions_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_decisions")),
    )
    op.create_index(op.f("ix_decisions_sweep_id"), "decisions", ["sweep_id"])
    op.create_table(
        "decision_windows",
        sa.Column("decision_id", sa.BigInteger(), nullable=False),
        sa.Column("window_id", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["decision_id"], ["decisions.id"], name=op.f("fk_decision_windows_decision_id")),
        sa.ForeignKeyConstraint(["window_id"], ["windows.id"], name=op.f("fk_decision_windows_window_id")),
        sa.PrimaryKeyConstraint("decision_id", "window_id", name=op.f("pk_decision_windows")),
    )
    op.create_index(op.f("ix_decision_windows_window_id"), "decision_windows", ["window_id"])


def downgrade() -> None:
    """Take it back."""
    op.drop_table("decision_windows")
    op.drop_table("decisions")
    op.drop_table("expectations")
