"""`cells_clean` had a standard deviation of -0 where nothing was measured: of no run there is none."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | None = None
depends_on: str | None = None


def _view_before() -> str:
    """Return the view as migration 0011 made it."""
    path = Path(__file__).with_name("0011_imports.py")
    spec = importlib.util.spec_from_file_location("nightsweep_migration_0011", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module._views()[0]).replace("CREATE VIEW", "CREATE OR REPLACE VIEW")


def upgrade() -> None:
    """Bring the database here."""
    view, times = re.subn(r"nullif\(s\.(\w+)_n - 1, 0\)", r"nullif(greatest(s.\1_n - 1, 0), 0)", _view_before())
    assert times == 12, times
    op.execute(view)


def downgrade() -> None:
    """Take it back."""
    op.execute(_view_before())
