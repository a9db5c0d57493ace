"""Answers that say nothing are said, and those that say something are not."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

from nightsweep.measurement.degenerate import degenerate
from nightsweep.measurement.flags import flags
from nightsweep.probe.prompts import load_prompts
from nightsweep.probe.repetition import repetition
from nightsweep.units import Tokens
from tests.fakes.probe import a_raw_window
from tests.unit.measurement.builders import a_request


def streamed(text: str, *, key: str = "content") -> float | None:
    pieces = [text[at : at + 11] for at in range(0, len(text), 11)]
    chunks = [b"data: " + json.dumps({"choices": [{"delta": {key: piece}}]}).encode() + b"\n\n" for piece in pieces]
    return repetition(chunks)


@pytest.mark.parametrize("key", ["content", "reasoning", "reasoning_content"])
def test_a_block_over_and_over_compresses_to_nothing_whatever_the_field_is_called(key: str) -> None:
    found = streamed("the quick brown fox, the lazy dog, again " * 79, key=key)
    assert found is not None
    assert found < 0.06


@pytest.mark.parametrize("name", ["code", "prose", "tools"])
def test_texts_of_people_do_not_repeat_themselves(name: str) -> None:
    text = "\n".join(json.dumps(prompt) for prompt in load_prompts(name).prompts)
    found = streamed(text)
    assert found is not None
    assert found > 0.15


def test_a_short_text_says_nothing() -> None:
    assert streamed("x " * 100) is None


def test_random_words_do_not_repeat_themselves() -> None:
    chance = random.Random(3)
    found = streamed(" ".join(str(chance.randrange(10**5)) for _ in range(500)))
    assert found is not None
    assert found > 0.3


def with_repetition(*shares: float | None) -> str | None:
    return degenerate([a_request(repetition=share) for share in shares])


def test_most_answers_must_repeat_themselves() -> None:
    assert with_repetition(0.02, 0.02, 0.3) == "degenerate output: 2 of 3 answers looked at repeat themselves"
    assert with_repetition(0.02, 0.3, 0.3) is None
    assert with_repetition(None, None) is None


def ended(*counts: int, reason: str = "stop") -> str | None:
    return degenerate([a_request(completion_tokens=Tokens(count), finish_reason=reason) for count in counts])


@pytest.mark.parametrize(
    ("counts", "reason", "bad"),
    [((1, 0, 2, 900), "stop", True), ((200, 300, 1, 400), "stop", False), ((1, 1, 1, 1), "length", False)],
)
def test_answers_that_stop_at_once_are_as_good_as_none(counts: Sequence[int], reason: str, bad: bool) -> None:
    assert (ended(*counts, reason=reason) is not None) == bad


def test_a_window_without_a_single_token_is_never_clean() -> None:
    raw = a_raw_window(concurrency=2)
    assert raw.before is not None
    assert raw.after is not None
    still = type(raw)(
        **{
            **raw.__dict__,
            "after": type(raw.after)(raw.after.at, raw.after.uncertainty, raw.after.wall, raw.before.values),
        }
    )
    found = flags(still, own_tokens=Tokens(0), num_speculative_tokens=2)
    assert list(found) == ["underfilled"]
    assert "no token" in found["underfilled"]
