"""Server-sent events of a streamed completion: cheap looks while it runs, the whole account once it is over.

On the hot path nothing is parsed: bytes are kept with the time of their arrival, and only until the first token is a pattern
searched in them. `account` reads everything afterwards.

Source:
    OpenAI chat and completions streams as vLLM 0.26 and 0.32 and SGLang send them: one `data:` line per event, cumulative
    `usage` in each when `continuous_usage_stats` is on, reasoning in `delta.reasoning` (older: `reasoning_content`), tool calls
    in `delta.tool_calls`, an error as `data: {"error": ...}` inside a 200 answer.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from nightsweep.measurement.values import RequestAcceptance
from nightsweep.probe.acceptance import acceptance_of

OUTPUT = re.compile(
    rb'"(?:content|reasoning|reasoning_content|text)":\s*"[^"]'
    rb'|"tool_calls":\s*\[\s*\{'
    rb'|"token_ids":\s*\[\s*\d'
    rb'|"completion_tokens":\s*[1-9]'
)
"""Output in an event: text of any kind, a tool call, token ids, or a count that is not 0. A role chunk has none of them.

Inside generated text a quote is escaped, so text cannot imitate a key.
"""

EVENT = re.compile(rb'^data:(?:.*"completion_tokens":\s*(\d+))?.*\n?', re.MULTILINE)
"""The line of an event, and the tokens so far, where it tells them."""

NO_CHOICES = re.compile(rb'"choices":\s*\[\s*\]')
ERROR = re.compile(rb'^data:\s*\{\s*"error":\s*[{"]', re.MULTILINE)
DONE = b"[DONE]"
TAIL = 6
"""Finish reason, final usage, error and [DONE] are among the last events."""


@dataclass(frozen=True)
class Account:
    """What one stream delivered.

    Attributes:
        chunk_at: Arrival of each event with output. Shape: (chunks,).
        chunk_tokens: Completion tokens so far at each of them; None where the server sends no continuous usage.
        error: What the server reported inside the stream.
        lack: What a stream that ended by itself should have had: an event, [DONE], usage.
    """

    chunk_at: tuple[float, ...]
    chunk_tokens: tuple[int, ...] | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    finish_reason: str | None
    error: str | None
    lack: str | None
    acceptance: RequestAcceptance | None = None


def has_output(received: bytes) -> bool:
    """Return whether the bytes so far carry output: the first token has come."""
    return OUTPUT.search(received) is not None


def reports_error(last: bytes) -> bool:
    """Return whether the last bytes of a stream hold the server's own error: it comes with status 200, and [DONE] follows."""
    return ERROR.search(last) is not None


def events_of(stamps: Sequence[float], chunks: Sequence[bytes]) -> Iterator[tuple[float, re.Match[bytes]]]:
    """Yield (arrival of its last byte, match of EVENT) of every event; reads may cut or join events anywhere."""
    ends = list(accumulate(map(len, chunks)))
    for event in EVENT.finditer(b"".join(chunks)):
        yield stamps[bisect_left(ends, event.end())], event


def account(stamps: Sequence[float], chunks: Sequence[bytes]) -> Account:
    """Return what a stream delivered.

    Args:
        stamps: Arrival of each read, on the monotonic clock. Shape: (reads,).
        chunks: The bytes of each read. Shape: (reads,).
    """
    counted_at: list[float] = []
    counts: list[int] = []
    uncounted_at: list[float] = []
    tail: deque[re.Match[bytes]] = deque(maxlen=TAIL)
    last = 0
    for at, event in events_of(stamps, chunks):
        tail.append(event)
        told = event[1]
        if told is None:
            if OUTPUT.search(event[0]):
                uncounted_at.append(at)
        elif (count := int(told)) > last:
            counted_at.append(at)
            counts.append(count)
            last = count
            counted = event
    if counts and NO_CHOICES.search(counted[0]):
        del counted_at[-1], counts[-1]
    continuous = bool(counts) and not uncounted_at
    ending = _ending([event[0].removeprefix(b"data:").strip() for event in tail])
    return Account(
        chunk_at=tuple(counted_at if continuous else _merged(counted_at, uncounted_at)),
        chunk_tokens=tuple(counts) if continuous else None,
        prompt_tokens=ending.usage.get("prompt_tokens"),
        completion_tokens=ending.usage.get("completion_tokens"),
        cached_tokens=_cached(ending.usage),
        finish_reason=ending.finish_reason,
        error=ending.error,
        lack=ending.lack,
        acceptance=ending.acceptance,
    )


def _merged(counted: list[float], uncounted: list[float]) -> list[float]:
    return sorted(counted + uncounted) if counted else uncounted


@dataclass(frozen=True)
class _Ending:
    usage: dict[str, Any]
    finish_reason: str | None
    error: str | None
    lack: str | None
    acceptance: RequestAcceptance | None


def _ending(lines: Sequence[bytes]) -> _Ending:
    usage: dict[str, Any] = {}
    finish_reason: str | None = None
    error: str | None = None
    acceptance: RequestAcceptance | None = None
    for line in lines:
        event = _event(line)
        acceptance = acceptance_of(event) or acceptance
        if event.get("error") is not None:
            error = f"the engine reported in the stream: {_message(event['error'])}"
        for counts in (event.get("usage"), event.get("meta_info")):  # the second is SGLang's native endpoint
            usage = counts if isinstance(counts, dict) else usage
        if isinstance(event.get("meta_info"), dict):
            finish_reason = _native_reason(event["meta_info"].get("finish_reason")) or finish_reason
        for choice in event.get("choices") or ():
            finish_reason = choice.get("finish_reason") or finish_reason
    return _Ending(
        usage=usage, finish_reason=finish_reason, error=error, lack=_lack(lines, usage), acceptance=acceptance
    )


def _native_reason(reason: Any) -> str | None:
    found = reason.get("type") if isinstance(reason, dict) else reason
    return found if isinstance(found, str) else None


def _cached(usage: dict[str, Any]) -> int | None:
    details = usage.get("prompt_tokens_details")
    told = details.get("cached_tokens") if isinstance(details, dict) else usage.get("cached_tokens")
    return told if isinstance(told, int) else None


def _lack(lines: Sequence[bytes], usage: dict[str, Any]) -> str | None:
    if not lines:
        return "the stream ended without any event"
    if DONE not in lines:
        return "the stream ended without [DONE]"
    return None if usage.get("completion_tokens") is not None else "the stream ended without usage"


def _event(line: bytes) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _message(error: Any) -> str:
    text = error.get("message") if isinstance(error, dict) else error
    return str(text)[:300]
