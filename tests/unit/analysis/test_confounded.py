"""What stands between a difference of two configs and its cause."""

from __future__ import annotations

from typing import Any

from nightsweep.analysis.confounded import all_confounders, between_configs, several_settings, single_batch_caveats
from nightsweep.analysis.sides import Documents
from nightsweep.analysis.summary import summarise
from nightsweep.analysis.values import CellSummary

from .builders import a_sweep, a_window


def cells_of(*names: str) -> list[CellSummary]:
    return summarise([a_window(window_id=n, config=name, config_fingerprint=name) for n, name in enumerate(names)])


def configs(**speculative: dict[str, Any] | None) -> Documents:
    return Documents({}, {name: {"image": "v1", "speculative": settings} for name, settings in speculative.items()}, {})


def test_a_drafter_that_changed_in_two_ways_at_once_is_told() -> None:
    documents = configs(
        none=None,
        bf16={"draft_model_path": "a", "block_size": 7},
        nvfp4={"draft_model_path": "b", "draft_model_quantization": "modelopt_fp4", "block_size": 7},
    )
    (said,) = several_settings(cells_of("none", "bf16", "nvfp4"), documents)
    assert "bf16 (from nvfp4: draft_model_path; draft_model_quantization)" in said
    assert "none (" not in said


def test_a_config_with_a_neighbour_that_differs_in_one_setting_is_not_told() -> None:
    documents = configs(k5={"k": 5, "rule": "greedy"}, k7={"k": 7, "rule": "greedy"}, k7b={"k": 7, "rule": "block"})
    assert not list(several_settings(cells_of("k5", "k7", "k7b"), documents))


def test_a_single_config_is_held_against_nothing() -> None:
    assert not list(several_settings(cells_of("k5"), configs(k5={"k": 5})))


def test_caveats_of_single_batch_cells_say_that_they_are_of_those_and_nothing_twice() -> None:
    sweep, alone = a_sweep(state="failed"), cells_of("a")
    found = single_batch_caveats(sweep, alone, said=("The sweep is failed.",))
    assert any(line.startswith("Single batch: n=1: one run is not a measurement") for line in found)
    assert not any("The sweep is failed" in line for line in found)
    assert single_batch_caveats(sweep, [], said=()) == ()


def test_what_is_true_of_decode_and_single_batch_cells_is_said_once() -> None:
    documents = configs(a={"k": 5, "rule": "greedy"}, b={"k": 7, "rule": "block"})
    cells = cells_of("a", "b")
    assert len(all_confounders((cells, cells), documents)) == 1
    assert len(all_confounders(([], cells), documents)) == 1


def test_two_conditions_that_differ_at_once_are_named_with_the_configs_they_are_of() -> None:
    cells = summarise(
        [
            a_window(config="bf16", config_fingerprint="x", conditions="a"),
            a_window(window_id=2, config="nvfp4", config_fingerprint="y", conditions="b"),
        ]
    )
    documents = Documents(
        conditions={
            "a": {"config": "x", "prompts": "random", "draft_model": "one", "software": "0.1.0"},
            "b": {"config": "y", "prompts": "code", "draft_model": "two", "software": "0.1.0"},
        },
        configs={},
        boxes={},
    )
    (said,) = between_configs(cells, documents)
    assert "prompts: random (bf16) / code (nvfp4)" in said
    assert "draft_model" not in said  # a setting of the config, named there
    assert "software" not in said


def test_configs_under_equal_conditions_call_for_no_caveat() -> None:
    cells = summarise(
        [
            a_window(config="a", config_fingerprint="x", conditions="a"),
            a_window(window_id=2, config="b", config_fingerprint="y", conditions="b"),
        ]
    )
    documents = Documents({"a": {"config": "x", "prompts": "code"}, "b": {"config": "y", "prompts": "code"}}, {}, {})
    assert not list(between_configs(cells, documents))
