"""Builders: each names only what a test is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from nightsweep.engine.values import Applied, BootFacts, BootFailure, Fact, LogLine, ServedIdentity
from nightsweep.measurement.values import (
    DecodeNumbers,
    OccupancySample,
    Percentiles,
    PrefillResult,
    RawWindow,
    Reading,
    RequestTiming,
    WindowResult,
)
from nightsweep.plan.fingerprint import config_document, fingerprint, plan_fingerprint
from nightsweep.plan.model import (
    Cell,
    ContainerSpec,
    EngineConfig,
    EngineSpec,
    PrefillRepeat,
    PrefillSpec,
    ProbeSpec,
    Repeat,
    SecretRef,
    SweepPlan,
)
from nightsweep.ports import (
    BootOutcome,
    BootReady,
    BoxFacts,
    EngineHandle,
    ForeignContainer,
    Lease,
    Store,
)
from nightsweep.units import GiB, MonotonicSeconds, Ratio, Seconds, Tokens, TokensPerSecond

EVENING = datetime(2026, 11, 29, 22, 30, tzinfo=UTC)
TTL = Seconds(60.0)
OWNER = "box-a:1:1:one"


def a_config(
    name: str = "dflash k=5",
    *,
    k: int | None = 5,
    method: str = "dflash",
    kind: str = "vllm",
    image: str = "vllm/vllm-openai:v0.28.0",
) -> EngineConfig:
    spec = EngineSpec(
        kind=kind,
        host="docker",
        model="org/model",
        served_name="m",
        image=image,
        args={"max-model-len": 4096},
        env={"HF_TOKEN": SecretRef(from_env="HF_TOKEN"), "VLLM_LOGGING_LEVEL": "INFO"},
    )
    speculative = None if k is None else {"method": method, "num_speculative_tokens": k}
    document = config_document(spec, speculative)
    return EngineConfig(
        name=name, engine=spec, speculative=speculative, document=document, fingerprint=fingerprint(document)
    )


def a_plan(*configs: EngineConfig, name: str = "night", repeats: int = 2) -> SweepPlan:
    chosen = configs or (a_config(),)
    probe = ProbeSpec(
        concurrency=(1, 4),
        temperature=(Decimal("0.7"), Decimal("1.0")),
        window=Seconds(4.0),
        repeats=repeats,
        prompts_hash="a" * 64,
        prefill=PrefillSpec(tokens=Tokens(2000), repeats=2),
    )
    return SweepPlan(name=name, configs=chosen, probe=probe, fingerprint=plan_fingerprint(chosen, probe))


def a_box(name: str = "box-a", *, simulated: bool = False) -> BoxFacts:
    return BoxFacts(
        name=name, fingerprint="f" * 64, facts={"accelerator": "GB10", "memory_gib": 128}, simulated=simulated
    )


def a_reading(at: float = 1000.0, **values: float) -> Reading:
    return Reading(
        at=MonotonicSeconds(at),
        uncertainty=Seconds(0.002),
        wall=EVENING + timedelta(seconds=at),
        values=values or {"generation_tokens": at * 20.0},
        raw=b"# HELP vllm:generation_tokens_total\nvllm:generation_tokens_total 1.0\n" * 20,
    )


def a_request(stream: int = 0) -> RequestTiming:
    times = tuple((1_000_500_000_123 + 31_700_001 * chunk) / 1e9 for chunk in range(50))
    return RequestTiming(
        stream=stream,
        prompt_index=stream * 7,
        sent=MonotonicSeconds(1000.2500001),
        first_token=MonotonicSeconds(times[0]),
        ended=None,
        chunk_at=times,
        chunk_tokens=tuple(range(1, 101, 2)),
        prompt_tokens=Tokens(120),
        completion_tokens=None,
        cancelled=True,
    )


def some_numbers(rate: float = 30.0) -> DecodeNumbers:
    spread = Percentiles(n=3, mean=0.2, p50=0.19, p90=0.3, p99=0.31, minimum=0.1, maximum=0.32)
    return DecodeNumbers(
        seconds=Seconds(4.0),
        generation_tokens=Tokens(int(rate * 4)),
        decode_rate=TokensPerSecond(rate),
        acceptance_length=Ratio(2.5),
        acceptance_rate=Ratio(0.3),
        positions=(0.75, 0.52, 0.23),
        drafts=Tokens(48),
        draft_tokens=Tokens(240),
        accepted_tokens=Tokens(72),
        steps=48,
        step_time=Seconds(0.0833),
        tokens_per_step_and_stream=Ratio(2.5),
        own_tokens=Tokens(119),
        foreign_tokens=Tokens(1),
        occupancy=Ratio(0.998),
        relative_uncertainty=Ratio(0.001),
        ttft=spread,
        tpot=spread,
        e2e=None,
        chunk_gap=spread,
        integrity={"positions_minus_accepted": 0.0},
        sources={"decode_rate": "vllm:generation_tokens_total"},
        unavailable={"e2e": "no request ended"},
    )


def a_raw(concurrency: int = 1, *, started: datetime = EVENING) -> RawWindow:
    return RawWindow(
        concurrency=concurrency,
        seconds_asked=Seconds(4.0),
        started=started,
        before=a_reading(1000.0),
        after=a_reading(1004.0),
        samples=(OccupancySample(at=MonotonicSeconds(1001.0), running=float(concurrency), waiting=None),),
        requests=tuple(a_request(stream) for stream in range(concurrency)),
        ramp=Seconds(0.8),
    )


def a_window(
    rate: float = 30.0, *, concurrency: int = 1, flags: tuple[str, ...] = (), started: datetime = EVENING
) -> WindowResult:
    details = {flag: f"why {flag}" for flag in flags}
    return WindowResult(
        raw=a_raw(concurrency, started=started), numbers=some_numbers(rate), flags=flags, flag_details=details
    )


def a_prefill(rate: float | None = 2000.0, *, flags: tuple[str, ...] = ()) -> PrefillResult:
    return PrefillResult(
        started=EVENING,
        prompt_tokens=Tokens(2000),
        ttft=Seconds(1.0),
        rate=None if rate is None else TokensPerSecond(rate),
        cached_tokens=Tokens(0),
        engine_seconds=None,
        flags=flags,
        source="client TTFT",
        facts={"cached_by": "vllm:prefix_cache_hits_total"},
    )


def some_facts(**changes: Any) -> BootFacts:
    given: dict[str, Any] = {
        "engine": "vllm",
        "engine_version": "0.28.0",
        "weights": GiB(24.92),
        "kv_cache": GiB(36.0),
        "kv_tokens": Tokens(838_501),
        "max_concurrency": 3.2,
        "max_concurrency_tokens": Tokens(262_144),
        "stages": {"load": 61.5},
        "facts": (Fact(name="weights", value=24.92, line="Model loading took 24.92 GiB"),),
    }
    return BootFacts(**{**given, **changes})


def a_ready(cold_start: float = 420.0) -> BootReady:
    return BootReady(
        cold_start=Seconds(cold_start),
        first_token=Seconds(cold_start + 1.5),
        facts=some_facts(),
        identity=ServedIdentity(served_names=("m",), version="0.28.0"),
        applied=Applied(not_applied=("enable-x: this model has none",)),
    )


def a_failure(retry: str = "never") -> BootFailure:
    return BootFailure(
        kind="bad_flag",
        stage="arguments",
        lines=("error: unrecognized arguments: --no-such",),
        retry=retry,
        remedy="drop --no-such",
    )


def stopped() -> BootOutcome:
    return BootOutcome(state="stopped", exit_code=0, oom_killed=False, failure=None, facts=some_facts())


def failed(retry: str = "never") -> BootOutcome:
    return BootOutcome(state="failed", exit_code=2, oom_killed=False, failure=a_failure(retry), facts=BootFacts())


def a_handle(
    boot_key: str = "key-1", *, digest: str | None = "sha256:abc", refs: tuple[str, ...] = ("vllm:v0.28.0",)
) -> EngineHandle:
    return EngineHandle(
        host="docker",
        id="c0ffee",
        boot_key=boot_key,
        port=8000,
        base_url="http://127.0.0.1:8000",
        image_digest=digest,
        image_refs=refs,
    )


def a_production(name: str = "vllm-qwen") -> ForeignContainer:
    return ForeignContainer(
        name=name,
        id="abc123",
        running=True,
        image="vllm/vllm-openai:v0.28.0",
        image_digest="sha256:abc",
        command=("--model", "org/model", "--api-key", "sk-very-secret"),
        entrypoint=("vllm", "serve"),
        env_names=("HF_TOKEN",),
        ports={8000: 8000},
        container=ContainerSpec(gpus="all"),
        restart_policy="unless-stopped",
        env={"HF_TOKEN": "hf_very_secret"},
    )


def some_lines(*texts: str) -> tuple[LogLine, ...]:
    return tuple(LogLine(text=text, seconds=float(at), stream="stdout") for at, text in enumerate(texts))


@dataclass
class Night:
    """A sweep that is claimed, with a boot that is up: where most tests begin."""

    store: Store
    plan: SweepPlan
    box_id: int
    sweep_id: int
    lease: Lease
    boot_id: int

    def repeat(self, index: int = 0, *, concurrency: int = 1, temperature: str = "0.7", config: int = 0) -> Repeat:
        cell = Cell(self.plan.configs[config].fingerprint, concurrency, Decimal(temperature))
        return Repeat(cell=cell, index=index, boot_round=0)

    def prefill_repeat(self, index: int = 0, *, tokens: int = 2000, under_load: int = 0) -> PrefillRepeat:
        return PrefillRepeat(
            config=self.plan.configs[0].fingerprint,
            index=index,
            boot_round=0,
            tokens=Tokens(tokens),
            under_load=under_load,
        )

    def keep(
        self,
        result: WindowResult | None = None,
        *,
        index: int = 0,
        attempt: int = 1,
        lease: Lease | None = None,
        conditions: Mapping[str, Any] | None = None,
        **cell: Any,
    ) -> int:
        return self.store.add_window(
            lease or self.lease,
            self.boot_id,
            self.repeat(index, **cell),
            result or a_window(),
            attempt=attempt,
            conditions=conditions or some_conditions(),
            at=EVENING,
        )

    def keep_prefill(self, result: PrefillResult | None = None, *, index: int = 0, attempt: int = 1) -> int:
        return self.store.add_prefill(
            self.lease,
            self.boot_id,
            self.prefill_repeat(index),
            result or a_prefill(),
            attempt=attempt,
            conditions=some_conditions(),
            at=EVENING,
        )

    def boot(self, key: str = "key-2", *, config: int = 0, at: datetime = EVENING) -> int:
        self.boot_id = begin(self.store, self.lease, self.plan.configs[config], key=key, at=at)
        return self.boot_id


def some_conditions(**changes: Any) -> dict[str, Any]:
    return {"engine_version": "0.28.0", "prompts": "a" * 64, "sampling": {"top_p": 1.0}, "draft_model": None, **changes}


def begin(store: Store, lease: Lease, config: EngineConfig, *, key: str, at: datetime = EVENING) -> int:
    return store.begin_boot(lease, config, boot_round=0, boot_key=key, command=("vllm", "serve", "org/model"), at=at)


def a_night(store: Store, plan: SweepPlan | None = None, *, owner: str = OWNER, box: BoxFacts | None = None) -> Night:
    chosen = plan or a_plan()
    box_id = store.box_id(box or a_box())
    sweep_id = store.open_sweep(chosen, box_id=box_id, file_text="name: night\n")
    lease = store.claim(sweep_id, owner=owner, ttl=TTL)
    boot_id = begin(store, lease, chosen.configs[0], key=f"{chosen.name}-{owner}-1")
    return Night(store, chosen, box_id, sweep_id, lease, boot_id)
