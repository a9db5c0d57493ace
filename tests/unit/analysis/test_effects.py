"""Effects of a grid: what a setting does alone and with others, and what the measured corners cannot tell."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.analysis.effects import ALONE, INTERACTION, MAIN, TOGETHER, effects_of
from nightsweep.analysis.effects_shown import BOOTS_UNKNOWN, filling, shown, warnings
from nightsweep.analysis.factors import family_of, grid_of
from nightsweep.analysis.intervals import Observation, noise_of
from nightsweep.analysis.sides import Documents
from nightsweep.plan.sweepfile import load

from .builders import a_window
from .observations import seen

DRAFT, REJECT = ("greedy", "probabilistic"), ("standard", "block")


def config(draft: str, reject: str, k: int = 5) -> dict[str, Any]:
    settings = {"method": "dflash", "num_speculative_tokens": k}
    return {"image": "i", "speculative": {**settings, "draft_sample_method": draft, "rejection_sample_method": reject}}


FOUR = {f"{d}/{r}": config(d, r) for d, r in itertools.product(DRAFT, REJECT)}

SEED: dict[str, dict[tuple[int, float], Sequence[float]]] = {
    "greedy/standard": {
        (1, 0.7): (28.5,),
        (2, 0.7): (47.5,),
        (8, 0.7): (137.4,),
        (1, 1.0): (19.8, 22.1),
        (2, 1.0): (48.7,),
        (8, 1.0): (133.6, 134.7, 135.8),
    },
    "greedy/block": {(2, 1.0): (37.8,), (8, 1.0): (120.1,)},
    "probabilistic/standard": {
        (1, 0.7): (25.7,),
        (2, 0.7): (57.1,),
        (8, 0.7): (161.8, 167.8, 160.9),
        (1, 1.0): (26.0,),
    },
    "probabilistic/block": {(1, 0.7): (29.3,), (1, 1.0): (24.7,)},
}
"""tokens / second of the published report's k=5 configs, every run of them."""


def observations(rates: Mapping[str, Mapping[tuple[int, float], Sequence[float]]]) -> list[Observation]:
    return [
        one
        for number, (name, cells) in enumerate(rates.items())
        for (streams, temperature), runs in cells.items()
        for one in seen(runs, config=name, boots=(number,), streams=streams, temperature=temperature)
    ]


@given(*[st.floats(min_value=-0.3, max_value=0.3) for _ in range(3)])
def test_effects_that_were_put_in_come_out(draft: float, reject: float, both: float) -> None:
    rates = {
        f"{d}/{r}": {
            (c, 0.7): [20.0 * c * math.exp(draft * i + reject * j + both * i * j) * w for w in (0.999, 1.001)]
            for c in (1, 8)
        }
        for (i, d), (j, r) in itertools.product(enumerate(DRAFT), enumerate(REJECT))
    }
    found = observations(rates)
    fit = effects_of(grid_of(FOUR), found, noise_of(found))
    wanted = {
        (ALONE, ((0, 1),)): draft,
        (ALONE, ((1, 1),)): reject,
        (MAIN, ((0, 1),)): draft + both / 2,
        (TOGETHER, ((0, 1), (1, 1))): draft + reject + both,
        (INTERACTION, ((0, 1), (1, 1))): both,
    }
    for (kind, change), effect in wanted.items():
        one = fit.of(kind, *change)
        assert one is not None
        assert one.ratio == pytest.approx(math.exp(effect), rel=1e-3)


def test_block_and_probabilistic_of_the_published_report_interact() -> None:
    """Either alone loses somewhere; both together never lose more than 2%."""
    found = observations(SEED)
    grid = grid_of(FOUR)
    fit = effects_of(grid, found, noise_of(found))
    block, probabilistic = fit.of(ALONE, (1, 1)), fit.of(ALONE, (0, 1))
    together, interaction = fit.of(TOGETHER, (0, 1), (1, 1)), fit.of(INTERACTION, (0, 1), (1, 1))
    assert block is not None and block.ratio is not None and block.ratio < 0.95
    assert probabilistic is not None and probabilistic.ratio is not None and probabilistic.ratio > 1.05
    assert together is not None and together.ratio is not None and together.ratio > 0.98
    assert interaction is not None and interaction.ratio is not None and interaction.ratio > 1.0
    assert interaction.low is not None and interaction.high is not None


def test_one_factor_at_a_time_cannot_tell_and_says_what_would() -> None:
    known = {name: document for name, document in FOUR.items() if name != "probabilistic/block"}
    rates = {name: {(1, 0.7): (20.0, 21.0), (8, 0.7): (120.0, 121.0)} for name in known}
    found = observations(rates)
    grid = grid_of(known)
    fit = effects_of(grid, found, noise_of(found))
    interaction, main, alone = fit.of(INTERACTION, (0, 1), (1, 1)), fit.of(MAIN, (0, 1)), fit.of(ALONE, (0, 1))
    assert interaction is not None and interaction.ratio is None
    assert main is not None and main.ratio is None
    assert alone is not None and alone.ratio == pytest.approx(1.0)
    assert [grid.described(corner) for corner in grid.missing] == [
        "draft_sample_method=probabilistic, rejection_sample_method=block"
    ]


