"""When to kill what: drawn from the seed, then waited for. The same seed draws the same victims, phases and pauses."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

COMMIT = "commit"
ANY = "any"

VICTIMS: dict[str, dict[str, float]] = {
    # victim: how often it is drawn, by form
    "service": {"process": 2.0, "docker": 2.0},
    "service and all it started": {"process": 1.5, "docker": 1.5},
    "flow": {"process": 3.0, "docker": 3.0},
    "runner": {"process": 0.7, "docker": 0.7},
    "engine": {"process": 3.0, "docker": 3.0},
    "Prefect server": {"process": 2.0, "docker": 2.0},
    "Postgres": {"process": 3.0, "docker": 2.5},
    "Postgres backend": {"process": 1.0, "docker": 0.8},
    "dockerd": {"process": 0.0, "docker": 3.5},
}

PHASES: dict[str, float] = {
    ANY: 4.0,
    COMMIT: 2.0,
    "stopping production": 1.5,
    "restoring": 2.0,
    "boot": 1.5,
    "warm-up": 1.0,
    "window": 2.0,
}
ENGINE_PHASES = {"boot": 1.5, "warm-up": 1.0, "window": 3.0, COMMIT: 1.0}
"""Where there is an engine to kill."""


@dataclass(frozen=True)
class Moment:
    """A kill as it was drawn.

    Attributes:
        phase: What is waited for; "any" waits for nothing.
        pause: Seconds after the sweep went on, before the phase is waited for.
        into: Seconds into the phase; 0 of a commit.
        chained: The kill comes while the one before is still being recovered from.
    """

    victim: str
    phase: str
    pause: float
    into: float
    chained: bool


def draw(seed: int, *, form: str, production: bool) -> Iterator[Moment]:
    """Yield moments without end.

    Args:
        production: Whether there is production, and so phases in which it is stopped and brought back.
    """
    chance = random.Random(f"{seed}/{form}")
    victims = {name: weights[form] for name, weights in VICTIMS.items()}
    # The first round shows each victim once, in the seed's order; so a short run has all of them.
    first = [name for name, weight in victims.items() if weight]
    chance.shuffle(first)
    while True:
        victim = first.pop() if first else chance.choices(list(victims), list(victims.values()))[0]
        phases = ENGINE_PHASES if victim == "engine" else PHASES
        allowed = {
            name: w for name, w in phases.items() if production or name not in ("stopping production", "restoring")
        }
        phase = chance.choices(list(allowed), list(allowed.values()))[0]
        yield Moment(
            victim=victim,
            phase=phase,
            pause=round(chance.uniform(0.0, 2.5 if phase == ANY else 0.5), 3),
            into=0.0 if phase == COMMIT else round(chance.uniform(0.0, 0.6), 3),
            chained=chance.random() < 0.12,
        )
