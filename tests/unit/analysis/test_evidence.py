"""What a decision rests on: each window once, windows of one question only, and what is wrong with a choice said first."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from nightsweep.analysis import sides
from nightsweep.analysis.compared import compared
from nightsweep.analysis.comparing import BOOTS_UNKNOWN, Comparison, compare
from nightsweep.analysis.evidence import Choice, decide
from nightsweep.analysis.expected import Expected, expected_and_found
from nightsweep.analysis.pooled import observed
from nightsweep.analysis.premises import Decision
from nightsweep.analysis.sides import Documents
from nightsweep.analysis.values import WindowRow
from nightsweep.errors import NothingToDecide
from nightsweep.plan.expect import FROM_FILE, Prediction
from tests.unit.analysis.builders import COLD, EVENING, a_boot, a_failed_boot, a_window
from tests.unit.analysis.test_premises import FIVE_OR_SEVEN, material, of

SAMPLING = {
    "cond-a": {"engine_version": "0.28.0"},
    "cond-b": {"engine_version": "0.28.0", "sampling": {"min_p": 0.0}},
}
CONFIGS = {
    name: {"engine": "vllm", "model": "org/m", "speculative": {"method": "dflash", "num_speculative_tokens": k}}
    for name, k in (("five", 5), ("seven", 7), ("four", 4))
}
KNOWN = Documents(SAMPLING, CONFIGS, {})


def in_two_boots(config: str, *rates: float, first: int = 1, **facts: Any) -> list[WindowRow]:
    return [
        a_window(
            window_id=first + at,
            repeat=0,
            boot_id=first + at,
            config=config,
            config_fingerprint=config,
            decode_rate=rate,
            **facts,
        )
        for at, rate in enumerate(rates)
    ]


def decided(*rows: WindowRow, choice: Choice = FIVE_OR_SEVEN, **facts: Any) -> Decision:
    return decide(choice, material(*rows, documents=KNOWN, **facts), at=EVENING)


def by_compare(a: list[WindowRow], b: list[WindowRow]) -> Comparison:
    choice = sides.chosen(sides.pools_of(a), sides.pools_of(b), known=KNOWN)
    (found,) = compared(sides.paired(choice, a, b), family=[*a, *b], same_within=0.03)
    return found.plain


# --- each window once --------------------------------------------------------------------------------------------


def test_compare_decide_and_an_expected_ratio_give_the_same_interval_and_no_window_counts_twice() -> None:
    seven, five = in_two_boots("seven", 100.0, 110.0, first=10), in_two_boots("five", 119.0, 131.0)
    one = by_compare(seven, five)
    assert (one.ratio, one.low, one.high) == pytest.approx((1.190, 0.890, 1.592), abs=0.01)
    assert one.verdict == "undecided"

    evidence = decided(*seven, *five, choice=Choice("five", "seven", None)).evidence
    assert f"undecided x{one.ratio:.3f} ({one.low:.3f}–{one.high:.3f})" in evidence.verdicts[0]
    assert any("not shown to be better than seven" in warning for warning in evidence.warnings)

    told = Prediction("five", 1, COLD, "ratio", FROM_FILE, 1.0, 2.0, against="seven")
    expected = Expected(told, "five", "seven", EVENING, after_fact=False)
    (found,) = expected_and_found([expected], [*seven, *five], known=KNOWN)
    assert (found.mean, found.low, found.high) == (one.ratio, one.low, one.high)
    assert found.verdict == "open"


def test_windows_of_the_sides_may_be_in_the_family_also_as_other_objects() -> None:
    rows = in_two_boots("seven", 100.0, 110.0, first=10), in_two_boots("five", 119.0, 131.0)
    a, b = ([observed(row, row.decode_rate or 0.0) for row in side] for side in rows)
    again = [observed(row, row.decode_rate or 0.0) for side in rows for row in side]
    assert compare(a, b, family=again) == compare(a, b, family=[*a, *b]) == compare(a, b)


def test_single_windows_tell_no_interval_by_being_handed_in_twice() -> None:
    rows = [*of("five", 28.5), *of("seven", 26.0, first=10)]
    evidence = decided(*rows, choice=Choice("five", "seven", None)).evidence
    assert [(cell.low, cell.high) for cell in evidence.cells] == [(None, None), (None, None)]
    assert "–" not in evidence.verdicts[0]


def test_the_noise_is_that_of_the_whole_night_as_compare_takes_it() -> None:
    seven, five = in_two_boots("seven", 100.0, 110.0, first=10), in_two_boots("five", 119.0, 131.0)
    others = in_two_boots("four", 118.0, 119.0, 118.5, 118.4, first=30)
    choice = sides.chosen(sides.pools_of(seven), sides.pools_of(five), known=KNOWN)
    pairing = sides.paired(choice, seven, five)
    (one,) = compared(pairing, family=[*seven, *five, *others], same_within=0.03)
    night = decided(*seven, *five, choice=Choice("five", "seven", None), family=[*seven, *five, *others])
    assert f"({one.plain.low:.3f}–{one.plain.high:.3f})" in night.evidence.verdicts[0]


def test_that_all_rests_on_one_boot_of_each_config_is_a_warning_as_compare_has_it() -> None:
    once = [*of("five", 100.0, 101.0, 100.4), *of("seven", 90.0, 91.0, 90.2, first=10)]
    assert BOOTS_UNKNOWN in decided(*once, choice=Choice("five", "seven", None)).evidence.warnings
    twice = [*in_two_boots("five", 100.0, 101.0), *in_two_boots("seven", 90.0, 91.0, first=10)]
    assert BOOTS_UNKNOWN not in decided(*twice, choice=Choice("five", "seven", None)).evidence.warnings


# --- one question ------------------------------------------------------------------------------------------------


def two_sets() -> list[WindowRow]:
    """Return what went on under another sampling after an update, for the chosen config alone."""
    later = EVENING + timedelta(days=1)
    return [
        *of("five", 100.0, 101.0),
        *of("five", 140.0, 141.0, 142.0, first=5, conditions="cond-b", started=later),
        *of("seven", 90.0, 91.0, first=10),
        *of("four", 80.0, 81.0, first=20),
    ]


def test_windows_under_other_conditions_are_left_out_and_said_and_not_pooled() -> None:
    evidence = decided(*two_sets(), choice=Choice("five", "seven", None)).evidence
    five = next(cell for cell in evidence.cells if cell.config == "five")
    assert (five.windows, five.maximum) == ((1, 2), 101.0)
    assert evidence.not_fixed == {}
    assert any(
        "3 windows of five under other conditions left out (they differ in sampling.min_p)" in one
        for one in evidence.warnings
    )
    one = by_compare([row for row in two_sets() if row.config == "seven"], two_sets()[:2])
    assert f"against seven at 1 stream, T=0.7: better x{one.ratio:.3f} " in evidence.verdicts[0]


def test_conditions_that_the_fallback_has_in_common_count_and_others_are_out_with_a_word() -> None:
    rows = [*two_sets(), *of("seven", 120.0, 121.0, first=40, conditions="cond-b")]
    evidence = decided(*rows[5:], *rows[2:5], choice=Choice("five", "seven", None)).evidence
    assert {cell.config: cell.minimum for cell in evidence.cells} == {"five": 140.0, "seven": 120.0}
    (note,) = [one for one in evidence.notes if "under other conditions" in one]
    assert note.startswith("2 windows of four under other conditions left out, so nothing of it is compared")


def test_nothing_is_decided_between_configs_that_answer_different_questions() -> None:
    rows = [*of("five", 140.0, 141.0, conditions="cond-b"), *of("seven", 90.0, 91.0, first=10)]
    with pytest.raises(NothingToDecide, match=r"another question \(sampling.min_p\)"):
        decided(*rows, choice=Choice("five", "seven", None))


def test_a_ratio_between_different_questions_is_open_and_says_in_what_they_differ() -> None:
    rows = [*of("five", 140.0, 141.0, conditions="cond-b"), *of("seven", 90.0, 91.0, first=10)]
    told = Prediction("five", 1, COLD, "ratio", FROM_FILE, 1.0, 2.0, against="seven")
    (found,) = expected_and_found([Expected(told, "five", "seven", EVENING, after_fact=False)], rows, known=KNOWN)
    assert (found.verdict, found.mean) == ("open", None)
    assert "sampling.min_p" in str(found.why)


# --- bad choices -------------------------------------------------------------------------------------------------


def test_a_fallback_that_is_the_choice_is_none() -> None:
    with pytest.raises(NothingToDecide, match="the fallback is the chosen config itself"):
        decided(*of("five", 28.5, 28.6), *of("seven", 26.0, 26.1, first=10), choice=Choice("five", "five", None))


def test_a_fallback_whose_engine_never_came_up_is_refused_and_so_is_such_a_choice() -> None:
    boots = [a_failed_boot(config="broken", config_fingerprint="broken"), a_boot(config_fingerprint="five")]
    rows = [*of("five", 28.5, 28.6), *of("seven", 26.0, 26.1, first=10)]
    for choice, who in (
        (Choice("five", "broken", None), "the fallback"),
        (Choice("broken", "five", None), "the chosen"),
    ):
        with pytest.raises(NothingToDecide, match=rf"{who}.*engine did not come up \(kv_too_small\)"):
            decided(*rows, choice=choice, boots=boots)


def test_a_choice_of_flagged_windows_only_says_their_flags() -> None:
    rows = [*of("five", 28.5, flags=("foreign_load",)), *of("seven", 26.0, 26.1, first=10)]
    with pytest.raises(NothingToDecide, match=r"flagged \(foreign_load\)"):
        decided(*rows, choice=Choice("five", "seven", None))


def test_a_choice_that_is_shown_to_be_worse_is_said_first() -> None:
    rows = [*of("five", 20.0, 20.1, 19.9), *of("seven", 26.0, 26.1, 25.9, first=10), *of("four", 10.0, first=20)]
    warnings = decided(*rows, choice=Choice("five", "four", None)).evidence.warnings
    assert warnings[0].startswith("SHOWN TO BE WORSE than seven at 1 stream, T=0.7: x0.769")


def test_the_strongest_other_of_each_cell_is_looked_at_and_not_the_next_one_over_all_alone() -> None:
    rows = [
        *of("five", 100.0, 100.2, 99.8),
        *of("seven", 90.0, 90.1, 89.9, first=10),
        *of("four", 50.0, 51.0, first=20),
    ]
    wide = {"concurrency": 16}
    rows += [*of("five", 200.0, 180.0, 220.0, first=30, **wide), *of("seven", 150.0, 151.0, first=40, **wide)]
    rows += of("four", 197.0, 178.0, 216.0, first=50, **wide)
    evidence = decided(*rows, choice=Choice("five", "seven", None)).evidence
    assert evidence.runner_up == "seven"
    told = [one.split(" at ")[:2] for one in evidence.verdicts]
    assert [(who, at.split(",")[0]) for who, at in told] == [
        ("against seven", "1 stream"),
        ("against seven", "16 streams"),
        ("against four", "16 streams"),
    ]
    assert any(one.startswith("not shown to be better than four at 16 streams, T=0.7") for one in evidence.warnings)


def test_a_fallback_that_is_the_strongest_of_a_cell_is_held_to_the_same() -> None:
    rows = [
        *of("five", 100.0, 100.2, 99.8),
        *of("seven", 90.0, 90.1, 89.9, first=10),
        *of("four", 50.0, 51.0, first=20),
    ]
    wide = {"concurrency": 16}
    rows += [*of("five", 200.0, 180.0, 220.0, first=30, **wide), *of("seven", 150.0, 151.0, first=40, **wide)]
    rows += of("four", 197.0, 178.0, 216.0, first=50, **wide)
    warnings = decided(*rows, choice=Choice("five", "four", None)).evidence.warnings
    assert any("not shown to be better than four at 16 streams" in one for one in warnings)
    worse = decided(*rows, choice=Choice("four", "five", None)).evidence.warnings
    assert worse[0].startswith("SHOWN TO BE WORSE than the fallback five at 1 stream, T=0.7")


def test_means_of_several_runs_are_not_called_one_run_each_in_a_verdict() -> None:
    rows = [*of("five", 28.5, notes=("a mean of 3 runs",)), *of("seven", 26.0, first=10, notes=("a mean of 3 runs",))]
    (verdict,) = decided(*rows, choice=Choice("five", "seven", None)).evidence.verdicts
    assert verdict.endswith(
        "no spread of the single runs is known (seven: mean of 3 runs, spread unknown; five: mean of 3 runs, spread unknown)"
    )
    (plain,) = decided(
        *of("five", 28.5), *of("seven", 26.0, first=10), choice=Choice("five", "seven", None)
    ).evidence.verdicts
    assert "one run of each is no measurement" in plain


def test_a_choice_with_a_failed_boot_says_so() -> None:
    boots = [a_failed_boot(config="five", config_fingerprint="five"), a_boot(config_fingerprint="five")]
    rows = [*of("five", 28.5, 28.6), *of("seven", 26.0, 26.1, first=10)]
    warnings = decided(*rows, choice=Choice("five", "seven", None), boots=boots).evidence.warnings
    assert "1 of 2 boots of the choice failed (kv_too_small)" in warnings


def test_lone_runs_of_configs_that_the_choice_does_not_hang_on_are_one_line_beside() -> None:
    rows = [*of("five", 28.5, 28.6), *of("seven", 26.0, 26.1, first=10)]
    rows += [*of("four", 10.0, first=20), *of("four", 50.0, first=21, concurrency=8)]
    evidence = decided(*rows, choice=Choice("five", "seven", None)).evidence
    assert not any("four" in warning for warning in evidence.warnings)
    assert "2 cells of 1 other config rest on one run each" in evidence.notes
