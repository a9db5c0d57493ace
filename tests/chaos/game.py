"""The run: sweep after sweep, kill after kill, until there were enough; then everything is looked at once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from nightsweep.service.prefect_api import FlowRun
from tests.chaos.checker import Slot, StoredWindow, Tally, lost, tally
from tests.chaos.containers import PRODUCTION
from tests.chaos.evidence import Scene
from tests.chaos.moments import ANY, COMMIT, Moment
from tests.chaos.sweepfiles import MAX_ATTEMPTS, ChaosSweep, a_sweep
from tests.chaos.victims import holder_of, strike
from tests.chaos.world import World

PHASE_PATIENCE = 25.0
VICTIM_PATIENCE = 8.0
GOES_ON_WITHIN = 300.0
SERVES_WITHIN = 90.0
GONE_WITHIN = 30.0
NOBODY_FOR = 45.0
"""Seconds after which a run that is said to be running, and holds no sweep, is no longer waited for."""
NIGHT_GOES_ON = ("queued", "submitted", "running")
"""States of a schedule's night in which the service itself goes on with the sweep."""


class Stuck(Exception):
    """The run cannot be carried on: what was waited for did not come."""


@dataclass
class Entry:
    """One kill and what came of it.

    Attributes:
        phase: In which phase of the sweep it struck.
        ended_holder: Who held the sweep when its process, or what carries it, was killed: then only another one goes on.
        went_on: Seconds until the next window was stored, or the sweep was done.
        served: Seconds that production was waited for once it was owed; None when it did not serve, or is not owed yet.
        handed_over: How often the sweep was handed to the service again, as a user would who sees that it broke off.
    """

    number: int
    sweep: str
    victim: str
    phase: str
    ended_holder: str | None = None
    went_on: float | None = None
    served: float | None = None
    handed_over: int = 0


