from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.probe.sse import account, events_of, has_output, reports_error

DATA = Path(__file__).parents[2] / "data" / "sse"
RECORDINGS = sorted(path.name for path in DATA.glob("*.txt"))
ENDED = [name for name in RECORDINGS if "16-streams" not in name and "refused" not in name]


def recorded(name: str) -> tuple[list[float], list[bytes]]:
    """Return reads and their times of a recording: `@` lines are times, `data:` lines events."""
    stamps: list[float] = []
    chunks: list[bytes] = []
    at = 0.0
    for line in (DATA / name).read_text().splitlines():
        if line.startswith("@"):
            at = float(line[1:])
        elif line.startswith("data:"):
            stamps.append(at)
            chunks.append(line.encode() + b"\n\n")
            at += 0.001
    return stamps, chunks


def final_usage(chunks: Sequence[bytes]) -> dict[str, int]:
    usages = [json.loads(chunk[5:])["usage"] for chunk in chunks if b'"choices":[]' in chunk]
    assert len(usages) == 1
    found: dict[str, int] = usages[0]
    return found


@pytest.mark.parametrize("name", ENDED)
def test_token_counts_of_real_streams_equal_their_usage(name: str) -> None:
    stamps, chunks = recorded(name)
    seen = account(stamps, chunks)
    usage = final_usage(chunks)
    assert (seen.completion_tokens, seen.prompt_tokens) == (usage["completion_tokens"], usage["prompt_tokens"])
    assert seen.error is None
    assert seen.lack is None
    assert seen.finish_reason in ("length", "stop")
    if seen.chunk_tokens is not None:
        assert seen.chunk_tokens[-1] == usage["completion_tokens"]
        assert list(seen.chunk_tokens) == sorted(set(seen.chunk_tokens))


@pytest.mark.parametrize("name", [n for n in RECORDINGS if "refused" not in n])
def test_the_role_chunk_of_a_real_stream_is_not_its_first_token(name: str) -> None:
    stamps, chunks = recorded(name)
    assert b'"role":"assistant","content":""' in chunks[0]
    assert not has_output(chunks[0])
    assert has_output(b"".join(chunks[:2]))
    assert account(stamps, chunks).chunk_at[0] == stamps[1]


def test_a_speculating_streams_chunks_are_fewer_than_its_tokens() -> None:
    seen = account(*recorded("vllm-0.32.0-draft-continuous.txt"))
    assert seen.chunk_tokens is not None
    assert (len(seen.chunk_tokens), seen.chunk_tokens[-1]) == (45, 120)


def test_without_continuous_usage_chunks_are_stamped_but_not_counted() -> None:
    stamps, chunks = recorded("vllm-0.32.0-draft-final-usage.txt")
    seen = account(stamps, chunks)
    assert seen.chunk_tokens is None
    assert seen.completion_tokens == 120
    assert len(seen.chunk_at) == len(chunks) - 3  # the role chunk, the usage and [DONE] carry no output


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("vllm-0.32.0-reasoning.txt", b'"reasoning":"'),
        ("vllm-0.32.0-tool-required.txt", b'"tool_calls":['),
        ("vllm-0.32.0-tool-named.txt", b'"tool_calls":['),
        ("vllm-0.32.0-reasoning-then-tool.txt", b'"reasoning":"'),
    ],
)
def test_reasoning_and_tool_deltas_are_output_also_without_counts(name: str, kind: bytes) -> None:
    stamps, chunks = recorded(name)
    bare = [re.sub(rb',"usage":\{.*\}\}', b"}", chunk) if b'"choices":[{' in chunk else chunk for chunk in chunks]
    assert any(kind in chunk for chunk in bare)
    seen = account(stamps, bare)
    assert seen.chunk_tokens is None
    assert seen.chunk_at[0] == stamps[1]
    assert len(seen.chunk_at) == sum(kind in chunk for chunk in bare)


def test_a_stream_that_was_cut_has_its_chunks_and_says_what_it_lacks() -> None:
    stamps, chunks = recorded("vllm-0.26.0-h200-16-streams.txt")
    seen = account(stamps, chunks)
    assert len(seen.chunk_at) == len(chunks) - 1
    assert seen.completion_tokens is None
    assert seen.lack == "the stream ended without [DONE]"


def test_an_error_inside_a_stream_is_found_although_done_follows() -> None:
    chunks = [
        b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n',
        b'data: {"error":{"message":"EngineCore died","type":"x","code":500}}\n\n',
        b"data: [DONE]\n\n",
    ]
    seen = account([1.0, 2.0, 3.0], chunks)
    assert seen.error == "the engine reported in the stream: EngineCore died"
    assert reports_error(b"".join(chunks))


