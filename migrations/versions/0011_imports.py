"""Results of other tools: which sweeps were imported, cells of whole runs, and where a row of a view is from."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | None = None
depends_on: str | None = None

KINDS = "kind IN ('decode', 'single_batch'{more})"
SOURCE = "coalesce(d.doc ->> 'source', 'measured') AS source"
VIEWS = ("cells_clean", "windows_flat", "boots_flat", "nights")


def _views_before() -> tuple[str, ...]:
    """Return the views as migration 0010 made them, in the order of VIEWS."""
    path = Path(__file__).with_name("0010_summaries.py")
    spec = importlib.util.spec_from_file_location("nightsweep_migration_0010", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: tuple[str, ...] = module._views()
    return found


def _once(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def _views() -> tuple[str, ...]:
    """Return the views with what is new at their end: a view is replaced in place, so that grants on it stay."""
    cells, windows, boots, nights = _views_before()
    temperature = "nullif({0}, -1)::numeric(4, 2) AS temperature"
    cells = _once(cells, "s.temperature, ", temperature.format("s.temperature") + ", ")
    cells = _once(cells, "\nFROM cell_summaries s", f",\n    {SOURCE}\nFROM cell_summaries s")
    windows = _once(windows, "c.temperature, ", temperature.format("c.temperature") + ", ")
    decode = "CASE WHEN c.kind <> 'whole_run' THEN w.decode_rate{0} END AS {1}"
    windows = _once(
        windows,
        "w.decode_rate, w.decode_rate / c.concurrency AS decode_rate_per_stream,",
        f"{decode.format('', 'decode_rate')}, {decode.format(' / c.concurrency', 'decode_rate_per_stream')},",
    )
    whole = "CASE WHEN c.kind = 'whole_run' THEN w.decode_rate END AS whole_run_rate"
    windows = _once(windows, "\nFROM windows w", f",\n    {SOURCE}, {whole}\nFROM windows w")
    imported = "EXISTS (SELECT FROM imports m WHERE m.sweep_id = p.id)"
    boots = _once(boots, "\nFROM boots b", f",\n    {imported} AS imported\nFROM boots b")
    nights += f"\nWHERE NOT {imported.replace(' m ', ' k ').replace('m.', 'k.')}"
    return cells, windows, boots, nights


def upgrade() -> None:
    """Bring the database here."""
    op.create_table(
        "imports",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("sweep_id", sa.BigInteger(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("content_hash", sa.Text(), nullable=False),
        sa.Column("rows_found", sa.Integer(), nullable=False),
        sa.Column("rows_added", sa.Integer(), nullable=False),
        sa.Column("imported_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.func.now(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_imports_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_imports")),
        sa.UniqueConstraint("sweep_id", "content_hash", name=op.f("uq_imports_sweep_id_content_hash")),
    )
    op.drop_constraint(op.f("ck_cells_kind"), "cells", type_="check")
    op.create_check_constraint(op.f("ck_cells_kind"), "cells", KINDS.format(more=", 'whole_run'"))
    for view in _views():
        op.execute(view.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))


def downgrade() -> None:
    """Take it back. What was imported is lost: only this schema can tell it from what was measured."""
    sweeps = "SELECT sweep_id FROM imports"
    cells = f"SELECT id FROM cells WHERE sweep_id IN ({sweeps})"
    windows = f"SELECT id FROM windows WHERE cell_id IN ({cells})"
    for table in ("readings", "request_timings", "box_samples", "decision_windows"):
        op.execute(f"DELETE FROM {table} WHERE window_id IN ({windows})")
    op.execute(f"DELETE FROM decisions WHERE sweep_id IN ({sweeps})")
    op.execute(f"DELETE FROM windows WHERE cell_id IN ({cells})")
    for table in ("cells", "events", "boots", "sweep_configs"):
        op.execute(f"DELETE FROM {table} WHERE sweep_id IN ({sweeps})")
    op.execute("CREATE TEMPORARY TABLE taken_back AS SELECT DISTINCT sweep_id FROM imports")
    for view in reversed(VIEWS):
        op.execute(f"DROP VIEW {view}")
    op.drop_table("imports")
    op.execute("DELETE FROM sweeps WHERE id IN (SELECT sweep_id FROM taken_back)")
    op.execute("DROP TABLE taken_back")
    op.drop_constraint(op.f("ck_cells_kind"), "cells", type_="check")
    op.create_check_constraint(op.f("ck_cells_kind"), "cells", KINDS.format(more=""))
    op.execute("SELECT nightsweep_sum_up_again()")
    for view in _views_before():
        op.execute(view)