ROWS = [
    a_window(
        window_id=10 * i + repeat,
        boot_id=i,
        config=name,
        config_fingerprint=name,
        conditions=name,
        decode_rate=20.0 + i + repeat,
        repeat=repeat,
    )
    for i, name in enumerate(FOUR)
    for repeat in range(3)
]


def documents(configs: Mapping[str, Any]) -> Documents:
    return Documents({name: {"config": name, "prompts": "p"} for name in configs}, configs, {})


def test_the_lines_that_are_printed_are_a_sweep_file_that_measures_the_missing_corners() -> None:
    rows = [row for row in ROWS if row.config != "probabilistic/block"]
    result = shown(rows, known=documents(FOUR), choose=True)
    said = " ".join(warnings(result))
    assert "one factor at a time cannot tell" in said
    assert "draft_sample_method=probabilistic, rejection_sample_method=block" in said
    head = [
        "name: again",
        "engine: {kind: vllm, host: docker, image: 'vllm/vllm-openai:v0.28.0', model: m, served_name: m}",
        "probe: {prompts: code, concurrency: [1], temperature: [0.7], window: 40s}",
    ]
    plan = load("\n".join([*head, *filling(result)]), source="printed")
    assert [one.speculative for one in plan.configs] == [FOUR["probabilistic/block"]["speculative"]]


def test_a_whole_grid_has_no_warning_and_nothing_to_fill() -> None:
    in_boots = [row._replace(boot_id=10 * row.boot_id + row.repeat) for row in ROWS]
    result = shown(in_boots, known=documents(FOUR), choose=True)
    assert not list(warnings(result))
    assert not filling(result)


def test_effects_of_one_boot_of_each_config_say_so() -> None:
    assert list(warnings(shown(ROWS, known=documents(FOUR), choose=True))) == [BOOTS_UNKNOWN]


def test_settings_that_always_change_together_are_one_factor_and_that_is_said() -> None:
    configs = {"a": {"args": {"x": 1, "y": 1}}, "b": {"args": {"x": 2, "y": 2}}}
    grid = grid_of(configs)
    assert [factor.name for factor in grid.factors] == ["args.x + args.y"]
    assert not grid.missing


def test_a_config_of_another_method_is_no_corner_of_the_grid() -> None:
    mixed = {**FOUR, "mtp": {"image": "i", "speculative": {"method": "mtp", "num_speculative_tokens": 3}}}
    assert list(family_of(mixed)) == list(FOUR)
    rows = [*ROWS, a_window(window_id=999, config="mtp", config_fingerprint="mtp", conditions="mtp")]
    assert any(
        "another method" in line and "mtp" in line
        for line in warnings(shown(rows, known=documents(mixed), choose=True))
    )


def test_windows_of_other_conditions_and_of_configs_not_applied_are_left_out_and_named() -> None:
    other = [
        a_window(
            window_id=800, config="greedy/block", config_fingerprint="greedy/block", conditions="x", decode_rate=90.0
        )
    ]
    known = documents(FOUR)
    known = Documents({**known.conditions, "x": {"prompts": "q"}}, known.configs, {})
    result = shown([*ROWS, *other], known=known, choose=True)
    assert result.fit == shown(ROWS, known=known, choose=True).fit
    assert any("1 window under other conditions" in line for line in warnings(result))


def test_effects_that_differ_between_cells_are_told() -> None:
    up, down = {"a": 1.0, "b": 1.3}, {"a": 1.3, "b": 1.0}
    rates = {
        name: {
            (1, 0.7): [20 * up[name] * w for w in (0.99, 1.0, 1.01)],
            (8, 0.7): [99 * down[name] * w for w in (0.99, 1.0, 1.01)],
        }
        for name in "ab"
    }
    found = observations(rates)
    fit = effects_of(grid_of({"a": {"args": {"x": 1}}, "b": {"args": {"x": 2}}}), found, noise_of(found))
    assert fit.misfit is not None
    assert fit.misfit < 0.001


def test_intervals_of_effects_hold_the_truth() -> None:
    chance, held, asked = random.Random(8), 0, 0
    grid = grid_of(FOUR)
    for _ in range(60):
        found = []
        for number, name in enumerate(FOUR):
            boots = [1 + chance.gauss(0, 0.03) for _ in range(2)]
            for c in (1, 4, 16):
                values = [20 * c * boots[i % 2] * (1 + chance.gauss(0, 0.15 / math.sqrt(c))) for i in range(4)]
                found += seen(values, config=name, boots=(2 * number, 2 * number + 1), streams=c)
        for one in effects_of(grid, found, noise_of(found)).effects:
            assert one.low is not None and one.high is not None
            held += one.low <= 1.0 <= one.high
            asked += 1
    assert 0.92 <= held / asked <= 0.985
