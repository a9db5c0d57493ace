"""Verdicts: what is better, what is the same, what is not known yet, and what would decide it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.analysis.comparing import (
    BETTER,
    SAME,
    UNDECIDED,
    WORSE,
    Comparison,
    compare,
    holm,
)
from nightsweep.analysis.differing import config_differences, differences

from .observations import seen

STEADY = (1.0, 1.004, 0.996, 1.002, 0.998, 1.0)


def against(a: Sequence[float], b: Sequence[float], *, same_within: float = 0.03) -> Comparison:
    (found,) = compare(seen(a, config="a"), seen(b, config="b"), same_within=same_within)
    return found


def steady(rate: float, *, n: int = 6) -> list[float]:
    return [rate * value for value in STEADY[:n]]


@pytest.mark.parametrize(
    ("b", "verdict"),
    [(22.0, BETTER), (18.0, WORSE), (20.1, SAME), (20.0, SAME)],
    ids=["+10%", "-10%", "+0.5%", "equal"],
)
def test_a_clear_difference_has_a_verdict_on_b(b: float, verdict: str) -> None:
    found = against(steady(20.0), steady(b))
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(b / 20.0)
    assert found.needed is None


def test_runs_that_scatter_more_than_they_differ_are_undecided_and_say_how_many_more_it_takes() -> None:
    found = against([20.0, 24.0, 17.0], [21.0, 25.0, 18.5])
    assert found.verdict == UNDECIDED
    assert found.needed is not None
    assert found.needed > 10
    nearer = against([20.0, 24.0, 17.0], [27.0, 31.0, 24.0])
    assert nearer.needed is None or nearer.needed < found.needed


def spread_by(mean: float, *, cv: float, n: int) -> list[float]:
    """Return windows of exactly this mean and coefficient of variation, whatever their number."""
    raw = [NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)]
    return [mean * (1 + cv * (one - fmean(raw)) / stdev(raw)) for one in raw]


def table(ratios: Sequence[float], *, cv: float, n: int, boots: bool = True) -> list[Comparison]:
    """Compare two configs in a cell for each ratio, n windows of each side, each in a boot of its own or all in one."""
    sides = [
        [
            one
            for cell, ratio in enumerate(ratios)
            for one in seen(
                spread_by(20.0 * (ratio if side else 1.0), cv=cv, n=n),
                config="ab"[side],
                boots=range(1000 * cell, 1000 * cell + n) if boots else (0,),
                temperature=cell / 10,
                draws=range(1000 * side, 1000 * side + n),
            )
        ]
        for side in (0, 1)
    ]
    return compare(*sides)


@pytest.mark.parametrize("n", [2, 13])
@pytest.mark.parametrize("cells", [1, 6, 10])
@pytest.mark.parametrize(("ratio", "cv"), [(1.06, 0.1), (1.08, 0.1), (0.9, 0.2), (1.02, 0.01), (1.0, 0.05)])
@pytest.mark.parametrize("boots", [True, False], ids=["boots of their own", "one boot"])
def test_with_the_windows_that_it_is_said_to_need_a_table_is_decided_and_with_a_fifth_less_it_is_not(
    ratio: float, cv: float, cells: int, n: int, boots: bool
) -> None:
    now = table([ratio] * cells, cv=cv, n=n, boots=boots)[-1]
    if now.verdict != UNDECIDED:
        return
    assert now.needed is not None
    assert table([ratio] * cells, cv=cv, n=n + now.needed, boots=boots)[-1].verdict != UNDECIDED
    fewer = int(0.8 * now.needed)
    assert table([ratio] * cells, cv=cv, n=n + fewer, boots=boots)[-1].verdict == UNDECIDED


def test_a_cell_of_a_table_needs_no_more_for_those_that_stand_already() -> None:
    ratios = [1.5] * 9 + [1.06]
    among, alone = table(ratios, cv=0.1, n=8)[-1], table([1.06], cv=0.1, n=8)[-1]
    assert among.verdict == alone.verdict == UNDECIDED
    assert among.needed == alone.needed
    assert table(ratios, cv=0.1, n=8 + (among.needed or 0))[-1].verdict == BETTER


def test_a_lone_run_needs_what_its_table_will_ask_of_it() -> None:
    family = [one for k in range(6) for one in seen(spread_by(100.0, cv=0.1, n=6), config=f"f{k}", streams=8)]
    a, b = (seen([rate], config=side, streams=8) for side, rate in (("a", 100.0), ("b", 112.0)))
    (lone,) = compare(a, b, family=family)
    needed = lone.needed or 0
    assert needed > 1
    more = [
        seen(spread_by(rate, cv=0.1, n=1 + needed), config=side, streams=8, draws=range(at, at + 1 + needed))
        for side, rate, at in (("a", 100.0, 100), ("b", 112.0, 300))
    ]
    assert compare(*more, family=family)[0].verdict == BETTER


def test_one_run_of_each_is_no_measurement_whatever_it_says() -> None:
    assert against([20.0], [40.0]).verdict == UNDECIDED
    assert "one run" in str(against([20.0], [40.0]).why)


def test_a_lone_run_has_no_verdict_though_the_noise_is_known_from_others() -> None:
    """178.5 tokens/s, once, nearly shipped the wrong config: three runs said 163.5."""
    family = [one for k in range(6) for one in seen(steady(100.0 + k), config=f"f{k}", streams=8)]
    a = seen([137.4, 136.0, 138.1], config="a", streams=8)
    (lone,) = compare(a, seen([178.5], config="b", streams=8), family=family)
    assert lone.verdict == UNDECIDED
    assert lone.needed is not None
    assert str(lone.why) == "B rests on one run, and one run is not a measurement"
    (again,) = compare(a, seen([161.8, 167.8, 160.9], config="b", streams=8), family=family)
    assert again.verdict == BETTER


def test_a_cell_that_one_side_lacks_is_shown_and_said() -> None:
    found = compare(seen(steady(20.0), config="a"), seen(steady(20.0), config="b", streams=2))
    assert [(one.streams, one.verdict, one.why) for one in found] == [
        (1, UNDECIDED, "B has no clean window here"),
        (2, UNDECIDED, "A has no clean window here"),
    ]


def test_a_difference_that_is_one_of_many_must_be_clearer() -> None:
    a, b = [20.0, 20.6, 19.4, 20.3, 19.7], [20.9, 21.5, 20.3, 21.2, 20.6]
    assert against(a, b).verdict == BETTER
    many = 25
    cells_a = [one for c in range(many) for one in seen(a, config="a", temperature=c / 100)]
    cells_b = [one for c in range(many) for one in seen(b if c == 0 else a, config="b", temperature=c / 100)]
    found = compare(cells_a, cells_b)
    assert found[0].verdict == UNDECIDED or (found[0].p or 1.0) < 0.05 / many
    assert not any(one.verdict == BETTER for one in found[1:])


def test_prompts_that_both_drew_fall_out_of_the_ratio() -> None:
    content = (0.7, 1.3, 0.9, 1.1, 1.25, 0.75, 1.15, 0.85)
    night = {
        k: [10.0 * (1 + 0.1 * k) * c * (1 + 0.004 * (-1) ** (i + k)) for i, c in enumerate(content)] for k in range(6)
    }
    family = [one for k in range(2, 6) for one in seen(night[k], config=str(k))]
    (same,) = compare(seen(night[0], config="0"), seen(night[1], config="1"), family=family)
    other = seen(night[1], config="1", draws=range(10, 18))
    (apart,) = compare(seen(night[0], config="0"), other, family=family)
    assert same.verdict == BETTER
    assert apart.verdict == UNDECIDED


@given(
    st.lists(st.floats(min_value=5.0, max_value=50.0), min_size=2, max_size=5),
    st.lists(st.floats(min_value=5.0, max_value=50.0), min_size=2, max_size=5),
)
def test_the_other_way_round_it_is_the_other_way_round(a: list[float], b: list[float]) -> None:
    there, back = against(a, b), against(b, a)
    opposite = {BETTER: WORSE, WORSE: BETTER, SAME: SAME, UNDECIDED: UNDECIDED}
    assert back.verdict == opposite[there.verdict]
    assert there.ratio is not None
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert there.low is not None
    assert back.high == pytest.approx(1 / there.low)


@given(st.lists(st.floats(min_value=0.0, max_value=1.0), max_size=12))
def test_holm_stands_on_no_more_than_each_alone_and_on_all_that_bonferroni_does(ps: list[float]) -> None:
    stands = holm(ps)
    for p, one in zip(ps, stands, strict=True):
        assert p <= 0.05 + 1e-12 or not one
        assert one or p > 0.05 / len(ps) - 1e-12


def test_conditions_that_make_it_another_question_come_first() -> None:
    a = {"config": "x", "software": "1", "prompts": "p", "box.kernel": "6.8", "box.cpu": "one", "sampling.top_p": 1.0}
    b = {"config": "y", "software": "2", "prompts": "q", "box.kernel": "6.9", "box.cpu": "two", "sampling.top_p": 0.9}
    found = [(one.name, one.meaningless) for one in differences(a, b)]
    assert found == [
        ("box.cpu", True),
        ("prompts", True),
        ("sampling.top_p", True),
        ("box.kernel", False),
        ("software", False),
    ]


def test_settings_that_differ_are_named_by_dotted_key() -> None:
    found = config_differences(
        {"image": "i", "args": {"a": 1}}, {"image": "i", "args": {"a": 2}, "speculative": {"k": 5}}
    )
    assert [(one.name, one.a, one.b) for one in found] == [("args.a", "1", "2"), ("speculative.k", "absent", "5")]
