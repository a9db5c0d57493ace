"""The values a plan is made of: plan > boot > cell > repeat.

An *engine config* is all that needs a reboot; a *boot* is one start of it; a *cell* is a config at one concurrency and
temperature; a *repeat* is one measured run of a cell. All values are frozen and hold no secret: a secret is a `SecretRef`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from nightsweep.plan.words import CONTROL_ROUND as CONTROL_ROUND
from nightsweep.plan.words import DECODE as DECODE
from nightsweep.plan.words import SINGLE_BATCH as SINGLE_BATCH
from nightsweep.plan.words import WHOLE_RUN as WHOLE_RUN
from nightsweep.units import Seconds, Tokens

IDLE_FOR = Seconds(60.0)
"""How long production must have been idle before it is stopped, where the sweep file does not say."""

JSON = None | bool | int | float | str | list[Any] | dict[str, Any]


@dataclass(frozen=True)
class SecretRef:
    """A value that is taken from an environment variable when the engine starts, and is never stored or logged."""

    from_env: str


EnvValue = str | SecretRef


@dataclass(frozen=True)
class ContainerSpec:
    """How the engine's container is made, in Docker's own words.

    Units:
        shm_size and memory: bytes.
    """

    gpus: str | None = None  # "all", a count "2", or device ids "0,1"; None asks for none
    ipc: str | None = None  # "host", "private", "shareable"
    shm_size: int | None = None
    memory: int | None = None
    volumes: tuple[str, ...] = ()  # "/host/path:/container/path[:ro]"
    devices: tuple[str, ...] = ()
    network: str | None = None  # None is Docker's bridge with a published port; "host" shares the host's
    entrypoint: tuple[str, ...] | None = None  # None keeps the image's own
    user: str | None = None
    cap_add: tuple[str, ...] = ()
    security_opt: tuple[str, ...] = ()
    ulimits: tuple[str, ...] = ()  # "memlock=-1", "nofile=65536:65536"
    extra_hosts: tuple[str, ...] = ()
    runtime: str | None = None
    init: bool = True
    workdir: str | None = None


@dataclass(frozen=True)
class EngineSpec:
    """Everything that starts one engine, but for the speculative settings.

    Attributes:
        command: For host `process`: what is executed before the engine's own arguments, e.g. ("vllm", "serve"). For host
            `docker`: put in front of the arguments when the image's entry point does not serve by itself; usually empty.
        args: Engine arguments without leading dashes; True is a bare flag, False is `--no-...` , None is left out.
        port: Where the engine listens on the host; 0 picks a free one at each boot. Not part of the fingerprint.
        drop_page_cache: Free the kernel's page cache before each boot. Not part of the fingerprint, but of the conditions.
    """

    kind: str  # vllm | sglang
    host: str  # docker | process
    model: str
    served_name: str
    image: str | None = None
    command: tuple[str, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, EnvValue] = field(default_factory=dict)
    container: ContainerSpec = ContainerSpec()
    port: int = 8000
    boot_timeout: Seconds = Seconds(1200.0)
    stop_grace: Seconds = Seconds(20.0)
    model_revision: str | None = None
    simulated: bool = False
    drop_page_cache: bool = False


@dataclass(frozen=True)
class EngineConfig:
    """One engine config: what a boot starts. Two configs with equal fingerprints are the same config.

    Attributes:
        speculative: Keys of the engine's own speculative settings; None is no speculation.
        document: The canonical content that the fingerprint is taken over: no name, no secret, no port.
        fingerprint: SHA-256 (hex) of the canonical JSON of `document`.
        grid_values: The grid keys that made this config, for tables.
    """

    name: str
    engine: EngineSpec
    speculative: Mapping[str, Any] | None
    document: Mapping[str, Any]
    fingerprint: str
    grid_values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SamplingSpec:
    """Every sampling parameter that is sent with every request, besides the temperature, which the cell gives."""

    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    max_tokens: int = 1024
    ignore_eos: bool = False  # False is not sent: it is what every engine does anyway
    min_tokens: int | None = None  # None is not sent
    seed: int | None = None  # None lets the engine draw; a number is sent with each request plus its index


@dataclass(frozen=True)
class PrefillSpec:
    """The prefill probe: `repeats` fresh prompts of exactly `tokens` tokens on an idle engine, per boot.

    Attributes:
        others: Further prompt lengths, each measured as often.
        under_load: Measure each length a second time while so many streams decode; 0 is on the idle engine only.
    """

    tokens: Tokens
    repeats: int = 3
    others: tuple[Tokens, ...] = ()
    under_load: int = 0

    @property
    def lengths(self) -> tuple[Tokens, ...]:
        """Every prompt length, in the order written."""
        return (self.tokens, *self.others)

    @property
    def per_boot(self) -> int:
        """Measurements of one boot."""
        return len(self.lengths) * self.repeats * (2 if self.under_load else 1)


@dataclass(frozen=True)
class SingleBatchSpec:
    """The single-batch probe: one request alone, `input` random token ids that no cache has seen, `output` tokens.

    Attributes:
        runs: Measurements of a config in the whole sweep, spread over its boots.
    """

    input: Tokens = Tokens(1024)
    output: Tokens = Tokens(256)
    runs: int = 2
    temperature: Decimal = Decimal(0)


@dataclass(frozen=True)
class ProbeSpec:
    """What is measured on every boot.

    Attributes:
        through: Base URL (with /v1) that the load goes through, e.g. the production proxy; None is the engine itself.
        prompts: Name of a bundled prompt set, or the path of a JSONL file.
        prompts_hash: SHA-256 (hex) of the prompt set's content; None until the file was read.
        api: "chat", "completions", or "generate": SGLang's own endpoint, which tells each request's acceptance.
        prompt_seed: Seed of the order in which prompts are drawn: the same for every config (common random numbers).
        warmup: Longest time for the uncounted load after a boot; 0 is none.
        max_attempts: Measurements of one repeat at most: the first and two more when flagged.
        ca: Path of a PEM file with authorities to trust besides the system's, for `through`.
        http2: Send the load by HTTP/2, for a proxy that does it; counters are read as ever.
        draws_by_repeat: Where in the prompts a window starts depends on its place and repeat alone, not on how many repeats there
            are: a decision does not know that beforehand.
    """

    concurrency: tuple[int, ...]
    temperature: tuple[Decimal, ...]
    window: Seconds = Seconds(40.0)
    repeats: int = 3
    boots: int = 1
    prompts: str = "code"
    prompts_hash: str | None = None
    prompt_seed: int = 20260101
    api: str = "chat"
    through: str | None = None
    api_key: SecretRef | None = None
    sampling: SamplingSpec = SamplingSpec()
    prefill: PrefillSpec | None = None
    single_batch: SingleBatchSpec | None = None
    warmup: Seconds = Seconds(30.0)
    max_attempts: int = 3
    request_timeout: Seconds = Seconds(600.0)
    ca: str | None = None
    http2: bool = False
    draws_by_repeat: bool = False


@dataclass(frozen=True)
class Schedule:
    """When the service starts the sweep, and by when production must be back.

    Attributes:
        priority: Of several that are due on a box the highest runs first.
        names_zone: Whether the file says `timezone`; one that does not has its times in UTC.
    """

    cron: str | None = None
    timezone: str = "UTC"
    until: str | None = None  # "07:00" local time of `timezone`
    priority: int = 0
    names_zone: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Production:
    """The container that serves by day: stopped for the sweep, never removed, started again afterwards.

    Attributes:
        url: Base URL to prove that it serves again; None takes the container's own port.
        idle_for: How long it must have been idle before it is stopped; 0 does not ask. None is `IDLE_FOR`, and goes on with a
            warning where production cannot be asked; a time that was written must be proven.
        idle_limit: How long that is waited for before the night is skipped.
    """

    container: str
    url: str | None = None
    ready_timeout: Seconds = Seconds(1200.0)
    idle_for: Seconds | None = None
    idle_limit: Seconds = Seconds(1800.0)

    @property
    def must_idle(self) -> Seconds:
        """How long it is waited for to be idle, written or not; 0 does not ask."""
        return IDLE_FOR if self.idle_for is None else self.idle_for


@dataclass(frozen=True)
class Cell:
    """An engine config (by fingerprint) at one concurrency and temperature.

    Attributes:
        kind: What its repeats are: "decode" windows, or "single_batch" runs (concurrency 1). The two are never pooled.
    """

    config: str
    concurrency: int
    temperature: Decimal
    kind: str = DECODE


@dataclass(frozen=True)
class Repeat:
    """One measured run of a cell; `index` counts from 0 and `boot_round` says in which boot of the config it belongs."""

    cell: Cell
    index: int
    boot_round: int

    @property
    def control(self) -> bool:
        """Whether it is one of a control's extra boot: measured to show drift, and in no mean."""
        return self.boot_round >= CONTROL_ROUND


