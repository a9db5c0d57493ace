from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nightsweep.errors import GpuBusy
from nightsweep.host import box
from nightsweep.host.accelerator import MemoryReading
from nightsweep.host.freeing import Freeing
from nightsweep.host.listeners import free_port
from nightsweep.units import GIB, Seconds
from tests.fakes.clock import FakeClock

FACTS = {
    "cpu": "x",
    "memory_gib": 119.7,
    "memory_bytes": 128524120064,
    "docker": "28.5.2",
    "kernel": "6.11",
    "driver": "580.95",
}


def test_the_fingerprint_is_about_conditions_only() -> None:
    one = box.box_fingerprint(FACTS)
    assert one == box.box_fingerprint({**FACTS, "memory_bytes": 128524000000, "docker": None})
    assert one != box.box_fingerprint({**FACTS, "driver": "581.0"})
    assert one != box.box_fingerprint({**FACTS, "kernel": "6.14"})


def test_the_box_has_the_name_it_is_given_and_its_fingerprint_does_not_depend_on_it() -> None:
    first, second = box.facts(name="spark"), box.facts(name="tower")
    assert (first.name, second.name) == ("spark", "tower")
    assert first.fingerprint == second.fingerprint
    assert "spark" not in str(first.facts)


def test_a_processor_without_a_name_is_told_by_its_parts(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("CPU implementer\t: 0x41\nCPU part\t: 0xd85\n\nCPU implementer\t: 0x41\nCPU part\t: 0xd87\n")
    assert box.cpu_model(cpuinfo) == "ARM implementer 0x41 part 0xd85+0xd87"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n")
    assert box.cpu_model(cpuinfo) == "Some CPU @ 2 GHz"


def readings(*used: float, source: str = "nvml") -> Iterator[MemoryReading]:
    last = 0.0
    for last in used:
        yield MemoryReading(source=source, used=(int(last * GIB),))
    while True:
        yield MemoryReading(source=source, used=(int(last * GIB),))


def freeing(clock: FakeClock, *used: float, source: str = "nvml") -> Freeing:
    series = readings(*used, source=source)
    return Freeing(clock, read=lambda: next(series))


def test_memory_is_waited_for_until_it_is_back_at_what_it_was() -> None:
    clock = FakeClock()
    waiting = freeing(clock, 2.0, 70.0, 40.0, 2.1)
    assert waiting.note() == {"memory_source": "nvml", "memory_before": [2 * GIB]}

    waiting.wait(port=free_port(), timeout=Seconds(60.0), published=tuple)

    assert clock.monotonic() == 1002.0


def test_memory_that_does_not_come_back_is_an_error_in_time() -> None:
    clock = FakeClock()
    waiting = freeing(clock, 2.0, 70.0)
    waiting.note()

    with pytest.raises(GpuBusy) as busy:
        waiting.wait(port=free_port(), timeout=Seconds(30.0), published=tuple)

    assert busy.value.facts["waited"] == 30.0


def test_where_nothing_is_known_of_before_memory_must_have_settled() -> None:
    clock = FakeClock()

    freeing(clock, 70.0, 40.0, 10.0, 3.0, 3.0).wait(port=free_port(), timeout=Seconds(60.0), published=tuple)

    assert 1.0 < clock.monotonic() - 1000.0 < 6.0


def test_unified_memory_has_more_leeway_because_everything_shares_it() -> None:
    clock = FakeClock()
    waiting = freeing(clock, 10.0, 12.5, source="meminfo")
    waiting.note()

    waiting.wait(port=free_port(), timeout=Seconds(1.0), published=tuple)

    assert clock.monotonic() == 1000.0


def test_a_box_without_an_accelerator_waits_for_the_port_only() -> None:
    clock = FakeClock()
    Freeing(clock, read=lambda: MemoryReading(source="none")).wait(
        port=free_port(), timeout=Seconds(1.0), published=tuple
    )
    assert clock.monotonic() == 1000.0
