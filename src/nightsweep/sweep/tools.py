"""What a sweep is given to work with, and what it gives back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

from nightsweep.plan.model import BootTask, Cell, EngineConfig
from nightsweep.ports import BoxSampler, Clock, Engine, Host, Probe, Progress, Store
from nightsweep.units import Seconds

T = TypeVar("T")


class Steps(Protocol):
    """How the loop's steps are carried out: plainly, or each as a task of a scheduler. A step must call `do` once."""

    def boot(self, task: BootTask, do: Callable[[], T]) -> T:
        """Carry out one boot, up to readiness and warm-up."""

    def cell(self, config: EngineConfig, cell: Cell, *, repeat: int, do: Callable[[], T]) -> T:
        """Carry out the measuring of one cell in the boot that is up; `repeat` is its first repeat's index, from 0."""

    def progress(self, progress: Progress) -> None:
        """Hear where the sweep is. Must not raise."""


class PlainSteps:
    """Carries steps out as they are, and hands progress to a listener."""

    def __init__(self, listener: Callable[[Progress], None] | None = None) -> None:
        self._listener = listener

    def boot(self, task: BootTask, do: Callable[[], T]) -> T:
        """Carry out one boot."""
        return do()

    def cell(self, config: EngineConfig, cell: Cell, *, repeat: int, do: Callable[[], T]) -> T:
        """Carry out one cell."""
        return do()

    def progress(self, progress: Progress) -> None:
        """Hand progress on. A terminal that is gone ends no sweep."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener(progress)


class Mirror(Protocol):
    """A small file beside the database that says what production must come back, for when the database is down."""

    def write(self, container: str, facts: Mapping[str, Any]) -> None:
        """Put it there, durably, before production is touched."""

    def clear(self, container: str) -> None:
        """Take it away once production serves again."""

    def read(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what was taken down and is not noted as back, by container name."""


@dataclass(frozen=True)
class Tools:
    """The world, as ports and plain values.

    Attributes:
        host: Host by kind ("docker", "process").
        prompts: The prompt set's prompts, in file order.
        environ: Where secrets are taken from when an engine starts.
        free_port: Picks a free port on this machine.
        python: Interpreter that `{python}` in an engine command stands for.
        log_interval: How often log lines in hand are stored.
        alone: Keeps other homes of this machine from measuring for a block (raises BoxBusy); takes the box's name.
        box_sampler: Watches the box in every window; None watches nothing.
    """

    store: Store
    host: Callable[[str], Host]
    engine: Callable[[str], Engine]
    probe: Probe
    clock: Clock
    prompts: Sequence[Any]
    environ: Mapping[str, str]
    free_port: Callable[[], int]
    python: str
    owner: str
    software: str
    mirror: Mirror | None = None
    alone: Callable[[str], AbstractContextManager[None]] = lambda box: contextlib.nullcontext()
    lives: Callable[[str], bool] = lambda holder: (
        False
    )  # whether a holder is a process of this machine that surely lives
    lease_ttl: Seconds = Seconds(60.0)
    poll: Seconds = Seconds(0.1)
    log_interval: Seconds = Seconds(1.0)
    box_sampler: BoxSampler | None = None
    clock_news: Callable[[], tuple[str, ...]] = tuple  # what became of the wall clock since it was asked last


@dataclass(frozen=True)
class Outcome:
    """How a run of the sweep ended.

    Attributes:
        state: done | partial | failed | cancelled | paused.
        windows_done: Clean windows stored, of all runs of this sweep together.
        windows_left: Repeats still to be measured.
        problems: What went wrong on the way, for people.
        failed: Configs of which something stays unmeasured because their engine does not come up, by name.
        unmeasured: Other configs of whose windows none is clean, by name.
    """

    sweep_id: int
    state: str
    note: str
    windows_done: int
    windows_planned: int
    windows_left: int
    problems: tuple[str, ...] = field(default_factory=tuple)
    failed: tuple[str, ...] = ()
    unmeasured: tuple[str, ...] = ()


class StopWanted(Exception):
    """The sweep shall end after what is stored: cancelled, or no time left."""

    def __init__(self, state: str, note: str) -> None:
        self.state = state
        self.note = note
        super().__init__(note)


class DropWanted(StopWanted):
    """As StopWanted, and at once: what is in hand is dropped."""

    def __init__(
        self, state: str = "cancelled", note: str = "stopped at once, as asked: the window in hand was dropped"
    ) -> None:
        super().__init__(state, note)


@dataclass(frozen=True)
class Limits:
    """When to stop.

    Attributes:
        until: Production is ready again by then (UTC); None is no limit.
        reserve: Seconds before `until` at which everything is dropped, to stop an engine and to have production serve; None is
            estimated from this box's past.
        lifts_pause: Whether a paused sweep is gone on with: a person's own start does, a schedule's does not.
    """

    until: datetime | None = None
    reserve: Seconds | None = None
    lifts_pause: bool = True
