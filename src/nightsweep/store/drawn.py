"""What a decision rests on: a sweep's own clean windows, with the boots that they are of."""

from __future__ import annotations

import sqlalchemy as sa

from nightsweep.plan.drawn import Drawn
from nightsweep.plan.words import DECODE
from nightsweep.store.schema import boots, cells, conditions, configs, windows
from nightsweep.store.stored import must_exist


def drawn(connection: sa.Connection, sweep_id: int) -> tuple[Drawn, ...]:
    """Return the sweep's clean decode windows in the order they were stored; what was taken over is none of them.

    Raises:
        NotFound: There is no such sweep.
    """
    must_exist(connection, sweep_id)
    source = windows.join(cells, cells.c.id == windows.c.cell_id).join(configs, configs.c.id == cells.c.config_id)
    source = source.join(boots, boots.c.id == windows.c.boot_id)
    source = source.join(conditions, conditions.c.id == windows.c.conditions_id)
    wanted = sa.select(
        configs.c.hash,
        cells.c.concurrency,
        sa.cast(cells.c.temperature, sa.Text).label("temperature"),
        windows.c.repeat,
        windows.c.boot_id,
        windows.c.decode_rate,
        windows.c.acceptance_length,
        conditions.c.fingerprint,
        boots.c.applied[("not_applied",)].label("not_applied"),
    ).select_from(source)
    wanted = wanted.where(cells.c.sweep_id == sweep_id, cells.c.kind == DECODE, windows.c.clean)
    return tuple(
        Drawn(
            place=(row.hash, row.concurrency, row.temperature, row.repeat),
            boot_id=row.boot_id,
            decode_rate=row.decode_rate,
            acceptance_length=row.acceptance_length,
            conditions=row.fingerprint,
            not_applied=tuple(row.not_applied or ()),
        )
        for row in connection.execute(wanted.order_by(windows.c.id))
    )
