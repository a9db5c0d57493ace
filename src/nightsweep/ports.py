"""Ports: what the sweep needs from the outside, as Protocols over plain values.

`Host` is Docker or the operating system, `Engine` what is known of vLLM or SGLang, `Probe` load and readings over HTTP,
`Store` PostgreSQL, `Clock` time. The loop in `sweep/` sees nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from nightsweep.engine.values import (
    Applied,
    BootFacts,
    BootFailure,
    Dialect,
    FailureEvidence,
    LogLine,
    Readiness,
    ServedIdentity,
)
from nightsweep.measurement.boxstate import BoxSample
from nightsweep.measurement.traffic import Traffic
from nightsweep.measurement.values import PrefillResult, RawWindow, WindowResult
from nightsweep.plan.drawn import Drawn
from nightsweep.plan.expect import Prediction, Resident
from nightsweep.plan.fit import PastStarts
from nightsweep.plan.model import (
    ContainerSpec,
    EngineConfig,
    PrefillRepeat,
    Repeat,
    SamplingSpec,
    SweepPlan,
)
from nightsweep.plan.reuse import Kept, Link
from nightsweep.units import Bytes, MonotonicSeconds, Seconds, Tokens

# --- Clock -------------------------------------------------------------------------------------------------------


class Clock(Protocol):
    """Time comes in: measure with `monotonic`, record with `now`."""

    def monotonic(self) -> MonotonicSeconds:
        """Return seconds on this process's monotonic clock."""

    def now(self) -> datetime:
        """Return the time of day, in UTC and aware of it."""

    def sleep(self, seconds: Seconds) -> None:
        """Wait; a fake clock advances instead."""


# --- Host --------------------------------------------------------------------------------------------------------


