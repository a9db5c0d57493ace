"""`nightsweep run` stopped in every way there is: nothing measured is lost or measured twice, no engine stays."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.component.sweep.kit import MTP, PLAIN, Bench, Command, a_file, until

SLOW = {"concurrency": [1], "window": "1s", "repeats": 3}


def in_a_window(bench: Bench, command: Command) -> None:
    """Wait until one window is stored and the next one is open."""
    until(lambda: bool(bench.windows()) or command.process.poll() is not None, seconds=40)
    assert command.process.poll() is None, command.said
    time.sleep(0.5)


def assert_measured_once(bench: Bench, *, repeats: int) -> None:
    """Every planned repeat has one clean window, and no more."""
    counts = bench.clean_counts()
    assert len(counts) == repeats, counts
    assert set(counts.values()) == {1}, counts


def test_after_a_kill_the_same_command_takes_over_at_once_and_measures_only_what_is_left(bench: Bench) -> None:
    file = str(bench.file(a_file(PLAIN, MTP, **SLOW)))
    with bench.command("run", file) as first:
        in_a_window(bench, first)
        first.send(signal.SIGKILL)
        first.end()
        (left,) = bench.engines()
        before = {window.window_id for window in bench.windows()}
        began = time.monotonic()
        with bench.command("run", file) as second:
            until(lambda: bool(bench.events("leftover_stopped")), seconds=20)
            taken_over = time.monotonic() - began
            assert second.end(seconds=60) == 0, second.said
    assert taken_over < 15, "a lease lasts a minute: the dead holder's must not be waited out"
    assert not left.is_running()
    assert_measured_once(bench, repeats=6)
    assert before < {window.window_id for window in bench.windows()}
    assert [boot.state for boot in bench.boots()] == ["lost", "stopped", "stopped"]
    assert bench.engines() == []


@pytest.mark.parametrize("signals", [(signal.SIGTERM,), (signal.SIGINT,), (signal.SIGTERM, signal.SIGTERM)])
def test_a_run_that_is_told_to_stop_ends_its_engine_and_says_what_is_left(
    bench: Bench, signals: tuple[signal.Signals, ...]
) -> None:
    with bench.command("run", str(bench.file(a_file(PLAIN, **SLOW)))) as command:
        in_a_window(bench, command)
        for signum in signals:  # to the whole group, as a terminal and a service manager do
            os.killpg(command.process.pid, signum)
            time.sleep(0.05)
        code = command.end(seconds=15)
        assert code == 3, command.said
        assert "Traceback" not in command.said
        assert command.said.count("please wait, another one changes nothing") == 1
        assert "nightsweep resume 1" in command.said
    assert bench.engines() == []
    sweep = bench.sweep()
    assert (sweep.state, sweep.owner) == ("partial", None)
    assert [boot.state for boot in bench.boots()] == ["stopped"]
    if len(signals) == 2:
        with bench.command("resume") as resumed:
            assert resumed.end(seconds=40) == 0, resumed.said
        assert_measured_once(bench, repeats=3)
        assert bench.sweep().state == "done"


def test_a_run_that_is_told_to_stop_while_it_boots_ends_the_boot(bench: Bench) -> None:
    with bench.command("run", str(bench.file(a_file(faults=["hang"])))) as command:
        until(lambda: bool(bench.engines()))
        command.send(signal.SIGTERM)
        assert command.end(seconds=15) == 3, command.said
    assert bench.engines() == []
    assert [boot.state for boot in bench.boots()] == ["stopped"]


def test_cancel_ends_a_run_after_its_window_and_a_second_sweep_is_kept_off_meanwhile(bench: Bench) -> None:
    with bench.command("run", str(bench.file(a_file(PLAIN, **{**SLOW, "repeats": 12})))) as command:
        in_a_window(bench, command)
        with bench.command("run", str(bench.file(a_file(name="other"), name="other.yaml"))) as second:
            assert second.end() == 1
            assert "is taken: process " in second.said
            assert "nothing of other was begun; its sweep stays in `nightsweep status`" in second.said
            assert "Traceback" not in second.said
        with bench.command("cancel", "night") as cancel:
            assert cancel.end() == 0, cancel.said
        assert command.end(seconds=15) == 3, command.said
        assert "cancelled" in command.said
    assert bench.engines() == []
    assert bench.queries.sweep_of("night").state == "cancelled"
    assert all(not window.flags for window in bench.windows())


def test_cancel_reaches_a_boot_that_hangs(bench: Bench) -> None:
    with bench.command("run", str(bench.file(a_file(faults=["hang"])))) as command:
        until(lambda: bool(bench.engines()))
        with bench.command("cancel", "night") as cancel:
            assert cancel.end() == 0, cancel.said
        command.end(seconds=15)
    assert bench.sweep().state == "cancelled"
    assert bench.engines() == []
