"""How a run is recorded that an error broke off. Pure."""

from __future__ import annotations

from nightsweep.errors import ProductionNotRestored, SweepError
from nightsweep.ports import INTERRUPTED
from nightsweep.sweep.signals import Terminated, interrupt_behind

BY_A_PERSON = ("cancelled", "paused")


def how_it_broke_off(error: BaseException, *, ended: tuple[str, str] | None) -> tuple[str, str]:
    """Return the sweep's state and a note.

    Production that does not come back fails a sweep: whoever starts failed ones again tries once more to bring it back. Not
    one that a person has cancelled or paused: it is so all the same, must not be started again, and production is told apart.

    Args:
        ended: State and note of a sweep that had come to its own end before the error; None of one that had not.
    """
    if isinstance(error, ProductionNotRestored):
        interrupt = interrupt_behind(error)
        state, note = ended or ("failed", "") if interrupt is None else how_it_broke_off(interrupt, ended=None)
        kept = state if interrupt is not None or state in BY_A_PERSON else "failed"
        return kept, "; ".join(filter(None, (note, error.brief)))
    if isinstance(error, KeyboardInterrupt | Terminated):
        return "partial", f"{INTERRUPTED}{str(error) or 'Ctrl-C'}"
    if isinstance(error, SweepError):
        return "failed", str(error)
    if isinstance(error, Exception):
        return "failed", f"{type(error).__name__}: {error}"
    return "partial", f"{INTERRUPTED}{type(error).__name__}"  # a scheduler's own way to end us
