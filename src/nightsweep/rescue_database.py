"""The database for whoever comes after a sweep's process: asked when it answers, and never waited for or started."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from nightsweep import wiring
from nightsweep.errors import SweepError
from nightsweep.settings import Settings

if TYPE_CHECKING:
    from nightsweep.store.debts import Debts

Say = Callable[[str], None]


@contextlib.contextmanager
def owed_by_database(chosen: Settings, *, say: Say) -> Iterator[Debts | None]:
    """Yield what the database says is owed; None when it does not answer. An embedded one that is down stays down."""
    if chosen.database_away or (chosen.database_url is None and not _embedded_answers(chosen, say)):
        yield None
        return
    from sqlalchemy.exc import ArgumentError

    from nightsweep.store.debts import Debts
    from nightsweep.store.migrate import upgrade
    from nightsweep.store.postgres import connect

    try:
        engine = connect(chosen.database_url or wiring.cluster(chosen).url(wiring.DATABASE))
    except (ValueError, ArgumentError):  # never echoed: it may hold a password
        say("NIGHTSWEEP_DATABASE_URL cannot be read as a database's address: it counts as one that is away")
        yield None
        return
    try:
        ready = False
        with contextlib.suppress(SweepError):
            upgrade(engine)
            ready = True
        yield Debts(engine) if ready else None
    finally:
        engine.dispose()


def note_cancelled(chosen: Settings, flow_run: str, *, say: Say) -> None:
    """Have the sweep of a run that a person cancelled in Prefect say so: its process only knows that it was told to end."""
    with owed_by_database(chosen, say=say) as debts:
        try:
            said = None if debts is None else debts.end_cancelled(flow_run)
        except SweepError as error:
            say(f"the database could not be told that run {flow_run} was cancelled: {error}")
            return
        if said is not None:
            say(said)


def _embedded_answers(chosen: Settings, say: Say) -> bool:
    """Whether the embedded server answers. A home that cannot be read or written has none that does."""
    try:
        return wiring.cluster(chosen).alive()
    except (OSError, SweepError) as error:
        say(f"the embedded database cannot be asked: {error}")
        return False
