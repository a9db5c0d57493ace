"""Windows counted by what may be pooled, so that a comparison reads those that it holds against each other and no others."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import array

from nightsweep.analysis.sides import Pool
from nightsweep.analysis.values import Filters
from nightsweep.plan.words import CONTROL_ROUND
from nightsweep.store import statements
from nightsweep.store.schema import sweep_configs

KEY = ("config", "config_fingerprint", "conditions", "box", "simulated")


def pools_matching(filters: Filters) -> sa.Select[Any]:
    """Return the SELECT of pools, by sweep and the config's position there: what `sides.pools_of` makes of the windows."""
    base = statements.windows_matching(filters, [sweep_configs.c.position]).order_by(None).subquery("base")
    key = [base.c[name] for name in KEY]
    counted = (
        base.c.boot_round < CONTROL_ROUND,
        sa.func.cardinality(base.c.flags) == 0,
        base.c.decode_rate.is_not(None),
    )
    wanted = sa.select(
        *key,
        sa.func.count(sa.distinct(base.c.window_id)).label("windows"),
        sa.func.max(base.c.started_at).label("newest"),
        sa.func.array_agg(sa.distinct(base.c.sweep_name)).label("sweeps"),
    )
    first = sa.func.min(array([base.c.sweep_id, sa.cast(base.c.position, sa.BigInteger)]))
    return wanted.where(*counted).group_by(*key).order_by(first, *key)


def pool(row: Any) -> Pool:
    """Return a pool."""
    return Pool(
        config=row.config,
        config_fingerprint=row.config_fingerprint,
        conditions=row.conditions,
        box=row.box,
        simulated=row.simulated,
        windows=row.windows,
        newest=row.newest,
        sweeps=tuple(sorted(row.sweeps)),
    )
