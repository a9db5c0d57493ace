"""The single-batch probe on both engines' endpoints: one request alone, exact counts, a proven miss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from nightsweep.engine.dialects import sglang_dialect
from nightsweep.measurement.derive import derive
from nightsweep.measurement.single_batch import derive_single_batch
from nightsweep.measurement.values import WindowResult
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Probe, SingleBatchRequest, Target
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.units import Seconds, Tokens
from tests.contract.test_probe import DIALECT, Bench, RealClock, a_window, always, bench
from tests.data.tiny_openai_engine import MODEL, TinyEngine, TinySGLang

__all__ = ["bench"]
NATIVE = sglang_dialect("0.5.23")
ASKED = SingleBatchRequest(
    input=Tokens(300), output=Tokens(61), temperature=0.0, salt="one", sampling=SamplingSpec(max_tokens=7)
)
CYCLE = (1 + 2) + (1 + 0) + (1 + 1)
"""Tokens of three steps of the tiny engine: 60 tokens after the first are 30 steps, and 30 accepted ones."""


@pytest.fixture
def engine() -> Iterator[TinyEngine]:
    with TinyEngine() as started:
        yield started


@pytest.fixture
def native() -> Iterator[TinySGLang]:
    with TinySGLang() as started:
        yield started


@pytest.fixture
def probe() -> Iterator[HttpProbe]:
    with HttpProbe(clock=RealClock()) as made:
        yield made


def run(probe: Probe, target: Target, request: SingleBatchRequest = ASKED) -> WindowResult:
    raw = probe.single_batch(target, request, alive=always)
    return derive_single_batch(
        raw,
        dialect=target.dialect,
        input_tokens=request.input,
        output_tokens=request.output,
        num_speculative_tokens=3,
    )


def target_of(engine: TinyEngine) -> Target:
    dialect = NATIVE if isinstance(engine, TinySGLang) else DIALECT
    return Target(engine.url, engine.url, MODEL, dialect)


def test_a_run_alone_is_clean_and_exactly_of_the_tokens_asked_for(bench: Bench) -> None:
    result = run(bench.probe, bench.target)
    assert result.flags == (), result.flag_details
    assert result.numbers is not None
    assert (result.numbers.generation_tokens, result.numbers.own_tokens) == (61, 61)
    assert result.numbers.decode_rate == pytest.approx(60 / result.numbers.seconds)
    assert result.numbers.facts["report_rate"] == pytest.approx(61 / result.numbers.seconds)
    assert result.numbers.acceptance_length == pytest.approx(2.0, abs=0.05)


def test_both_engines_give_the_same_numbers_each_from_its_own_source(
    engine: TinyEngine, native: TinySGLang, probe: HttpProbe
) -> None:
    ours, theirs = run(probe, target_of(engine)).numbers, run(probe, target_of(native)).numbers
    assert ours is not None
    assert theirs is not None
    assert ours.drafts == theirs.drafts == 60 * 3 // CYCLE
    assert ours.accepted_tokens == theirs.accepted_tokens == 30
    assert ours.acceptance_length == theirs.acceptance_length == 2.0
    assert ours.positions == pytest.approx((2 / 3, 1 / 3, 0.0))
    assert theirs.positions == pytest.approx((2 / 3, 1 / 3, 0.0))
    assert ours.step_time == pytest.approx(engine.step, rel=0.15)
    assert "counters" in ours.sources["acceptance_length"]
    assert "meta_info" in theirs.sources["acceptance_length"]


def test_the_native_endpoint_is_asked_for_ids_and_for_every_token(native: TinySGLang, probe: HttpProbe) -> None:
    assert run(probe, target_of(native)).flags == ()
    [body] = native.seen
    assert len(body["input_ids"]) == 300
    assert body["sampling_params"]["max_new_tokens"] == 61
    assert body["sampling_params"]["ignore_eos"] is True
    assert body["sampling_params"]["temperature"] == 0.0
    assert "max_tokens" not in body["sampling_params"]


def test_another_salt_is_another_prompt_and_the_same_salt_the_same(engine: TinyEngine, probe: HttpProbe) -> None:
    for salt in ("one", "two", "one"):
        run(probe, target_of(engine), replace(ASKED, salt=salt))
    first, second, third = (body["prompt"] for body in engine.seen)
    assert first == third
    assert first[:4] != second[:4]


@pytest.mark.parametrize("kind", [TinyEngine, TinySGLang])
def test_a_prompt_from_the_cache_is_no_cold_run(kind: type[TinyEngine], probe: HttpProbe) -> None:
    with kind() as engine:
        engine.cached = 16
        result = run(probe, target_of(engine))
    assert result.flags == ("cache_hit",)
    assert "16 of the prompt's tokens" in result.flag_details["cache_hit"]


def test_others_tokens_beside_a_run_are_foreign_load(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.foreign = 2
    assert run(probe, target_of(engine)).flags == ("foreign_load",)


@pytest.mark.parametrize("in_stream", [True, False])
def test_a_small_vocabulary_gets_smaller_ids(engine: TinyEngine, probe: HttpProbe, in_stream: bool) -> None:
    engine.vocabulary, engine.refuses_in_stream = 1000, in_stream
    result = run(probe, target_of(engine))
    assert result.flags == (), result.flag_details
    assert max(engine.seen[-1]["prompt"]) < 1000
    assert result.raw.detail == "random token ids 100 to 1000"


def test_an_engine_that_refuses_is_a_failed_request_with_its_words(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.status = 503
    result = run(probe, target_of(engine))
    assert result.flags == ("request_failed",)
    assert "out of order" in result.flag_details["request_failed"]


def test_an_engine_that_is_gone_ends_the_run_at_once(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.step = 5.0
    raw = probe.single_batch(target_of(engine), ASKED, alive=lambda: False)
    assert raw.ended_early == "engine_exited"


def test_a_decode_window_on_the_native_endpoint_has_acceptance_by_its_own_requests(
    native: TinySGLang, probe: HttpProbe
) -> None:
    native.step = 0.004
    target = replace(target_of(native), api="generate")
    asked = a_window(window=Seconds(1.2), concurrency=4, sampling=SamplingSpec(max_tokens=61))
    result = derive(probe.window(target, asked, alive=always), dialect=NATIVE, num_speculative_tokens=3)
    assert result.flags == (), result.flag_details
    assert result.numbers is not None
    assert result.numbers.acceptance_length == pytest.approx(2.0, abs=0.05)
    assert result.numbers.positions == pytest.approx((2 / 3, 1 / 3, 0.0), abs=0.05)
    assert "meta_info" in result.numbers.sources["acceptance_length"]
    assert native.seen[0]["text"] in ("one", "two", "three")
    assert native.seen[0]["sampling_params"]["max_new_tokens"] == 61


def test_a_decode_window_on_the_other_endpoints_falls_back_to_the_engines_state(
    native: TinySGLang, probe: HttpProbe
) -> None:
    native.state = {"internal_states": [{"avg_spec_accept_length": 1.75}]}
    raw = probe.window(target_of(native), a_window(), alive=always)
    numbers = derive(raw, dialect=NATIVE, num_speculative_tokens=3).numbers
    assert numbers is not None
    assert numbers.acceptance_length == 1.75
    assert "/server_info" in numbers.sources["acceptance_length"]
