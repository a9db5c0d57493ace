"""What the box did in a window: summaries, energy, and flags that a shared box does not raise for nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nightsweep.measurement.boxstate import BoxSample, BoxState, DeviceSample, box_state
from nightsweep.units import Bytes, Celsius, Hertz, MonotonicSeconds, Ratio, Seconds, Tokens, Watts

CORES = 8


def a_device(**fields: Any) -> DeviceSample:
    known = DeviceSample(
        index=0,
        sm_clock=Hertz(1980e6),
        memory_clock=Hertz(3201e6),
        power=Watts(500.0),
        temperature=Celsius(61.0),
        reasons=("sw_power_cap",),
        memory_used=Bytes(100 << 30),
        engines=True,
        foreign_sm=Ratio(0.0),
    )
    return replace(known, **fields)


def samples(*devices: DeviceSample | None, busy: float = 0.0, engine: float = 0.0) -> list[BoxSample]:
    """Return a sample a second, with one device each; `busy` and `engine` are cores in use."""
    return [
        BoxSample(
            at=MonotonicSeconds(100.0 + second),
            devices=() if device is None else (device,),
            memory_available=Bytes(10 << 30),
            page_cache=Bytes(second << 30),
            cpu_busy=Seconds(5000.0 + second * busy),
            cpu_engine=Seconds(second * engine),
            cpu_own=Seconds(0.0),
        )
        for second, device in enumerate(devices)
    ]


def state_of(found: list[BoxSample], *, tokens: int | None = 1000, simulated: bool = False) -> BoxState:
    state = box_state(
        found,
        opened=found[0].at,
        closed=found[-1].at,
        cores=CORES,
        tokens=None if tokens is None else Tokens(tokens),
        simulated=simulated,
    )
    assert state is not None
    return state


def test_a_quiet_box_at_its_power_limit_raises_no_flag() -> None:
    state = state_of(samples(*[a_device()] * 5, busy=1.0))
    assert state.flags == {}
    assert state.devices[0].reasons == {"sw_power_cap": 1.0}


def test_energy_per_token_is_the_integral_of_power_over_the_tokens() -> None:
    powers = [100.0, 300.0, 300.0, 100.0]
    state = state_of(samples(*(a_device(power=Watts(power)) for power in powers)), tokens=350)
    # Trapezoids: 200 + 300 + 200 joules in three seconds.
    assert state.devices[0].energy == pytest.approx(700.0)
    assert state.energy_per_token == pytest.approx(2.0)


def test_energy_without_tokens_or_without_power_is_absent_and_not_zero() -> None:
    assert state_of(samples(*[a_device()] * 3), tokens=None).energy_per_token is None
    assert state_of(samples(*[a_device()] * 3), tokens=0).energy_per_token is None
    assert state_of(samples(*[a_device(power=None)] * 3)).energy_per_token is None


@pytest.mark.parametrize("reason", ["sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake"])
def test_heat_and_power_brakes_throttle_a_window_also_when_seen_once(reason: str) -> None:
    state = state_of(samples(a_device(), a_device(reasons=(reason, "hw_slowdown")), a_device(), a_device()))
    assert tuple(state.flags) == ("throttled",)
    assert f"{reason} in 25% of the samples at up to 61 °C" in state.flags["throttled"]


@pytest.mark.parametrize("reason", ["sw_power_cap", "hw_slowdown", "gpu_idle", "app_clocks", "sync_boost"])
def test_reasons_of_an_ordinary_state_throttle_nothing(reason: str) -> None:
    assert state_of(samples(*[a_device(reasons=(reason,))] * 4)).flags == {}


def test_an_accelerator_that_the_engine_does_not_use_flags_nothing() -> None:
    hot = a_device(index=1, engines=False, reasons=("hw_thermal_slowdown",), foreign_sm=Ratio(0.9))
    both = [replace(one, devices=(*one.devices, hot)) for one in samples(*[a_device()] * 3)]
    state = state_of(both)
    assert state.flags == {}
    assert state.devices[1].reasons == {"hw_thermal_slowdown": 1.0}


def test_others_that_compute_on_the_accelerator_disturb() -> None:
    state = state_of(samples(*[a_device(foreign_sm=Ratio(0.07), foreign_pids=(77,))] * 3))
    assert tuple(state.flags) == ("disturbed",)
    assert "7.0% of it (pid 77)" in state.flags["disturbed"]


def test_an_idle_process_that_only_holds_memory_disturbs_nothing() -> None:
    assert state_of(samples(*[a_device(foreign_pids=(77,))] * 3)).flags == {}
    untold = a_device(foreign_sm=None, foreign_pids=(77,))
    assert state_of(samples(*[untold] * 3)).flags == {}


def test_where_shares_are_not_told_a_newcomer_on_the_accelerator_disturbs() -> None:
    before, after = a_device(foreign_sm=None), a_device(foreign_sm=None, foreign_pids=(99,))
    assert "pid 99 came onto accelerator 0" in state_of(samples(before, before, after)).flags["disturbed"]


def test_the_load_of_others_flags_an_engine_on_the_cpu_beyond_half_of_the_cores() -> None:
    assert state_of(samples(*[None] * 4, busy=4.0 + 3.9, engine=4.0)).flags == {}
    state = state_of(samples(*[None] * 4, busy=4.0 + 4.1, engine=4.0))
    assert tuple(state.flags) == ("disturbed",)
    assert state.foreign_cpu == pytest.approx(4.1 / CORES)


def test_with_cores_to_spare_the_load_of_others_takes_none_from_the_engine() -> None:
    assert state_of(samples(*[None] * 4, busy=1.0 + 5.0, engine=1.0)).flags == {}


def test_the_load_of_others_flags_no_engine_on_an_accelerator_and_no_simulated_one() -> None:
    assert state_of(samples(*[a_device()] * 4, busy=8.0)).flags == {}
    assert state_of(samples(*[None] * 4, busy=8.0), simulated=True).flags == {}


def test_where_the_engines_own_use_is_not_known_the_load_of_others_is_not_either() -> None:
    unknown = [replace(one, cpu_engine=None) for one in samples(*[None] * 4, busy=8.0)]
    state = state_of(unknown)
    assert (state.foreign_cpu, state.flags) == (None, {})


def test_only_samples_inside_the_window_count_and_none_is_no_state() -> None:
    found = samples(a_device(), a_device(reasons=("hw_power_brake",)), a_device(), a_device())
    state = box_state(
        found,
        opened=MonotonicSeconds(101.5),
        closed=MonotonicSeconds(103.5),
        cores=CORES,
        tokens=Tokens(5),
        simulated=False,
    )
    assert state is not None
    assert (state.samples, state.flags) == (2, {})
    assert state.page_cache is not None
    assert (state.page_cache.least, state.page_cache.most) == (2 << 30, 3 << 30)
    assert (
        box_state(
            found,
            opened=MonotonicSeconds(200.0),
            closed=MonotonicSeconds(201.0),
            cores=1,
            tokens=None,
            simulated=False,
        )
        is None
    )


def test_containers_are_told_in_cores_and_idle_ones_left_out() -> None:
    found = samples(*[None] * 3)
    busy = [replace(one, containers={"aaa": 10.0 + 0.5 * second, "idle": 3.0}) for second, one in enumerate(found)]
    assert state_of(busy).containers == {"aaa": pytest.approx(0.5)}
