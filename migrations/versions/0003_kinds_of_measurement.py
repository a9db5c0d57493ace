"""Prefills of several lengths and under load, and cells of the single-batch probe: each kind apart from the others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None

SLOT = ["sweep_id", "config_id", "tokens", "under_load", "repeat", "attempt"]
CELL = ["sweep_id", "config_id", "kind", "concurrency", "temperature"]


def upgrade() -> None:
    """Bring the database here."""
    op.add_column("prefills", sa.Column("tokens", sa.BigInteger(), nullable=True))
    # Until now a sweep had one length: its plan says which, also for a prefill that failed and counted nothing.
    op.execute(
        "UPDATE prefills SET tokens = COALESCE((sweeps.plan #>> '{probe,prefill,tokens}')::bigint, prompt_tokens, 1)"
        " FROM sweeps WHERE sweeps.id = prefills.sweep_id"
    )
    op.alter_column("prefills", "tokens", nullable=False)
    op.add_column("prefills", sa.Column("under_load", sa.Integer(), nullable=False, server_default=sa.text("0")))
    op.alter_column("prefills", "under_load", server_default=None)
    op.drop_constraint("uq_prefills_sweep_id_config_id_repeat_attempt", "prefills", type_="unique")
    op.create_unique_constraint("uq_prefills_" + "_".join(SLOT), "prefills", SLOT)
    op.drop_index("uq_prefills_one_clean_per_repeat", "prefills")
    op.create_index(
        "uq_prefills_one_clean_per_repeat", "prefills", SLOT[:-1], unique=True, postgresql_where=sa.text("clean")
    )
    op.create_check_constraint(op.f("ck_prefills_tokens"), "prefills", "tokens > 0 AND under_load >= 0")
    op.add_column("cells", sa.Column("kind", sa.Text(), nullable=False, server_default="decode"))
    op.alter_column("cells", "kind", server_default=None)
    op.create_check_constraint(op.f("ck_cells_kind"), "cells", "kind IN ('decode', 'single_batch')")
    op.drop_constraint("uq_cells_sweep_id_config_id_concurrency_temperature", "cells", type_="unique")
    op.create_unique_constraint("uq_cells_" + "_".join(CELL), "cells", CELL)
    op.alter_column("windows", "seconds_asked", nullable=True)


def downgrade() -> None:
    """Take it back. What only this schema can tell apart is lost: further lengths, prefills under load, single batches."""
    single = "SELECT id FROM cells WHERE kind <> 'decode'"
    windows = f"SELECT id FROM windows WHERE cell_id IN ({single})"
    for table in ("readings", "request_timings"):
        op.execute(f"DELETE FROM {table} WHERE window_id IN ({windows})")
    op.execute(f"DELETE FROM windows WHERE cell_id IN ({single})")
    op.execute("DELETE FROM cells WHERE kind <> 'decode'")
    op.execute(
        "DELETE FROM prefills USING sweeps WHERE sweeps.id = prefills.sweep_id AND (prefills.under_load > 0"
        " OR prefills.tokens IS DISTINCT FROM COALESCE((sweeps.plan #>> '{probe,prefill,tokens}')::bigint, prefills.tokens))"
    )
    op.alter_column("windows", "seconds_asked", nullable=False)
    op.drop_constraint("uq_cells_" + "_".join(CELL), "cells", type_="unique")
    op.create_unique_constraint(
        "uq_cells_sweep_id_config_id_concurrency_temperature",
        "cells",
        ["sweep_id", "config_id", "concurrency", "temperature"],
    )
    op.drop_constraint(op.f("ck_cells_kind"), "cells", type_="check")
    op.drop_column("cells", "kind")
    op.drop_constraint(op.f("ck_prefills_tokens"), "prefills", type_="check")
    op.drop_index("uq_prefills_one_clean_per_repeat", "prefills")
    op.drop_constraint("uq_prefills_" + "_".join(SLOT), "prefills", type_="unique")
    op.drop_column("prefills", "under_load")
    op.drop_column("prefills", "tokens")
    op.create_index(
        "uq_prefills_one_clean_per_repeat",
        "prefills",
        ["sweep_id", "config_id", "repeat"],
        unique=True,
        postgresql_where=sa.text("clean"),
    )
    op.create_unique_constraint(
        "uq_prefills_sweep_id_config_id_repeat_attempt", "prefills", ["sweep_id", "config_id", "repeat", "attempt"]
    )
