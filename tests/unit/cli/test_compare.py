"""`nightsweep compare` on the published reports' figures, as a user calls it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from nightsweep.cli.compare import command as compare
from nightsweep.cli.compare import parse_ratio
from nightsweep.cli.places import parse_place
from nightsweep.errors import NotComparable, NotFound
from nightsweep.plan.model import SINGLE_BATCH
from tests.fakes.queries import FakeQueries
from tests.unit.analysis.builders import COLD, EVENING, WARM, a_sweep, a_window

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


# --- one config in two sweeps ----------------------------------------------------------------------------------------


def measured(
    sweep_id: int, *, length: float = 2.5, streams: Sequence[int] = (1, 8), config: str = "c", **facts: Any
) -> list[Any]:
    """Return three windows at each concurrency in a boot of its own; the rate goes with the acceptance length."""
    return [
        a_window(
            window_id=100_000 * sweep_id + 1000 * at + 10 * i + (config == "c"),
            sweep_id=sweep_id,
            sweep_name=f"n{sweep_id}",
            boot_id=sweep_id,
            config=config,
            config_fingerprint=f"fp-{config}",
            concurrency=at,
            repeat=i,
            decode_rate=10 * at * (length + spread),
            acceptance_length=length + spread,
            started=EVENING + timedelta(days=sweep_id),
            **facts,
        )
        for at in streams
        for i, spread in enumerate((-0.02, 0.0, 0.02))
    ]


def history(*rows: list[Any], conditions: dict[str, Any] | None = None) -> FakeQueries:
    sweeps = [a_sweep(sweep_id=number, name=f"n{number}") for number in (1, 2, 3)]
    known = {"cond-a": {"software": "1"}} if conditions is None else conditions
    every = [row for some in rows for row in some]
    return FakeQueries(window_rows=every, sweep_rows=sweeps, conditions=known, configs={"fp-c": {}, "fp-d": {"k": 7}})


IN_TWO_SWEEPS = ("sweep:n1/c", "sweep:n2/c")


def test_one_config_in_two_sweeps_has_a_pooled_rate_of_each_sweep_s_own_windows() -> None:
    rows = history(measured(1, length=2.5), measured(2, length=3.5))
    cells = json_of(call(compare, *IN_TWO_SWEEPS, "--json", queries=rows))["cells"]
    assert [one["concurrency"] for one in cells] == [1, 8]
    for one in cells:
        for side in ("a", "b"):
            plain, pooled = one[f"{side}_tokens_per_second"], one["pooled"][side]
            assert pooled["mean"] == pytest.approx(plain["mean"], rel=0.01)
            assert (plain["n"], pooled["n"], pooled["boots"]) == (3, 6, 1)
        assert one["pooled"]["ratio"] == pytest.approx(3.5 / 2.5, rel=0.01)


def test_two_configs_each_in_a_sweep_are_not_pooled_with_their_windows_of_the_other_sweep() -> None:
    rows = history(*(measured(n, config=name) for n in (1, 2) for name in ("c", "d")))
    cells = json_of(call(compare, "sweep:n1/c", "sweep:n2/d", "--json", queries=rows))["cells"]
    assert {(one["pooled"][side]["n"], one["pooled"][side]["boots"]) for one in cells for side in ("a", "b")} == {
        (6, 1)
    }


def test_a_side_without_a_window_in_a_cell_has_no_pooled_rate_there() -> None:
    rows = history(measured(1, streams=(1, 8)), measured(2, streams=(1, 8, 16)))
    last = json_of(call(compare, *IN_TWO_SWEEPS, "--json", queries=rows))["cells"][-1]
    assert (last["concurrency"], last["a_tokens_per_second"], last["pooled"]["a"]) == (16, None, None)
    assert last["pooled"]["b"]["mean"] == pytest.approx(last["b_tokens_per_second"]["mean"], rel=0.01)


def test_beside_each_pooled_rate_stands_of_how_many_windows_it_is() -> None:
    rows = history(measured(1), measured(2))
    assert call(compare, *IN_TWO_SWEEPS, queries=rows).output.count("6 in 1 boot") == 4
    header, first = call(compare, *IN_TWO_SWEEPS, "--csv", queries=rows).output.splitlines()[:2]
    told = dict(zip(header.split(","), first.split(","), strict=True))
    assert (told["pooled_a_n"], told["pooled_a_boots"], told["pooled_b_n"]) == ("6", "1", "6")
    assert float(told["pooled_a_low"]) < float(told["pooled_a_mean"]) < float(told["pooled_a_high"])


# --- which conditions have the cells of --at -------------------------------------------------------------------------

TWO = {"cond-a": {"software": "1"}, "cond-b": {"software": "2"}, "cond-c": {"software": "3"}}
LATER = {"conditions": "cond-b"}


def test_the_newest_common_conditions_that_have_the_cells_asked_for_are_compared() -> None:
    """The older of three sweeps had one stream at both temperatures, the newer ones had not."""
    old = [measured(1, config=name, temperature=at) for name in ("c", "d") for at in (COLD,)]
    warm = [measured(2, config=name, temperature=WARM, conditions="cond-b") for name in ("c", "d")]
    apart = [
        measured(3, config="c", conditions="cond-c"),
        measured(3, config="d", temperature=WARM, conditions="cond-c"),
    ]
    rows = history(*old, *warm, *apart, conditions=TWO)
    for words, conditions in ((("--at", "c=1,T=0.7"), "cond-a"), (("--at", "T=1.0"), "cond-b"), ((), "cond-c")):
        told = json_of(call(compare, "c", "d", *words, "--json", queries=rows))
        assert (told["a"]["conditions"], told["b"]["conditions"]) == (conditions, conditions)


def test_conditions_that_have_all_cells_asked_for_go_before_newer_ones_that_have_some() -> None:
    old, new = ([measured(n, config=name, streams=at, **own) for name in ("c", "d")] for n, at, own in RUNS)
    rows = history(*old, *new, conditions=TWO)
    told = json_of(call(compare, "c", "d", "--at", "c=1", "--at", "c=8", "--json", queries=rows))
    assert (told["a"]["conditions"], [one["concurrency"] for one in told["cells"]]) == ("cond-a", [1, 8])
    assert json_of(call(compare, "c", "d", "--at", "c=1", "--json", queries=rows))["a"]["conditions"] == "cond-b"


RUNS: tuple[tuple[int, tuple[int, ...], dict[str, Any]], ...] = ((1, (1, 8), {}), (2, (1,), LATER))


def test_a_cell_that_only_another_question_has_is_named_with_its_sweep_and_conditions() -> None:
    conditions = {"cond-a": {"prompts": "p" * 64}, "cond-b": {"prompts": "q" * 64}, "cond-c": {"prompts": "r" * 64}}
    both = [measured(1, config=name) for name in ("c", "d")]
    rows = history(*both, measured(2, streams=(16,), **LATER), conditions=conditions)
    raised = call(compare, "c", "d", "--at", "c=16,T=0.7", queries=rows).exception
    assert isinstance(raised, NotFound)
    assert "A has it in sweep n2 (conditions cond-b), B as asked has it nowhere: name that sweep" in str(raised)
    nowhere = call(compare, "c", "d", "--at", "c=32", queries=rows).exception
    assert "A as asked has it nowhere, B as asked has it nowhere: leave --at out" in str(nowhere)
    some = call(compare, "c", "d", "--at", "c=1", "--at", "c=16", queries=rows).output
    assert "--at c=16 was not measured under the conditions compared; A has it in sweep n2" in some


def test_cells_under_other_prompts_are_taken_only_across() -> None:
    conditions = {"cond-a": {"prompts": "p" * 64}, "cond-b": {"prompts": "q" * 64}}
    rows = history(measured(1), measured(2, config="d", **LATER), conditions=conditions)
    assert isinstance(call(compare, "c", "d", "--at", "c=8", queries=rows).exception, NotComparable)
    told = json_of(call(compare, "c", "d", "--at", "c=8", "--across", "--json", queries=rows))
    assert [one["concurrency"] for one in told["cells"]] == [8]
