from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest

from nightsweep.errors import InvalidPlan
from nightsweep.probe.prompts import BUNDLED, load_prompts, parse_prompts, too_few

LONGEST_SHARED = 40


def shared(a: Sequence[object], b: Sequence[object]) -> int:
    """Return how many elements two prompts begin with in common."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_set_has_at_least_64_prompts_and_the_same_hash_every_time(name: str) -> None:
    loaded = load_prompts(name)
    assert len(loaded.prompts) >= 64
    assert loaded.sha256 == load_prompts(name).sha256
    assert len(loaded.sha256) == 64


@pytest.mark.parametrize("name", ["code", "prose", "tools"])
def test_no_two_bundled_prompts_begin_alike(name: str) -> None:
    prompts = load_prompts(name).prompts
    longest = max(shared(str(a), str(b)) for a, b in combinations(prompts, 2))
    assert longest <= LONGEST_SHARED


def test_random_ids_are_always_the_same_and_none_begins_like_another() -> None:
    prompts = load_prompts("random-ids").prompts
    assert load_prompts("random-ids").sha256.startswith("48d2eb27")
    assert max(shared(list(a), list(b)) for a, b in combinations(prompts, 2)) <= 2
    assert all(isinstance(token, int) and 100 <= token < 8000 for prompt in prompts for token in prompt)


def test_a_users_file_holds_prompts_and_messages(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "a\\u2028b"}\n\n{"messages": [{"role": "user", "content": "b"}]}\n')
    loaded = load_prompts(str(path))
    assert loaded.name == "mine.jsonl"
    assert loaded.prompts == ("a\u2028b", [{"role": "user", "content": "b"}])


def test_the_hash_is_of_what_is_sent_and_not_of_the_files_layout(tmp_path: Path) -> None:
    one, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    one.write_text('{"prompt": "a"}\n{"prompt":"b"}\n')
    other.write_text('{ "prompt" : "a" }\n\n\n{"prompt":"b"}')
    assert load_prompts(str(one)).sha256 == load_prompts(str(other)).sha256


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("not json", "not JSON"),
        ("[1]", "found list"),
        ('{"text": "a"}', 'found text, expected exactly one of "prompt" and "messages"'),
        ('{"prompt": "a", "messages": []}', "exactly one"),
        ('{"prompt": "  "}', "text that is not empty"),
        ('{"prompt": 5}', "text that is not empty"),
        ('{"messages": []}', "list that is not empty"),
        ('{"messages": [{"role": "user"}]}', '"messages"[0] must hold "role" and "content"'),
    ],
)
def test_a_wrong_line_is_named_with_what_was_found(line: str, said: str) -> None:
    with pytest.raises(InvalidPlan) as caught:
        parse_prompts('{"prompt": "fine"}\n' + line, source="mine.jsonl")
    assert "mine.jsonl:2: " in str(caught.value)
    assert said in str(caught.value)


def test_every_wrong_line_is_named_up_to_a_limit() -> None:
    with pytest.raises(InvalidPlan) as caught:
        parse_prompts("\n".join("x" for _ in range(25)), source="mine.jsonl")
    assert len(caught.value.facts["problems"]) == 21
    assert "and 5 more lines" in str(caught.value)


def test_an_empty_file_and_a_missing_file_say_what_is_allowed(tmp_path: Path) -> None:
    with pytest.raises(InvalidPlan, match="holds no prompt"):
        parse_prompts("\n", source="mine.jsonl")
    with pytest.raises(InvalidPlan, match="code, prose, tools, random-ids"):
        load_prompts(str(tmp_path / "nowhere.jsonl"))


def test_fewer_different_prompts_than_streams_are_told_with_what_they_do() -> None:
    assert too_few(["a", "b"], streams=2) is None
    said = too_few(["a", "a", "b"], streams=3)
    assert said is not None
    assert said.startswith("2 different prompts for 3 streams: prompts repeat, so that TTFT is of prefix-cache hits")
    assert str(too_few(["a"], streams=1)).startswith("1 different prompt for 1 stream: ")
    assert "give several (" in str(too_few(["a"], streams=1))
    assert too_few(load_prompts("code").prompts, streams=64) is None