def test_generated_text_cannot_imitate_an_error_a_count_or_an_end() -> None:
    text = 'data: {"error": {"completion_tokens": 999}} [DONE] "content":"x"'
    chunk = b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"
    seen = account([1.0], [chunk])
    assert seen.error is None
    assert not reports_error(chunk)
    assert (seen.chunk_tokens, seen.chunk_at) == (None, (1.0,))
    role_only = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
    assert not has_output(role_only)


def test_a_stream_without_usage_says_so() -> None:
    seen = account([1.0], [b'data: {"choices":[{"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'])
    assert seen.lack == "the stream ended without usage"
    assert account([], []).lack == "the stream ended without any event"


def test_sglang_and_other_servers_may_put_spaces_and_carriage_returns() -> None:
    line = b'data: {"choices": [{"delta": {"reasoning_content": "hm"}}], "usage": {"completion_tokens": 3}}\r\n\r\n'
    seen = account([1.0], [line])
    assert (seen.chunk_tokens, seen.chunk_at) == ((3,), (1.0,))


@given(cuts=st.lists(st.integers(min_value=0, max_value=16000), max_size=60).map(sorted), name=st.sampled_from(ENDED))
def test_reads_may_cut_a_stream_anywhere(cuts: list[int], name: str) -> None:
    stamps, chunks = recorded(name)
    whole = b"".join(chunks)
    places = [0, *[cut for cut in cuts if cut < len(whole)], len(whole)]
    pieces = [whole[a:b] for a, b in pairwise(places) if a < b]
    again = account([float(i) for i in range(len(pieces))], pieces)
    once = account(stamps, chunks)
    assert (again.chunk_tokens, again.completion_tokens) == (once.chunk_tokens, once.completion_tokens)
    assert (len(again.chunk_at), again.finish_reason) == (len(once.chunk_at), once.finish_reason)
    assert (again.error, again.lack) == (None, None)
    assert list(again.chunk_at) == sorted(again.chunk_at)


@given(junk=st.lists(st.binary(max_size=200), max_size=20))
def test_junk_raises_nothing_and_counts_nothing_but_its_own_words(junk: list[bytes]) -> None:
    account([0.0] * len(junk), junk)
    assert all(event[0].startswith(b"data:") for _, event in events_of([0.0] * len(junk), junk))


def by_json(stamps: Sequence[float], chunks: Sequence[bytes]) -> tuple[list[float], list[int]]:
    """Return arrival and count of every chunk with tokens, in the plain way: each event read as JSON as it is complete."""
    found_at, counts = [], []
    received, read = b"", 0
    for at, chunk in zip(stamps, chunks, strict=True):
        received += chunk
        *lines, received = received.split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
                event = json.loads(line[5:])
                count = (event.get("usage") or {}).get("completion_tokens") or 0
                if count > read and event["choices"]:
                    found_at.append(at)
                    counts.append(count)
                    read = count
    return found_at, counts


@given(
    steps=st.lists(st.integers(min_value=0, max_value=9), min_size=1, max_size=40),
    texts=st.lists(st.text(max_size=12), min_size=1, max_size=5),
    cuts=st.lists(st.integers(min_value=1, max_value=400), min_size=1, max_size=30),
    separators=st.sampled_from([(",", ":"), (", ", ": ")]),
    newline=st.sampled_from([b"\n", b"\r\n"]),
)
def test_chunks_counts_and_arrivals_are_those_that_reading_each_event_as_json_gives(
    steps: list[int], texts: list[str], cuts: list[int], separators: tuple[str, str], newline: bytes
) -> None:
    tokens, stream = 0, b""
    for place, step in enumerate([*steps, 0]):
        tokens += step
        last = place == len(steps)
        body = {
            "choices": [] if last else [{"index": 0, "text": texts[place % len(texts)]}],
            "usage": {"prompt_tokens": 3, "completion_tokens": tokens},
        }
        stream += b"data: " + json.dumps(body, separators=separators).encode() + 2 * newline
    stream += b"data: [DONE]" + 2 * newline
    pieces, place = [], 0
    while stream:
        size = cuts[place % len(cuts)]
        pieces.append(stream[:size])
        stream, place = stream[size:], place + 1
    stamps = [0.5 * i for i in range(len(pieces))]
    seen, (plain_at, plain_counts) = account(stamps, pieces), by_json(stamps, pieces)
    assert seen.completion_tokens == tokens
    assert (list(seen.chunk_tokens or ()), seen.lack, seen.error) == (plain_counts, None, None)
    if plain_counts:
        assert list(seen.chunk_at) == plain_at


