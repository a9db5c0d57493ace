"""A small sweep from file to rows, on real parts."""

from __future__ import annotations

from tests.component.sweep.kit import EVERYTHING, MTP, PLAIN, Bench, a_file


def test_a_small_sweep_ends_with_everything_stored_and_nothing_running(bench: Bench) -> None:
    outcome = bench.play(a_file(PLAIN, MTP, prefill={"tokens": 2000, "repeats": 1}))
    assert (outcome.state, outcome.windows_done, outcome.windows_left) == ("done", 4, 0), outcome
    assert set(bench.clean_counts().values()) == {1}
    for boot in bench.boots():
        assert boot.state == "stopped"
        assert boot.cold_start is not None
        assert 0 < boot.cold_start < 20
        assert boot.weights
        assert boot.kv_tokens
        assert boot.max_concurrency
        assert boot.engine_version
        assert boot.simulated
        assert len(bench.queries.boot_log(boot.boot_id)) > 10
    for window in bench.windows():
        assert window.simulated
        assert window.decode_rate
        assert (window.acceptance_length is None) == (window.config == "plain")
        raw = bench.queries.raw_window(window.window_id)
        assert raw.raw.before is not None
        assert raw.raw.after is not None
        assert b"vllm:generation_tokens_total" in raw.raw.before.raw
        assert raw.raw.requests
        assert raw.conditions["simulated"] is True
    prefills = bench.queries.prefills(EVERYTHING)
    assert [prefill.flags for prefill in prefills] == [(), ()]
    sweep = bench.sweep()
    assert (sweep.state, sweep.owner, sweep.box, sweep.simulated) == ("done", None, "bench simulated", True)
    assert bench.engines() == []
