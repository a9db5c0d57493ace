"""The control's windows show the night's drift, and enter no mean."""

from __future__ import annotations

from datetime import timedelta

from nightsweep.analysis.control import control_table, drift_sentences
from nightsweep.analysis.progress import progress_of
from nightsweep.analysis.report import report_markdown
from nightsweep.analysis.summary import summarise
from nightsweep.analysis.values import WindowRow
from nightsweep.plan.model import CONTROL_ROUND
from tests.unit.analysis.builders import EVENING, a_boot, a_config, a_plan, a_sweep, a_window


def a_control(number: int, rate: float, *, hours: float) -> WindowRow:
    return a_window(
        window_id=10 + number,
        boot_id=10 + number,
        boot_round=CONTROL_ROUND + number,
        repeat=CONTROL_ROUND + number,
        decode_rate=rate,
        started=EVENING + timedelta(hours=hours),
    )


NIGHT = [
    a_window(window_id=1, decode_rate=20.0),
    a_window(window_id=2, repeat=1, decode_rate=21.0, started=EVENING + timedelta(hours=2)),
    a_control(0, 22.0, hours=1),
    a_control(1, 25.0, hours=3),
]


def test_a_controls_extra_windows_enter_no_mean() -> None:
    (cell,) = summarise(NIGHT)
    assert cell.decode_rate is not None
    assert (cell.decode_rate.n, cell.decode_rate.mean) == (2, 20.5)


def test_the_table_has_the_night_in_its_order_with_each_rates_distance_from_the_mean() -> None:
    table = control_table(NIGHT, title="control")
    assert table is not None
    (group,) = table.groups
    assert [row.values[2:] for row in group.rows] == [
        ("#1", "20.0", "-9.1"),
        ("control", "22.0", "+0.0"),
        ("#2", "21.0", "-4.5"),
        ("control", "25.0", "+13.6"),
    ]


def test_the_drift_is_said_from_first_to_last_with_its_range_and_count() -> None:
    assert list(drift_sentences(NIGHT)) == [
        "mtp at 1 stream, T=0.7: 20.0 tokens/s first, 25.0 last (+25.0%); least to most 22.7% of the mean (n=4)"
    ]


def test_without_a_control_there_is_no_table_and_no_section() -> None:
    assert control_table(NIGHT[:2], title="control") is None
    flagged = [*NIGHT[:2], a_window(window_id=9, boot_round=CONTROL_ROUND, flags=("preempted",))]
    assert control_table(flagged, title="control") is None


def test_the_report_shows_the_control_through_the_night() -> None:
    report = report_markdown(
        a_sweep(), boots=[a_boot()], windows=NIGHT, prefills=[], plan=None, software_version="test"
    )
    assert "## Control" in report
    assert "enter no mean" in report
    assert "(+25.0%)" in report


def test_extra_boots_are_no_progress_of_the_configs_own_repeats() -> None:
    config = a_config("mtp")
    plan = a_plan(config)
    rows = [
        a_window(config_fingerprint=config.fingerprint, boot_round=CONTROL_ROUND, repeat=CONTROL_ROUND, window_id=7)
    ]
    boots = [a_boot(config_fingerprint=config.fingerprint, boot_round=CONTROL_ROUND, state="stopped")]
    (progress,) = progress_of(plan, windows=rows, prefills=[], boots=boots)
    assert (progress.clean, progress.left) == (0, progress.planned)
    assert progress.boots_left == plan.probe.boots