class Secret(str):
    """A string that shows itself as `***` in repr, so that it does not slip into a log or an error."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"


@dataclass(frozen=True)
class Launch:
    """One engine start, fully resolved.

    Attributes:
        boot_key: Our own unique name of the boot; becomes a label and the container's name.
        command: Arguments (docker: after the entry point; process: the whole command line).
        env: Values of `Secret` are passed on and never shown.
        port: The port on this host where the engine shall answer.
        container_port: The port inside the container (docker, bridge network); equals `port` on the host's network.
    """

    boot_key: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    port: int
    container_port: int
    image: str | None = None
    container: ContainerSpec = ContainerSpec()
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineHandle:
    """A started engine. `id` is the container id, or "pid:starttime" for a process.

    Attributes:
        image_digest: Content identity of the image ("sha256:..." of RepoDigests, else of config + layers); None for a process.
        image_refs: Names the image goes by.
    """

    host: str
    id: str
    boot_key: str
    port: int
    base_url: str  # without /v1
    image_digest: str | None = None
    image_refs: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineState:
    """What the host says of an engine now.

    Attributes:
        exit_code: None while it runs, or when nobody knows (a process that was not our child).
        oom_killed: Docker's flag; None where the host has none.
        host_fault: The end was the host's doing (daemon stopped), not the config's.
        taken_away: Another hand has stopped it and put it away: its container, or what is kept of its process, is not there any
            more. No engine does that to itself.
    """

    running: bool
    exit_code: int | None = None
    oom_killed: bool | None = None
    host_fault: bool = False
    detail: str | None = None
    taken_away: bool = False


@dataclass(frozen=True)
class BoxFacts:
    """The box, as far as numbers depend on it; `fingerprint` is the hash over `facts` less what changes from boot to boot."""

    name: str
    fingerprint: str
    facts: Mapping[str, Any]
    simulated: bool = False


@dataclass(frozen=True)
class ForeignContainer:
    """A container that is not ours (production), as `docker inspect` tells it."""

    name: str
    id: str
    running: bool
    image: str
    image_digest: str | None
    command: tuple[str, ...]
    entrypoint: tuple[str, ...]
    env_names: tuple[str, ...]
    ports: Mapping[int, int]  # container port -> host port
    container: ContainerSpec
    restart_policy: str
    labels: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)  # values of names that look secret are `Secret`
    paused: bool = False
    own_env: tuple[str, ...] = ()  # names of variables that its image does not set
    addresses: tuple[str, ...] = ()  # its own on Docker's networks; none on the host's network
    shown_entrypoint: tuple[str, ...] = ()  # for people and records: secrets are hidden
    shown_command: tuple[str, ...] = ()
    started: datetime | None = None  # last; None where Docker does not say


class Host(Protocol):
    """Where engines run. All calls block; what is slow says so and has a timeout."""

    kind: str

    def check(self, launch: Launch) -> None:
        """Raise a HostError when no engine like this can be started here (no daemon, no GPU runtime, port in use)."""

    def fetch(self, image: str, *, check: Callable[[], None]) -> Seconds | None:
        """Have an image here that engines are started from; return how long that took, None for one that was here.

        Takes as long as a registry does.

        Args:
            check: Asked several times a second meanwhile; what it raises gives the pull up.

        Raises:
            ImageMissing: Neither here nor to be pulled.
        """

    def start(self, launch: Launch) -> EngineHandle:
        """Start the engine; labelled as ours, never restarted by the host.

        Raises:
            ImageMissing: It is not here: nothing is fetched at a start.
            LaunchRefused: Docker or the operating system refused it.
        """

    def state(self, handle: EngineHandle) -> EngineState:
        """Return whether the engine lives. Cheap (some ms): called several times a second."""

    def follow_log(self, handle: EngineHandle, *, stop: Callable[[], bool]) -> Iterator[LogLine]:
        """Yield log lines as they come, with seconds since start, until the engine ended and its log is read out, or `stop()`.

        Survives a daemon restart: nothing lost, nothing doubled.
        """

    def owns_port(self, handle: EngineHandle) -> str | None:
        """Return None when this engine is what listens on its port; else the reason to doubt it.

        Raises:
            HostError: The host cannot say, also after a while: no reason to doubt the engine, and no proof of it.
        """

    def stop(self, handle: EngineHandle, *, grace: Seconds) -> EngineState:
        """Stop and remove the engine, and prove that it is gone: signal, wait `grace`, kill. Idempotent.

        Raises:
            EngineNotGone: It is still there.
        """

    def wait_free(self, *, port: int, timeout: Seconds) -> None:
        """Wait until nobody listens on the port and the accelerator's memory is back at what it was before.

        Raises:
            PortBusy, GpuBusy: Not free in time.
        """

    def owned(self) -> tuple[EngineHandle, ...]:
        """Return engines of ours that are still on this box (also of earlier, dead services)."""

    def image_digest(self, image: str) -> str | None:
        """Return the content identity of an image that is on the box, as `EngineHandle` has it; None when it is not here."""

    def box(self) -> BoxFacts:
        """Return the box's fingerprint and facts: accelerator, memory, driver, kernel, CPU."""

    def foreign(self, name: str) -> ForeignContainer:
        """Return a container that is not ours, by name or id (raises ContainerMissing)."""

    def stop_foreign(self, name: str, *, grace: Seconds) -> None:
        """Stop a container that is not ours; it is never removed or changed."""

    def start_foreign(self, name: str) -> None:
        """Start it again, or let it go on where it was paused. Idempotent (raises ProductionNotRestored)."""


# --- Box state ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PageCacheDrop:
    """What freeing the page cache did. `before` and `after` are its size; `refused` says why it was not done, else None."""

    before: Bytes | None
    after: Bytes | None
    refused: str | None


class BoxWatch(Protocol):
    """The samples of one watch, while and after it goes on."""

    def samples(self) -> tuple[BoxSample, ...]:
        """Return the samples so far, oldest first."""


