"""The sweep file's shape, as pydantic models: which keys there are, and which reader takes each.

Sections are checked one by one, so that a mistake in one does not hide those in another.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from nightsweep.plan import container_in, quantities, settings_in
from nightsweep.plan.mistakes import Refused, gathered, nearest
from nightsweep.plan.words import BUNDLED_PROMPTS, KINDS

Text = Annotated[Any, BeforeValidator(quantities.text)]
Truth = Annotated[Any, BeforeValidator(quantities.truth)]
Duration = Annotated[Any, BeforeValidator(quantities.duration())]
DurationOrZero = Annotated[Any, BeforeValidator(quantities.duration(zero=True))]
Size = Annotated[Any, BeforeValidator(quantities.size)]
Positive = Annotated[Any, BeforeValidator(quantities.whole(least=1))]
Command = Annotated[Any, BeforeValidator(settings_in.command)]
Texts = Annotated[Any, BeforeValidator(container_in.texts)]
SecretIn = Annotated[Any, BeforeValidator(settings_in.secret)]
Args = Annotated[Any, BeforeValidator(settings_in.args)]
Env = Annotated[Any, BeforeValidator(settings_in.env)]


def _limited(least: float, most: float, *, above_least: bool = False) -> Any:
    return BeforeValidator(quantities.number(least=least, most=most, above_least=above_least))


def _prompts(value: Any) -> str:
    name = quantities.text(value)
    if name in BUNDLED_PROMPTS or name.endswith((".jsonl", ".json")) or "/" in name:
        return name
    raise Refused(f"{' | '.join(BUNDLED_PROMPTS)}, or the path of a JSONL file", remedy=nearest(name, BUNDLED_PROMPTS))


_counts = quantities.listing(quantities.whole(least=1), what="whole numbers > 0")


def _repeats(value: Any) -> int:
    try:
        return int(quantities.whole(least=1, most=2**63 - 1)(value))  # too many windows are told as such
    except Refused as refused:
        raise Refused(f"{refused.allowed}, or {{mode: decide, ...}}", remedy=refused.remedy) from refused


def _weights(value: Any) -> dict[str, float]:
    """Return weights by the words that their keys are written with; which keys there are, the probe says."""
    if not isinstance(value, dict) or not value:
        raise Refused("weights such as {1: 2, 16: 1}; what is not named weighs nothing")
    read, out = quantities.number(least=0, most=1e6), {}
    with gathered() as parts:
        for key, weight in value.items():
            with parts.at((key,), weight):
                out[key] = read(weight)
    return out


class Section(BaseModel):
    """A part of the file; unknown keys are mistakes."""

    model_config = ConfigDict(extra="forbid")


class ContainerIn(Section):
    """`engine.container` and a config's `container`."""

    gpus: Annotated[Any, BeforeValidator(container_in.gpus)] = None
    ipc: Annotated[Any, BeforeValidator(container_in.ipc)] = None
    shm_size: Size = None
    memory: Size = None
    volumes: Annotated[Any, BeforeValidator(container_in.volumes)] = ()
    devices: Texts = ()
    network: Text = None
    entrypoint: Command = None
    user: Annotated[Any, BeforeValidator(lambda value: str(value))] = None
    cap_add: Texts = ()
    security_opt: Texts = ()
    ulimits: Annotated[Any, BeforeValidator(container_in.ulimits)] = ()
    extra_hosts: Texts = ()
    runtime: Text = None
    init: Truth = True
    workdir: Text = None


class EngineIn(Section):
    """`engine`."""

    kind: Annotated[Any, BeforeValidator(quantities.choice(*KINDS))]
    host: Annotated[Any, BeforeValidator(quantities.choice("docker", "process"))] = "docker"
    image: Text = None
    model: Text = None
    model_revision: Text = None
    served_name: Text = None
    command: Command = None
    args: Args = Field(default_factory=dict)
    env: Env = Field(default_factory=dict)
    container: ContainerIn | None = None
    port: Annotated[Any, BeforeValidator(quantities.port)] = 8000
    boot_timeout: Duration = 1200.0
    stop_grace: DurationOrZero = 20.0
    simulated: Truth = False
    drop_page_cache: Truth = False


class ConfigIn(Section):
    """One entry of `configs`; what it gives besides name and speculation overrides `engine`."""

    name: Text
    speculative: Annotated[Any, BeforeValidator(settings_in.speculative)] = None
    grid: Annotated[Any, BeforeValidator(settings_in.grid)] = Field(default_factory=dict)
    exclude: Annotated[Any, BeforeValidator(settings_in.exclude)] = ()
    args: Args = Field(default_factory=dict)
    env: Env = Field(default_factory=dict)
    image: Text = None
    model: Text = None
    model_revision: Text = None
    command: Command = None
    container: ContainerIn | None = None


