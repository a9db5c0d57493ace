from __future__ import annotations

import math
import statistics

import pytest

from nightsweep.simulator.profile import load_profile, profile_names
from nightsweep.simulator.truth import expected, length_standard_error, prefill_seconds, standard_error

SHIPPED = {
    "method": "dflash",
    "model": "z-lab/Qwen3.8-27B-DFlash2",
    "num_speculative_tokens": 7,
    "draft_sample_method": "probabilistic",
    "rejection_sample_method": "block",
}
MTP = {"method": "mtp", "num_speculative_tokens": 3}
NGRAM = {"method": "ngram", "num_speculative_tokens": 4}


def as_settings(entry):
    if entry.method is None:
        return None
    settings = {"method": entry.method, "num_speculative_tokens": entry.k}
    if entry.draft_sample != "any":
        settings |= {"draft_sample_method": entry.draft_sample, "rejection_sample_method": entry.rejection}
    return settings


REPORTED = [
    (as_settings(entry), int(batch), temperature, rate)
    for entry in load_profile("gb10").entries
    for temperature, table in entry.reported
    for batch, rate in table
]


@pytest.mark.parametrize(("settings", "batch", "temperature", "rate"), REPORTED)
def test_the_reports_decode_rates_come_back_within_three_percent(settings, batch, temperature, rate):
    assert expected("gb10", settings, batch, temperature).decode_rate == pytest.approx(rate, rel=0.03)


def test_the_whole_reported_table_is_covered():
    assert len(REPORTED) == 38
    assert (MTP, 16, 0.7, 202.7) in REPORTED


@pytest.mark.parametrize("settings", [None, MTP, SHIPPED])
def test_one_stream_steps_in_about_a_hundred_and_twenty_milliseconds(settings):
    assert expected("gb10", settings, 1, 0.7).step_time == pytest.approx(0.12, abs=0.0025)


def test_a_single_stream_strays_as_far_between_windows_as_the_reports_runs_did():
    for settings, temperature, low, high in ((SHIPPED, 0.7, 0.10, 0.18), ({**SHIPPED, "draft_sample_method": "greedy",
                                              "rejection_sample_method": "standard"}, 1.0, 0.20, 0.30)):  # fmt: skip
        cell = expected("gb10", settings, 1, temperature)
        spread = standard_error(cell, windows=1, window_seconds=40) / cell.decode_rate
        assert low < spread < high


@pytest.mark.parametrize(
    ("settings", "streams", "seconds"),
    [(SHIPPED, 1, 5.0), (SHIPPED, 4, 40.0), (MTP, 16, 5.0), (None, 2, 40.0), (NGRAM, 4, 20.0)],
)
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_windows_on_the_engine_agree_with_the_expected_rate_and_its_standard_error(
    make_bench, settings, streams, seconds, temperature
):
    bench = make_bench(settings, seed=7)
    windows = 40
    rates = [bench.window(streams, seconds, temperature=temperature) for _ in range(windows)]
    cell = expected("gb10", settings, streams, temperature, window_seconds=seconds)
    error = standard_error(cell, windows=windows, window_seconds=seconds)
    # A window here ends on a whole step, so its edges do not vary; what the model leaves out is below half a percent.
    assert abs(statistics.mean(rates) - cell.decode_rate) < 3 * error + 0.005 * cell.decode_rate
    if settings is not None:
        ratio = statistics.stdev(rates) / (error * math.sqrt(windows))
        assert 0.6 < ratio < 1.5


def test_the_acceptance_length_of_a_window_agrees_with_the_expected_one(make_bench):
    bench = make_bench(SHIPPED, seed=3)
    lengths = []
    for _ in range(30):
        drafts, accepted = bench.metrics.drafts, bench.metrics.accepted
        bench.window(8, 20.0, temperature=1.0)
        lengths.append(1 + (bench.metrics.accepted - accepted) / (bench.metrics.drafts - drafts))
    cell = expected("gb10", SHIPPED, 8, 1.0, window_seconds=20.0)
    error = length_standard_error(cell, windows=30, window_seconds=20.0)
    assert statistics.mean(lengths) == pytest.approx(cell.acceptance_length, abs=3 * error + 0.005)
    assert sum(cell.positions) == pytest.approx(cell.acceptance_length - 1)


def test_a_known_prompt_set_has_its_own_truth():
    easy_or_hard = expected("gb10", SHIPPED, 1, 1.0, ["Sort a list."])
    everything = expected("gb10", SHIPPED, 1, 1.0)
    assert easy_or_hard.tokens_sd_between_requests == pytest.approx(0.0, abs=1e-6)
    assert easy_or_hard.decode_rate != pytest.approx(everything.decode_rate, rel=0.001)


def test_speed_moves_rates_and_steps_but_no_acceptance():
    cell = expected("gb10", SHIPPED, 4, 0.7)
    fast = cell.at_speed(10)
    assert fast.decode_rate == pytest.approx(10 * cell.decode_rate)
    assert fast.step_time == pytest.approx(cell.step_time / 10)
    assert fast.acceptance_length == cell.acceptance_length
    slow_error = standard_error(cell, windows=3, window_seconds=40, jitter=0.0)
    assert standard_error(fast, windows=3, window_seconds=4, jitter=0.0) == pytest.approx(10 * slow_error)
    assert standard_error(fast, windows=3, window_seconds=4) > 10 * slow_error


def test_more_windows_streams_and_seconds_make_the_error_smaller():
    def error(windows=1, seconds=40.0, streams=1):
        cell = expected("gb10", SHIPPED, streams, 0.7, window_seconds=seconds)
        return standard_error(cell, windows=windows, window_seconds=seconds) / cell.decode_rate

    assert error(windows=4) == pytest.approx(error() / 2)
    assert error(streams=16) < error() / 2
    assert error(seconds=160.0) < error() / 1.5


def test_a_prefill_takes_as_long_as_its_tokens_at_the_boxs_rate():
    assert 12_000 / prefill_seconds("gb10", 12_000) == pytest.approx(2083, rel=0.001)
    assert prefill_seconds("gb10", 10) == pytest.approx(0.118)


@pytest.mark.parametrize("name", profile_names())
def test_every_bundled_profile_answers_for_all_its_methods(name):
    profile = load_profile(name)
    for entry in profile.entries:
        for batch in (1, 3, 16, 64):
            cell = expected(name, as_settings(entry), batch, 0.7, window_seconds=1.0)
            assert cell.decode_rate > 0
            assert 1.0 <= cell.acceptance_length <= entry.k + 1


@pytest.mark.parametrize("k", range(1, 13))
def test_depths_between_and_beyond_the_known_ones_rise_sensibly(k):
    less = expected("gb10", {**SHIPPED, "num_speculative_tokens": k}, 1, 0.7)
    more = expected("gb10", {**SHIPPED, "num_speculative_tokens": k + 1}, 1, 0.7)
    assert len(less.positions) == k
    assert 1.0 < less.acceptance_length < more.acceptance_length < k + 2
    assert list(less.positions) == sorted(less.positions, reverse=True)


def test_prescribed_rates_are_the_same_for_all_content():
    rates = [0.75, 0.52, 0.36, 0.28]
    settings = {
        "method": "dflash",
        "num_speculative_tokens": 4,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": rates,
    }
    cell = expected("gb10", settings, 8, 1.0)
    assert cell.positions == pytest.approx(rates)
    assert cell.tokens_sd_between_requests == pytest.approx(0.0, abs=1e-6)
