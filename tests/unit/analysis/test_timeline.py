"""The timeline: boots with their cold start, windows, prefills, pauses, production, night by night."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from nightsweep.analysis import plots
from nightsweep.analysis.plots import Stretch, Timeline
from nightsweep.analysis.timeline import Ran, time_ticks, timeline_figure, timeline_table
from nightsweep.analysis.values import ProductionRow
from nightsweep.units import Seconds

from .builders import EVENING, a_boot, a_failed_boot, a_prefill, a_window, an_event

HOUR = timedelta(hours=1)


def a_production(**facts: Any) -> ProductionRow:
    values: dict[str, Any] = {
        "container": "vllm-qwen",
        "opened": EVENING,
        "stopped": EVENING,
        "restore_by": None,
        "restore_started": EVENING + HOUR,
        "closed": EVENING + HOUR + timedelta(minutes=7),
        "outcome": "restored",
    }
    return ProductionRow(**{**values, **facts})


def ran(**facts: Any) -> Ran:
    values: dict[str, Any] = {
        "boots": [a_boot()],
        "windows": [],
        "prefills": [],
        "production": [],
        "events": [],
        "zone": "UTC",
        "simulated": False,
    }
    return Ran(**{**values, **facts})


def nights(told: Ran) -> tuple[Stretch, ...]:
    plot = timeline_figure(told).plot
    assert isinstance(plot, Timeline)
    return plot.stretches


def bars(told: Ran) -> list[tuple[str, float, float]]:
    return [(bar.kind, bar.begin, bar.length) for night in nights(told) for lane in night.lanes for bar in lane.bars]


def test_a_boot_is_its_cold_start_and_then_the_time_it_served() -> None:
    boot = a_boot(cold_start=Seconds(360.0), ended=EVENING + timedelta(minutes=40))
    assert bars(ran(boots=[boot])) == [(plots.COLD_START, 0.0, 360.0), (plots.SERVING, 360.0, 2040.0)]


def test_a_boot_that_did_not_come_up_is_one_bar() -> None:
    assert bars(ran(boots=[a_failed_boot(ended=EVENING + timedelta(minutes=2))])) == [(plots.FAILED_BOOT, 0.0, 120.0)]


def test_a_boot_that_was_cut_off_before_it_was_ready_never_served() -> None:
    boot = a_boot(state="stopped", cold_start=None, windows=0, ended=EVENING + timedelta(minutes=3))
    assert bars(ran(boots=[boot])) == [(plots.COLD_START, 0.0, 180.0)]


def test_a_boot_without_an_end_lasts_until_it_was_last_seen_to_measure() -> None:
    window = a_window(started=EVENING + timedelta(minutes=10), seconds=Seconds(40.0))
    found = bars(ran(boots=[a_boot(state="lost", ended=None, cold_start=Seconds(360.0))], windows=[window]))
    assert (plots.SERVING, 360.0, 280.0) in found


def test_windows_and_prefills_lie_in_their_configs_lane_and_flagged_ones_are_told_apart() -> None:
    windows = [
        a_window(started=EVENING + timedelta(minutes=7)),
        a_window(window_id=2, started=EVENING + timedelta(minutes=8), flags=("disturbed",)),
        a_window(window_id=3, started=EVENING + timedelta(minutes=9), kind="single_batch"),
        a_window(window_id=4, started=EVENING - 9 * HOUR, reused_from=7),
    ]
    told = ran(windows=windows, prefills=[a_prefill(started=EVENING + timedelta(minutes=6, seconds=10))])
    (night,) = nights(told)
    (lane,) = night.lanes
    assert lane.label == "mtp"
    assert [bar.kind for bar in lane.bars] == [
        "cold start",
        "serving",
        "prefill",
        "window",
        "flagged window",
        "single batch",
    ]


def test_production_is_down_from_when_it_was_stopped_until_it_was_proven_to_serve() -> None:
    (night,) = nights(ran(production=[a_production()]))
    assert night.lanes[0].label == "production"
    (down,) = night.lanes[0].bars
    assert (down.kind, down.begin, down.length) == (plots.DOWN, 0.0, 3600.0 + 420.0)


def test_production_that_is_not_back_is_down_to_the_end() -> None:
    (night,) = nights(ran(production=[a_production(outcome=None, closed=None)]))
    assert night.lanes[0].bars[0].length == 40 * 60.0


def test_a_pause_lasts_until_the_next_boot() -> None:
    later = a_boot(boot_id=2, started=EVENING + HOUR, ended=EVENING + 2 * HOUR)
    pause = an_event(kind="sweep_stopping", message="paused as asked: `nightsweep resume 1` goes on with it")
    other = an_event(kind="sweep_stopping", message="cancelled as asked", at=EVENING + timedelta(minutes=1))
    told = ran(
        boots=[a_boot(), later],
        events=[pause._replace(at=EVENING + timedelta(minutes=40)), other],
    )
    lane = nights(told)[0].lanes[0]
    assert lane.label == "sweep"
    assert [(bar.kind, bar.begin, bar.length) for bar in lane.bars] == [(plots.PAUSED, 2400.0, 1200.0)]


def test_each_night_is_a_stretch_of_its_own_and_production_belongs_to_its_night() -> None:
    boots = [a_boot(boot_id=n, started=EVENING + n * 24 * HOUR, ended=EVENING + n * 24 * HOUR + HOUR) for n in (0, 1)]
    again = a_production(stopped=EVENING + 24 * HOUR, closed=EVENING + 25 * HOUR)
    first, second = nights(ran(boots=boots, production=[a_production(), again]))
    assert (first.title, second.title) == ("Sat 28 Nov 2026", "Sun 29 Nov 2026")
    assert [len(night.lanes[0].bars) for night in (first, second)] == [1, 1]
    assert first.length < 2 * 3600


def test_only_the_newest_nights_are_drawn_and_the_caption_says_so() -> None:
    boots = [a_boot(boot_id=n, started=EVENING + n * 24 * HOUR, ended=EVENING + n * 24 * HOUR + HOUR) for n in range(9)]
    told = ran(boots=boots)
    assert len(nights(told)) == 7
    assert "2 earlier stretches not drawn" in timeline_figure(told).caption


def test_configs_stand_in_the_order_of_the_plan_else_of_time() -> None:
    boots = [
        a_boot(boot_id=1, config="b", config_fingerprint="fp-b"),
        a_boot(boot_id=2, config="a", config_fingerprint="fp-a", started=EVENING + HOUR, ended=EVENING + 2 * HOUR),
    ]
    assert [lane.label for lane in nights(ran(boots=boots))[0].lanes] == ["b", "a"]
    assert [lane.label for lane in nights(ran(boots=boots, fingerprints=["fp-a", "fp-b"]))[0].lanes] == ["a", "b"]


def test_ticks_are_round_times_of_the_sweeps_own_zone() -> None:
    zone = ZoneInfo("Europe/Amsterdam")
    ticks = time_ticks(datetime(2026, 11, 28, 22, 42, tzinfo=zone), 3 * 3600.0)
    assert [tick.label for tick in ticks] == ["23:00", "23:30", "00:00", "00:30", "01:00", "01:30"]
    assert ticks[0].at == 18 * 60


def test_labels_jump_with_the_clock_in_a_night_that_changes_it() -> None:
    zone = ZoneInfo("Europe/Amsterdam")
    ticks = time_ticks(datetime(2026, 10, 25, 1, 0, tzinfo=zone), 4 * 3600.0)
    assert [tick.label for tick in ticks[::2]] == ["01:00", "02:00", "02:00", "03:00", "04:00"]


def test_the_table_says_how_long_each_config_was_up_and_production_was_down() -> None:
    boots = [
        a_boot(cold_start=Seconds(360.0)),
        a_failed_boot(boot_id=2, started=EVENING + HOUR, ended=EVENING + HOUR + timedelta(minutes=1)),
    ]
    table = timeline_table(ran(boots=boots, windows=[a_window()], production=[a_production()]))
    assert table is not None
    production, config = (row.values for row in table.groups[0].rows)
    assert production[0] == "production"
    assert production[-1] == "down 1 h 07 min"
    assert config == ("mtp", "2", "1", "360.0", "1", "0", "up 41 min 00 s")


def test_without_a_boot_there_is_no_timeline() -> None:
    assert timeline_figure(ran(boots=[])).missing == "nothing was booted here"
    assert timeline_table(ran(boots=[])) is None


def test_what_was_imported_has_no_place_in_time() -> None:
    told = ran(boots=[a_boot(source="imported:csv")], windows=[a_window(source="imported:csv")])
    assert timeline_figure(told).plot is None
    assert timeline_table(told) is None


def test_a_pause_until_the_next_night_is_cut_and_told_whole_in_the_table() -> None:
    boots = [a_boot(), a_boot(boot_id=2, started=EVENING + 24 * HOUR, ended=EVENING + 25 * HOUR)]
    pause = an_event(kind="sweep_stopping", message="paused as asked", at=EVENING + timedelta(minutes=40))
    told = ran(boots=boots, events=[pause])
    first, second = nights(told)
    assert (first.lanes[0].label, first.lanes[0].bars[0].length) == ("sweep", 3600.0)
    assert second.lanes[0].label == "mtp"
    assert "cut off 1 h 00 min after it" in timeline_figure(told).caption
    table = timeline_table(told)
    assert table is not None
    assert table.groups[0].rows[0].values[-1] == "paused 23 h 20 min"
