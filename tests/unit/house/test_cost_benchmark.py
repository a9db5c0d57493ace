"""The cost benchmark's climb to ever larger rates always ends, and says why."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from benchmarks.cost import CLIMB_LIMIT, NotWatched, Watched, climb, told


def watched(rate: float, *, drift: float = 0.0, tpot: float | None = None) -> Watched:
    return Watched(cpu=0.1, chunks=1000, tpot=0.02 * (1.0 + drift) if tpot is None else tpot, true_tpot=0.02, rate=rate)


def clock(times: Iterator[float]) -> Callable[[], float]:
    return lambda: next(times)


def test_a_client_climbs_until_it_drifts() -> None:
    found = climb(lambda rate: watched(rate, drift=0.0 if rate < 4000 else 0.08), rates=(1000, 2000, 4000, 8000))
    assert (found.largest, len(found.watched)) == (2000, 3)
    assert found.end == "at 4,000 chunks/s its TPOT is +8.0% off"


def test_a_client_that_tells_no_times_has_drifted() -> None:
    found = climb(lambda rate: watched(rate, tpot=math.inf), rates=(1000, 2000))
    assert (found.largest, found.end) == (0.0, "at 1,000 chunks/s it gives no TPOT")


def test_a_client_that_takes_too_long_or_fails_ends_its_climb_and_keeps_what_it_reached() -> None:
    def watch(rate: float) -> Watched:
        if rate > 1000:
            raise NotWatched("it was not done after 126 s")
        return watched(rate)

    found = climb(watch, rates=(1000, 2000, 4000))
    assert (found.largest, found.end) == (1000, "asked for 2,000 chunks/s, it was not done after 126 s")


def test_a_climb_that_its_time_ended_is_told_as_that_and_not_as_a_limit() -> None:
    found = climb(watched, rates=(1000, 2000, 4000), now=clock(count(0.0, 0.6 * CLIMB_LIMIT)))
    assert (found.largest, found.end) == (1000, f"not asked for 2,000 chunks/s: its {CLIMB_LIMIT:g} s were over")


def test_a_client_that_never_drifts_shows_the_engines_limit() -> None:
    found = climb(watched, rates=(1000, 2000))
    assert found.largest == 2000
    assert "simulated engine" in found.end


def test_a_client_that_is_not_done_in_time_is_ended() -> None:
    with pytest.raises(NotWatched, match=r"not done after 0\.3 s"):
        told([sys.executable, "-c", "import time; time.sleep(60)"], limit=0.3)


def test_a_client_that_fails_says_how() -> None:
    with pytest.raises(NotWatched, match=r"exit 3.*no such engine"):
        told([sys.executable, "-c", "import sys; print('no such engine', file=sys.stderr); sys.exit(3)"], limit=60.0)
