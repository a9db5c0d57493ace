"""What a run of another client is made of, and how far apart two acceptance lengths are: the arithmetic of the comparison."""

from __future__ import annotations

import json
import math

import pytest

from benchmarks.agreement import Acceptance, Load
from benchmarks.bench_serve import Asked, Told, Where, arguments, parts_of, prompts_file

STEP = 0.5


def a_request(start: float, *, steps: int, prefill: float = 1.0, tokens: int) -> dict[str, object]:
    return {"start": start, "ttft": prefill, "itl": [STEP] * steps, "tokens": tokens, "latency": prefill + STEP * steps}


def a_result(*requests: dict[str, object], duration: float) -> dict[str, object]:
    tokens = sum(int(str(request["tokens"])) for request in requests)
    return {
        "start_times": [request["start"] for request in requests],
        "ttfts": [request["ttft"] for request in requests],
        "itls": [request["itl"] for request in requests],
        "latencies": [request["latency"] for request in requests],
        "output_lens": [request["tokens"] for request in requests],
        "duration": duration,
        "output_throughput": tokens / duration,
    }


def test_ramp_and_tail_are_what_the_whole_rate_lacks() -> None:
    # Two streams, 3 tokens a step; the second stream's request is alone at the end for 10 steps.
    result = a_result(
        a_request(0.0, steps=40, tokens=1 + 120), a_request(0.0, steps=50, tokens=1 + 150), duration=1.0 + 50 * STEP
    )
    parts = parts_of(result, streams=2)
    assert (parts.opened, parts.closed) == (1.0, 21.0)
    assert parts.steady_rate == pytest.approx(2 * 3 / STEP)
    assert parts.whole_rate == pytest.approx(parts.steady_rate * (1 - parts.ramp_share - parts.tail_share))
    assert parts.ramp_share == pytest.approx((1.0 * 12 - 2) / (12 * 26))  # a second without tokens, but for two
    assert parts.tail_share == pytest.approx(5.0 * 6 / (12 * 26))  # five seconds of one stream of two


def test_a_stream_that_goes_on_with_the_next_request_is_no_tail() -> None:
    result = a_result(
        a_request(0.0, steps=10, tokens=11),
        a_request(0.0, steps=30, tokens=31),
        a_request(6.0, steps=20, prefill=0.5, tokens=21),
        duration=16.5,
    )
    parts = parts_of(result, streams=2)
    assert (parts.opened, parts.closed) == (1.0, 16.0)


def test_too_few_requests_have_no_span_of_their_own() -> None:
    short, late = a_request(0.0, steps=1, tokens=2), a_request(0.0, steps=1, prefill=9.0, tokens=2)
    with pytest.raises(ValueError, match="too few"):
        parts_of(a_result(short, late, duration=9.5), streams=2)


def test_the_error_of_a_length_is_that_of_its_drafts() -> None:
    # Accepted 0, 1, 2 tokens in 25, 50, 25 drafts: mean 1, variance 0.5.
    one = Acceptance(100.0, (75.0, 25.0))
    assert one.length == 2.0
    assert one.error == pytest.approx(math.sqrt(0.5 / 100.0))
    assert (one + one).length == 2.0
    assert (one + one).error == pytest.approx(one.error / math.sqrt(2.0))


def test_the_other_client_is_sent_the_windows_prompts_in_their_order() -> None:
    load = Load(url="http://127.0.0.1:1", model="m", requests=70)
    asked = load.asked()
    lines = [json.loads(line)["prompt"] for line in prompts_file(asked).splitlines()]
    assert len(lines) == 70
    assert set(lines[:64]) <= set(load.request(first_prompt=0).prompts)
    assert lines[:8] != list(asked.prompts[:8])  # the seeded order, not the file's


def test_the_other_client_is_told_every_sampling_parameter() -> None:
    asked = Load(url="http://127.0.0.1:1", model="m", max_tokens=96).asked()
    assert isinstance(asked, Asked)
    words = " ".join(arguments(asked, where=Where((), ("vllm",), "/t")))
    for part in ("--temperature=0.7", "--top-p=1", "--top-k=-1", "--repetition-penalty=1", "--ignore-eos", "len 96"):
        assert part in words


def test_a_number_of_a_printed_table_is_found_by_its_label() -> None:
    told = Told(result={}, printed="Acceptance rate (%):      48.06     \nAcceptance length:       2.92      \n")
    assert told.shown("Acceptance length:") == 2.92
    assert told.shown("Drafts:") is None
