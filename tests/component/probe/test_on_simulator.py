"""The probe against the product's simulated engine, whose truth is set: what is measured must be that truth."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nightsweep.engine.dialects import vllm_dialect
from nightsweep.measurement.derive import derive
from nightsweep.measurement.values import DecodeNumbers, WindowResult
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Target, WindowRequest
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.probe.prompts import load_prompts
from nightsweep.probe.window import Patience
from nightsweep.simulator.profile import load_profile
from nightsweep.simulator.truth import Expected, expected
from nightsweep.units import Seconds, Tokens
from tests.component.simulator.conftest import SHIPPED, Simulator, started
from tests.contract.test_probe import RealClock

SPEED = 20.0
WINDOW = 2.0
PROMPTS = [prompt for prompt in load_prompts("code").prompts if isinstance(prompt, str)]
K = 7


@pytest.fixture(scope="module")
def probe() -> Iterator[HttpProbe]:
    with HttpProbe(clock=RealClock(), patience=Patience(gauges=Seconds(2.0), idle=Seconds(1.0))) as made:
        yield made


@pytest.fixture(scope="module")
def shipped() -> Iterator[Simulator]:
    with started("--sim-speed", str(SPEED), "--sim-seed", "0", speculative=SHIPPED) as simulator:
        yield simulator.wait_ready()


def target_of(simulator: Simulator) -> Target:
    return Target(simulator.url, simulator.url, "qwen", vllm_dialect("0.28.0"), request_timeout=Seconds(20.0))


def a_request(concurrency: int, **fields: Any) -> WindowRequest:
    known = WindowRequest(
        concurrency=concurrency,
        temperature=0.7,
        window=Seconds(WINDOW),
        sampling=SamplingSpec(),
        prompts=PROMPTS,
        first_prompt=0,
        order_seed=5,
        ramp_timeout=Seconds(10.0),
    )
    return replace(known, **fields)


def measured(probe: HttpProbe, simulator: Simulator, request: WindowRequest, *, k: int | None = K) -> WindowResult:
    raw = probe.window(target_of(simulator), request, alive=lambda: simulator.process.poll() is None)
    return derive(raw, dialect=vllm_dialect("0.28.0"), num_speculative_tokens=k)


def strike(simulator: Simulator, fault: str) -> None:
    """Put a fault in force inside the window: some time after all streams run, however long that takes."""
    end = time.monotonic() + 10.0
    while simulator.client.get("/load").json()["server_load"] < 4 and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.8)
    simulator.fault(fault)


def standard_error(truth: Expected, numbers: DecodeNumbers) -> float:
    """Of tokens per step and stream: between prompts, of the drift within a request, of single steps."""
    steps = numbers.steps or 1
    return math.sqrt(
        truth.tokens_sd_between_requests**2 / truth.concurrency
        + truth.tokens_sd_of_drift**2 / (truth.concurrency * max(1.0, steps / truth.drift_steps))
        + truth.tokens_sd_within_step**2 / (truth.concurrency * steps)
    )


@pytest.mark.parametrize("concurrency", [1, 4, 16])
def test_a_clean_window_finds_the_truth_that_was_set(probe: HttpProbe, shipped: Simulator, concurrency: int) -> None:
    result = measured(probe, shipped, a_request(concurrency))
    numbers = result.numbers
    assert result.flags == (), result.flag_details
    assert numbers is not None
    assert numbers.acceptance_length is not None
    assert numbers.step_time is not None
    assert numbers.positions is not None
    truth = expected("gb10", SHIPPED, concurrency, 0.7, PROMPTS, window_seconds=WINDOW * SPEED).at_speed(SPEED)
    allowed = 4 * standard_error(truth, numbers)
    assert abs(numbers.acceptance_length - truth.acceptance_length) < allowed
    assert abs(sum(numbers.positions) + 1 - numbers.acceptance_length) < 1e-9
    assert numbers.step_time == pytest.approx(truth.step_time, rel=0.1)
    assert numbers.decode_rate == pytest.approx(truth.decode_rate, rel=allowed / truth.tokens_per_step + 0.1)
    assert numbers.own_tokens == pytest.approx(numbers.generation_tokens, abs=2 * concurrency * (K + 1))
    assert numbers.integrity["positions_minus_accepted"] == 0
    assert numbers.facts["identity_rate"] == pytest.approx(numbers.decode_rate, rel=0.1)


def test_a_prefill_finds_the_set_rate_on_a_proven_miss(probe: HttpProbe, shipped: Simulator) -> None:
    result = probe.prefill(
        target_of(shipped), tokens=Tokens(6000), salt=str(time.time()), sampling=SamplingSpec(), alive=lambda: True
    )
    assert result.clean, result.detail
    assert result.prompt_tokens == 6000
    assert result.rate == pytest.approx(load_profile("gb10").prefill_rate * SPEED, rel=0.25)


def test_the_same_prefill_again_is_a_hit_and_void(probe: HttpProbe, shipped: Simulator) -> None:
    salt = f"twice {time.time()}"
    results = [
        probe.prefill(target_of(shipped), tokens=Tokens(2000), salt=salt, sampling=SamplingSpec(), alive=lambda: True)
        for _ in range(2)
    ]
    assert results[0].clean, results[0].detail
    assert results[1].flags == ("cache_hit",)
    assert (results[1].cached_tokens or 0) > 1900


def test_without_speculation_there_is_no_acceptance_and_the_reason_is_told(probe: HttpProbe) -> None:
    with started("--sim-speed", str(SPEED)) as plain:
        plain.wait_ready()
        result = measured(probe, plain, a_request(2), k=None)
    numbers = result.numbers
    assert result.flags == (), result.flag_details
    assert numbers is not None
    assert (numbers.acceptance_length, numbers.positions, numbers.drafts) == (None, None, None)
    assert "metrics page holds no" in numbers.unavailable["acceptance_length"]
    assert numbers.decode_rate == pytest.approx(
        expected("gb10", None, 2, 0.7, PROMPTS, window_seconds=WINDOW * SPEED).at_speed(SPEED).decode_rate, rel=0.1
    )


@pytest.mark.parametrize(
    ("fault", "flag"),
    [
        ("counter_reset:0", "counter_reset"),
        ("foreign_load:400", "foreign_load"),
        ("preempt:0", "preempted"),
    ],
)
def test_a_fault_in_the_window_raises_its_flag_and_only_its_flag(probe: HttpProbe, fault: str, flag: str) -> None:
    with started("--sim-speed", str(SPEED), speculative=SHIPPED) as simulator:
        simulator.wait_ready()
        measured(probe, simulator, a_request(4, window=Seconds(4.0)))  # counters that have something to lose
        striker = threading.Thread(target=strike, args=(simulator, fault))
        striker.start()
        result = measured(probe, simulator, a_request(4, window=Seconds(3.0)))
        striker.join()
    assert result.flags == (flag,), result.flag_details
    assert result.flag_details[flag]


@pytest.mark.parametrize("fault", ["exit_in_window", "exit_137"])
def test_an_engine_that_dies_in_the_window_is_an_exit_and_not_failed_requests(probe: HttpProbe, fault: str) -> None:
    with started("--sim-speed", str(SPEED), speculative=SHIPPED) as simulator:
        simulator.wait_ready()
        timer = threading.Timer(1.0, lambda: simulator.fault(f"{fault}:0"))
        timer.start()
        began = time.monotonic()
        result = measured(probe, simulator, a_request(4, window=Seconds(30.0)))
        timer.join()
    assert result.flags == ("engine_exited",), result.flag_details
    assert time.monotonic() - began < 10


def test_errors_of_some_requests_void_the_window(probe: HttpProbe) -> None:
    with started("--sim-speed", str(SPEED), "--sim-fault", "error_rate:0.2", speculative=SHIPPED) as simulator:
        simulator.wait_ready()
        request = a_request(4, sampling=SamplingSpec(max_tokens=100), window=Seconds(3.0))
        result = measured(probe, simulator, request)
    assert result.flags == ("request_failed",), result.flag_details
    assert "HTTP 500" in result.flag_details["request_failed"]


def test_streams_that_carry_no_usage_void_the_window(probe: HttpProbe) -> None:
    with started("--sim-speed", str(SPEED), "--sim-fault", "lost_usage", speculative=SHIPPED) as simulator:
        simulator.wait_ready()
        result = measured(probe, simulator, a_request(4, sampling=SamplingSpec(max_tokens=100)))
    assert result.flags == ("request_failed",), result.flag_details
    assert "without usage" in result.flag_details["request_failed"]


def test_an_engine_that_holds_requests_back_is_underfilled(probe: HttpProbe) -> None:
    with started("--sim-speed", str(SPEED), "--max-num-seqs", "2", speculative=SHIPPED) as simulator:
        simulator.wait_ready()
        result = measured(probe, simulator, a_request(4, sampling=SamplingSpec(max_tokens=100)))
    assert result.flags == ("underfilled",), result.flag_details
    assert "2 running, 2 waiting" in result.flag_details["underfilled"]


def test_a_warm_up_leaves_an_idle_engine(probe: HttpProbe, shipped: Simulator) -> None:
    probe.warm_up(target_of(shipped), a_request(8), alive=lambda: True)
    assert probe.drain(target_of(shipped), timeout=Seconds(2.0))
