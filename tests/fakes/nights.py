"""Nights on a fake clock: engines and production need a drawn time to start, and a store that remembers them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from nightsweep.engine.registry import engine_for
from nightsweep.measurement.values import RawWindow
from nightsweep.plan.expand import with_prompts_hash
from nightsweep.plan.fingerprint import config_document, fingerprint
from nightsweep.plan.fit import PastStarts, production_start, reserve
from nightsweep.plan.model import EngineConfig, EngineSpec, ProbeSpec, Production, SweepPlan
from nightsweep.ports import EngineHandle, EngineState, Launch, Target, WindowRequest
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.tools import Limits, Outcome, PlainSteps, Tools
from nightsweep.units import Seconds
from tests.fakes.clock import EVENING, FakeClock
from tests.fakes.host import FakeHost
from tests.fakes.probe import FakeProbe
from tests.fakes.store import FakeStore

PRODUCTION = "vllm-production"
PORT, PRODUCTION_PORT = 8123, 8000
TRUTH: Mapping[str, float] = {"step_time": 1.0}


class CoarseClock(FakeClock):
    """Who waits, waits a second at least: nights are long."""

    def sleep(self, seconds: Seconds) -> None:
        self.advance(max(float(seconds), 1.0))

    def move_to(self, moment: datetime) -> None:
        """Let time pass until then."""
        self.advance((moment - self.now()).total_seconds())


Draw = Callable[[str], float]
"""Seconds that a start takes: of production by its container's name, of an engine by its command line."""


@dataclass
class SlowHost(FakeHost):
    """A host whose engines, and production, answer only some time after their start.

    Attributes:
        draw: How long a start takes.
        stopping: How long an engine takes to end.
        drawn: Every start in order: (what, seconds).
    """

    draw: Draw = lambda what: 400.0
    stopping: Callable[[], float] = lambda: 5.0
    drawn: list[tuple[str, float]] = field(default_factory=list)
    ready_at: dict[int, float] = field(default_factory=dict)

    def start(self, launch: Launch) -> EngineHandle:
        handle = super().start(launch)
        self._begin(launch.port, " ".join(launch.command))
        return handle

    def stop(self, handle: EngineHandle, *, grace: Seconds) -> EngineState:
        self.clock.sleep(Seconds(min(self.stopping(), grace)))
        self.ready_at.pop(handle.port, None)
        return super().stop(handle, grace=grace)

    def stop_foreign(self, name: str, *, grace: Seconds) -> None:
        super().stop_foreign(name, grace=grace)
        self.ready_at.pop(PRODUCTION_PORT, None)

    def start_foreign(self, name: str) -> None:
        super().start_foreign(name)
        if PRODUCTION_PORT not in self.ready_at:
            self._begin(PRODUCTION_PORT, name)

    def _begin(self, port: int, what: str) -> None:
        seconds = self.draw(what)
        self.drawn.append((what, seconds))
        self.ready_at[port] = self.clock.monotonic() + seconds

    def answers(self, port: int) -> bool:
        """Return whether what was started on this port is up by now."""
        return port in self.ready_at and self.clock.monotonic() >= self.ready_at[port]


class SlowProbe(FakeProbe):
    """A probe that finds an engine ready when its host says so, and asks for its life every second of a window."""

    def __init__(self, *, host: SlowHost) -> None:
        super().__init__(
            clock=host.clock,
            truth=TRUTH,
            speculates=lambda: any("speculative" in word for word in host.launches[-1].command),
            answers={"models": {"data": [{"id": "m"}]}, "version": {"version": "0.32.0"}},
        )
        self.host = host
        self.healthy_when = lambda: host.answers(PORT) or host.answers(PRODUCTION_PORT)

    def healthy(self, url: str, *, timeout: Seconds) -> bool:
        return self.host.answers(PRODUCTION_PORT if f":{PRODUCTION_PORT}/" in url else PORT)

    def warm_up(self, target: Target, request: WindowRequest, *, alive: Callable[[], bool]) -> None:
        self._pass(request.window, alive)

    def window(self, target: Target, request: WindowRequest, *, alive: Callable[[], bool]) -> RawWindow:
        self.calls.clear()
        self._pass(Seconds(3.0), alive)  # until every stream has a token
        return super().window(target, request, alive=alive)

    def _pass(self, seconds: Seconds, alive: Callable[[], bool]) -> None:
        for _ in range(int(seconds)):
            alive()
            self.clock.sleep(Seconds(1.0))


