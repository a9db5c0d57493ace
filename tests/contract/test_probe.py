"""One suite for the Probe port: on the fake, and on HTTP against a small engine with exact counters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from nightsweep.engine.dialects import vllm_dialect
from nightsweep.errors import MetricsUnreadable
from nightsweep.measurement.derive import derive
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Probe, Secret, Target, WindowRequest
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.units import MonotonicSeconds, Seconds, Tokens
from tests.data.tiny_openai_engine import MODEL, TinyEngine
from tests.fakes.clock import FakeClock
from tests.fakes.probe import FakeProbe

DIALECT = vllm_dialect("0.32.0")
SOON = Seconds(5.0)


class RealClock:
    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(time.monotonic())

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: Seconds) -> None:
        time.sleep(seconds)


@dataclass
class Bench:
    """A probe with an engine behind it, a way to end that engine, and one to have it ask for a key."""

    probe: Probe
    target: Target
    kill: Callable[[], None]
    lock: Callable[[str], None]


@pytest.fixture(params=["fake", "http"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    if request.param == "fake":
        up = threading.Event()
        up.set()
        probe = FakeProbe(
            clock=FakeClock(),
            healthy_when=up.is_set,
            answers={"models": {"data": [{"id": MODEL}]}},
            truth={"positions": (2 / 3, 1 / 3, 0.0), "step_time": 0.01},
        )

        def lock(key: str) -> None:
            probe.wanted_key = Secret(key)

        yield Bench(probe, Target("http://fake", "http://fake", MODEL, DIALECT), kill=up.clear, lock=lock)
        return
    with TinyEngine() as engine, HttpProbe(clock=RealClock()) as http:
        target = Target(engine.url, engine.url, MODEL, DIALECT)
        yield Bench(http, target, kill=engine.die, lock=lambda key: setattr(engine, "api_key", key))


def a_window(**fields: Any) -> WindowRequest:
    known: dict[str, Any] = {
        "concurrency": 2,
        "temperature": 0.7,
        "window": Seconds(0.6),
        "sampling": SamplingSpec(max_tokens=600),
        "prompts": ("one", "two", "three"),
        "first_prompt": 0,
        "order_seed": 1,
        "ramp_timeout": SOON,
    }
    return WindowRequest(**{**known, **fields})


def always() -> bool:
    return True


def test_an_engine_that_answers_is_healthy_and_a_dead_one_is_not(bench: Bench) -> None:
    assert bench.probe.healthy(bench.target.base_url + "/health", timeout=SOON) is True
    bench.kill()
    assert bench.probe.healthy(bench.target.base_url + "/health", timeout=SOON) is False


def test_a_served_token_has_no_reason_and_a_missing_one_has(bench: Bench) -> None:
    assert bench.probe.served_token(bench.target, timeout=SOON) is None
    bench.kill()
    assert bench.probe.served_token(bench.target, timeout=SOON)


def test_a_path_that_does_not_answer_is_absent(bench: Bench) -> None:
    answers = bench.probe.ask(bench.target.base_url, {"models": "/v1/models", "gone": "/nowhere"}, timeout=SOON)
    assert answers["models"]["data"][0]["id"] == MODEL
    assert "gone" not in answers
    bench.kill()
    assert bench.probe.ask(bench.target.base_url, {"models": "/v1/models"}, timeout=SOON) == {}


def test_an_engine_with_a_key_tells_only_who_has_it(bench: Bench) -> None:
    bench.lock("k3y")
    paths = {"models": "/v1/models"}
    assert bench.probe.ask(bench.target.base_url, paths, timeout=SOON) == {}
    assert bench.probe.ask(bench.target.base_url, paths, timeout=SOON, api_key=Secret("k3y"))["models"]
    assert "401" in (bench.probe.served_token(bench.target, timeout=SOON) or "")
    assert bench.probe.served_token(replace(bench.target, api_key=Secret("k3y")), timeout=SOON) is None


def test_a_reading_has_values_by_canonical_name_and_a_dead_engine_none(bench: Bench) -> None:
    reading = bench.probe.read(bench.target)
    assert reading.values["generation_tokens"] == 0.0
    assert reading.uncertainty >= 0
    assert reading.wall.tzinfo is not None
    bench.kill()
    with pytest.raises(MetricsUnreadable):
        bench.probe.read(bench.target)


def test_a_window_on_an_undisturbed_engine_is_clean_and_true(bench: Bench) -> None:
    raw = bench.probe.window(bench.target, a_window(), alive=always)
    result = derive(raw, dialect=DIALECT, num_speculative_tokens=3)
    numbers = result.numbers
    assert result.flags == (), result.flag_details
    assert numbers is not None
    assert numbers.seconds == pytest.approx(0.6, abs=0.2)
    assert numbers.acceptance_length == pytest.approx(2.0, abs=0.08)
    assert numbers.integrity["positions_minus_accepted"] == 0
    assert numbers.own_tokens == pytest.approx(numbers.generation_tokens, abs=16)


def test_every_stream_that_comes_up_is_told_once(bench: Bench) -> None:
    told: list[int] = []
    bench.probe.window(bench.target, a_window(concurrency=3, coming_up=told.append), alive=always)
    assert told == [1, 2, 3], "also when each has sent several requests"
    warmed: list[int] = []
    bench.probe.warm_up(bench.target, a_window(window=SOON, coming_up=warmed.append), alive=always)
    assert warmed == [1, 2]


def test_an_engine_that_is_gone_ends_the_window_at_once(bench: Bench) -> None:
    began = time.monotonic()
    raw = bench.probe.window(bench.target, a_window(window=Seconds(30.0)), alive=lambda: False)
    assert raw.ended_early == "engine_exited"
    assert time.monotonic() - began < 3
    assert derive(raw, dialect=DIALECT, num_speculative_tokens=3).flags == ("engine_exited",)


def test_after_a_warm_up_and_a_window_the_engine_is_idle(bench: Bench) -> None:
    bench.probe.warm_up(bench.target, a_window(window=Seconds(2.0)), alive=always)
    bench.probe.window(bench.target, a_window(), alive=always)
    values = bench.probe.read(bench.target).values
    assert (values["running"], values["waiting"]) == (0.0, 0.0)
    assert bench.probe.drain(bench.target, timeout=SOON) is True


def test_a_prefill_beside_decoding_streams_says_what_it_cost_them(bench: Bench) -> None:
    load = a_window(concurrency=2, window=Seconds(0.5), sampling=SamplingSpec(max_tokens=4000))
    result = bench.probe.prefill(
        bench.target, tokens=Tokens(300), salt="s1", sampling=SamplingSpec(), alive=always, load=load
    )
    assert result.clean, result.detail
    assert result.facts["decode_streams"] == 2
    assert result.facts["decode_rate_alone"] > 0
    assert result.facts["decode_slowdown"] == pytest.approx(
        result.facts["decode_rate_alone"] / result.facts["decode_rate_beside"]
    )
    assert bench.probe.read(bench.target).values["running"] == 0.0


def test_a_prefill_is_of_exactly_the_tokens_asked_and_a_proven_miss(bench: Bench) -> None:
    result = bench.probe.prefill(bench.target, tokens=Tokens(300), salt="s1", sampling=SamplingSpec(), alive=always)
    assert result.clean, result.detail
    assert (result.prompt_tokens, result.cached_tokens) == (300, 0)
    assert result.ttft is not None
    assert result.rate == pytest.approx(300 / result.ttft)