@dataclass
class Game:
    """A chaos run on one world.

    Attributes:
        committed: Every window that was seen stored before some kill.
    """

    world: World
    moments: Iterator[Moment]
    kills: int
    say: Callable[[Entry], None]
    entries: list[Entry] = field(default_factory=list)
    sweeps: list[ChaosSweep] = field(default_factory=list)
    committed: dict[int, StoredWindow] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _run: FlowRun | None = None
    _run_of_start: int = 0
    _carried_at: float = 0.0
    _drawn: Moment | None = None

    def play(self) -> None:
        """Kill until there were enough kills, and let every sweep be finished."""
        self.world.service.wait_serving()
        while len(self.entries) < self.kills:
            self._play_sweep()

    # --- one sweep

    def _play_sweep(self) -> None:
        world = self.world
        sweep = a_sweep(
            len(self.sweeps) + 1,
            form=world.form,
            image=None if world.dock is None else world.dock.image,
            production=None if world.dock is None else PRODUCTION,
            url=None if world.dock is None else world.dock.url,
        )
        self.sweeps.append(sweep)
        self._run = None
        self._until(lambda: self._started(sweep), GOES_ON_WITHIN, f"{sweep.name} is not begun")
        while not self._done(world.evidence.scene(sweep.name)):
            if len(self.entries) >= self.kills:
                self._until(lambda: self._done(self._see_to(sweep)), GOES_ON_WITHIN, f"{sweep.name} is not finished")
                break
            moment = self._drawn or next(self.moments)
            self._drawn = None
            if not self._comes(moment, sweep):
                self._drawn = moment  # the sweep was done first: it is for the next one
                break
            entry = self._strike(moment, sweep)
            if not moment.chained or len(self.entries) >= self.kills:
                self._recover(entry, sweep)
            self.say(entry)
        self._after(sweep)

    def _started(self, sweep: ChaosSweep) -> bool:
        scene = self._see_to(sweep)
        return scene is not None and (scene.state != "running" or scene.boot_id is not None or scene.open_intents > 0)

    def _done(self, scene: Scene | None) -> bool:
        return scene is not None and scene.state == "done"

    def _comes(self, moment: Moment, sweep: ChaosSweep) -> bool:
        """Wait for the moment; return False when the sweep is done before it comes."""
        time.sleep(moment.pause)
        self._remember()
        if moment.phase == COMMIT:
            self._await_commit(sweep)
            return not self._done(self.world.evidence.glimpse(sweep.name))
        end = time.monotonic() + PHASE_PATIENCE
        while True:
            scene = self._see_to(sweep)
            if self._done(scene):
                return False
            if moment.phase == ANY or _phase(scene) == moment.phase or time.monotonic() > end:
                break
            time.sleep(0.02)
        time.sleep(moment.into)
        self._remember()
        return True

    def _await_commit(self, sweep: ChaosSweep) -> None:
        """Wait until a window is being stored; looked for as often as can be, while the rest is seen to twice a second."""
        end = time.monotonic() + PHASE_PATIENCE
        while time.monotonic() < end and not self._done(self._see_to(sweep)):
            soon = time.monotonic() + 0.5
            while time.monotonic() < soon:
                if self.world.evidence.storing():
                    return
                time.sleep(0.004)

    def _strike(self, moment: Moment, sweep: ChaosSweep) -> Entry:
        """Kill the victim; one that is not there for a while is replaced by the service."""
        evidence, victim = self.world.evidence, moment.victim
        end = time.monotonic() + VICTIM_PATIENCE
        if moment.phase != COMMIT:
            self._check_owed()
        while True:
            scene = evidence.glimpse(sweep.name)
            if victim == "engine" and scene is not None and scene.failed_boots:
                victim = "flow"  # a config whose engine dies a second time is given up, by the product's own rule
            phase = _phase(scene)
            killed = strike(self.world, victim, scene)
            if killed is not None:
                break
            if time.monotonic() > end:
                victim = "service"
            self._see_to(sweep)
            time.sleep(0.02)
        if moment.phase == COMMIT and phase == "window":
            phase = COMMIT
        ended = victim.startswith(("service", "flow", "runner"))
        holder = scene.owner if ended and scene is not None else None
        entry = Entry(number=len(self.entries) + 1, sweep=sweep.name, victim=killed, phase=phase, ended_holder=holder)
        self.entries.append(entry)
        return entry

    def _recover(self, entry: Entry, sweep: ChaosSweep) -> None:
        """Wait until the sweep goes on: a further window is stored, or it is done."""
        began = time.monotonic()
        self._remember()  # what was under way at the kill may have been stored all the same: that is not going on
        newest = max(self.committed, default=0)

        def goes_on() -> bool:
            scene = self._see_to(sweep, entry=entry)
            if scene is None or scene.state == "done":
                return scene is not None
            return scene.newest > newest and (
                entry.ended_holder is None or scene.owner not in (None, entry.ended_holder)
            )

        self._until(goes_on, GOES_ON_WITHIN, f"kill {entry.number} ({entry.victim}): {sweep.name} does not go on")
        entry.went_on = time.monotonic() - began
        self._check_kept()

    # --- seeing to it that it goes on, as supervisor and user would

    def _see_to(self, sweep: ChaosSweep, *, entry: Entry | None = None) -> Scene | None:
        """Restart the service if it has ended, see that somebody carries the sweep out; return where the sweep is."""
        self.world.service.tend()
        scene = self.world.evidence.glimpse(sweep.name)
        if self._done(scene):
            return scene
        if holder_of(scene) is not None:
            self._carried_at = time.monotonic()
            return scene
        handed_over = self._schedule(sweep) if sweep.scheduled else self._hand_over(sweep, scene, entry)
        if entry is not None and handed_over:
            entry.handed_over += 1
        return scene

    def _schedule(self, sweep: ChaosSweep) -> bool:
        """Schedule it unless its night goes on: then the service is to see to it. Return whether it was scheduled anew."""
        if self.world.dock is not None and self.entries and self.entries[-1].served is None:
            self._mark_served(0.0)
        night = self.world.evidence.night(sweep.name)
        if night is None or night in NIGHT_GOES_ON:
            return False
        return self.world.service.schedule(sweep.text, sweep.name) and night != ""

    def _hand_over(self, sweep: ChaosSweep, scene: Scene | None, entry: Entry | None) -> bool:
        """Hand it to the service, once production serves again; return whether the service took it."""
        service, now = self.world.service, time.monotonic()
        if self._run is not None and self._run_of_start == service.starts:
            state = service.state_of(self._run)
            ghost = state == "RUNNING" and now - self._carried_at > NOBODY_FOR
            if state != "ENDED" and not ghost:  # Prefect shows the run of a killed runner for ever
                return False
        if entry is not None and scene is not None:
            self._production_back(entry)
        run = service.submit(sweep.text, sweep.name)
        if run is not None:
            self._run, self._run_of_start, self._carried_at = run, service.starts, now
        return run is not None

    def _production_back(self, entry: Entry) -> None:
        """A sweep that broke off owes production: it must serve before anybody goes on."""
        if self.world.dock is None or entry.served is not None:
            return
        if not self._mark_served(SERVES_WITHIN):
            self.problems.append(
                f"production does not serve {SERVES_WITHIN:.0f} s after kill {entry.number} ({entry.victim})"
            )

    def _mark_served(self, within: float) -> bool:
        """Note of all kills that production serves again; return False when it does not, in time."""
        seconds = self.world.serves(within=within)
        if seconds is None:
            return False
        for entry in self.entries:
            if entry.served is None:
                entry.served = seconds
        return True

    # --- looking at it

    def _remember(self) -> None:
        self.committed.update({window.id: window for window in self.world.evidence.windows()})

    def _check_kept(self) -> None:
        self.problems += [
            one for one in lost(self.committed, self.world.evidence.windows()) if one not in self.problems
        ]

    def _check_owed(self) -> None:
        """Production that is down must be noted as owed, in the database."""
        dock = self.world.dock
        if dock is None or dock.production_runs() is not False or self.world.evidence.open_intents():
            return
        if dock.production_runs() is False and not self.world.evidence.open_intents():
            self.problems.append(f"kill {len(self.entries) + 1}: production is down, and no open intent says so")

    def _after(self, sweep: ChaosSweep) -> None:
        """The sweep is done: production serves, no engine is left, nothing is owed, nobody else was touched."""
        if self.world.dock is not None and not self._mark_served(SERVES_WITHIN):
            self.problems.append(f"production does not serve {SERVES_WITHIN:.0f} s after the end of {sweep.name}")
        self._until(lambda: not self.world.engines(), GONE_WITHIN, f"{sweep.name}: an engine of ours is left")
        self._until(lambda: not self.world.evidence.open_intents(), GONE_WITHIN, f"{sweep.name}: an intent stays open")
        self.problems += self.world.foreign_problems()
        self._check_kept()
        self.problems += self.tally_of(sweep.slots).problems

    def tally_of(self, slots: tuple[Slot, ...] | None = None) -> Tally:
        """Return how the windows of some slots stand, of all sweeps by default."""
        planned = slots if slots is not None else tuple(slot for sweep in self.sweeps for slot in sweep.slots)
        names = {slot[0] for slot in planned}
        stored = tuple(window for window in self.world.evidence.windows() if window.slot[0] in names)
        return tally(planned, stored, max_attempts=MAX_ATTEMPTS)

    def _until(self, true: Callable[[], bool], seconds: float, problem: str) -> None:
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                self.problems.append(f"{problem} ({seconds:.0f} s)")
                raise Stuck(problem)
            self.world.service.tend()
            time.sleep(0.15)


def _phase(scene: Scene | None) -> str:
    if scene is None:
        return "not begun, or database away"
    if scene.state == "running" and holder_of(scene) is None:
        return "recovering"
    return scene.phase
