from __future__ import annotations

from typing import Any

import pytest

from nightsweep.engine.dialects import vllm_dialect
from nightsweep.measurement.prefill import Beside, derive_prefill
from nightsweep.measurement.values import PrefillResult, RequestTiming
from nightsweep.units import Tokens
from tests.fakes.probe import LONG_AGO, a_reading
from tests.unit.measurement.builders import a_request


def judged(timing: RequestTiming | None = None, **facts: Any) -> PrefillResult:
    moved = {
        "generation_tokens": 1.0,
        "prompt_tokens": 12000.0,
        "prefix_cache_hits": 0.0,
        "prefill_seconds_sum": 5.9,
        "prefill_seconds_count": 1.0,
        **facts.pop("moved", {}),
    }
    known = {name: value for name, value in moved.items() if value is not None}
    return derive_prefill(
        timing
        or a_request(sent=10.0, ended=16.1, chunk_at=(16.0,), prompt_tokens=Tokens(12000), cached_tokens=Tokens(0)),
        before=a_reading(9.0, **{name: 100.0 for name in known}),
        after=a_reading(17.0, **{name: 100.0 + value for name, value in known.items()}),
        tokens=Tokens(12000),
        was_idle=facts.get("was_idle", True),
        exited=facts.get("exited", False),
        started=LONG_AGO,
        dialect=vllm_dialect("0.32.0"),
        facts={},
        load=facts.get("load"),
    )


ALONE = Beside(16, alone=a_reading(5.0, generation_tokens=1.0), held=True)
UNTOLD = a_request(sent=10.0, ended=16.1, chunk_at=(16.0,), prompt_tokens=Tokens(12000))


def beside(**moved: float | None) -> PrefillResult:
    """Return a prefill among 16 streams, of which some began a new request of 26 tokens."""
    usual = {"generation_tokens": 900.0, "prompt_tokens": 12026.0, "prefill_seconds_count": 3.0}
    return judged(UNTOLD, load=ALONE, moved={**usual, **moved})


def test_a_new_request_beside_a_prefill_leaves_its_miss_shown_to_within_that_requests_hits() -> None:
    result = beside(prefix_cache_hits=16.0, prompt_tokens_computed=12010.0)
    assert result.clean, result.detail
    assert (result.rate, result.cached_tokens, result.facts["cached_tokens_at_most"]) == (2000.0, None, 16)
    assert "up to 16 of the prompt's 12000 tokens" in (result.detail or "")
    assert "0.1%" in (result.detail or "")


def test_no_hit_at_all_is_a_miss_whoever_else_came() -> None:
    result = beside(prefix_cache_hits=0.0, prompt_tokens_computed=12026.0)
    assert (result.clean, result.cached_tokens, result.detail) == (True, 0, None)


@pytest.mark.parametrize(
    ("moved", "flag", "said"),
    [
        ({"prefix_cache_hits": 128.0, "prompt_tokens": 12400.0}, "miss_unproven", "up to 128 of the prompt's 12000"),
        ({"prefix_cache_hits": None}, "miss_unproven", "no counter of cache hits"),
        ({"prefix_cache_hits": 16.0, "prompt_tokens": 26.0}, "miss_unproven", "counted 26 prompt tokens"),
        (
            {"prefix_cache_hits": 16.0, "prompt_tokens": 24000.0, "prompt_tokens_computed": 40.0},
            "miss_unproven",
            "has counted",
        ),
        ({"prefix_cache_hits": 9600.0, "prompt_tokens_computed": 2426.0}, "cache_hit", "at least 9574 of"),
    ],
)
def test_beside_others_nothing_is_said_to_be_cached_that_is_not_shown_to_be(
    moved: dict[str, float | None], flag: str, said: str
) -> None:
    result = beside(**moved)
    assert result.flags == (flag,)
    assert said in (result.detail or "")


def test_a_flag_is_not_named_twice() -> None:
    assert judged(moved={"prefix_cache_hits": 16.0}).detail == "16 of the prompt's tokens came from the prefix cache"


def test_a_clean_prefill_is_prompt_tokens_over_ttft() -> None:
    result = judged()
    assert result.clean
    assert (result.ttft, result.rate, result.cached_tokens) == (6.0, 2000.0, 0)
    assert result.engine_seconds == pytest.approx(5.9)


@pytest.mark.parametrize("cached", [16, 11904])
def test_any_cache_hit_voids_a_prefill(cached: int) -> None:
    result = judged(moved={"prefix_cache_hits": float(cached)})
    assert (result.flags, result.cached_tokens) == (("cache_hit",), cached)


def test_a_miss_that_nobody_can_show_is_not_clean() -> None:
    timing = a_request(sent=10.0, ended=16.1, chunk_at=(16.0,), prompt_tokens=Tokens(12000))
    result = judged(timing, moved={"prefix_cache_hits": None})
    assert result.flags == ("miss_unproven",)
    assert result.cached_tokens is None
    assert "cannot be shown" in (result.detail or "")


def test_somebody_elses_tokens_make_it_foreign_load_and_hide_the_engines_own_seconds() -> None:
    result = judged(moved={"generation_tokens": 9.0, "prefill_seconds_count": 2.0})
    assert result.flags == ("foreign_load",)
    assert result.engine_seconds is None


def test_an_engine_that_was_busy_before_is_foreign_load() -> None:
    assert judged(was_idle=False).flags == ("foreign_load",)


def test_another_token_count_than_asked_is_no_clean_result() -> None:
    timing = a_request(sent=10.0, ended=16.1, chunk_at=(16.0,), prompt_tokens=Tokens(12001), cached_tokens=Tokens(0))
    assert judged(timing).flags == ("request_failed",)


def test_a_failed_request_has_no_rate() -> None:
    result = judged(a_request(sent=10.0, ended=10.1, error="HTTP 400: too long"), moved={"generation_tokens": 0.0})
    assert (result.rate, result.flags) == (None, ("request_failed",))
    assert "HTTP 400: too long" in (result.detail or "")


def test_an_engine_that_ended_is_the_only_flag() -> None:
    result = judged(a_request(sent=10.0, ended=11.0, error="the connection failed"), exited=True)
    assert result.flags == ("engine_exited",)
