"""`nightsweep cancel`, `pause` and `resume` on a real sweep: what they say, and how long it takes."""

from __future__ import annotations

import time

import pytest
from click.testing import CliRunner

from nightsweep.cli import root
from tests.component.sweep.kit import PLAIN, Bench, a_file, until

LONG = {"concurrency": [1], "window": "20s", "repeats": 2, "warmup": "0s"}
SHORT = {"concurrency": [1], "window": "500ms", "repeats": 5}

NOTICED = 2.0
"""Seconds within which a wish to drop is noticed."""

STOPPED = 4.0
"""Seconds that the rest takes here: the engine's grace (2 s), its log, the database."""


@pytest.fixture
def call(bench: Bench, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Call a command in this process, on the bench; return what it said."""
    for name, value in bench.environ.items():
        monkeypatch.setenv(name, value)

    def said(*words: str, code: int = 0) -> str:
        answer = CliRunner().invoke(root, list(words))
        assert answer.exit_code == code, answer.output
        return answer.output

    return said


def test_a_dropped_window_is_not_waited_for_and_is_no_measurement(bench: Bench, call) -> None:  # type: ignore[no-untyped-def]
    with bench.command("run", str(bench.file(a_file(PLAIN, **LONG)))) as run:
        until(lambda: any(boot.state == "ready" for boot in bench.boots()), seconds=40)
        time.sleep(1.0)  # there is no warm-up: a window of 20 s is open
        began = time.monotonic()
        said = call("cancel", "night", "--drop", "--wait")
        took = time.monotonic() - began
        assert run.end(seconds=10) == 1, run.said  # nothing was measured
    asked, dropped = bench.events("sweep_stopping")[0].at, bench.events("measurement_dropped")[0].at
    assert (asked - dropped).total_seconds() < STOPPED
    assert took < NOTICED + STOPPED
    assert "will stop at once" in said
    assert "#1 was dropped" in said
    assert "sweep 1 (night): cancelled, 0 of 2 windows" in said
    assert bench.windows() == []
    assert [boot.state for boot in bench.boots()] == ["stopped"]
    assert bench.engines() == []
    assert "is cancelled already" in call("cancel", "night")


def test_a_paused_sweep_keeps_its_window_and_waits_for_a_person(bench: Bench, call) -> None:  # type: ignore[no-untyped-def]
    with bench.command("run", str(bench.file(a_file(PLAIN, **SHORT)))) as run:
        until(lambda: bool(bench.windows()), seconds=40)
        assert "sweep 1 (night): paused" in call("pause", "night", "--wait")
        assert run.end(seconds=10) == 3, run.said
    assert 0 < len(bench.windows()) < 5
    assert all(not window.flags for window in bench.windows())
    assert "is paused already" in call("pause", "night")
    assert "is not running: it is paused" in call("cancel", "1", "--drop", code=1)
    assert "its schedule goes on with it" in call("resume", "night", "--lift")
    assert bench.sweep().state == "partial"
    assert "is not paused: it is partial" in call("resume", "night", "--lift")
    assert "did not run; it is paused now" in call("pause", "night")
    assert bench.sweep().state == "paused"
    with bench.command("resume", "night") as resumed:
        assert resumed.end(seconds=40) == 0, resumed.said
    assert bench.sweep().state == "done"
    assert len(bench.windows()) == 5
    assert "is not running: it is done" in call("pause", "night", code=1)
