"""The watchdog's judgement: whose production is overdue, and is its sweep dead, hung, or merely late? Pure.

Before a sweep's own end (and some grace) nothing is ever touched. After it, a dead holder is enough; a living one must have lost
its lease, be stopped, or have let far more time pass than ending takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from nightsweep.units import Seconds


@dataclass(frozen=True)
class Rules:
    """How long the watchdog waits.

    Attributes:
        grace: After a sweep's end, before a dead holder's production is brought back.
        hung_after: After a sweep's end, before a living holder that has not begun to bring production back counts as hung.
    """

    grace: Seconds = Seconds(120.0)
    hung_after: Seconds = Seconds(600.0)


@dataclass(frozen=True)
class Owing:
    """Production that is down, and who took it down.

    Attributes:
        alive: Whether the holder's process lives; None when that cannot be told from here (another process namespace).
        stopped: Whether the process is there and does not run (SIGSTOP).
        lease_over: Whether its lease has run out by the database's clock; None when the database does not answer.
        began: When the holder began to bring production back, as the file beside the database says; None when it did not.
    """

    name: str
    restore_by: datetime | None
    ready_timeout: Seconds
    alive: bool | None
    stopped: bool = False
    lease_over: bool | None = None
    began: datetime | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether to bring production back, and why or why not."""

    name: str
    restore: bool
    why: str
    hung: bool = False


def judge(owing: Owing, rules: Rules, *, now: datetime) -> Verdict:
    """Return what the watchdog does about one container."""
    due = owing.restore_by
    if due is not None and now < due + timedelta(seconds=rules.grace):
        return Verdict(owing.name, restore=False, why=f"its sweep has until {due:%Y-%m-%d %H:%M} UTC")
    if owing.alive is False:
        return Verdict(
            owing.name, restore=True, why="its sweep is dead" + ("" if due is None else ", and its time is over")
        )
    hung = _hung(owing, rules, now=now)
    if hung is not None:
        return Verdict(owing.name, restore=True, why=f"its sweep is hung: {hung}", hung=True)
    lives = "its sweep lives" if owing.alive else "whether its sweep lives cannot be told from here"
    return Verdict(owing.name, restore=False, why=f"{lives}, and is given time to end")


def _hung(owing: Owing, rules: Rules, *, now: datetime) -> str | None:
    """Return why a holder that is not known to be dead counts as hung; None while it does not."""
    if owing.stopped:
        return "its process is stopped"
    if owing.lease_over:
        return "it has not renewed its lease"
    if owing.restore_by is None:
        return None
    late = (now - owing.restore_by).total_seconds()
    if owing.began is None:
        return f"{late / 60:.0f} min late, and has not begun to end" if late > rules.hung_after else None
    waited = (now - owing.began).total_seconds()
    if waited > owing.ready_timeout + rules.hung_after:
        return f"it began to bring production back {waited / 60:.0f} min ago"
    return None