@dataclass(frozen=True)
class ControlSpec:
    """A config that is booted again through the night, to show how far the box drifts.

    Attributes:
        config: Its fingerprint.
        every: Boots of the sweep between two of its extra boots.
    """

    config: str
    every: int = 3


@dataclass(frozen=True)
class DecideSpec:
    """Which config is the best: what is asked, and how much may be spent on it (`repeats: {mode: decide}`).

    Attributes:
        between: Fingerprints of the contenders, in the plan's order; other configs of the sweep get the opening only.
        weights: (streams, temperature, weight) of each place that the objective weighs.
        most: Windows of one config at one place at most.
        incumbent: Fingerprint of the config that serves now; it is confirmed beside the winner.
        pooled: Whether acceptance may be taken to be the same at every concurrency, until the data contradict it.
    """

    between: tuple[str, ...]
    weights: tuple[tuple[int, Decimal, float], ...]
    most: int = 12
    incumbent: str | None = None
    pooled: bool = True


@dataclass(frozen=True)
class PrefillRepeat:
    """One prefill measurement of a config; `index` counts from 0 over the whole sweep, all boots of the config together.

    Attributes:
        tokens: Length of the prompt; each length counts its own repeats.
        under_load: Streams that decode meanwhile; 0 is an idle engine.
    """

    config: str
    index: int
    boot_round: int
    tokens: Tokens
    under_load: int = 0


