"""Our window and the engine's own `vllm bench serve` on one real server: one acceptance, and a rate that lacks ramp and tail.

Opt-in like `test_real_vllm.py`. The engine's acceptance is set, so both are held to the truth and to each other. Its client
runs in the engine's container, where it is installed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from benchmarks.agreement import STANDARD_ERRORS, Agreement, Load, compare, facts_of
from benchmarks.bench_serve import Where
from nightsweep.measurement import rates

from .check_real_facts import SYNTHETIC
from .containers import engine, vllm_command
from .product import LIVE, models

SPECULATION = {
    "method": "draft_model",
    "model": "/models/tiny-draft",
    "num_speculative_tokens": len(SYNTHETIC),
    "rejection_sample_method": "synthetic",
    "synthetic_acceptance_rates": SYNTHETIC,
}
SAME_SECONDS = 0.03
"""How far the client's own stamps may be from the counters: a step at each edge, tokens dealt evenly to chunks, a late client."""

REQUESTS = 48

OTHER_SECONDS = 0.35
"""How far our windows may be from its steady part beyond their own distance: clients share the engine's cores here, and no
machine is equally fast all the time. That both see one rate is checked on the same seconds."""

pytestmark = LIVE


@pytest.fixture(scope="module")
def found() -> Iterator[Agreement]:
    with engine(models(), "--max-model-len", "2048", "--speculative-config", json.dumps(SPECULATION)) as served:
        where = Where(("docker", "exec", "-i", served.name), vllm_command(), "/models/tiny-coder")
        agreement = compare(Load(url=served.url, model="tiny", requests=REQUESTS, window=8.0), where)
        print(json.dumps(facts_of(agreement), indent=1))
        yield agreement


def test_all_that_the_other_client_counts_is_what_the_counters_moved_by(found: Agreement) -> None:
    result, before, after = found.told.result, found.readings[0], found.readings[-1]
    assert (result["completed"], result["failed"]) == (REQUESTS, 0)
    assert result["total_output_tokens"] == rates.delta(before, after, "generation_tokens")
    assert result["spec_decode_num_drafts"] == rates.delta(before, after, "drafts")
    assert result["spec_decode_draft_tokens"] == rates.delta(before, after, "draft_tokens")
    assert result["spec_decode_accepted_tokens"] == rates.delta(before, after, "accepted_tokens")


def test_acceptance_length_is_the_same_for_both_and_the_one_that_was_set(found: Agreement) -> None:
    truth = 1.0 + sum(SYNTHETIC)
    assert found.ours is not None
    assert found.theirs is not None
    assert found.told.shown("Acceptance length:") == pytest.approx(found.theirs.length, abs=0.006)
    for one in (found.ours, found.theirs):
        assert abs(one.length - truth) < STANDARD_ERRORS * one.error, (one.length, one.error)
    assert found.apart is not None
    assert abs(found.apart) < STANDARD_ERRORS


def test_while_all_streams_decode_both_see_one_rate(found: Agreement) -> None:
    assert found.parts.steady_rate == pytest.approx(found.counted_rate, rel=SAME_SECONDS)


def test_over_its_whole_duration_its_rate_differs_by_ramp_and_tail_and_no_more(found: Agreement) -> None:
    parts, duration = found.parts, found.told.result["duration"]
    outside = 1 - (parts.closed - parts.opened) / duration
    assert 0 < outside < 0.5
    assert abs(1 - parts.whole_rate / parts.steady_rate) <= outside
    # The benchmark's clock starts a moment before its first request is sent.
    assert parts.whole_rate == pytest.approx(parts.steady_rate * (1 - parts.ramp_share - parts.tail_share), rel=0.005)


def test_our_windows_rate_is_its_steady_rate(found: Agreement) -> None:
    ours = found.window_rates
    assert len(ours) == 2
    apart = abs(ours[0] - ours[1]) / min(ours)
    assert sum(ours) / 2 == pytest.approx(found.counted_rate, rel=OTHER_SECONDS + apart)
