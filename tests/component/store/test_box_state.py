"""What the box did beside a window comes back as it was."""

from __future__ import annotations

from dataclasses import replace

from nightsweep.analysis.values import Filters
from nightsweep.measurement.boxstate import BoxRecord, BoxSample, DeviceSample, box_state
from nightsweep.store.postgres import PostgresStore
from nightsweep.store.queries import Queries
from nightsweep.units import Bytes, Celsius, Hertz, MonotonicSeconds, Ratio, Seconds, Tokens, Watts
from tests.storekit.builders import a_night, a_window

SAMPLES = tuple(
    BoxSample(
        at=MonotonicSeconds(10.0 + second),
        devices=(
            DeviceSample(
                index=0,
                sm_clock=Hertz(1980e6),
                power=Watts(650.5),
                temperature=Celsius(64.0),
                reasons=("sw_power_cap", "hw_thermal_slowdown"),
                memory_used=Bytes(1 << 37),
                engines=True,
                foreign_pids=(77,),
                foreign_sm=Ratio(0.004),
            ),
            DeviceSample(index=1),
        ),
        memory_available=Bytes(1 << 36),
        page_cache=Bytes(1 << 33),
        cpu_busy=Seconds(100.25 + second),
        cpu_engine=Seconds(0.5 * second),
        cpu_own=None,
        containers={"0123456789ab": 12.5},
    )
    for second in range(3)
)


def a_record() -> BoxRecord:
    state = box_state(
        SAMPLES, opened=SAMPLES[0].at, closed=SAMPLES[-1].at, cores=20, tokens=Tokens(130), simulated=False
    )
    assert state is not None
    return BoxRecord(state=state, samples=SAMPLES)


def test_the_summary_and_every_sample_of_the_box_come_back(store: PostgresStore, queries: Queries) -> None:
    night = a_night(store)
    window_id = night.keep(replace(a_window(), box=a_record()))
    assert queries.raw_window(window_id).box_samples == SAMPLES
    (row,) = queries.windows(Filters())
    assert row.box_state is not None
    assert row.box_state["energy_per_token"] == 10.007692307692308
    assert row.box_state["devices"][0]["temperature"] == {"mean": 64.0, "least": 64.0, "most": 64.0}
    assert "hw_thermal_slowdown in 100%" in row.box_state["flags"]["throttled"]


def test_a_window_that_nobody_watched_has_no_box_state(store: PostgresStore, queries: Queries) -> None:
    night = a_night(store)
    window_id = night.keep(a_window())
    assert queries.raw_window(window_id).box_samples == ()
    assert queries.windows(Filters())[0].box_state is None


def test_the_same_window_delivered_twice_is_one(store: PostgresStore, queries: Queries) -> None:
    night = a_night(store)
    watched = replace(a_window(), box=a_record())
    assert night.keep(watched) == night.keep(watched)
    assert len(queries.windows(Filters())) == 1
