"""What a sweep file's own arguments rule out is refused before anything is touched; what is only doubtful is said."""

from __future__ import annotations

import pytest

from nightsweep.plan.feasible import MOST_STREAMS, whole
from tests.unit.plan.builders import a_file, a_plan, problems_of

ARGS = "{max-model-len: 8192}"
REPEATS = "repeats: 3"


@pytest.mark.parametrize(
    ("probe", "key", "says"),
    [
        (
            "prefill: {tokens: 8192}",
            "prefill.tokens",
            "a prefill of 8,192 tokens and one of output, 8,193 tokens in all",
        ),
        ("prefill: {tokens: [2000, 12000]}", "prefill.tokens", "a prefill of 12,000 tokens"),
        (
            "single_batch: {input: 8000, output: 256}",
            "single_batch.input",
            "a single batch of 8,000 tokens of input and 256 of output",
        ),
        ("sampling: {max_tokens: 8192}", "sampling.max_tokens", "a prompt and 8,192 tokens of output"),
    ],
)
def test_a_request_that_no_boot_could_hold_is_a_mistake_with_the_remedy(probe: str, key: str, says: str) -> None:
    (problem,) = problems_of(a_file((REPEATS, f"{REPEATS}\n  {probe}")))

    assert problem.startswith("sweep.yaml:21: ")
    assert f"probe.{key}: found {says}" in problem
    assert "allowed: what max-model-len 8,192 holds (plain, k=4, k=5)" in problem
    assert "or raise max-model-len." in problem


@pytest.mark.parametrize(
    "probe", ["prefill: {tokens: 8191}", "single_batch: {input: 7936, output: 256}", "sampling: {max_tokens: 8191}"]
)
def test_a_request_that_just_fits_is_taken(probe: str) -> None:
    assert a_plan((REPEATS, f"{REPEATS}\n  {probe}")).warnings == ()


def test_only_the_configs_that_are_too_short_are_named() -> None:
    one_short = ("  - name: plain", "  - name: plain\n    args: {max-model-len: 2048}")
    (problem,) = problems_of(a_file(one_short, (REPEATS, f"{REPEATS}\n  prefill: {{tokens: 4000}}")))

    assert "allowed: what max-model-len 2,048 holds (plain)." in problem
    assert "Lower it by 1,953" in problem


@pytest.mark.parametrize("args", ["{}", "{max-model-len: -1}", "{max-model-len: auto}"])
def test_a_long_request_where_the_file_says_no_limit_is_only_doubtful(args: str) -> None:
    (warning,) = a_plan((ARGS, args), (REPEATS, f"{REPEATS}\n  prefill: {{tokens: 60000}}")).warnings

    assert "probe.prefill.tokens: a prefill of 60,000 tokens" in warning
    assert "max-model-len is not said" in warning
    assert a_plan((ARGS, args), (REPEATS, f"{REPEATS}\n  prefill: {{tokens: 12000}}")).warnings == ()


def test_more_streams_than_any_config_seats_are_a_mistake() -> None:
    (problem,) = problems_of(a_file((ARGS, "{max-num-seqs: 2}")))

    assert problem.startswith(
        "sweep.yaml:17: probe.concurrency: found 4 streams; allowed: at most the 2 that max-num-seqs"
    )


def test_more_streams_than_some_configs_seat_are_warned_of() -> None:
    one_small = ("  - name: plain", "  - name: plain\n    args: {max-num-seqs: 2}")
    (warning,) = a_plan(one_small).warnings

    assert warning.endswith(
        "probe.concurrency: 4 streams are more than max-num-seqs 2 lets run: those windows will be flagged (plain)"
    )


def test_each_data_parallel_rank_seats_its_own() -> None:
    assert a_plan((ARGS, "{max-num-seqs: 2, data-parallel-size: 2}")).warnings == ()


def test_a_prefill_beside_streams_needs_a_seat_too() -> None:
    (problem,) = problems_of(
        a_file((ARGS, "{max-num-seqs: 4}"), (REPEATS, f"{REPEATS}\n  prefill: {{tokens: 2000, under_load: 4}}"))
    )

    assert "probe.prefill.under_load: found 4 streams and the prompt beside them" in problem


def test_absurd_numbers_of_streams_are_a_mistake_and_many_a_warning() -> None:
    (problem,) = problems_of(a_file(("[1, 4]", "[1, 10000]")))
    assert f"probe.concurrency: found 10,000 streams; allowed: at most {MOST_STREAMS:,}." in problem

    (warning,) = a_plan(("[1, 4]", "[1, 512]")).warnings
    assert "512 streams: max-num-seqs is not said, and vLLM seats 256" in warning
    assert a_plan(("[1, 4]", "[1, 512]"), (ARGS, "{max-num-seqs: 512}")).warnings == ()


def test_min_p_above_zero_under_speculation_is_warned_of() -> None:
    (warning,) = a_plan((REPEATS, f"{REPEATS}\n  sampling: {{min_p: 0.05}}")).warnings

    assert "probe.sampling.min_p: vLLM refuses min_p above 0 under speculation" in warning


@pytest.mark.parametrize(
    ("written", "count"),
    [(8192, 8192), ("8192", 8192), ("32k", 32_000), ("32K", 32_768), ("25.6k", 25_600), (-1, None), ("auto", None),
     (True, None), (None, None), (0, None)],
)  # fmt: skip
def test_counts_are_read_as_vllm_reads_them(written: object, count: int | None) -> None:
    assert whole(written) == count
