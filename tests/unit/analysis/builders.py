"""Rows for tests: each names only what the test is about. `seed_night` is the first published report's sweep as rows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from nightsweep.analysis.values import BootRow, Event, PrefillRow, SweepRow, WindowRow
from nightsweep.plan.model import EngineConfig, EngineSpec, PrefillSpec, ProbeSpec, SweepPlan
from nightsweep.units import GiB, Seconds, Tokens

EVENING = datetime(2026, 11, 28, 22, 30, tzinfo=UTC)
COLD = Decimal("0.7")
WARM = Decimal("1.0")


def a_window(**facts: Any) -> WindowRow:
    values: dict[str, Any] = {
        "window_id": 1,
        "sweep_id": 1,
        "sweep_name": "night",
        "boot_id": 1,
        "boot_round": 0,
        "config_id": 1,
        "config": "mtp",
        "config_fingerprint": "fp-mtp",
        "concurrency": 1,
        "temperature": COLD,
        "repeat": 0,
        "attempt": 1,
        "started": EVENING,
        "flags": (),
        "conditions": "cond-a",
        "box": "spark-1",
        "simulated": False,
        "engine_version": "0.28.0",
        "seconds": Seconds(40.0),
        "decode_rate": 20.0,
        "acceptance_length": 2.5,
        "acceptance_rate": 0.5,
        "positions": (0.75, 0.5, 0.25),
        "step_time": Seconds(0.122),
        "tokens_per_step_and_stream": 2.5,
        "ttft_p50": Seconds(0.21),
        "tpot_p50": Seconds(0.0488),
        "e2e_p50": Seconds(25.0),
    }
    return WindowRow(**{**values, **facts})


def a_prefill(**facts: Any) -> PrefillRow:
    values: dict[str, Any] = {
        "prefill_id": 1,
        "sweep_id": 1,
        "boot_id": 1,
        "config": "mtp",
        "config_fingerprint": "fp-mtp",
        "repeat": 0,
        "attempt": 1,
        "started": EVENING,
        "flags": (),
        "prompt_tokens": Tokens(12000),
        "ttft": Seconds(5.9),
        "rate": 2033.9,
        "cached_tokens": Tokens(0),
        "box": "spark-1",
        "simulated": False,
        "conditions": "cond-a",
    }
    return PrefillRow(**{**values, **facts})


def a_boot(**facts: Any) -> BootRow:
    values: dict[str, Any] = {
        "boot_id": 1,
        "sweep_id": 1,
        "sweep_name": "night",
        "config": "mtp",
        "config_fingerprint": "fp-mtp",
        "boot_round": 0,
        "attempt": 1,
        "state": "stopped",
        "started": EVENING,
        "ended": EVENING + timedelta(minutes=40),
        "cold_start": Seconds(361.2),
        "weights": GiB(21.97),
        "kv_cache": GiB(36.0),
        "kv_tokens": Tokens(1_014_892),
        "max_concurrency": 3.87,
        "max_concurrency_tokens": Tokens(262_144),
        "engine": "vllm",
        "engine_version": "0.28.0",
        "image": "vllm/vllm-openai:v0.28.0",
        "image_digest": "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "exit_code": 0,
        "oom_killed": False,
        "failure_kind": None,
        "failure_stage": None,
        "failure_lines": (),
        "failure_remedy": None,
        "retry": None,
        "box": "spark-1",
        "simulated": False,
        "windows": 6,
    }
    return BootRow(**{**values, **facts})


def a_failed_boot(**facts: Any) -> BootRow:
    values: dict[str, Any] = {
        "state": "failed",
        "cold_start": None,
        "weights": None,
        "kv_cache": None,
        "kv_tokens": None,
        "max_concurrency": None,
        "max_concurrency_tokens": None,
        "exit_code": 1,
        "failure_kind": "kv_too_small",
        "failure_stage": "kv_cache",
        "failure_lines": (
            "ValueError: To serve at least one request with the models's max seq len (262144), 17.46 GiB KV cache is needed",
        ),
        "failure_remedy": "lower max-model-len, or raise kv-cache-memory-bytes",
        "retry": "never",
        "windows": 0,
    }
    return a_boot(**{**values, **facts})


def a_sweep(**facts: Any) -> SweepRow:
    values: dict[str, Any] = {
        "sweep_id": 1,
        "name": "night",
        "state": "done",
        "box": "spark-1",
        "simulated": False,
        "created": EVENING - timedelta(minutes=5),
        "started": EVENING,
        "ended": EVENING + timedelta(hours=6),
        "owner": None,
        "note": None,
        "repeats_planned": 6,
        "repeats_clean": 6,
        "windows_flagged": 0,
        "boots_failed": 0,
        "configs": 1,
    }
    return SweepRow(**{**values, **facts})


def an_event(**facts: Any) -> Event:
    values: dict[str, Any] = {
        "at": EVENING,
        "level": "info",
        "kind": "boot",
        "message": "boot 1 of mtp is ready",
        "sweep_id": 1,
        "boot_id": 1,
    }
    return Event(**{**values, **facts})


def a_config(name: str = "mtp", *, k: int | None = 3, method: str = "mtp") -> EngineConfig:
    engine = EngineSpec(
        kind="vllm",
        host="docker",
        model="unsloth/Qwen3.8-27B-NVFP4",
        served_name="qwen3.8-27b",
        image="vllm/vllm-openai:v0.28.0",
    )
    speculative = None if k is None else {"method": method, "num_speculative_tokens": k}
    return EngineConfig(name=name, engine=engine, speculative=speculative, document={}, fingerprint=f"fp-{name}")


def a_plan(*configs: EngineConfig, **probe: Any) -> SweepPlan:
    values: dict[str, Any] = {
        "concurrency": (1, 8),
        "temperature": (COLD,),
        "repeats": 3,
        "prompts_hash": "ab" * 32,
        "prefill": PrefillSpec(tokens=Tokens(12000), repeats=3),
    }
    return SweepPlan(name="night", configs=configs or (a_config(),), probe=ProbeSpec(**{**values, **probe}))


SEED_RATES: dict[str, dict[tuple[int, Decimal], tuple[float, ...]]] = {
    "mtp k=3": {
        (1, COLD): (20.8, 20.1, 21.3),
        (8, COLD): (124.4, 123.0, 125.9),
        (1, WARM): (18.5,),
    },
    "dflash2 k=5 probabilistic/standard": {
        (1, COLD): (25.7, 25.1, 26.4),
        (8, COLD): (161.8, 167.8, 160.9),
        (1, WARM): (26.0, 25.2),
    },
    "dflash2 k=7 probabilistic/block": {
        (1, COLD): (39.7, 33.1, 31.5),
        (8, COLD): (165.0, 171.2, 158.8),
        (1, WARM): (28.6, 27.9),
    },
}
"""tokens / second by config and (streams, temperature): values of the published GB10 report, and some filled in."""


def seed_night(
    *, simulated: bool = False
) -> tuple[SweepRow, list[BootRow], list[WindowRow], list[PrefillRow], SweepPlan]:
    """Three configs that ran and one that did not boot; one flagged window, and one cell without a clean one."""
    configs = [a_config(name, k=int(name.split("k=")[1][0]), method=name.split()[0]) for name in SEED_RATES]
    broken = a_config("dflash2 k=9 greedy/standard", k=9, method="dflash2")
    windows, prefills, boots = [], [], []
    for number, config in enumerate(configs, start=1):
        at = EVENING + timedelta(minutes=45 * number)
        boots.append(_seed_boot(number, config, at, simulated=simulated))
        for (streams, temperature), rates in SEED_RATES[config.name].items():
            for repeat, rate in enumerate(rates):
                windows.append(
                    _seed_window(
                        len(windows) + 1, number, config, at, streams, temperature, repeat, rate, simulated=simulated
                    )
                )
        prefills += [
            a_prefill(
                prefill_id=10 * number + repeat,
                boot_id=number,
                config=config.name,
                config_fingerprint=config.fingerprint,
                repeat=repeat,
                ttft=Seconds(12000 / rate),
                rate=rate,
                simulated=simulated,
            )
            for repeat, rate in enumerate((2003.0, 2041.5, 2083.0))
        ]
    windows.append(
        _flagged(windows[0], 101, flags=("foreign_load",), repeat=1, reason="engine made 311 tokens more than we")
    )
    windows += [
        _flagged(
            windows[0], 102 + n, flags=("underfilled",), concurrency=8, temperature=WARM, attempt=n + 1, reason="96.1%"
        )
        for n in range(3)
    ]
    boots.append(
        a_failed_boot(
            boot_id=4,
            config=broken.name,
            config_fingerprint=broken.fingerprint,
            started=EVENING + timedelta(hours=4),
            simulated=simulated,
        )
    )
    plan = a_plan(*configs, broken, temperature=(COLD, WARM))
    sweep = a_sweep(
        name="dflash2-depth",
        state="partial",
        note="until 07:00 reached",
        repeats_planned=48,
        repeats_clean=sum(not row.flags for row in windows),
        windows_flagged=4,
        boots_failed=1,
        configs=4,
        simulated=simulated,
    )
    return sweep, boots, windows, prefills, plan


def _seed_boot(number: int, config: EngineConfig, at: datetime, *, simulated: bool) -> BootRow:
    dflash = config.name.startswith("dflash2")
    return a_boot(
        boot_id=number,
        config=config.name,
        config_fingerprint=config.fingerprint,
        started=at,
        ended=at + timedelta(minutes=40),
        cold_start=Seconds(421.7 if dflash else 361.2),
        weights=GiB(24.92 if dflash else 21.97),
        kv_tokens=Tokens(838_501 if dflash else 1_014_892),
        max_concurrency=3.2 if dflash else 3.87,
        simulated=simulated,
        command=(
            "vllm",
            "serve",
            config.engine.model,
            "--speculative-config",
            '{"method": "' + config.name.split()[0] + '"}',
        ),
    )


def _seed_window(
    number: int,
    boot: int,
    config: EngineConfig,
    at: datetime,
    streams: int,
    temperature: Decimal,
    repeat: int,
    rate: float,
    *,
    simulated: bool,
) -> WindowRow:
    length = rate / streams * (0.122 if streams == 1 else 0.151)
    return a_window(
        window_id=number,
        boot_id=boot,
        config=config.name,
        config_fingerprint=config.fingerprint,
        started=at,
        concurrency=streams,
        temperature=temperature,
        repeat=repeat,
        decode_rate=rate,
        acceptance_length=length,
        tokens_per_step_and_stream=length,
        step_time=Seconds((0.122 if streams == 1 else 0.151) + repeat * 0.0002),
        tpot_p50=Seconds(streams / rate),
        conditions=f"cond-{config.fingerprint}",
        simulated=simulated,
    )


def _flagged(like: WindowRow, number: int, *, flags: tuple[str, ...], reason: str, **facts: Any) -> WindowRow:
    values = {**like._asdict(), **facts}
    return a_window(**{**values, "window_id": number, "flags": flags, "flag_details": {flags[0]: reason}})
