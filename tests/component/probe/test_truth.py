"""The short form of the truth campaign (benchmarks/truth.py): the probe against what the simulated engine really did."""

from __future__ import annotations

import pytest

from benchmarks.truth import FAULTS, Case, cases, measure_cases, measure_clean, measure_faults

pytestmark = pytest.mark.slow

SHORT = (Case(1, 0, 200.0), Case(16, 7, 2000.0), Case(64, 3, 2000.0))
TRIED = (
    "the engine's core dies",
    "the engine is killed",
    "somebody else's light load",
    "counters begin again",
    "a preemption",
    "some requests get 500",
    "streams are cut",
    "streams are empty",
    "streams without usage",
    "requests are held back",
    "fewer seats than streams",
    "a stall",
    "slow counters",
    "the probe itself stands still at the window's end",
)
"""One fault of each way to be noticed; the campaign has them all."""


@pytest.mark.parametrize("case", SHORT, ids=str)
def test_the_decode_rate_is_what_the_engine_did_between_the_two_stamps(case: Case) -> None:
    (one,) = measure_cases([case], windows=1)
    assert abs(one.rate_error) < 0.01
    assert one.exact, "a reading is no total of the engine's"
    assert one.flags == (), one.details
    assert one.tpot is not None
    measured, true = one.tpot
    # A machine that runs other tests meanwhile delivers late: the campaign holds the medians to 1 ms + 1%.
    assert measured == pytest.approx(true, rel=0.05, abs=0.003)


def test_each_fault_raises_its_flag_and_no_other() -> None:
    tallies = list(measure_faults([fault for fault in FAULTS if fault.name in TRIED], windows=1))
    assert len(tallies) == len(TRIED)
    assert {tally.case.name: tally.details for tally in tallies if tally.wrong} == {}


def test_forty_windows_without_a_fault_raise_no_flag() -> None:
    flagged = [dict(result.flag_details) for result in measure_clean(windows=40, window=0.3) if result.flags]
    assert flagged == []


def test_the_campaign_spans_streams_depths_and_rates() -> None:
    spanned = cases()
    assert {case.streams for case in spanned} == {1, 4, 16, 64, 256}
    assert {case.k for case in spanned} == {0, 1, 3, 5, 7}
    assert {case.rate for case in spanned} == {20.0, 200.0, 2000.0, 20000.0}
    assert len([fault for fault in FAULTS if fault.flag is not None]) == 20
