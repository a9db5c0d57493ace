"""Expectations of a sweep on real parts, from the file to the report."""

from __future__ import annotations

import yaml

from nightsweep.cli.expectations import command as expectations
from nightsweep.cli.report import command as report
from tests.component.cli.test_reading import call
from tests.component.sweep.kit import MTP, Bench, a_file


def test_expectations_and_the_bandwidth_estimate_are_stored_before_the_run_and_compared_after(bench: Bench) -> None:
    given = yaml.safe_load(a_file(MTP, concurrency=[1]))
    given["box"] = {"name": given["box"], "memory_bandwidth": "273 GB/s"}
    given["expect"] = [{"config": "mtp", "acceptance_length": [1, 4]}, {"config": "mtp", "decode_rate": 1_000_000}]
    assert bench.play(yaml.safe_dump(given)).state == "done"

    kept = bench.queries.expectations(bench.sweep().sweep_id)
    first = min(row.started for row in bench.windows())
    assert {(one.prediction.quantity, one.prediction.source) for one in kept} == {
        ("acceptance_length", "file"),
        ("decode_rate", "file"),
        ("decode_rate", "bandwidth"),
        ("step_time", "bandwidth"),
    }
    assert all(one.written < first and not one.after_fact for one in kept)
    (step,) = (one.prediction for one in kept if one.prediction.quantity == "step_time")
    weights = bench.boots()[0].weights
    assert weights is not None
    assert step.low is not None
    assert step.low >= weights * 2**30 / 273e9

    shown = call(expectations, "night", queries=bench.queries)
    assert shown.exception is None, shown.output
    assert "acceptance length" in shown.stdout
    assert "(bandwidth)" in shown.stdout
    assert "## Expected and found" in call(report, "night", queries=bench.queries).stdout

    given["expect"].append({"config": "mtp", "step_time": "200ms"})
    bench.play(yaml.safe_dump(given))
    late = [one for one in bench.queries.expectations(bench.sweep().sweep_id) if one.after_fact]
    assert [one.prediction.quantity for one in late] == ["step_time"]


def test_the_estimate_of_a_config_that_was_booted_here_before_is_there_before_its_next_boot(bench: Bench) -> None:
    bench.play(a_file(MTP, concurrency=[1]))
    given = yaml.safe_load(a_file(MTP, name="another", concurrency=[2]))
    given["box"] = {"name": given["box"], "memory_bandwidth": "273 GB/s"}
    bench.play(yaml.safe_dump(given))
    kept = bench.queries.expectations(bench.sweep().sweep_id)
    newest = max(boot.started for boot in bench.boots())
    assert len(kept) == 2
    assert all(one.written < newest for one in kept)
