"""Grids are full factorials, less what is excluded."""

import itertools
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from nightsweep.plan.mistakes import looks_secret
from nightsweep.plan.sweepfile import load
from tests.unit.plan.builders import a_plan, problems_of

GRID = """\
      num_speculative_tokens: [4, 5, 6]
      draft_sample_method: [greedy, probabilistic]
      rejection_sample_method: [standard, block]
"""
NAME = ('"k={num_speculative_tokens}"', '"{num_speculative_tokens} {draft_sample_method} {rejection_sample_method}"')


def names(*, exclude: str = "") -> list[str]:
    plan = a_plan(NAME, ("      num_speculative_tokens: [4, 5]\n", GRID + exclude))
    return [config.name for config in plan.configs[1:]]


def test_a_grid_is_every_combination_in_the_order_written() -> None:
    expected = itertools.product("456", ("greedy", "probabilistic"), ("standard", "block"))

    assert names() == [" ".join(one) for one in expected]


def test_an_exclusion_drops_what_it_matches_in_all_its_keys() -> None:
    left = names(exclude="    exclude: [{draft_sample_method: greedy, rejection_sample_method: block}]\n")

    assert left == [name for name in names() if not name.endswith("greedy block")]


def test_a_list_in_an_exclusion_is_any_of_its_values() -> None:
    left = names(exclude="    exclude: [{num_speculative_tokens: [4, 6], draft_sample_method: greedy}]\n")

    assert left == [name for name in names() if name[0] == "5" or "greedy" not in name]


def test_an_exclusion_that_matches_nothing_is_a_warning_with_its_line() -> None:
    plan = a_plan(
        ("num_speculative_tokens: [4, 5]", "num_speculative_tokens: [4, 5]\n    exclude: [{num_speculative_tokens: 9}]")
    )

    assert plan.warnings == (
        "sweep.yaml:16: configs[1].exclude[0]: matches no combination (num_speculative_tokens: 9); nothing is dropped",
    )


def test_grid_keys_reach_arguments_environment_image_models_and_speculation() -> None:
    grid = """\
      args.max_num_seqs: [8]
      env.VLLM_X: [1]
      image: ["vllm/vllm-openai:v0.29.0"]
      model: [org/big]
      speculative.model: [org/draft-2]
      num_speculative_tokens: [4]
"""
    config = a_plan(
        (
            '"k={num_speculative_tokens}"',
            '"{args.max-num-seqs} {env.VLLM_X} {image} {model} {speculative.model} {method}"',
        ),
        ("      num_speculative_tokens: [4, 5]\n", grid),
    ).configs[1]

    assert config.name == "8 1 vllm/vllm-openai:v0.29.0 org/big org/draft-2 dflash"
    assert config.engine.args == {"max-model-len": 8192, "max-num-seqs": 8}
    assert config.engine.env["VLLM_X"] == "1"
    assert (config.engine.image, config.engine.model) == ("vllm/vllm-openai:v0.29.0", "org/big")
    assert config.speculative == {"method": "dflash", "model": "org/draft-2", "num_speculative_tokens": 4}


def test_a_null_in_a_grid_takes_the_key_away() -> None:
    plan = a_plan(
        (
            "      num_speculative_tokens: [4, 5]",
            "      num_speculative_tokens: [4]\n      args.max-model-len: [null, 4096]",
        ),
        ('"k={num_speculative_tokens}"', '"len={args.max-model-len}"'),
    )

    assert [(config.name, config.engine.args) for config in plan.configs[1:]] == [
        ("len=none", {}),
        ("len=4096", {"max-model-len": 4096}),
    ]


def test_values_that_are_lists_are_grid_values_too() -> None:
    grid = "      num_speculative_tokens_per_batch_size: [[[1, 4, 5], [5, 64, 3]], null]\n      num_speculative_tokens: [5]\n"
    plan = a_plan(
        ("      num_speculative_tokens: [4, 5]\n", grid),
        ('"k={num_speculative_tokens}"', '"{num_speculative_tokens_per_batch_size}"'),
    )

    assert [config.name for config in plan.configs[1:]] == ["[[1, 4, 5], [5, 64, 3]]", "none"]
    assert plan.configs[1].speculative["num_speculative_tokens_per_batch_size"] == [[1, 4, 5], [5, 64, 3]]  # type: ignore[index]


def test_braces_in_a_name_are_written_twice() -> None:
    plan = a_plan(('"k={num_speculative_tokens}"', '"{{k}}={num_speculative_tokens}"'))

    assert [config.name for config in plan.configs[1:]] == ["{k}=4", "{k}=5"]


def test_a_grid_without_bounds_is_refused_before_it_is_made() -> None:
    grid = "".join(f"      args.a{each}: {list(range(10))}\n" for each in range(9))
    text_changes = (("      num_speculative_tokens: [4, 5]\n", grid),)
    from tests.unit.plan.builders import a_file

    (problem,) = problems_of(a_file(*text_changes))

    assert "found 1,000,000,000 combinations; allowed: at most 100,000" in problem


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["num_speculative_tokens", "draft_sample_method", "args.max-num-seqs", "env.X"]),
        st.lists(st.integers(1, 50), min_size=1, max_size=4, unique=True),
        min_size=1,
    ),
    st.integers(1, 50),
)
def test_kept_and_excluded_combinations_are_together_the_whole_factorial(grid: dict[str, Any], value: int) -> None:
    key = next(iter(grid))
    name = " ".join(f"{{{one}}}" for one in grid)
    head = "name: n\nengine: {kind: vllm, host: process, model: m}\nprobe: {concurrency: [1], temperature: [1]}\nconfigs:\n"
    whole = load(f"{head}  - {{name: '{name}', speculative: {{method: mtp}}, grid: {grid}}}".replace("'", '"'))
    kept = [config for config in whole.configs if int(config.grid_values[key]) != value]
    text = f"{head}  - {{name: '{name}', speculative: {{method: mtp}}, grid: {grid}, exclude: [{{{key}: {value}}}]}}"

    if not kept:
        assert any("every combination" in problem for problem in problems_of(text.replace("'", '"')))
        return
    left = load(text.replace("'", '"'))
    assert [config.name for config in left.configs] == [config.name for config in kept]


def test_names_that_hold_secrets_are_told_from_names_that_do_not() -> None:
    secret = ["HF_TOKEN", "api-key", "AWS_ACCESS_KEY_ID", "DB_PASSWORD", "hf-token", "CLIENT_SECRET"]
    plain = ["TOKENIZERS_PARALLELISM", "tokenizer", "max-num-batched-tokens", "HF_TOKEN_PATH", "ssl-keyfile", "MONKEY"]

    assert [looks_secret(name) for name in secret] == [True] * len(secret)
    assert [looks_secret(name) for name in plain] == [False] * len(plain)
