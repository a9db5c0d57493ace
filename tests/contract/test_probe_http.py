"""What only HTTP can do wrong: faults of engine and stream, on a small engine with exact counters."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from nightsweep.errors import DialectMismatch, MetricsUnreadable, RequestFailed
from nightsweep.measurement.derive import derive
from nightsweep.measurement.values import WindowResult
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Secret, SingleBatchRequest, Target
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.probe.window import Patience
from nightsweep.units import Seconds, Tokens
from tests.contract.test_probe import DIALECT, SOON, RealClock, a_window, always
from tests.data.tiny_openai_engine import MODEL, TinyEngine

SHORT = SamplingSpec(max_tokens=40)
IMPATIENT = Patience(gauges=Seconds(1.0), dying=Seconds(0.5), idle=Seconds(1.0))


@pytest.fixture
def engine() -> Iterator[TinyEngine]:
    with TinyEngine() as started:
        yield started


@pytest.fixture
def probe() -> Iterator[HttpProbe]:
    with HttpProbe(clock=RealClock(), patience=IMPATIENT) as made:
        yield made


def target_of(engine: TinyEngine, **fields: Any) -> Target:
    return replace(Target(engine.url, engine.url, MODEL, DIALECT), **fields)


def measured(probe: HttpProbe, engine: TinyEngine, **fields: Any) -> WindowResult:
    raw = probe.window(target_of(engine), a_window(**fields), alive=always)
    return derive(raw, dialect=DIALECT, num_speculative_tokens=3)


def later(seconds: float, do: Any) -> threading.Timer:
    timer = threading.Timer(seconds, do)
    timer.start()
    return timer


@pytest.mark.parametrize("concurrency", [1, 8])
def test_the_window_costs_little_more_than_ramp_and_length(
    engine: TinyEngine, probe: HttpProbe, concurrency: int
) -> None:
    began = time.monotonic()
    raw = probe.window(target_of(engine), a_window(concurrency=concurrency), alive=always)
    assert raw.ramp is not None
    assert time.monotonic() - began - raw.ramp - 0.6 < 1.0  # 0.02 to 0.1 s on a quiet machine


def test_client_times_are_those_of_the_engine(engine: TinyEngine, probe: HttpProbe) -> None:
    numbers = measured(probe, engine, concurrency=2, window=Seconds(1.0), sampling=SHORT).numbers
    assert numbers is not None
    assert numbers.tpot is not None
    assert numbers.ttft is not None
    assert numbers.chunk_gap is not None
    assert numbers.step_time is not None
    assert numbers.tpot.mean == pytest.approx(2 / numbers.decode_rate, rel=0.15)
    assert numbers.chunk_gap.mean == pytest.approx(numbers.step_time, rel=0.25)
    assert 0 < numbers.ttft.minimum < 3 * numbers.step_time


def test_the_completions_api_measures_as_well(engine: TinyEngine, probe: HttpProbe) -> None:
    raw = probe.window(target_of(engine, api="completions"), a_window(), alive=always)
    assert derive(raw, dialect=DIALECT, num_speculative_tokens=3).clean
    assert engine.seen[0]["prompt"] in ("one", "two", "three")


def test_a_server_that_refuses_continuous_usage_is_asked_once_without(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.refuse_continuous = True
    result = measured(probe, engine)
    assert result.flags == (), result.flag_details
    assert result.numbers is not None
    assert result.numbers.own_tokens is None
    asked = len(engine.seen)
    measured(probe, engine)
    assert not any(body["stream_options"].get("continuous_usage_stats") for body in engine.seen[asked:])


def test_an_http_error_is_a_failed_request_with_its_text(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.status = 503
    result = measured(probe, engine)
    assert result.flags == ("request_failed",)
    assert "HTTP 503" in result.flag_details["request_failed"]
    assert "out of order" in result.flag_details["request_failed"]
    assert result.numbers is None


def test_an_error_inside_a_stream_is_a_failed_request(engine: TinyEngine, probe: HttpProbe) -> None:
    later(0.3, lambda: setattr(engine, "error_after", 3))
    result = measured(probe, engine, window=Seconds(5.0), sampling=SHORT)
    assert result.flags == ("request_failed",)
    assert "EngineCore died" in result.flag_details["request_failed"]


def test_a_connection_that_breaks_is_a_failed_request(engine: TinyEngine, probe: HttpProbe) -> None:
    later(0.2, lambda: setattr(engine, "cut_after", 3))
    result = measured(probe, engine, window=Seconds(5.0), sampling=SHORT)
    assert result.flags == ("request_failed",)
    assert "the connection failed" in result.flag_details["request_failed"]


def test_a_stream_without_usage_is_a_failed_request(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.refuse_continuous = engine.without_usage = True
    result = measured(probe, engine, sampling=SHORT)
    assert result.flags == ("request_failed",)
    assert "without usage" in result.flag_details["request_failed"]


def test_a_request_over_its_time_is_recorded_and_not_taken_for_a_slow_one(engine: TinyEngine, probe: HttpProbe) -> None:
    target = target_of(engine, request_timeout=Seconds(0.4))
    raw = probe.window(target, a_window(sampling=SamplingSpec(max_tokens=4000)), alive=always)
    result = derive(raw, dialect=DIALECT, num_speculative_tokens=3)
    assert "request_failed" in result.flags
    assert "no end after 0.4 s" in result.flag_details["request_failed"]


def test_an_engine_that_dies_in_the_window_is_told_from_failed_requests(engine: TinyEngine, probe: HttpProbe) -> None:
    died = threading.Event()

    def die() -> None:
        engine.die()
        died.set()

    timer = later(0.4, die)
    began = time.monotonic()
    raw = probe.window(target_of(engine), a_window(window=Seconds(20.0)), alive=lambda: not died.is_set())
    timer.join()
    assert time.monotonic() - began < 2.5
    assert derive(raw, dialect=DIALECT, num_speculative_tokens=3).flags == ("engine_exited",)


@pytest.mark.parametrize(
    ("fault", "flag"),
    [
        ({"foreign": 3}, "foreign_load"),
        ({"lying_running": 1}, "foreign_load"),
        ({"preempt": True}, "preempted"),
    ],
)
def test_a_fault_raises_its_flag_and_no_other(
    engine: TinyEngine, probe: HttpProbe, fault: dict[str, Any], flag: str
) -> None:
    for name, value in fault.items():
        setattr(engine, name, value)
    assert measured(probe, engine, window=Seconds(1.0), concurrency=1).flags == (flag,)


def test_a_counter_reset_voids_the_window(engine: TinyEngine, probe: HttpProbe) -> None:
    probe.warm_up(target_of(engine), a_window(), alive=always)
    timer = later(0.55, engine.zero)
    result = measured(probe, engine)
    timer.join()
    assert result.flags == ("counter_reset",)
    assert result.numbers is None


def test_streams_that_never_run_together_give_a_flagged_window(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.max_running = 1
    result = measured(probe, engine, concurrency=3, sampling=SHORT)
    assert result.flags == ("underfilled",)
    assert "waiting" in result.flag_details["underfilled"]


def test_a_load_that_does_not_come_up_in_time_is_underfilled(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.prefill_rate = 0.1
    result = measured(probe, engine, ramp_timeout=Seconds(0.3))
    assert result.flags == ("underfilled",)
    assert "2 streams had no token yet" in result.flag_details["underfilled"]


def test_counters_that_cannot_be_read_before_the_window_opens_are_a_failed_request(
    engine: TinyEngine, probe: HttpProbe
) -> None:
    engine.metrics_status = 503
    result = measured(probe, engine, sampling=SHORT)
    assert result.flags == ("request_failed",)
    assert "the opening reading failed" in result.flag_details["request_failed"]
    assert "HTTP 503" in result.flag_details["request_failed"]


def test_an_engine_without_statistics_is_a_mismatch(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.page = lambda: "python_info 1.0\n"  # type: ignore[method-assign]
    with pytest.raises(DialectMismatch, match="statistics may be switched off"):
        measured(probe, engine)


def test_a_slow_metrics_page_widens_the_uncertainty_and_keeps_the_midpoint(
    engine: TinyEngine, probe: HttpProbe
) -> None:
    engine.metrics_delay = 0.1
    before = time.monotonic()
    reading = probe.read(target_of(engine))
    after = time.monotonic()
    assert reading.uncertainty >= 0.05
    assert before + 0.05 <= reading.at <= after - 0.05


def test_cancelled_streams_end_on_the_engine(engine: TinyEngine, probe: HttpProbe) -> None:
    probe.window(target_of(engine), a_window(sampling=SamplingSpec(max_tokens=100_000)), alive=always)
    made = engine.generated
    time.sleep(0.1)
    assert engine.generated == made
    assert engine.disconnects == 2


def test_every_config_meets_the_same_prompts_in_the_same_order(engine: TinyEngine, probe: HttpProbe) -> None:
    def dealt() -> list[str]:
        engine.seen.clear()
        probe.window(target_of(engine), a_window(concurrency=1, first_prompt=4, sampling=SHORT), alive=always)
        return [body["messages"][0]["content"] for body in engine.seen]

    one, other = dealt(), dealt()
    shorter = min(len(one), len(other))
    assert shorter > 1
    assert one[:shorter] == other[:shorter]


def test_load_goes_through_the_proxy_and_counters_come_from_the_engine(engine: TinyEngine, probe: HttpProbe) -> None:
    with TinyEngine() as proxy:
        raw = probe.window(target_of(engine, load_url=proxy.url), a_window(ramp_timeout=Seconds(0.3)), alive=always)
        assert proxy.seen
        assert not engine.seen
    assert raw.ended_early == "underfilled"  # this "proxy" answers itself, so the engine's gauges stay at 0


def test_the_api_key_is_sent_and_is_in_no_record(engine: TinyEngine, probe: HttpProbe) -> None:
    target = target_of(engine, api_key=Secret("hush-hush"))
    raw = probe.window(target, a_window(), alive=always)
    assert "hush-hush" not in repr(raw)
    assert "hush-hush" not in repr(target)


def test_a_cached_prompt_voids_a_prefill(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.cached = 16
    result = probe.prefill(target_of(engine), tokens=Tokens(200), salt="s", sampling=SamplingSpec(), alive=always)
    assert (result.flags, result.cached_tokens) == (("cache_hit",), 16)


def test_prefill_prompts_are_new_for_every_salt_and_exact_with_or_without_a_tokenizer(
    engine: TinyEngine, probe: HttpProbe
) -> None:
    prompts = []
    for salt, tokenizes in (("a", True), ("b", True), ("a", False), ("b", False)):
        engine.tokenizes = tokenizes
        result = probe.prefill(target_of(engine), tokens=Tokens(200), salt=salt, sampling=SamplingSpec(), alive=always)
        assert result.clean, result.detail
        prompts.append(engine.seen[-1]["prompt"])
    assert {len(prompt) for prompt in prompts} == {200}
    assert len({tuple(prompt[:2]) for prompt in prompts}) == 4


def test_the_prefill_rate_is_the_engines(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.prefill_rate = 2000.0
    result = probe.prefill(target_of(engine), tokens=Tokens(1000), salt="s", sampling=SamplingSpec(), alive=always)
    assert result.ttft == pytest.approx(0.5, abs=0.05)
    assert result.engine_seconds == pytest.approx(0.5)


def test_a_busy_engine_does_not_drain(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.lying_running = 1
    assert probe.drain(target_of(engine), timeout=Seconds(0.3)) is False


def test_an_interrupt_disconnects_the_load(engine: TinyEngine, probe: HttpProbe) -> None:
    began = time.monotonic()

    def alive() -> bool:
        if time.monotonic() - began > 0.5:
            raise KeyboardInterrupt
        return True

    with pytest.raises(KeyboardInterrupt):
        probe.window(target_of(engine), a_window(window=Seconds(30.0)), alive=alive)
    assert probe.drain(target_of(engine), timeout=SOON) is True


def test_what_a_window_waits_for_is_told_and_that_it_is_over(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.max_running = 1
    told: list[str] = []
    slow = SamplingSpec(max_tokens=4000)
    asked = a_window(concurrency=2, sampling=slow, ramp_timeout=Seconds(0.5), waiting=told.append)
    probe.window(target_of(engine), asked, alive=always)
    probe.window(target_of(engine), replace(asked, concurrency=1), alive=always)
    assert told[-1] == ""
    engine.lying_running = -1
    probe.window(target_of(engine), replace(asked, concurrency=1, ramp_timeout=Seconds(2.0)), alive=always)
    assert told[-2:] == ["for the engine to run the stream: it reports 0 running, 0 waiting", ""]


def test_a_warm_up_in_which_every_request_fails_says_so(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.status = 503
    with pytest.raises(RequestFailed, match="out of order"):
        probe.warm_up(target_of(engine), a_window(), alive=always)


def test_a_prefill_tells_that_it_waits_for_an_idle_engine(engine: TinyEngine, probe: HttpProbe) -> None:
    told: list[str] = []
    probe.prefill(
        target_of(engine),
        tokens=Tokens(200),
        salt="s",
        sampling=SamplingSpec(),
        alive=always,
        waiting=told.append,
    )
    assert told == ["for the engine to be idle", ""]


@pytest.mark.parametrize("kind", ["prefill", "single_batch"])
def test_nobody_waits_for_an_engine_that_is_gone_to_be_idle(engine: TinyEngine, probe: HttpProbe, kind: str) -> None:
    target, began = target_of(engine), time.monotonic()
    engine.die()
    with pytest.raises(MetricsUnreadable):
        if kind == "prefill":
            probe.prefill(target, tokens=Tokens(200), salt="s", sampling=SamplingSpec(), alive=lambda: False)
        else:
            asked = SingleBatchRequest(Tokens(30), Tokens(6), temperature=0.0, salt="s", sampling=SamplingSpec())
            probe.single_batch(target, asked, alive=lambda: False)
    assert time.monotonic() - began < 5.0


def test_a_prefill_beside_streams_is_void_when_a_miss_cannot_be_shown(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.cached = 8
    load = a_window(concurrency=2, window=Seconds(0.3), sampling=SHORT)
    result = probe.prefill(
        target_of(engine), tokens=Tokens(300), salt="s", sampling=SamplingSpec(), alive=always, load=load
    )
    assert result.flags == ("cache_hit",)


def test_a_prefill_beside_streams_that_do_not_come_up_is_void(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.max_running = 1
    load = a_window(
        concurrency=2, window=Seconds(0.3), sampling=SamplingSpec(max_tokens=4000), ramp_timeout=Seconds(0.5)
    )
    target = target_of(engine, request_timeout=Seconds(1.0))
    result = probe.prefill(target, tokens=Tokens(300), salt="s", sampling=SamplingSpec(), alive=always, load=load)
    assert not result.clean


def test_a_prefill_beside_streams_that_slow_down_says_by_how_much(engine: TinyEngine, probe: HttpProbe) -> None:
    load = a_window(concurrency=2, window=Seconds(0.6), sampling=SamplingSpec(max_tokens=4000))
    engine.prefill_rate = 1000.0
    slower = later(1.0, lambda: setattr(engine, "step", 0.03))
    result = probe.prefill(
        target_of(engine), tokens=Tokens(1500), salt="s", sampling=SamplingSpec(), alive=always, load=load
    )
    slower.join()
    assert result.clean, result.detail
    assert result.facts["decode_slowdown"] > 1.5


@pytest.mark.parametrize("hold", [6, 10_000])
def test_a_stream_that_is_collected_on_the_way_has_no_client_times(
    engine: TinyEngine, probe: HttpProbe, hold: int
) -> None:
    engine.hold = hold
    result = measured(probe, engine, concurrency=2, window=Seconds(1.2), sampling=SHORT)
    numbers = result.numbers
    assert numbers is not None
    assert [note for note in result.notes if "the stream came in bursts" in note]
    assert (numbers.ttft, numbers.tpot, numbers.e2e, numbers.chunk_gap) == (None, None, None, None)
    assert "client-side times are not the engine's" in numbers.unavailable["ttft"]
    assert numbers.decode_rate > 0
    assert numbers.acceptance_length == pytest.approx(2.0, abs=0.08)


def test_a_stream_that_arrives_as_it_is_sent_has_no_note(engine: TinyEngine, probe: HttpProbe) -> None:
    result = measured(probe, engine, concurrency=4, window=Seconds(1.0), sampling=SHORT)
    assert result.notes == ()
    assert result.numbers is not None
    assert result.numbers.facts["chunks_per_read"] < 1.5


def test_requests_own_acceptance_agrees_with_counters_that_nobody_else_moves(
    engine: TinyEngine, probe: HttpProbe
) -> None:
    engine.tells = True
    result = measured(probe, engine, concurrency=4, window=Seconds(1.5), sampling=SHORT)
    numbers = result.numbers
    assert numbers is not None
    assert numbers.facts["requests_with_acceptance"] >= 4
    assert numbers.facts["acceptance_length_by_requests"] == pytest.approx(2.0, abs=0.1)
    assert result.notes == ()
    told = next(one.acceptance for one in result.raw.requests if one.acceptance is not None)
    assert told.source == "metrics.speculative_decoding"
    assert sum(told.histogram or ()) == told.drafts


def test_counters_that_others_move_disagree_with_the_requests_own_acceptance(
    engine: TinyEngine, probe: HttpProbe
) -> None:
    engine.tells, engine.others_accept = True, 3
    result = measured(probe, engine, concurrency=2, window=Seconds(1.5), sampling=SHORT)
    assert [note for note in result.notes if "others' drafts are among the counted ones" in note]


def test_min_tokens_and_ignore_eos_go_out_only_where_they_are_asked_for(engine: TinyEngine, probe: HttpProbe) -> None:
    measured(probe, engine)
    plain = engine.seen[-1]
    assert "min_tokens" not in plain
    assert "ignore_eos" not in plain
    measured(probe, engine, sampling=SamplingSpec(max_tokens=600, min_tokens=5, ignore_eos=True))
    assert (engine.seen[-1]["min_tokens"], engine.seen[-1]["ignore_eos"]) == (5, True)


def test_a_text_that_repeats_itself_is_said_and_its_rate_stays_true(engine: TinyEngine, probe: HttpProbe) -> None:
    engine.dull = True
    result = measured(probe, engine, concurrency=2, window=Seconds(1.5), sampling=SamplingSpec(max_tokens=2000))
    if not any(one.repetition is not None for one in result.raw.requests):
        result = measured(probe, engine, concurrency=2, window=Seconds(4.0), sampling=SamplingSpec(max_tokens=2000))
    assert [note for note in result.notes if "degenerate output" in note]
    assert result.flags == ()
