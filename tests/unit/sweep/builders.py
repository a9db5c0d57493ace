"""A world of fakes for the loop: a host, a probe, a store and a clock that belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from nightsweep.engine.registry import engine_for
from nightsweep.plan.expand import with_prompts_hash
from nightsweep.plan.fingerprint import fingerprint
from nightsweep.plan.model import (
    EngineConfig,
    EngineSpec,
    PrefillSpec,
    ProbeSpec,
    Production,
    SweepPlan,
)
from nightsweep.ports import Launch, Progress
from nightsweep.sweep.loop import run_sweep
from nightsweep.sweep.tools import Limits, Outcome, PlainSteps, Tools
from nightsweep.units import Seconds, Tokens
from tests.fakes.clock import FakeClock
from tests.fakes.host import FakeHost, Script
from tests.fakes.probe import FakeProbe
from tests.fakes.store import FakeStore


def a_config(
    name: str = "mtp", *, k: int | None = 3, env: Mapping[str, Any] | None = None, port: int = 8123
) -> EngineConfig:
    spec = EngineSpec(
        kind="vllm",
        host="process",
        model="org/model",
        served_name="m",
        command=("vllm", "serve"),
        env=env or {},
        port=port,
        boot_timeout=Seconds(60.0),
        stop_grace=Seconds(5.0),
    )
    speculative = None if k is None else {"method": "mtp", "num_speculative_tokens": k}
    document = {"name": name, "speculative": speculative}
    return EngineConfig(
        name=name, engine=spec, speculative=speculative, document=document, fingerprint=fingerprint(document)
    )


def a_plan(
    *configs: EngineConfig,
    concurrency: tuple[int, ...] = (1, 4),
    repeats: int = 2,
    boots: int = 1,
    prefill: bool = False,
    production: Production | None = None,
) -> SweepPlan:
    plan = SweepPlan(
        name="night",
        configs=configs or (a_config(),),
        probe=ProbeSpec(
            concurrency=concurrency,
            temperature=(Decimal("0.7"),),
            window=Seconds(4.0),
            repeats=repeats,
            boots=boots,
            prefill=PrefillSpec(tokens=Tokens(2000), repeats=1) if prefill else None,
        ),
        production=production,
    )
    return with_prompts_hash(plan, "a" * 64)


@dataclass
class World:
    """Everything a sweep touches; `play` runs one."""

    script: Script | Callable[[Launch], Script] = field(default_factory=Script)
    clock: FakeClock = field(default_factory=FakeClock)
    environ: dict[str, str] = field(default_factory=dict)
    heard: list[Progress] = field(default_factory=list)
    living: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.host = FakeHost(clock=self.clock, script=self.script)
        self.store = FakeStore(self.clock)
        self.probe = FakeProbe(
            clock=self.clock,
            healthy_when=lambda: bool(self.host.running) or any(f.running for f in self.host.foreigners.values()),
            speculates=lambda: any("speculative" in word for word in self.host.launches[-1].command),
            answers={"models": {"data": [{"id": "m"}]}, "version": {"version": "0.32.0"}},
        )

    def tools(self) -> Tools:
        return Tools(
            store=self.store,
            host=lambda kind: self.host,
            engine=engine_for,
            probe=self.probe,
            clock=self.clock,
            prompts=("write a parser", "write a lexer"),
            environ=self.environ,
            free_port=lambda: 8123,
            python="/usr/bin/python3",
            owner="me:1:1:1",
            lives=lambda holder: holder in self.living,
            software="test",
            log_interval=Seconds(0.01),
        )

    def play(self, plan: SweepPlan, *, limits: Limits = Limits()) -> Outcome:  # noqa: B008
        return run_sweep(plan, self.tools(), file_text="", steps=PlainSteps(self.heard.append), limits=limits)

    def flags(self) -> list[tuple[str, ...]]:
        return [row.result.flags for row in self.store.windows.values()]

    def starts(self) -> int:
        return sum(what == "start" for what, _ in self.host.calls)
