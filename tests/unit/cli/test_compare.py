"""`nightsweep compare` on the published reports' figures, as a user calls it."""

from __future__ import annotations

from typing import Any

import pytest

from nightsweep.cli.compare import command as compare
from nightsweep.cli.compare import parse_ratio
from nightsweep.cli.places import parse_place
from nightsweep.plan.model import SINGLE_BATCH
from tests.fakes.queries import FakeQueries
from tests.unit.analysis.builders import COLD, a_sweep, a_window

from .calling import call, json_of, seed_queries

DSPARK = {"DSpark BF16": ((158.70, 158.97), 3.01), "DSpark NVFP4": ((176.72, 176.87), 3.15)}
"""Single-batch tokens / second, two cold runs each, and acceptance length."""


def dspark() -> FakeQueries:
    rows: list[Any] = []
    for number, (name, (rates, length)) in enumerate(DSPARK.items()):
        for boot, rate in enumerate(rates):
            rows.append(
                a_window(
                    window_id=10 * number + boot,
                    boot_id=10 * number + boot,
                    config=name,
                    config_fingerprint=f"fp-{number}",
                    conditions=f"cond-{number}",
                    kind=SINGLE_BATCH,
                    decode_rate=rate,
                    acceptance_length=length,
                    repeat=boot,
                )
            )
    drafts = ("DSpark-BF16", "DSpark-NVFP4-retrained")
    configs: dict[str, Any] = {
        f"fp-{i}": {
            "speculative": {"algorithm": "DSPARK", "model": drafts[i], "draft_model_quantization": quantization}
        }
        for i, quantization in enumerate(("none", "modelopt_fp4"))
    }
    conditions = {f"cond-{i}": {"box": "b", "draft_model": drafts[i]} for i in range(2)}
    return FakeQueries(window_rows=rows, sweep_rows=[a_sweep()], configs=configs, conditions=conditions)


def test_the_gain_of_a_drafter_is_clear_and_confounded() -> None:
    """Precision and training changed at once: +11.3% is of both together."""
    shown = call(compare, "DSpark BF16", "DSpark NVFP4", "--single-batch", queries=dspark()).output
    assert "2 things differ at once" in shown
    assert "speculative.model: DSpark-BF16 -> DSpark-NVFP4-retrained" in shown
    (cell,) = json_of(call(compare, "DSpark BF16", "DSpark NVFP4", "--single-batch", "--json", queries=dspark()))[
        "cells"
    ]
    assert cell["ratio"] == pytest.approx(1.113, abs=5e-4)
    assert cell["verdict"] == "better"
    assert cell["b_tokens_per_second"]["boots"] == 2


def test_seven_deep_beats_five_where_it_was_measured_three_times_only_when_it_is_clear() -> None:
    words = ("dflash2 k=5 probabilistic/standard", "dflash2 k=7 probabilistic/block")
    cells = json_of(call(compare, *words, "--json", queries=seed_queries()))["cells"]
    assert [(one["concurrency"], one["temperature"], one["verdict"]) for one in cells] == [
        (1, 0.7, "better"),
        (8, 0.7, "undecided"),
        (1, 1.0, "undecided"),
    ]


def test_decode_windows_and_single_batches_are_not_mixed() -> None:
    result = call(compare, "DSpark BF16", "DSpark NVFP4", queries=dspark())
    assert "2 single-batch runs are there: --single-batch takes them" in str(result.exception)


@pytest.mark.parametrize(("words", "ratio"), [("3%", 0.03), ("0.03", 0.03), (" 0.5 %", 0.005)])
def test_a_share_is_a_percentage_or_a_ratio(words: str, ratio: float) -> None:
    assert parse_ratio(words) == pytest.approx(ratio)


@pytest.mark.parametrize("words", ["3", "0", "-1%", "100%", "nan", "three", ""])
def test_what_is_no_share_is_refused_with_what_to_write(words: str) -> None:
    with pytest.raises(ValueError, match=r"write 3% or 0\.03"):
        parse_ratio(words)


def test_a_place_is_streams_temperature_or_both() -> None:
    both, one = parse_place("c=8, T=0.70"), parse_place("t=0.7")
    assert (both.streams, both.temperature) == (8, COLD)
    assert (one.streams, one.temperature) == (None, COLD)


@pytest.mark.parametrize("words", ["8", "c=8,c=9", "c=0", "T=hot", "k=5", "c=1,,T=1", ""])
def test_what_is_no_place_is_refused(words: str) -> None:
    with pytest.raises(ValueError):
        parse_place(words)
