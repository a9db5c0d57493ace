"""Every kind of measurement in one sweep, on real parts, on an engine that asks for a key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nightsweep import __version__
from nightsweep.analysis.report import report_markdown
from nightsweep.plan.model import SINGLE_BATCH
from tests.component.sweep.kit import EVERYTHING, MTP, PLAIN, Bench, a_file


def test_every_kind_is_measured_on_an_engine_behind_a_key_and_stands_apart(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINE_KEY", "hush-hush-hush")
    text = a_file(
        PLAIN,
        MTP,
        engine={"env": {"VLLM_API_KEY": {"from_env": "ENGINE_KEY"}}},
        prefill={"tokens": [1000, 4000], "repeats": 1, "under_load": 2},
        single_batch={"input": 512, "output": 128, "runs": 2},
        concurrency=[2],
    )
    outcome = bench.play(text)
    assert (outcome.state, outcome.windows_done, outcome.problems) == ("done", 2, ())
    alone = bench.queries.windows(replace(EVERYTHING, kind=SINGLE_BATCH))
    assert [(row.config, row.repeat, row.flags) for row in alone] == [
        (config, repeat, ()) for config in ("plain", "mtp") for repeat in (0, 1)
    ]
    for row in alone:
        assert row.decode_rate is not None
        assert row.report_rate == pytest.approx(row.decode_rate * 128 / 127)
        assert (row.acceptance_length is None) == (row.config == "plain")
    prefills = bench.queries.prefills(EVERYTHING)
    clean = [(row.config, row.under_load, row.tokens) for row in prefills if not row.flags]
    assert clean == [
        (config, load, tokens) for config in ("plain", "mtp") for load in (0, 2) for tokens in (1000, 4000)
    ], [(row.flags, row.tokens) for row in prefills]
    assert all(row.slowdown is not None for row in prefills if row.under_load and not row.flags)
    sweep = bench.sweep()
    assert (sweep.repeats_planned, sweep.repeats_clean) == (2, 2)
    report = report_markdown(
        sweep,
        boots=bench.boots(),
        windows=bench.windows(),
        prefills=prefills,
        single_batches=alone,
        plan=bench.queries.sweep_plan(sweep.sweep_id),
        software_version=__version__,
    )
    assert "## Single batch" in report
    assert "streams beside it" in report
    assert "SGLang report's rate" in report
    assert "hush-hush" not in report
    assert "hush-hush" not in "".join(bench.queries.boot_log_text(boot.boot_id) for boot in bench.boots())
    before = len(alone)
    assert bench.play(text).state == "done"
    assert len(bench.queries.windows(replace(EVERYTHING, kind=SINGLE_BATCH))) == before


def test_a_kernel_that_compiles_in_a_window_voids_it_by_the_engines_own_log(bench: Bench) -> None:
    bench.play(
        a_file(PLAIN, faults=("jit_warning:0.9,0.05",), concurrency=[1], window="2s", warmup="0s", max_attempts=2)
    )
    flags = [row.flags for row in bench.windows()]
    assert flags == [("jit_compilation",), ()]
