from __future__ import annotations

import math

import pytest

MTP = {"method": "mtp", "num_speculative_tokens": 3}
SEVEN = {
    "method": "dflash",
    "num_speculative_tokens": 7,
    "draft_sample_method": "greedy",
    "rejection_sample_method": "standard",
}
RATES = [0.75, 0.52, 0.36, 0.28, 0.22, 0.15, 0.12]
SYNTHETIC = {**SEVEN, "rejection_sample_method": "synthetic", "synthetic_acceptance_rates": RATES}


def decoding(make_bench, settings, streams, **more):
    bench = make_bench(settings, **more)
    asked = [bench.ask(tokens=10**6) for _ in range(streams)]
    while any(request.state != "decode" for request, _ in asked):
        bench.step()
    return bench


def test_prescribed_acceptance_per_position_comes_back_within_three_standard_errors(make_bench):
    bench = decoding(make_bench, SYNTHETIC, 8)
    bench.metrics.reset()
    bench.steps(4000)
    drafts = bench.metrics.drafts
    assert drafts == 32_000
    for accepted, rate in zip(bench.metrics.accepted_at, RATES, strict=True):
        assert abs(accepted / drafts - rate) < 3 * math.sqrt(rate * (1 - rate) / drafts)


def test_set_acceptance_per_position_comes_back_over_many_prompts(make_bench):
    bench = make_bench(SEVEN, seed=5)
    truth = bench.core.truth.positions(0.7, 16)
    for _ in range(40):
        bench.window(16, 3.0)
    drafts = bench.metrics.drafts
    # 640 prompts: their difficulty is what limits the agreement, not the draws.
    spread = bench.core.truth.prompt_spread(0.7)
    for accepted, rate in zip(bench.metrics.accepted_at, truth, strict=True):
        assert abs(accepted / drafts - rate) < 3 * spread * rate * 2 / math.sqrt(640) + 0.005


@pytest.mark.parametrize(
    ("streams", "seconds"), [(1, 0.1215), (2, 0.1215), (4, 0.156), (8, 0.187), (16, 0.2625), (6, 0.1715)]
)
def test_step_time_by_batch_is_what_was_set(make_bench, streams, seconds):
    bench = decoding(make_bench, SEVEN, streams)
    began, steps = bench.now, bench.metrics.iteration_tokens.count
    bench.steps(50)
    assert (bench.now - began) / (bench.metrics.iteration_tokens.count - steps) == pytest.approx(seconds, rel=0.01)
    assert bench.metrics.inter_token.total / bench.metrics.inter_token.count == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize("settings", [SEVEN, MTP, SYNTHETIC])
def test_in_pure_decode_tokens_are_drafts_plus_accepted_and_positions_sum_up(make_bench, settings):
    bench = decoding(make_bench, settings, 5)
    bench.metrics.reset()
    bench.steps(300)
    metrics = bench.metrics
    assert metrics.generation_tokens == metrics.drafts + metrics.accepted
    assert sum(metrics.accepted_at) == metrics.accepted
    assert metrics.draft_tokens == metrics.drafts * bench.core.truth.k
    assert metrics.iteration_tokens.count == 300
    assert metrics.inter_token.count == metrics.drafts == 1500


def test_without_speculation_every_step_makes_one_token_a_stream(make_bench):
    bench = decoding(make_bench, None, 4)
    bench.metrics.reset()
    bench.steps(100)
    assert bench.metrics.generation_tokens == 400
    assert bench.metrics.drafts == 0


def test_a_method_that_seldom_drafts_counts_drafts_only_when_it_did(make_bench):
    bench = decoding(make_bench, {"method": "ngram", "num_speculative_tokens": 4}, 4)
    bench.metrics.reset()
    bench.steps(1000)
    metrics = bench.metrics
    assert metrics.drafts / 4000 == pytest.approx(0.22, abs=0.03)
    assert metrics.generation_tokens == 4000 + metrics.accepted


def test_tokens_that_were_handed_out_are_the_tokens_that_were_counted(make_bench):
    bench = make_bench(SEVEN)
    for tokens in (1, 2, 7, 100, 333):
        bench.ask(tokens=tokens)
    bench.steps(500)
    for tape, tokens in zip(bench.tapes, (1, 2, 7, 100, 333), strict=True):
        ends = [start + count for start, count in tape.pieces]
        assert [start for start, _ in tape.pieces] == [0, *ends[:-1]]
        assert ends[-1] == tokens
        assert tape.reason == "length"
    assert bench.metrics.generation_tokens == 443
    assert bench.metrics.finished["length"] == 5


def test_the_same_prompt_is_as_easy_under_every_config(make_bench):
    easy = {}
    for name, settings in (("mtp", MTP), ("seven", SEVEN)):
        bench = make_bench(settings)
        easy[name] = bench.ask(key=b"the same")[0].difficulty
    assert easy["mtp"] == easy["seven"]


def test_requests_beyond_the_most_that_may_run_wait_in_order(make_bench):
    bench = make_bench(None, max_num_seqs=2)
    asked = [bench.ask(tokens=5)[0] for _ in range(3)]
    bench.step()
    assert [request.state for request in asked] == ["decode", "decode", "waiting"]
    assert len(bench.core.waiting) == 1
    bench.steps(6)
    assert [request.state for request in asked] == ["done", "done", "decode"]