def test_an_event_that_no_newline_ends_has_come_with_the_last_read() -> None:
    stream = b'data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}'
    seen = account([1.0, 2.0, 3.0], [stream[:20], stream[20:50], stream[50:]])
    assert (seen.chunk_at, seen.chunk_tokens) == ((3.0,), (1,))


def test_a_usage_of_the_whole_is_no_chunk_also_where_it_is_larger_than_the_last_count() -> None:
    text = b'data: {"choices":[{"text":"a"}],"usage":{"completion_tokens":%d}}\n\n'
    usage = b'data: {"choices": [ ], "usage": {"completion_tokens": 5}}\n\n'
    seen = account([1.0, 2.0, 3.0, 4.0], [text % 1, text % 3, usage, b"data: [DONE]\n\n"])
    assert (seen.chunk_at, seen.chunk_tokens, seen.completion_tokens) == ((1.0, 2.0), (1, 3), 5)


# --- per-request acceptance, and SGLang's native stream


def events(*bodies: object) -> tuple[list[float], list[bytes]]:
    chunks = [f"data: {json.dumps(body)}\n\n".encode() for body in bodies] + [b"data: [DONE]\n\n"]
    return [0.1 * i for i in range(len(chunks))], chunks


def test_vllms_per_request_acceptance_is_read_from_the_last_event() -> None:
    told = {
        "mean_acceptance_length": 2.5,
        "draft_acceptance_rate": 0.5,
        "acceptance_histogram": [2, 1, 3, 4],
        "num_spec_steps": 10,
        "num_accepted_draft_tokens": 19,
        "num_draft_tokens": 30,
        "num_spec_tokens": 3,
    }
    usage = {"prompt_tokens": 5, "completion_tokens": 30, "total_tokens": 35}
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "length"}
    seen = account(
        *events({"choices": [choice]}, {"choices": [], "usage": usage, "metrics": {"speculative_decoding": told}})
    )
    assert seen.acceptance is not None
    assert (seen.acceptance.drafts, seen.acceptance.accepted_tokens, seen.acceptance.draft_tokens) == (10, 19, 30)
    assert seen.acceptance.histogram == (2, 1, 3, 4)
    assert seen.completion_tokens == 30


def test_a_real_streams_own_acceptance_adds_up_to_its_tokens() -> None:
    seen = account(*recorded("vllm-0.32.0-per-request-acceptance.txt"))
    told = seen.acceptance
    assert told is not None
    assert (told.drafts, told.accepted_tokens, told.histogram, told.length) == (8, 15, (2, 0, 3, 3), 2.875)
    assert seen.completion_tokens == 1 + 8 + 15


@pytest.mark.parametrize("told", [None, {}, {"speculative_decoding": None}, {"time_to_first_token_ms": 3.0}, "x"])
def test_metrics_without_speculation_are_no_acceptance(told: object) -> None:
    seen = account(*events({"choices": [], "usage": {"completion_tokens": 3}, "metrics": told}))
    assert seen.acceptance is None


def native(count: int, **spec: object) -> dict[str, object]:
    reason = {"type": "length", "length": count} if count >= 8 else None
    meta = {"prompt_tokens": 100, "completion_tokens": count, "cached_tokens": 4, "finish_reason": reason, **spec}
    return {"text": "x " * count, "meta_info": meta}


def test_sglangs_native_stream_is_counted_by_its_meta_info() -> None:
    spec = {"spec_verify_ct": 4, "spec_num_correct_drafts": 3, "spec_num_proposed_drafts": 28}
    seen = account(*events(*(native(count, **spec) for count in (1, 3, 4, 8))))
    assert (seen.chunk_tokens, seen.completion_tokens, seen.prompt_tokens) == ((1, 3, 4, 8), 8, 100)
    assert (seen.cached_tokens, seen.finish_reason, seen.lack) == (4, "length", None)
    assert seen.acceptance is not None
    assert (seen.acceptance.drafts, seen.acceptance.accepted_tokens, seen.acceptance.draft_tokens) == (4, 3, 28)


def test_an_older_sglang_tells_steps_alone_and_the_accepted_follow() -> None:
    seen = account(*events(native(1), native(8, spec_verify_ct=4)))
    assert seen.acceptance is not None
    assert (seen.acceptance.drafts, seen.acceptance.accepted_tokens, seen.acceptance.draft_tokens) == (4, 3, None)


def test_an_sglang_without_speculation_tells_no_acceptance() -> None:
    assert account(*events(native(8, spec_verify_ct=0))).acceptance is None
    assert account(*events(native(8))).acceptance is None
