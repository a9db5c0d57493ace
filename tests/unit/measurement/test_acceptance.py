"""Acceptance of an engine without counters of drafts: the best source that there is, said, and never mixed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nightsweep.engine.dialects import sglang_dialect, state_values
from nightsweep.measurement.derive import derive
from nightsweep.measurement.values import DecodeNumbers, RawWindow, Reading, RequestAcceptance, RequestTiming
from nightsweep.units import Tokens
from tests.fakes.probe import a_raw_window
from tests.unit.measurement.builders import a_request

SGLANG = sglang_dialect("0.5.23")
DRAFTS = ("drafts", "draft_tokens", "accepted_tokens", "steps", "itl_count", "itl_sum")


def a_window(**after: float) -> RawWindow:
    """A window of an engine that counts tokens and no drafts; `after` is what its closing reading holds besides."""
    raw = a_raw_window(concurrency=4, seconds=40.0)
    assert raw.before is not None
    assert raw.after is not None
    return replace(raw, before=_bare(raw.before), after=_bare(raw.after, **after))


def _bare(reading: Reading, **more: float) -> Reading:
    kept = {
        name: value
        for name, value in reading.values.items()
        if name not in DRAFTS and not name.startswith("accepted_per_position")
    }
    return replace(reading, values=kept | more)


def told(*, drafts: int, histogram: tuple[int, ...], ended: float = 120.0) -> RequestTiming:
    accepted = sum(i * count for i, count in enumerate(histogram))
    own = RequestAcceptance("meta_info", Tokens(drafts), Tokens(3 * drafts), Tokens(accepted), histogram)
    return a_request(sent=101.0, ended=ended, completion_tokens=Tokens(drafts + accepted), acceptance=own)


def numbers_of(raw: RawWindow, *, k: int | None = 3) -> DecodeNumbers:
    numbers = derive(raw, dialect=SGLANG, num_speculative_tokens=k).numbers
    assert numbers is not None
    return numbers


def test_own_requests_come_first_with_rate_and_positions_and_the_source_says_so() -> None:
    raw = a_window(acceptance_length_gauge=9.0, acceptance_length_state_gauge=8.0)
    ended = (told(drafts=150, histogram=(50, 50, 50)), told(drafts=50, histogram=(0, 50)))
    numbers = numbers_of(replace(raw, requests=(*raw.requests, *ended)))
    assert numbers.acceptance_length == 1.0 + 200 / 200
    assert numbers.acceptance_rate == pytest.approx(200 / 600)
    assert numbers.positions == (150 / 200, 50 / 200, 0.0)
    for name in ("acceptance_length", "acceptance_rate", "positions"):
        assert numbers.sources[name] == "meta_info of 2 requests of the probe that ended in the window, whole"
        assert name not in numbers.unavailable
    assert (numbers.drafts, numbers.accepted_tokens) == (None, None), "counts of whole requests are not the window's"


def test_requests_that_ended_outside_or_drafted_little_leave_it_to_the_gauge() -> None:
    raw = a_window(acceptance_length_gauge=2.5, acceptance_length_state_gauge=8.0)
    few = (told(drafts=150, histogram=(150,)), told(drafts=900, histogram=(900,), ended=141.0))
    numbers = numbers_of(replace(raw, requests=(*raw.requests, *few)))
    assert numbers.acceptance_length == 2.5
    assert "gauge" in numbers.sources["acceptance_length"]
    assert "SGLang has no counters of drafts" in numbers.unavailable["positions"]


def test_the_state_of_the_engine_is_the_last_resort_and_called_what_it_is() -> None:
    numbers = numbers_of(a_window(acceptance_length_state_gauge=2.25))
    assert numbers.acceptance_length == 2.25
    assert "not of the window" in numbers.sources["acceptance_length"]


def test_without_any_source_it_is_absent_with_the_reason() -> None:
    numbers = numbers_of(a_window())
    assert numbers.acceptance_length is None
    assert "SGLang has no counters of drafts" in numbers.unavailable["acceptance_length"]


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ({"internal_states": [{"avg_spec_accept_length": 3.0}]}, {"acceptance_length_state_gauge": 3.0}),
        (
            {"internal_states": [{"avg_spec_accept_length": 3.0}, {"avg_spec_accept_length": 2.0}]},
            {"acceptance_length_state_gauge": 2.5},
        ),
        ({"internal_states": [{"last_gen_throughput": 80.0}]}, {}),
        ({"internal_states": [{"avg_spec_accept_length": 0.0}]}, {}),
        (["no", "object"], {}),
    ],
)
def test_a_state_tells_its_mean_over_engines_or_nothing(answer: object, values: dict[str, float]) -> None:
    assert state_values(answer) == values
