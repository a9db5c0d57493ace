"""Is production idle? Proven by its counters, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from nightsweep.production.door import Door
from nightsweep.production.idle import Idleness, served, until_idle
from nightsweep.units import Seconds
from tests.fakes.clock import EVENING, FakeClock
from tests.fakes.probe import FakeProbe
from tests.storekit.builders import a_production

DOOR = Door("http://127.0.0.1:8000", kind="vllm", model="m")


def look(
    values: Callable[[float], dict[str, float] | None],
    *,
    idle_for: float = 60.0,
    limit: float = 300.0,
    door: Door = DOOR,
) -> tuple[Idleness, float]:
    """Return what is found, and how long it took; `values` is the metrics page by seconds."""
    clock = FakeClock()
    probe = FakeProbe(clock=clock)

    class Page:
        def __get__(self, *_: object) -> dict[str, float] | None:
            return values(float(clock.monotonic()) - 1000.0)

        def __set__(self, *_: object) -> None: ...

    probe.__class__ = type("Probe", (FakeProbe,), {"values": Page()})
    found = until_idle(door, probe, clock, idle_for=Seconds(idle_for), limit=Seconds(limit), check=lambda: None)
    return found, float(clock.monotonic()) - 1000.0


def test_an_idle_engine_is_idle_after_the_time_asked_for() -> None:
    found, took = look(lambda at: {"running": 0.0, "waiting": 0.0, "requests_finished": 7.0})
    assert found.idle is True
    assert 60.0 <= took <= 63.0


def test_the_time_begins_anew_with_every_request() -> None:
    found, took = look(lambda at: {"running": float(at < 100.0), "waiting": 0.0})
    assert found.idle is True
    assert 160.0 <= took <= 166.0


def test_a_request_that_came_and_went_between_two_looks_counts() -> None:
    found, took = look(lambda at: {"running": 0.0, "requests_finished": float(at // 31.0)}, limit=120.0)
    assert found.idle is False
    assert took >= 120.0


def test_requests_that_wait_are_work_too_and_the_limit_ends_the_wait() -> None:
    found, took = look(lambda at: {"running": 0.0, "waiting": 2.0}, limit=90.0)
    assert found.idle is False
    assert "0 requests running, 2 waiting" in found.why
    assert 90.0 <= took <= 93.0


@pytest.mark.parametrize(
    ("door", "page", "why"),
    [
        (DOOR, None, "cannot read"),
        (DOOR, {"generation_tokens": 1.0}, "does not say how many requests run"),
        (Door("http://h", kind="sglang"), {}, "--enable-metrics"),
        (Door("http://h", kind=None), {"running": 0.0}, "no vLLM or SGLang"),
        (Door(None, kind="vllm"), {"running": 0.0}, "no port"),
    ],
)
def test_what_cannot_be_asked_is_neither_idle_nor_busy(door: Door, page: dict[str, float] | None, why: str) -> None:
    found, took = look(lambda at: page, door=door)
    assert found.idle is None
    assert why in found.why
    assert took == 0.0


def test_an_idle_engine_has_told_what_it_served_and_one_that_cannot_be_asked_why_not() -> None:
    page = {"running": 0.0, "waiting": 0.0, "served_requests": 40.0, "served_prompt_tokens": 4e4}
    page |= {"served_generation_tokens": 8e3, "process_start": EVENING.timestamp() - 3600.0}
    found, _ = look(lambda at: page)
    told = served(found, a_production(), at=EVENING)
    assert (told.mean_prompt_tokens, told.mean_generation_tokens, told.engine) == (1000.0, 200.0, "vllm")
    assert told.read > EVENING, "the moment of its last page"
    assert told.period == pytest.approx(3660.0, abs=3.0)
    silent, _ = look(lambda at: None)
    why = served(silent, a_production(), at=EVENING)
    assert (why.read, why.requests) == (EVENING, None)
    assert "cannot read" in str(why.unknown)


def test_a_start_that_no_page_tells_is_the_containers() -> None:
    found, _ = look(lambda at: {"running": 0.0, "waiting": 0.0, "served_requests": 40.0})
    begun = EVENING - timedelta(hours=3)
    told = served(found, replace(a_production(), started=begun), at=EVENING)
    assert (told.since, told.since_by) == (begun, "container")