class BoxSampler(Protocol):
    """Watches the box beside a running engine. Must disturb nothing and raise nothing: what cannot be told is None."""

    @property
    def cores(self) -> int:
        """Logical cores of the machine."""

    def watch(self, handle: EngineHandle, *, every: Seconds) -> AbstractContextManager[BoxWatch]:
        """Sample at once and then every so many seconds, until the block ends."""

    def page_cache(self) -> Bytes | None:
        """Return the size of the page cache; None where there is none to be told."""

    def drop_page_cache(self) -> PageCacheDrop:
        """Free the page cache where that is permitted. Dirty pages are written back first: may take seconds."""


# --- Engine ------------------------------------------------------------------------------------------------------


class BootLogReader(Protocol):
    """Reads a boot log while it comes."""

    def feed(self, line: LogLine) -> None:
        """Take the next line; any bytes that were decoded are fine, nothing raises."""

    def facts(self) -> BootFacts:
        """Return what is known so far."""


class Engine(Protocol):
    """What is known of one engine kind. Pure."""

    kind: str

    def command(self, config: EngineConfig, *, listen_host: str, port: int) -> tuple[str, ...]:
        """Return the command line of a config: `command` of its spec, model, arguments, speculative settings, port."""

    def warnings(self, config: EngineConfig) -> tuple[str, ...]:
        """Return what a user should know before trying this config (unknown keys with the nearest known one, version guards)."""

    def readiness(self) -> Readiness:
        """Return how to tell that the engine is ready."""

    def log_reader(self) -> BootLogReader:
        """Return a fresh reader for one boot's log."""

    def classify(self, evidence: FailureEvidence) -> BootFailure:
        """Return why a boot failed; `unknown` with the best evidence when it cannot be told."""

    def dialect(self, version: str | None) -> Dialect:
        """Return where this version keeps its counters."""

    def identity_paths(self) -> Mapping[str, str]:
        """Return the paths to ask for identity: {"models": "/v1/models", "version": "/version", ...}."""

    def identity(self, answers: Mapping[str, Any]) -> ServedIdentity:
        """Return the identity told by the JSON answers, by the keys of `identity_paths` (plus "metrics": canonical values)."""

    def identity_problem(self, config: EngineConfig, identity: ServedIdentity, facts: BootFacts) -> str | None:
        """Return why what answers is not this config as booted; None when all agrees."""

    def proof(
        self, config: EngineConfig, facts: BootFacts, served: ServedIdentity, *, page: str, answers: Mapping[str, Any]
    ) -> Applied:
        """Return what of the config was not applied as asked, and the KV budget from other sources than the log.

        Args:
            page: The metrics page of the ready engine; "" when it did not come.
            answers: The JSON answers of `identity_paths`.
        """