@dataclass(frozen=True)
class NightResult:
    """One simulated night.

    Attributes:
        kept: Seconds that were kept free at its end.
        production_start: Seconds that production needed; None when it was not taken down.
        longest_before: The longest that it had needed in any night before; None in the first.
        ready: When production served again.
    """

    start: datetime
    until: datetime
    outcome: Outcome
    boots: int
    windows: int
    kept: float
    production_start: float | None
    longest_before: float | None
    ready: datetime

    @property
    def slack(self) -> float:
        """Seconds between production's readiness and `until`; negative is late."""
        return (self.until - self.ready).total_seconds()

    @property
    def ended(self) -> str:
        """Why the sweep ended, in a few words."""
        ways = {
            "the next boot": "no boot fits",
            "the next window": "no window fits",
            "was dropped": "an engine's start was dropped",
            "is dropped:": "a window was dropped",
        }
        return next((said for part, said in ways.items() if part in self.outcome.note), self.outcome.state)


@dataclass
class Nights:
    """A box that is swept night after night.

    Args:
        spread: Share by which a start may be shorter or longer than the middle of its kind.
        odd: Share of the starts that take up to two and a half times as long as the middle, as no start before.
    """

    seed: int
    spread: float = 0.3
    odd: float = 0.0
    production_start: float = 400.0
    engine_start: float = 390.0
    configs: int = 60
    repeats: int = 3
    clock: CoarseClock = field(default_factory=CoarseClock)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.host = SlowHost(clock=self.clock, draw=self._drawn, stopping=lambda: self.chance.uniform(1.0, 15.0))
        self.host.add_foreign(PRODUCTION, ports={8000: PRODUCTION_PORT})
        self.host.ready_at[PRODUCTION_PORT] = self.clock.monotonic()
        self.store = FakeStore(self.clock)
        self.sweeps = 0
        self.results: list[NightResult] = []

    def _drawn(self, what: str) -> float:
        middle = self.production_start if what == PRODUCTION else self.engine_start
        if self.chance.random() < self.odd:
            return middle * self.chance.uniform(1.0 + self.spread, 2.5)
        return middle * self.chance.uniform(1.0 - self.spread, 1.0 + self.spread)

    def plan(self) -> SweepPlan:
        """Return the sweep that is on; a done one is followed by another with configs of its own."""
        configs = tuple(_config(100 * self.sweeps + number) for number in range(self.configs))
        probe = ProbeSpec(
            concurrency=(1, 2, 4, 8, 16),
            temperature=(Decimal("0.7"), Decimal("1.0")),
            window=Seconds(40.0),
            repeats=self.repeats,
            warmup=Seconds(30.0),
        )
        plan = SweepPlan(f"sweep-{self.sweeps}", configs, probe, production=Production(PRODUCTION))
        return with_prompts_hash(plan, "a" * 64)

    def night(self) -> NightResult:
        """Sweep from some time after 22:30 until 07:00; a sweep that is done makes room for the next one."""
        evening = EVENING + timedelta(days=len(self.results), minutes=self.chance.uniform(0.0, 40.0))
        self.clock.move_to(evening)
        until = EVENING.replace(hour=7, minute=0) + timedelta(days=len(self.results) + 1)
        plan, before = self.plan(), self._starts_of_production()
        kept = self._kept(plan)
        windows, boots = len(self.store.windows), len(self.store.boots)
        outcome = run_sweep(plan, self._tools(), file_text="", steps=PlainSteps(), limits=Limits(until=until))
        now = self._starts_of_production()
        result = NightResult(
            start=evening,
            until=until,
            outcome=outcome,
            boots=len(self.store.boots) - boots,
            windows=len(self.store.windows) - windows,
            kept=kept,
            production_start=now[-1] if len(now) > len(before) else None,
            longest_before=max(before, default=None),
            ready=self.clock.now(),
        )
        if outcome.state == "done":
            self.sweeps += 1
            self.store.windows.clear()  # they are looked through one by one
        self.results.append(result)
        return result

    def _starts_of_production(self) -> list[float]:
        return [seconds for what, seconds in self.host.drawn if what == PRODUCTION]

    def _kept(self, plan: SweepPlan) -> float:
        past = self.store.past_starts(1) if self.store.boxes else PastStarts()
        image = self.host.foreign(PRODUCTION).image
        assert plan.production is not None
        return reserve(plan, production_start(plan.production, past, image=image)).seconds

    def _tools(self) -> Tools:
        return Tools(
            store=self.store,
            host=lambda kind: self.host,
            engine=engine_for,
            probe=SlowProbe(host=self.host),
            clock=self.clock,
            prompts=("write a parser", "write a lexer"),
            environ={},
            free_port=lambda: PORT,
            python="/usr/bin/python3",
            owner="me:1:1:1",
            software="test",
            poll=Seconds(1.0),
        )


def _config(number: int) -> EngineConfig:
    spec = EngineSpec(
        kind="vllm",
        host="docker",
        image="vllm/vllm-openai:v0.29.0",
        model="org/model",
        served_name="m",
        args={"max-num-seqs": 16 + number},
        port=PORT,
        boot_timeout=Seconds(1200.0),
        stop_grace=Seconds(20.0),
    )
    document = config_document(spec, None)
    return EngineConfig(f"config {number}", spec, None, document, fingerprint(document))