def test_a_fresh_prefill_runs_at_the_boxs_rate_and_a_cached_one_skips_it(make_bench):
    bench = make_bench(None)
    ids = tuple(range(12_000))
    began = bench.now
    first, _ = bench.ask(ids=ids, tokens=1)
    while first.state != "done":
        bench.step()
    assert 12_000 / (bench.now - began) == pytest.approx(2083, rel=0.002)
    began = bench.now
    again, _ = bench.ask(ids=ids, tokens=1)
    while again.state != "done":
        bench.step()
    assert bench.now - began == pytest.approx(0.118)
    metrics = bench.metrics
    assert (again.cached, first.cached) == (11_984, 0)
    assert (metrics.prompt_tokens, metrics.prompt_computed, metrics.prompt_cached) == (24_000, 12_016, 11_984)
    assert (metrics.cache_queries, metrics.cache_hits) == (24_000, 11_984)


def test_without_prefix_caching_nothing_is_found_again(make_bench):
    bench = make_bench(None, caching=False)
    ids = tuple(range(4_000))
    for _ in range(2):
        request, _ = bench.ask(ids=ids, tokens=1)
        while request.state != "done":
            bench.step()
    assert bench.metrics.prompt_cached == 0
    assert bench.metrics.cache_queries == 0


def test_a_short_prompt_rides_along_in_a_decode_step(make_bench):
    bench = decoding(make_bench, SEVEN, 4)
    alone = bench.step()
    bench.ask(prompt_tokens=100, tokens=50)
    assert bench.step() == alone
    bench.ask(prompt_tokens=1500, tokens=50)
    assert bench.step() == pytest.approx(1500 / 2083)


def test_when_blocks_run_out_the_latest_is_preempted_and_still_finishes(make_bench):
    bench = make_bench(None, kv_tokens=16 * 40)
    asked = [bench.ask(prompt_tokens=160, tokens=200)[0] for _ in range(3)]
    bench.steps(1200)
    assert [request.state for request in asked] == ["done"] * 3
    assert bench.metrics.preemptions > 0
    assert asked[0].preempted == 0
    assert bench.metrics.generation_tokens == 600
    assert bench.core.pool.usage == 0.0


def test_an_aborted_request_stops_at_once_and_keeps_its_counted_tokens(make_bench):
    bench = decoding(make_bench, None, 2)
    request = bench.core.running[0]
    bench.core.begin(bench.now)
    bench.core.abort(request)
    made = bench.metrics.generation_tokens
    bench.core.finish(bench.now + 0.1)
    assert bench.metrics.generation_tokens == made + 1
    bench.core.abort(request)
    assert len(bench.core.running) == 1
    assert bench.metrics.finished["abort"] == 0


def test_foreign_load_counts_like_anybodys_and_slows_the_batch(make_bench):
    bench = decoding(make_bench, SEVEN, 2)
    quiet = bench.step()
    bench.core.foreign.rate = 200.0
    bench.steps(5)
    bench.metrics.reset()
    began, own = bench.now, sum(request.generated for request in bench.core.running)
    slowed = [bench.step() for _ in range(200)]
    foreign = bench.metrics.generation_tokens - (sum(r.generated for r in bench.core.running) - own)
    assert foreign / (bench.now - began) == pytest.approx(200.0, rel=0.01)
    assert bench.metrics.generation_tokens == bench.metrics.drafts + bench.metrics.accepted
    assert max(slowed) > quiet
    bench.core.foreign.rate = 0.0
    bench.steps(2)
    assert bench.step() == quiet


def test_foreign_load_alone_keeps_the_engine_busy(make_bench):
    bench = make_bench(None)
    bench.core.foreign.rate = 50.0
    bench.steps(100)
    assert bench.metrics.generation_tokens / (bench.now - 1000.0) == pytest.approx(50.0, rel=0.05)


def test_a_schedule_of_depths_by_batch_is_followed(make_bench):
    schedule = {**SEVEN, "num_speculative_tokens_per_batch_size": [[1, 2, 7], [3, 4, 5], [8, 16, 0]]}
    for streams, depth in ((1, 7), (3, 5), (6, 5), (8, 0)):
        bench = decoding(make_bench, schedule, streams)
        bench.metrics.reset()
        bench.steps(10)
        assert bench.metrics.draft_tokens == 10 * streams * depth
        assert len(bench.metrics.accepted_at) == 7


def test_an_idle_engine_makes_no_steps(make_bench):
    bench = make_bench(SEVEN)
    assert bench.core.begin(bench.now) is None
    bench.core.finish(bench.now)
    assert bench.core.steps == 0


def test_natural_ends_have_the_profiles_mean_length(make_bench):
    bench = make_bench(None)
    lengths = [bench.ask()[0] for _ in range(3000)]
    natural = [request.limit for request in lengths]
    # Cut at 1,024: 60 + 400 * (1 - exp(-964 / 400)).
    assert sum(natural) / 3000 == pytest.approx(424, rel=0.05)
    assert min(natural) >= 60
