"""What goes wrong with an engine is a result: recorded, explained, and the sweep goes on."""

from __future__ import annotations

import socket
import threading
import time
from datetime import UTC, datetime

import pytest

from nightsweep import wiring
from nightsweep.errors import PortBusy
from nightsweep.host.process_host import ProcessHost
from nightsweep.ports import Progress
from nightsweep.service.restoring import stop_leftovers
from tests.component.sweep.kit import EVERYTHING, MTP, PLAIN, Bench, a_file, free_port, kill


def test_an_engine_killed_in_a_window_is_a_flagged_window_and_a_failed_boot_and_the_rest_is_there(bench: Bench) -> None:
    killed: list[datetime] = []

    def kill_engine() -> None:
        time.sleep(0.8)
        killed.append(datetime.now(UTC))
        kill(bench.engines()[0])

    def hear(progress: Progress) -> None:
        if progress.phase == "ready" and not killed:
            threading.Thread(target=kill_engine).start()

    outcome = bench.play(a_file(PLAIN, MTP, concurrency=[1], window="1500ms"), hear=hear)
    assert (outcome.state, outcome.windows_left) == ("done", 0)
    first = bench.boots()[0]
    assert (first.config, first.state, first.exit_code) == ("plain", "failed", 137)
    assert (first.failure_kind, first.failure_stage) == ("killed", "serving")
    assert first.failure_remedy
    flagged = [window for window in bench.windows() if window.flags]
    assert [(window.flags, window.boot_id) for window in flagged] == [(("engine_exited",), first.boot_id)]
    stored = bench.queries.raw_window(flagged[0].window_id).stored_at
    assert (stored - killed[0]).total_seconds() < 1.0
    assert set(bench.clean_counts().values()) == {1}
    assert len(bench.clean_counts()) == 2


def test_an_engine_that_a_rescue_stops_under_its_sweep_twice_is_booted_again_and_its_config_has_not_failed(
    bench: Bench,
) -> None:
    """The watchdog does so beside a sweep whose process is frozen, and which then goes on."""
    stopped: list[threading.Thread] = []

    def rescue() -> None:
        time.sleep(0.8)
        host = ProcessHost(state_dir=bench.home / "engines", clock=wiring.SystemClock())
        stop_leftovers((host,), say=lambda text: None)

    def hear(progress: Progress) -> None:
        if progress.phase == "ready" and len(stopped) < 2:
            stopped.append(threading.Thread(target=rescue))
            stopped[-1].start()

    outcome = bench.play(a_file(PLAIN, concurrency=[1], window="1500ms"), hear=hear)
    for thread in stopped:
        thread.join()
    assert (outcome.state, outcome.windows_left, outcome.failed) == ("done", 0, ())
    assert "FAILED" not in outcome.note
    boots = [(boot.state, boot.failure_kind, boot.retry) for boot in bench.boots()]
    assert boots == [("failed", "killed", "outside")] * 2 + [("stopped", None, None)]
    assert set(bench.clean_counts().values()) == {1}


@pytest.mark.parametrize(
    ("fault", "kind"), [("bad_flag", "bad_flag"), ("bad_spec_key", "bad_flag"), ("kv_too_small", "kv_too_small")]
)
def test_a_config_that_will_not_boot_is_a_result_with_class_and_remedy_and_the_next_is_measured(
    bench: Bench, fault: str, kind: str
) -> None:
    bad = {**MTP, "name": "bad", "args": {"sim-fault": fault}}
    outcome = bench.play(a_file(bad, PLAIN, concurrency=[1]))
    assert outcome.state == "done"
    assert outcome.windows_done == 1
    failed = [boot for boot in bench.boots() if boot.state == "failed"]
    assert len(failed) == 1, "what a retry cannot mend is not booted again"
    assert failed[0].failure_kind == kind
    assert failed[0].failure_lines
    assert failed[0].failure_remedy
    assert failed[0].retry == "never"
    assert [boot.config for boot in bench.boots() if boot.state == "stopped"] == ["plain"]
    assert any("bad" in problem for problem in outcome.problems)


def test_an_engine_that_never_gets_ready_is_ended_at_its_timeout(bench: Bench) -> None:
    outcome = bench.play(a_file(concurrency=[1], faults=["hang"], engine={"boot_timeout": "2s"}))
    assert outcome.windows_done == 0
    boots = bench.boots()
    assert {(boot.state, boot.failure_kind) for boot in boots} == {("failed", "boot_timeout")}
    assert all(boot.ended is not None and (boot.ended - boot.started).total_seconds() < 8 for boot in boots)
    assert all(bench.queries.boot_log(boot.boot_id) for boot in boots)


def test_a_boot_that_is_silent_for_long_is_healthy(bench: Bench) -> None:
    outcome = bench.play(a_file(concurrency=[1], faults=["silent_boot:2"]))
    assert (outcome.state, outcome.windows_done) == ("done", 1)
    cold_start = bench.boots()[0].cold_start
    assert cold_start is not None
    assert cold_start > 2


def test_another_model_behind_the_name_is_an_identity_mismatch(bench: Bench) -> None:
    bench.play(a_file(concurrency=[1], faults=["wrong_model"]))
    boots = bench.boots()
    assert [boot.failure_kind for boot in boots] == ["identity_mismatch"]
    assert "qwen" in (boots[0].failure_remedy or "")
    assert bench.windows() == []


def test_a_simulator_that_the_plan_calls_real_is_refused_with_the_remedy(bench: Bench) -> None:
    script = bench.file("from nightsweep.simulator.__main__ import main\n\nmain()\n", name="serve.py")
    bench.play(a_file(concurrency=[1], engine={"simulated": False, "command": ["{python}", str(script)]}))
    boots = bench.boots()
    assert [boot.failure_kind for boot in boots] == ["identity_mismatch"]
    assert "engine.simulated: true" in (boots[0].failure_remedy or "")
    assert bench.windows() == []


def test_a_port_that_somebody_else_holds_ends_the_sweep_with_the_holders_name(bench: Bench) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)), pytest.raises(PortBusy, match=rf"port {port} .*python"):
        bench.play(a_file(concurrency=[1], engine={"port": port}))
    sweep = bench.sweep()
    assert (sweep.state, sweep.owner) == ("failed", None)
    assert bench.boots() == []
    assert bench.play(a_file(concurrency=[1], engine={"port": port})).state == "done"


def test_an_engine_that_dies_in_a_prefill_is_noticed_at_once_and_not_at_the_requests_timeout(bench: Bench) -> None:
    killed: list[float] = []

    def hear(progress: Progress) -> None:
        if progress.phase == "ready" and not killed:
            killed.append(time.monotonic())
            threading.Timer(1.0, lambda: kill(bench.engines()[0])).start()

    text = a_file(concurrency=[1], warmup="0s", args={"sim-speed": 0.2}, prefill={"tokens": 20000, "repeats": 1})
    with pytest.raises(KeyboardInterrupt):
        bench.play(text, hear=lambda progress: hear(progress) if len(bench.boots()) < 2 else _interrupt())
    assert time.monotonic() - killed[0] < 10
    (prefill,) = bench.queries.prefills(EVERYTHING)
    assert prefill.flags == ("engine_exited",)
    assert bench.boots()[0].failure_stage == "serving"


def _interrupt() -> None:
    raise KeyboardInterrupt