# --- Probe -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """Where load goes and where counters are read.

    Attributes:
        base_url: The engine itself, without /v1: counters, health and identity.
        load_url: Where requests go, without /v1; equals `base_url` unless a proxy is named.
        ca: Path of a PEM file whose authorities are trusted besides the system's, or None.
        http2: Whether the load is sent by HTTP/2: negotiated over TLS, from the first byte without.
    """

    base_url: str
    load_url: str
    model: str
    dialect: Dialect
    api: str = "chat"
    api_key: Secret | None = None
    request_timeout: Seconds = Seconds(600.0)
    ca: str | None = None
    http2: bool = False


@dataclass(frozen=True)
class WindowRequest:
    """One decode window to be measured.

    Attributes:
        coming_up: Told, in a thread of the probe's, how many streams have had their first token each time that one more has.
        waiting: Told, in that thread, what is waited for ("for the engine to be idle"), and "" when that is over.
    """

    concurrency: int
    temperature: float
    window: Seconds
    sampling: SamplingSpec
    prompts: Sequence[Any]  # each a str, or a chat message list
    first_prompt: int  # where in the seeded order this window starts
    order_seed: int
    ramp_timeout: Seconds = Seconds(300.0)
    coming_up: Callable[[int], None] = field(default=lambda up: None, compare=False)
    waiting: Callable[[str], None] = field(default=lambda what: None, compare=False)


@dataclass(frozen=True)
class SingleBatchRequest:
    """One single-batch run: `input` random token ids drawn by `salt`, and `output` tokens whatever the model would stop at.

    Attributes:
        waiting: As of a `WindowRequest`.
    """

    input: Tokens
    output: Tokens
    temperature: float
    salt: str
    sampling: SamplingSpec
    waiting: Callable[[str], None] = field(default=lambda what: None, compare=False)


@dataclass(frozen=True)
class Reached:
    """What answers at a URL. `status` is None for a listener that speaks no HTTP, or accepts and keeps silent."""

    listening: bool
    status: int | None = None


class Probe(Protocol):
    """Load and readings over HTTP. Blocking; asyncio stays inside."""

    def reach(self, url: str, *, timeout: Seconds, api_key: Secret | None = None) -> Reached:
        """Return what answers at `url`, whatever it is. A connection that is closed without a byte is nobody."""

    def healthy(self, url: str, *, timeout: Seconds) -> bool:
        """Return whether `url` answers 200 within `timeout`; anything else, also a refused connection, is False."""

    def served_token(self, target: Target, *, timeout: Seconds, check: Callable[[], None] = lambda: None) -> str | None:
        """Ask for one token. Return None when one was served, else the reason why not; what `check` raises ends the wait."""

    def ask(
        self, base_url: str, paths: Mapping[str, str], *, timeout: Seconds, api_key: Secret | None = None
    ) -> Mapping[str, Any]:
        """Return the JSON answers by key; a path that does not answer (also for want of a key) is absent."""

    def read(self, target: Target) -> Any:
        """Return one `Reading` of the target's counters (raises MetricsUnreadable)."""

    def warm_up(self, target: Target, request: WindowRequest, *, alive: Callable[[], bool]) -> None:
        """Run an uncounted load until every stream has had some tokens, or `request.window` is over; then let it drain."""

    def window(self, target: Target, request: WindowRequest, *, alive: Callable[[], bool]) -> RawWindow:
        """Measure one decode window; `alive` is asked several times a second and ends it when the engine is gone."""

    def prefill(
        self,
        target: Target,
        *,
        tokens: Tokens,
        salt: str,
        sampling: SamplingSpec,
        alive: Callable[[], bool],
        load: WindowRequest | None = None,
        waiting: Callable[[str], None] = lambda what: None,
    ) -> PrefillResult:
        """Measure one prefill of exactly `tokens` fresh tokens, on an idle engine.

        Args:
            load: Streams that decode meanwhile; they run alone for `load.window` first. None is an idle engine.
            waiting: As of a `WindowRequest`.
        """

    def single_batch(self, target: Target, request: SingleBatchRequest, *, alive: Callable[[], bool]) -> RawWindow:
        """Measure one request alone on an idle engine; the raw window holds it, and the readings before and after."""

    def drain(self, target: Target, *, timeout: Seconds) -> bool:
        """Wait until the engine reports nothing running or waiting; False when it does not within `timeout`."""


# --- Store -------------------------------------------------------------------------------------------------------

INTERRUPTED = "interrupted: "
"""How the note of a partial sweep begins that a signal ended: it is for whoever started it to go on with it."""


@dataclass(frozen=True)
class Lease:
    """The right to write to a sweep. A write under a fence that is no longer current is refused (LeaseLost)."""

    sweep_id: int
    box_id: int
    owner: str
    fence: int