class SamplingIn(Section):
    """`probe.sampling`: every parameter is sent; the defaults are neutral."""

    top_p: Annotated[Any, _limited(0, 1, above_least=True)] = 1.0
    top_k: Annotated[Any, BeforeValidator(quantities.whole(least=-1))] = -1
    min_p: Annotated[Any, _limited(0, 1)] = 0.0
    repetition_penalty: Annotated[Any, _limited(0, 10, above_least=True)] = 1.0
    presence_penalty: Annotated[Any, _limited(-2, 2)] = 0.0
    frequency_penalty: Annotated[Any, _limited(-2, 2)] = 0.0
    max_tokens: Positive = 1024
    ignore_eos: Truth = False
    min_tokens: Positive = None
    seed: Annotated[Any, BeforeValidator(quantities.whole(least=0, most=2**63 - 1))] = None


class PrefillIn(Section):
    """`probe.prefill`."""

    tokens: Annotated[Any, BeforeValidator(_counts)]
    repeats: Positive = 3
    under_load: Positive = None


class SingleBatchIn(Section):
    """`probe.single_batch`."""

    input: Positive = 1024
    output: Annotated[Any, BeforeValidator(quantities.whole(least=2))] = 256
    runs: Positive = 2
    temperature: Annotated[Any, BeforeValidator(quantities.temperature)] = Decimal(0)


class ObjectiveIn(Section):
    """`probe.repeats.objective`."""

    concurrency: Annotated[Any, BeforeValidator(_weights)] = None
    temperature: Annotated[Any, BeforeValidator(_weights)] = None


class DecideIn(Section):
    """`probe.repeats`, where a decision is wanted and not a table."""

    mode: Annotated[Any, BeforeValidator(quantities.choice("decide"))]
    between: Annotated[Any, BeforeValidator(quantities.listing(quantities.text, what="names of configs"))] = ("*",)
    objective: ObjectiveIn = Field(default_factory=ObjectiveIn)
    max: Annotated[Any, BeforeValidator(quantities.whole(least=2))] = 12
    incumbent: Text = None
    pooled: Truth = None


_temperatures = quantities.listing(quantities.temperature, what="temperatures")


class ProbeIn(Section):
    """`probe`."""

    concurrency: Annotated[Any, BeforeValidator(_counts)]
    temperature: Annotated[Any, BeforeValidator(_temperatures)]
    window: Duration = 40.0
    repeats: Annotated[Any, BeforeValidator(_repeats)] = 3
    boots: Positive = 1
    prompts: Annotated[Any, BeforeValidator(_prompts)] = "code"
    prompt_seed: Annotated[Any, BeforeValidator(quantities.whole(least=0, most=2**63 - 1))] = 20260101
    api: Annotated[Any, BeforeValidator(quantities.choice("chat", "completions", "generate"))] = "chat"
    through: Annotated[Any, BeforeValidator(quantities.url_v1)] = None
    api_key: SecretIn = None
    sampling: SamplingIn = Field(default_factory=SamplingIn)
    prefill: PrefillIn | None = None
    single_batch: SingleBatchIn | None = None
    ca: Text = None
    http2: Truth = False
    warmup: DurationOrZero = 30.0
    max_attempts: Positive = 3
    request_timeout: Duration = 600.0


class ScheduleIn(Section):
    """`schedule`."""

    cron: Annotated[Any, BeforeValidator(quantities.cron)] = None
    timezone: Annotated[Any, BeforeValidator(quantities.zone)] = None
    until: Annotated[Any, BeforeValidator(quantities.clock_time)] = None
    priority: Annotated[
        Any, BeforeValidator(quantities.whole(least=-quantities.MOST_PRIORITY, most=quantities.MOST_PRIORITY))
    ] = 0


class ProductionIn(Section):
    """`production`."""

    container: Text
    url: Annotated[Any, BeforeValidator(quantities.url)] = None
    ready_timeout: Duration = 1200.0
    idle_for: DurationOrZero = None
    idle_limit: Duration = 1800.0


class ControlIn(Section):
    """`control`, written out; a bare name is the short form."""

    config: Text
    every: Positive = 3


SECTIONS: dict[str, type[Section]] = {
    "engine": EngineIn,
    "probe": ProbeIn,
    "schedule": ScheduleIn,
    "production": ProductionIn,
    "control": ControlIn,
    "engine.container": ContainerIn,
    "probe.sampling": SamplingIn,
    "probe.prefill": PrefillIn,
    "probe.single_batch": SingleBatchIn,
    "probe.repeats": DecideIn,
    "probe.repeats.objective": ObjectiveIn,
}
TOP_KEYS = ("name", "production", "engine", "configs", "probe", "control", "schedule", "box", "expect")
NOT_YET = {
    "probes": "Other kinds of probe",
    "probe.kind": "Other kinds of probe",
    "configs.control": "A control config",
}
