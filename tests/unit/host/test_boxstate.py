"""The sampler on this machine, and on accelerators and control groups that are written down."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nightsweep.host.boxstate import BoxStateSampler, EngineProcesses, Watch, account_seconds
from nightsweep.host.devices import DeviceReader, held, reason_names
from nightsweep.measurement.boxstate import BoxSample
from nightsweep.ports import EngineHandle
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock


def a_handle(**fields: Any) -> EngineHandle:
    known = {"host": "process", "id": "1:1", "boot_key": "k", "port": 1, "base_url": "http://127.0.0.1:1"}
    return EngineHandle(**{**known, **fields})


def first_of(watch: Watch) -> BoxSample:
    deadline = time.monotonic() + 10.0
    while not watch.samples() and time.monotonic() < deadline:
        time.sleep(0.005)
    return watch.samples()[0]


@pytest.fixture
def spinner() -> Iterator[subprocess.Popen[bytes]]:
    """A process that uses a core for as long as the test looks."""
    process = subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"])
    yield process
    process.kill()
    process.wait()


def test_the_engines_cpu_time_is_told_from_that_of_others(spinner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    sampler = BoxStateSampler(SystemClock(), cgroups=tmp_path)
    with sampler.watch(a_handle(facts={"pid": spinner.pid}), every=Seconds(0.1)) as watch:
        time.sleep(0.8)
    first, last = watch.samples()[0], watch.samples()[-1]
    assert len(watch.samples()) >= 5
    assert first.cpu_engine == 0.0
    assert last.cpu_engine is not None and last.cpu_engine > 0.1
    assert last.cpu_busy is not None and first.cpu_busy is not None
    assert last.cpu_busy - first.cpu_busy >= last.cpu_engine - 0.05
    assert last.memory_available is not None and last.memory_available > 0


def test_a_watch_ends_its_thread_and_takes_the_first_sample_at_once(tmp_path: Path) -> None:
    with BoxStateSampler(SystemClock(), cgroups=tmp_path).watch(a_handle(), every=Seconds(60.0)) as watch:
        first_of(watch)
    assert len(watch.samples()) == 1
    assert "box-sampler" not in {thread.name for thread in threading.enumerate()}


def test_what_is_not_known_of_an_engine_is_none(tmp_path: Path) -> None:
    with BoxStateSampler(SystemClock(), cgroups=tmp_path).watch(a_handle(host="docker"), every=Seconds(60.0)) as watch:
        assert first_of(watch).cpu_engine is None


def test_a_containers_account_is_the_engines_or_somebody_elses(tmp_path: Path) -> None:
    engine = "e" * 64
    for name, text in ((engine, "usage_usec 2500000\nuser_usec 1\n"), ("f" * 64, "usage_usec 40000\n")):
        scope = tmp_path / "system.slice" / f"docker-{name}.scope"
        scope.mkdir(parents=True)
        (scope / "cpu.stat").write_text(text)
    with BoxStateSampler(SystemClock(), cgroups=tmp_path).watch(
        a_handle(host="docker", id=engine), every=Seconds(60.0)
    ) as watch:
        sample = first_of(watch)
    assert sample.cpu_engine == 2.5
    assert sample.containers == {"f" * 12: 0.04}


def test_accounts_of_both_cgroup_versions_are_read_and_others_are_none(tmp_path: Path) -> None:
    old, new, strange = tmp_path / "cpuacct.usage", tmp_path / "cpu.stat", tmp_path / "cpu.max"
    old.write_text("1500000000\n")
    new.write_text("usage_usec 1500000\n")
    strange.write_text("max 100000\n")
    assert [account_seconds(path) for path in (old, new, strange, tmp_path / "gone")] == [1.5, 1.5, None, None]


# --- the page cache ----------------------------------------------------------------------------------------------


def test_the_page_cache_is_freed_by_the_kernels_own_switch(tmp_path: Path) -> None:
    switch = tmp_path / "drop_caches"
    switch.write_text("")
    drop = BoxStateSampler(SystemClock(), drop_caches=switch).drop_page_cache()
    assert switch.read_text() == "1\n"
    assert drop.refused is None
    assert drop.after is not None


def test_a_page_cache_that_may_not_be_freed_says_why(tmp_path: Path) -> None:
    drop = BoxStateSampler(SystemClock(), drop_caches=tmp_path).drop_page_cache()  # a folder cannot be written
    assert drop.refused is not None
    assert "directory" in drop.refused


# --- accelerators ------------------------------------------------------------------------------------------------


class NvmlError(Exception):
    def __init__(self, value: int) -> None:
        self.value = value


class Nvml:
    """NVML with one device of an H200's answers; `missing` questions are not supported."""

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU, NVML_ERROR_NOT_FOUND = 1, 2, 0, 6

    def __init__(self, *, missing: tuple[str, ...] = (), pids: tuple[int, ...] = ()) -> None:
        self._missing = missing
        self._pids = pids
        self.shares: list[SimpleNamespace] | None = None

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)
        if name in self._missing:
            return self._unsupported
        answers = {
            "nvmlDeviceGetCount": lambda: 1,
            "nvmlDeviceGetHandleByIndex": lambda index: "device",
            "nvmlDeviceGetClockInfo": lambda device, kind: {1: 1980, 2: 3201}[kind],
            "nvmlDeviceGetPowerUsage": lambda device: 691_250,
            "nvmlDeviceGetTotalEnergyConsumption": lambda device: 5_000,
            "nvmlDeviceGetTemperature": lambda device, kind: 64,
            "nvmlDeviceGetCurrentClocksEventReasons": lambda device: 0x24,
            "nvmlDeviceGetMemoryInfo": lambda device: SimpleNamespace(used=1 << 30, total=1 << 40),
            "nvmlDeviceGetComputeRunningProcesses": lambda device: [SimpleNamespace(pid=pid) for pid in self._pids],
            "nvmlDeviceGetProcessUtilization": self._utilization,
        }
        return answers[name]

    def _unsupported(self, *_: Any) -> Any:
        raise NvmlError(3)

    def _utilization(self, device: str, since: int) -> list[SimpleNamespace]:
        if self.shares is None:
            raise NvmlError(self.NVML_ERROR_NOT_FOUND)
        return self.shares