@dataclass(frozen=True)
class Expectation:
    """What the sweep file expects of some cells, before anything of them is measured.

    Attributes:
        config: A config's name, or a shell-style pattern over names.
        quantity: decode_rate | acceptance_length | step_time | ratio (of decode rates, against another config).
        low, high: Between what; None is without a limit on that side.
        concurrency, temperature: Of which cells; None is of all.
        against: For a ratio: the name of the config that it is divided by.
    """

    config: str
    quantity: str
    low: float | None
    high: float | None
    concurrency: int | None = None
    temperature: Decimal | None = None
    against: str | None = None


@dataclass(frozen=True)
class SweepPlan:
    """A whole sweep, expanded. `fingerprint` is over configs and probe: the same file gives the same sweep.

    Attributes:
        memory_bandwidth: Of the box's accelerator, bytes / second; None where the file says nothing of it.
        base: Folder that relative paths of the file are taken from; None where it is not known.
    """

    name: str
    configs: tuple[EngineConfig, ...]
    probe: ProbeSpec
    production: Production | None = None
    schedule: Schedule | None = None
    box: str | None = None  # name of the box; None is this machine's own
    fingerprint: str = ""
    warnings: tuple[str, ...] = ()
    control: ControlSpec | None = None
    expect: tuple[Expectation, ...] = ()
    memory_bandwidth: float | None = None
    decide: DecideSpec | None = None
    base: str | None = None

    @property
    def simulated(self) -> bool:
        """Whether any engine of the plan is the simulator: everything measured is then labelled so."""
        return any(config.engine.simulated for config in self.configs)

    def box_name(self, own: str) -> str:
        """Return the name that the sweep's box goes by; `own` is this machine's.

        What a simulator measures never lands on a real box's record.
        """
        name = self.box or own
        return name if not self.simulated or "simulated" in name else f"{name} (simulated)"

    def config(self, fingerprint: str) -> EngineConfig:
        """Return the config with this fingerprint (KeyError if there is none)."""
        for config in self.configs:
            if config.fingerprint == fingerprint:
                return config
        raise KeyError(fingerprint)


@dataclass(frozen=True)
class BootTask:
    """One boot that is to be made, with all that it shall measure, in order."""

    config: EngineConfig
    boot_round: int
    repeats: tuple[Repeat, ...]
    prefills: tuple[PrefillRepeat, ...] = ()
    single_batches: tuple[Repeat, ...] = ()
