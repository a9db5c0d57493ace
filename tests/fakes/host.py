"""A host in memory: engines are scripts over a clock. It passes the suite of the real ones.

See `tests/contract/test_host.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nightsweep.engine.values import LogLine
from nightsweep.errors import ContainerMissing, EngineNotGone, GpuBusy, LaunchRefused, PortBusy
from nightsweep.plan.model import ContainerSpec
from nightsweep.ports import BoxFacts, Clock, EngineHandle, EngineState, ForeignContainer, Launch
from nightsweep.units import Seconds

POLL = 0.005
"""Seconds of real time between two looks of a log follower, so that a fake clock can be advanced by another thread."""


@dataclass(frozen=True)
class Script:
    """How one engine behaves.

    Attributes:
        lines: (seconds since start, text), in order.
        exits_at: Seconds since start at which it ends by itself; None is never.
        refused: What `start` raises instead of starting it.
        swallows_term: A stop needs the kill: exit code 137, after the whole grace.
        last_words: Said when a stop is heeded, which then ends with `term_exit_code`.
        immortal: Nothing ends it (`stop` raises EngineNotGone).
        port_problem: What `owns_port` says while it runs.
    """

    lines: Sequence[tuple[float, str]] = ()
    exits_at: float | None = None
    exit_code: int = 0
    oom_killed: bool | None = None
    host_fault: bool = False
    refused: Exception | None = None
    swallows_term: bool = False
    last_words: str | None = None
    term_exit_code: int = 143
    immortal: bool = False
    port_problem: str | None = None


@dataclass
class _Engine:
    handle: EngineHandle
    script: Script
    started: float
    lines: list[tuple[float, str]]
    ended: EngineState | None = None
    ended_at: float | None = None


A_BOX = BoxFacts(name="fake-box", fingerprint="f" * 64, facts={"cpu": "fake", "accelerators": []})


@dataclass
class FakeHost:
    """A scripted `Host`.

    Attributes:
        script: One script for every engine, or a function of the launch.
        calls: What was asked, in order: ("start", boot_key), ("stop", boot_key), ("stop_foreign", name), ...
        busy_ports: Ports held by somebody else, with the holder's name.
        gpu_holders: While set, `check` passes and `wait_free` raises GpuBusy.
        images: Digests of the images that are on the box.
        pulls: By image: seconds that a registry takes to give one that is not here, or what it raises instead. Others are
            here from the first question on.
        foreign_faults: By container name, what `start_foreign` raises.
        silent_about_ports: What `owns_port` raises, call after call; None answers.
    """

    clock: Clock
    script: Script | Callable[[Launch], Script] = field(default_factory=Script)
    facts: BoxFacts = A_BOX
    kind: str = "fake"
    calls: list[tuple[str, str]] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    busy_ports: dict[int, str] = field(default_factory=dict)
    gpu_holders: str | None = None
    foreigners: dict[str, ForeignContainer] = field(default_factory=dict)
    foreign_faults: dict[str, Exception] = field(default_factory=dict)
    check_fault: Exception | None = None
    silent_about_ports: list[Exception | None] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    pulls: dict[str, float | Exception] = field(default_factory=dict)
    _engines: dict[str, _Engine] = field(default_factory=dict)
    _started: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)

    # --- the port ---

    def check(self, launch: Launch) -> None:
        self.calls.append(("check", launch.boot_key))
        if self.check_fault is not None:
            raise self.check_fault
        holder = self._holder(launch.port)
        if holder is not None:
            raise PortBusy(port=launch.port, holder=holder)

    def fetch(self, image: str, *, check: Callable[[], None]) -> Seconds | None:
        takes = self.pulls.get(image)
        if takes is None or image in self.images:
            return None
        self.calls.append(("fetch", image))
        if isinstance(takes, Exception):
            raise takes
        begun = self.clock.monotonic()
        while self.clock.monotonic() - begun < takes:
            check()
            self.clock.sleep(Seconds(1.0))
        self._pulled(image)
        return Seconds(self.clock.monotonic() - begun)

    def start(self, launch: Launch) -> EngineHandle:
        with self._lock:
            self.calls.append(("start", launch.boot_key))
            self.launches.append(launch)
            script = self.script(launch) if callable(self.script) else self.script
            if script.refused is not None:
                raise script.refused
            if any(handle.boot_key == launch.boot_key for handle in self.running):
                raise LaunchRefused(reason=f"an engine of boot {launch.boot_key} runs already")
            self._started += 1
            handle = EngineHandle(
                host=self.kind,
                id=f"fake-{self._started}",
                boot_key=launch.boot_key,
                port=launch.port,
                base_url=f"http://127.0.0.1:{launch.port}",
                image_digest=self._pulled(launch.image),
                image_refs=(launch.image,) if launch.image else (),
                facts={"holder": launch.labels.get("nightsweep.holder")},
            )
            self._engines[handle.id] = _Engine(handle, script, self.clock.monotonic(), list(script.lines))
            return handle

    def state(self, handle: EngineHandle) -> EngineState:
        with self._lock:
            engine = self._engines.get(handle.id)
            if engine is None:
                return EngineState(running=False, host_fault=True, detail="no such engine")
            return self._settle(engine)

    def running_engines(self) -> list[_Engine]:
        """Return the engines that run, for tests that have one say something."""
        with self._lock:
            return [engine for engine in self._engines.values() if self._settle(engine).running]

    def follow_log(self, handle: EngineHandle, *, stop: Callable[[], bool]) -> Iterator[LogLine]:
        engine = self._engines.get(handle.id)
        if engine is None:
            return
        shown = 0
        while not stop():
            ended = not self._settle(engine).running
            until = self._elapsed(engine)
            while shown < len(engine.lines) and engine.lines[shown][0] <= until:
                seconds, text = engine.lines[shown]
                shown += 1
                yield LogLine(text=text, seconds=seconds)
            if ended:
                return
            threading.Event().wait(POLL)

    def owns_port(self, handle: EngineHandle) -> str | None:
        with self._lock:
            fault = self.silent_about_ports.pop(0) if self.silent_about_ports else None
            if fault is not None:
                raise fault
            engine = self._engines.get(handle.id)
            if engine is None or not self._settle(engine).running:
                return "the engine is not running"
            if handle.port in self.busy_ports:
                return f"port {handle.port} is held by {self.busy_ports[handle.port]}"
            return engine.script.port_problem

    def stop(self, handle: EngineHandle, *, grace: Seconds) -> EngineState:
        with self._lock:
            self.calls.append(("stop", handle.boot_key))
            engine = self._engines.get(handle.id)
            if engine is None:
                return EngineState(running=False, detail="already gone")
            if self._settle(engine).running:
                self._end_by_us(engine, grace)
            del self._engines[handle.id]
            return replace(engine.ended or EngineState(running=False), running=False)

    def wait_free(self, *, port: int, timeout: Seconds) -> None:
        self.calls.append(("wait_free", str(port)))
        holder = self._holder(port)
        if holder is not None:
            self.clock.sleep(timeout)
            raise PortBusy(port=port, holder=holder)
        if self.gpu_holders is not None:
            self.clock.sleep(timeout)
            raise GpuBusy(waited=timeout, holders=self.gpu_holders)

    def owned(self) -> tuple[EngineHandle, ...]:
        with self._lock:
            return tuple(engine.handle for engine in self._engines.values())

    def image_digest(self, image: str) -> str | None:
        return self.images.get(image)

    def box(self) -> BoxFacts:
        return self.facts

    def foreign(self, name: str) -> ForeignContainer:
        try:
            return self.foreigners[name]
        except KeyError:
            raise ContainerMissing(name=name) from None

    def stop_foreign(self, name: str, *, grace: Seconds) -> None:
        self.calls.append(("stop_foreign", name))
        self.foreigners[name] = replace(self.foreign(name), running=False)

    def start_foreign(self, name: str) -> None:
        self.calls.append(("start_foreign", name))
        if name in self.foreign_faults:
            raise self.foreign_faults[name]
        self.foreigners[name] = replace(self.foreign(name), running=True)

    # --- for tests ---

    def kill(
        self,
        handle: EngineHandle,
        *,
        exit_code: int = 137,
        oom_killed: bool | None = None,
        host_fault: bool = False,
        taken_away: bool = False,
    ) -> None:
        """End an engine from outside, now."""
        with self._lock:
            self._end(
                self._engines[handle.id],
                EngineState(
                    running=False,
                    exit_code=exit_code,
                    oom_killed=oom_killed,
                    host_fault=host_fault,
                    taken_away=taken_away,
                ),
            )

    @property
    def running(self) -> tuple[EngineHandle, ...]:
        """Engines that are alive now."""
        with self._lock:
            return tuple(engine.handle for engine in self._engines.values() if self._settle(engine).running)

    def add_foreign(self, name: str, *, running: bool = True, ports: Mapping[int, int] | None = None) -> None:
        """Put a production container on the box."""
        self.foreigners[name] = ForeignContainer(
            name=name,
            id=f"foreign-{name}",
            running=running,
            image="vllm/vllm-openai:v0.28.0",
            image_digest=f"sha256:{'1' * 64}",
            command=("--model", "some/model"),
            entrypoint=("vllm", "serve"),
            env_names=(),
            ports=ports or {8000: 8000},
            container=ContainerSpec(gpus="all"),
            restart_policy="unless-stopped",
            shown_entrypoint=("vllm", "serve"),
            shown_command=("--model", "some/model"),
        )

    # --- inside ---

    def _pulled(self, image: str | None) -> str | None:
        """Return the digest of an image, which is on the box from its first start on."""
        return None if image is None else self.images.setdefault(image, f"sha256:{'0' * 64}")

    def _holder(self, port: int) -> str | None:
        if port in self.busy_ports:
            return self.busy_ports[port]
        for handle in self.running:
            if handle.port == port:
                return f"engine {handle.boot_key}"
        return None

    def _elapsed(self, engine: _Engine) -> float:
        now = engine.ended_at if engine.ended_at is not None else self.clock.monotonic()
        return now - engine.started

    def _settle(self, engine: _Engine) -> EngineState:
        script = engine.script
        due = script.exits_at is not None and self.clock.monotonic() - engine.started >= script.exits_at
        if engine.ended is None and due:
            self._end(engine, EngineState(False, script.exit_code, script.oom_killed, script.host_fault))
            engine.ended_at = engine.started + (script.exits_at or 0.0)
        return engine.ended or EngineState(running=True)

    def _end(self, engine: _Engine, state: EngineState) -> None:
        if engine.ended is None:
            engine.ended = state
            engine.ended_at = self.clock.monotonic()

    def _end_by_us(self, engine: _Engine, grace: Seconds) -> None:
        if engine.script.immortal:
            self.clock.sleep(grace)
            raise EngineNotGone(handle=engine.handle.id, waited=float(grace), reason="scripted to stay")
        if engine.script.swallows_term:
            self.clock.sleep(grace)
            self._end(engine, EngineState(running=False, exit_code=137))
            return
        if engine.script.last_words is not None:
            engine.lines.append((self._elapsed(engine), engine.script.last_words))
        self._end(engine, EngineState(running=False, exit_code=engine.script.term_exit_code))