def test_an_accelerators_answers_come_in_base_units() -> None:
    (sample,) = DeviceReader(Nvml(pids=(7,)), owns=lambda pid: True).read()
    assert (sample.sm_clock, sample.memory_clock) == (1980e6, 3201e6)
    assert (sample.power, sample.energy, sample.temperature) == (691.25, 5.0, 64.0)
    assert sample.reasons == ("sw_power_cap", "sw_thermal_slowdown")
    assert (sample.engines, sample.foreign_pids, sample.foreign_sm) == (True, (), 0.0)


def test_what_a_device_does_not_support_is_none() -> None:
    missing = tuple(
        f"nvmlDeviceGet{name}"
        for name in (
            "ClockInfo",
            "PowerUsage",
            "TotalEnergyConsumption",
            "Temperature",
            "CurrentClocksEventReasons",
            "CurrentClocksThrottleReasons",
            "MemoryInfo",
            "ComputeRunningProcesses",
            "ProcessUtilization",
        )
    )
    (sample,) = DeviceReader(Nvml(missing=missing), owns=lambda pid: True).read()
    told = (sample.sm_clock, sample.power, sample.energy, sample.temperature, sample.reasons, sample.memory_used)
    assert told == (None,) * 6
    assert (sample.engines, sample.foreign_sm) == (None, None)


def test_without_nvml_there_are_no_devices() -> None:
    assert DeviceReader(None, owns=lambda pid: True).read() == ()


def test_the_share_of_foreign_processes_is_what_they_took_since_the_last_look() -> None:
    lib = Nvml(pids=(7, 8, 9))
    reader = DeviceReader(lib, owns=lambda pid: {7: True, 8: False, 9: None}[pid])
    lib.shares = [_share(8, at=100, sm=90)]
    assert reader.read()[0].foreign_sm == 0.0  # from before the window
    lib.shares = [
        _share(8, at=100, sm=90),
        _share(8, at=200, sm=10),
        _share(8, at=300, sm=20),
        _share(7, at=300, sm=70),
    ]
    sample = reader.read()[0]
    assert sample.foreign_sm == pytest.approx(0.15)
    assert sample.foreign_pids == (8,)
    assert reader.read()[0].foreign_sm == 0.0  # nothing new


def _share(pid: int, *, at: int, sm: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, timeStamp=at, smUtil=sm)


def test_reasons_are_named_and_an_unknown_bit_keeps_its_number() -> None:
    assert reason_names(0) == ()
    assert reason_names(0x1 | 0x80 | 0x400) == ("gpu_idle", "hw_power_brake", "bit_0x400")


def test_an_engine_that_could_be_an_invisible_process_is_neither_there_nor_not() -> None:
    assert (held([]), held([False]), held([False, None]), held([None, True])) == (False, False, None, True)


def test_a_process_is_the_engines_when_it_is_in_its_tree(spinner: subprocess.Popen[bytes]) -> None:
    engine = EngineProcesses(a_handle(facts={"pid": os.getpid()}))
    assert engine.owns(os.getpid()) is True
    assert engine.owns(spinner.pid) is True
    assert engine.owns(1) is False
    assert engine.owns(2**22 + 7) is None