@dataclass(frozen=True)
class Stored:
    """What a sweep already holds, by the plan's own values.

    Attributes:
        windows: (config fingerprint, concurrency, temperature as str, repeat index) -> (clean, attempts so far).
        prefills: (config fingerprint, prompt tokens, streams under load, repeat index) -> (clean, attempts so far).
        failed_boots: (config fingerprint, boot round) -> boots that failed, with their retry advice, oldest first.
        single_batches: As `windows`, of single-batch cells.
    """

    windows: Mapping[tuple[str, int, str, int], tuple[bool, int]]
    prefills: Mapping[tuple[str, int, int, int], tuple[bool, int]]
    failed_boots: Mapping[tuple[str, int], tuple[str, ...]]
    single_batches: Mapping[tuple[str, int, str, int], tuple[bool, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Reusable:
    """What a sweep might take over.

    Attributes:
        conditions: Their documents, by fingerprint.
        linked: (kind, row) of what stands in the sweep's places already.
    """

    rows: tuple[Kept, ...]
    conditions: Mapping[str, Mapping[str, Any]]
    linked: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True)
class BootOutcome:
    """How a boot ended, for the record. `failure` is None for a boot that was ready and stopped by us."""

    state: str  # "stopped" | "failed"
    exit_code: int | None
    oom_killed: bool | None
    failure: BootFailure | None
    facts: BootFacts


@dataclass(frozen=True)
class BootReady:
    """What is known when a boot became ready."""

    cold_start: Seconds  # start to first healthy answer
    first_token: Seconds  # start to first served token
    facts: BootFacts
    identity: ServedIdentity
    cache_state: Mapping[str, Any] = field(default_factory=dict)
    applied: Applied = field(default_factory=Applied)


@dataclass(frozen=True)
class Owed:
    """Production that was taken down and is not known to be back. `record` is empty for one of an earlier version."""

    intent_id: int
    container: str
    record: Mapping[str, Any]


class Store(Protocol):
    """PostgreSQL: the only truth about what is measured. Every write under a lease checks its fence in the same transaction."""

    def be_patient(self, seconds: Seconds, *, until: MonotonicSeconds | None = None) -> None:
        """Wait so long for a database that is away, and until that moment where one is given, before StoreUnavailable.

        Results that wait so are kept where a death of this process does not lose them.
        """

    def box_id(self, box: BoxFacts) -> int:
        """Return the box's row, making or updating it."""

    def open_sweep(self, plan: SweepPlan, *, box_id: int, file_text: str) -> int:
        """Return the sweep of this plan on this box: the one with the same fingerprint and name, else a new one."""

    def claim(self, sweep_id: int, *, owner: str, ttl: Seconds) -> Lease:
        """Take the sweep and its box (raises BoxBusy).

        A lease that ran out, or whose owner is a dead process of this machine, is taken over.
        """

    def renew(self, lease: Lease, *, ttl: Seconds) -> None:
        """Hold on to the lease (raises LeaseLost)."""

    def release(self, lease: Lease, *, state: str, note: str) -> None:
        """Give sweep and box back. `state`: done | partial | failed | cancelled | interrupted | paused."""

    def stop_wish(self, sweep_id: int) -> str | None:
        """Return how somebody asked the sweep to stop, None when nobody did.

        "finish": after the window in hand. "drop": at once, the window in hand is dropped. "pause": as "finish", and no
        schedule starts the sweep again. Asks once: a store that is away raises StoreUnavailable without a wait.
        """

    def wish_stop(self, sweep_id: int, *, wish: str) -> None:
        """Ask the sweep to stop; the last word counts."""

    def plan_repeats(self, sweep_id: int, repeats: int) -> None:
        """Keep how many repeats a sweep asks for by now: a decision asks for more, round by round (raises NotFound)."""

    def is_paused(self, sweep_id: int) -> bool:
        """Return whether the sweep waits for a person to go on with it."""

    def past_starts(self, box_id: int) -> PastStarts:
        """Return how long engines, and production, took to start on this box, whatever its driver and kernel were then."""

    def past_residents(self, box_id: int) -> Mapping[str, Resident]:
        """Return what the newest boot of each config (by fingerprint) on this box told of its weights and KV cache."""

    def stored(self, sweep_id: int) -> Stored:
        """Return what the sweep already holds."""

    def drawn(self, sweep_id: int) -> tuple[Drawn, ...]:
        """Return the sweep's own clean decode windows, oldest first, as a decision needs them."""

    def reusable(self, sweep_id: int) -> Reusable:
        """Return the clean measurements of all sweeps on the sweep's box that are of its configs."""

    def reuse(self, lease: Lease, links: Sequence[Link]) -> None:
        """Let measurements of other sweeps stand in this sweep's places; a place that has one keeps it."""

    def reused_conditions(self, sweep_id: int, config: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the conditions, by fingerprint, of all that was taken over for a config."""

    def withdraw_reused(self, lease: Lease, config: str, *, conditions: frozenset[str]) -> int:
        """Take a config's measurements of these conditions out of the sweep's places again; return how many."""

    def predict(self, lease: Lease, predictions: Sequence[Prediction], *, at: datetime) -> None:
        """Keep what is expected of cells; what is kept already stays as it is, with the time of its first writing.

        What is expected of a cell that has a window is marked as written after the fact.
        """

    def begin_boot(
        self,
        lease: Lease,
        config: EngineConfig,
        *,
        boot_round: int,
        boot_key: str,
        command: Sequence[str],
        at: datetime,
    ) -> int:
        """Record that a boot is about to start; returns its id. Any boot of this box still open is closed as `lost`."""

    def boot_started(self, lease: Lease, boot_id: int, handle: EngineHandle) -> None:
        """Record container or process, and the image."""

    def boot_ready(self, lease: Lease, boot_id: int, ready: BootReady, *, at: datetime) -> None:
        """Record readiness, cold start and facts."""

    def end_boot(self, lease: Lease, boot_id: int, outcome: BootOutcome, *, at: datetime) -> None:
        """Record how the boot ended."""

    def add_log(self, boot_id: int, seq: int, lines: Sequence[LogLine]) -> None:
        """Keep a chunk of the boot's log, compressed. Idempotent by (boot, seq)."""

    def add_window(
        self,
        lease: Lease,
        boot_id: int,
        repeat: Repeat,
        result: WindowResult,
        *,
        attempt: int,
        conditions: Mapping[str, Any],
        at: datetime,
    ) -> int:
        """Keep a window, with everything, in one transaction.

        Raises:
            RepeatAlreadyStored: A clean window of this repeat is there already.
            LeaseLost: The sweep was taken over.
        """

    def add_prefill(
        self,
        lease: Lease,
        boot_id: int,
        repeat: PrefillRepeat,
        result: PrefillResult,
        *,
        attempt: int,
        conditions: Mapping[str, Any],
        at: datetime,
    ) -> int:
        """Keep a prefill measurement; as `add_window`."""

    def event(
        self,
        kind: str,
        message: str,
        *,
        level: str = "info",
        sweep_id: int | None = None,
        boot_id: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep an event: what happened, for people and for the morning."""

    def open_intent(
        self,
        lease: Lease,
        production: ForeignContainer,
        *,
        restore_by: datetime | None,
        record: Mapping[str, Any] | None = None,
        traffic: Traffic | None = None,
        replaces: bool = False,
    ) -> int:
        """Commit, before production is touched, what runs and how it comes back; returns the intent's id.

        An intent that is open for it already stays, with what it has recorded, and becomes this sweep's.

        Args:
            replaces: What is recorded now takes the place of what an open intent has recorded, which is kept beside it.
            record: All that bringing it back needs, without secrets; given back by `owed`.
            traffic: What it has served; None was not looked for. Of an intent that is open already, the newest that tells a
                mean stays.
        """

    def mark_intent(self, intent_id: int, *, stage: str) -> None:
        """Record when production was "stopped", or when it was started again ("restore_started"); the first time counts."""

    def close_intent(self, intent_id: int, *, outcome: str, checks: Mapping[str, Any] | None = None) -> None:
        """Record that production serves again ("restored"), or why it does not, and what was checked."""

    def owed(self, box_id: int) -> tuple[Owed, ...]:
        """Return production that was taken down and not restored, oldest first."""

    def open_intents(self, box_id: int) -> tuple[tuple[int, str], ...]:
        """Return (intent id, container name) of production that was taken down and not restored."""


# --- the sweep's own hooks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Progress:
    """Where a sweep is: sent to listeners after every step."""

    sweep_id: int
    phase: str  # "boot" | "warmup" | "window" | "prefill" | "stop" | "done" | ...
    message: str
    windows_done: int
    windows_planned: int
    facts: Mapping[str, Any] = field(default_factory=dict)
