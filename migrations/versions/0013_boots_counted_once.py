"""Of each boot, which cells it has clean windows of, and of each sum, when they started: so that groups count boots by boots."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | None = None
depends_on: str | None = None

CONTROL_ROUND = 1000
KEY = ("config_id", "kind", "concurrency", "temperature", "conditions_id", "box", "simulated")
KEY_SQL = "c.config_id, c.kind, c.concurrency, c.temperature, w.conditions_id, x.name, x.simulated OR b.simulated"
SOURCE = f"""windows w
    JOIN cells c ON c.id = w.cell_id
    JOIN boots b ON b.id = w.boot_id AND b.boot_round < {CONTROL_ROUND}
    JOIN boxes x ON x.id = b.box_id"""
PLACE = """((w.conditions_id || ':' || c.concurrency || ':' || c.temperature) COLLATE "C")"""
"""One spelling in one order, so that boots with the same cells have the same text."""

TRIGGER = f"""
CREATE FUNCTION nightsweep_sum_up_boots() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    INSERT INTO boot_summaries AS s (boot_id, kind, places)
    SELECT b.id, c.kind, ARRAY[{PLACE}] FROM {SOURCE} WHERE w.id = NEW.id AND w.clean
    ON CONFLICT (boot_id, kind) DO UPDATE SET places = (
        SELECT array_agg(DISTINCT place COLLATE "C" ORDER BY place COLLATE "C")
        FROM unnest(s.places || excluded.places) AS place)
    WHERE NOT s.places @> excluded.places;
    UPDATE cell_summaries AS s SET
        first_at = least(s.first_at, NEW.started_at), last_at = greatest(s.last_at, NEW.started_at)
    FROM {SOURCE} WHERE w.id = NEW.id AND w.clean AND (s.config_id, s.kind, s.concurrency, s.temperature,
        s.conditions_id, s.box, s.simulated) = ({KEY_SQL});
    RETURN NULL;
END $body$;
CREATE TRIGGER sum_up_boots AFTER INSERT ON windows FOR EACH ROW EXECUTE FUNCTION nightsweep_sum_up_boots();
"""
"""Fires after `sum_up`, as triggers do in the order of their names: the sum is there."""

AGAIN = f"""
    DELETE FROM boot_summaries;
    INSERT INTO boot_summaries (boot_id, kind, places)
    SELECT b.id, c.kind, array_agg(DISTINCT {PLACE} ORDER BY {PLACE}) FROM {SOURCE} WHERE w.clean GROUP BY 1, 2;
    UPDATE cell_summaries AS s SET first_at = g.first_at, last_at = g.last_at FROM (
        SELECT {KEY_SQL}, min(w.started_at), max(w.started_at) FROM {SOURCE} WHERE w.clean
        GROUP BY 1, 2, 3, 4, 5, 6, 7) AS g ({", ".join(KEY)}, first_at, last_at)
    WHERE {" AND ".join(f"s.{name} = g.{name}" for name in KEY)};
END $body$;
"""


def _again_before() -> str:
    """Return the function that makes the sums anew, as migration 0010 has it."""
    path = Path(__file__).with_name("0010_summaries.py")
    spec = importlib.util.spec_from_file_location("nightsweep_migration_0010", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module._rebuild()).replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")


def upgrade() -> None:
    """Bring the database here."""
    op.create_table(
        "boot_summaries",
        sa.Column("boot_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("places", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.ForeignKeyConstraint(["boot_id"], ["boots.id"], name=op.f("fk_boot_summaries_boot_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("boot_id", "kind", name=op.f("pk_boot_summaries")),
    )
    for name in ("first_at", "last_at"):
        op.add_column("cell_summaries", sa.Column(name, sa.DateTime(timezone=True), nullable=True))
    before = _again_before()
    assert before.count("END $body$;") == 1
    op.execute(before.replace("END $body$;", AGAIN))
    op.execute(TRIGGER)
    op.execute("SELECT nightsweep_sum_up_again()")


def downgrade() -> None:
    """Take it back."""
    op.execute("DROP TRIGGER sum_up_boots ON windows")
    op.execute("DROP FUNCTION nightsweep_sum_up_boots()")
    op.execute(_again_before())
    for name in ("last_at", "first_at"):
        op.drop_column("cell_summaries", name)
    op.drop_table("boot_summaries")
