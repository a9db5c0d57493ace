"""Answers on the wire: one SSE event per engine step and request, cut from ready-made bytes; or one JSON body.

Source: raw streams of vLLM 0.32.0 (chat and completions, with and without continuous usage).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

from nightsweep.simulator.content import RING
from nightsweep.simulator.requests import Ask

DONE = b"data: [DONE]\n\n"


class Answer:
    """A whole answer, for a request that does not stream. `done` is set when it is there."""

    def __init__(self, ask: Ask, *, start: int, request_id: str) -> None:
        self.ask = ask
        self.request_id = request_id
        self.created = int(time.time())
        self.start = start
        self.count = 0
        self.reason: str | None = None
        self.stopped_at: str | None = None
        self.dead = False
        self.done: asyncio.Event = asyncio.Event()

    def tokens(self, start: int, count: int, finish_reason: str | None) -> bool:
        """Take tokens; see `Outlet`."""
        self.count = start + count
        found = self._stop_string() if self.ask.stop else None
        if found is not None:
            self.stopped_at = found
            finish_reason = "stop"
        if finish_reason is not None:
            self.reason = finish_reason
            self.done.set()
        return found is not None

    def fail(self) -> None:
        """End without an answer: the engine is dead."""
        self.dead = True
        self.done.set()

    def _stop_string(self) -> str | None:
        text = RING.plain(self.start, self.count)
        hits = [(text.find(stop), stop) for stop in self.ask.stop if stop in text]
        return min(hits)[1] if hits else None

    def text(self) -> str:
        """Return the answer's text; the end-of-turn token that a natural stop counts has none."""
        if self.stopped_at is not None:
            text = RING.plain(self.start, self.count)
            return text[: text.find(self.stopped_at)]
        return RING.plain(self.start, self.count - 1 if self.reason == "stop" else self.count)

    def body(self, *, usage: dict[str, Any], fingerprint: str) -> dict[str, Any]:
        """Return the JSON body."""
        choice: dict[str, Any] = {
            "index": 0,
            "logprobs": None,
            "finish_reason": self.reason,
            "stop_reason": self.stopped_at,
            "token_ids": None,
        }
        if self.ask.chat:
            choice["message"] = {"role": "assistant", "content": self.text(), "tool_calls": [], "reasoning": None}
        else:
            choice["text"] = self.text()
        return {
            "id": self.request_id,
            "object": "chat.completion" if self.ask.chat else "text_completion",
            "created": self.created,
            "model": self.ask.model,
            "choices": [choice],
            "usage": usage,
            "system_fingerprint": fingerprint,
        }


class Stream(Answer):
    """An answer that streams: every call of `tokens` becomes one event.

    Args:
        write: Takes the bytes of one event; called from the engine's step, so it must not block.
        lost_usage: Leave all usage out.
        buffered: Keep all events until the end.
    """

    def __init__(
        self,
        ask: Ask,
        *,
        start: int,
        request_id: str,
        write: Callable[[bytes], None],
        fingerprint: str,
        lost_usage: bool,
        buffered: bool,
    ) -> None:
        super().__init__(ask, start=start, request_id=request_id)
        self._write = write
        self._buffer: list[bytes] | None = [] if buffered else None
        self._continuous = ask.continuous_usage and not lost_usage
        self._final = ask.include_usage and not lost_usage
        self._prompt = len(ask.ids)
        self._sent_text = 0  # characters, when stop strings are looked for
        kind = b"chat.completion.chunk" if ask.chat else b"text_completion"
        head = f'"created":{self.created},"model":{json.dumps(ask.model)},"choices":['.encode()
        self._head = b'data: {"id":"%s","object":"%s",%s' % (request_id.encode(), kind, head)
        self._tail_id = json.dumps(fingerprint).encode()
        if ask.chat:
            self._open = self._head + b'{"index":0,"delta":{"content":"'
            self._close = b'"},"logprobs":null,"finish_reason":null,"token_ids":null}]'
            self._last = b'"},"logprobs":null,"finish_reason":"%s","stop_reason":%s,"token_ids":null}]'
        else:
            self._open = self._head + b'{"index":0,"text":"'
            self._close = b'","logprobs":null,"finish_reason":null,"stop_reason":null,"token_ids":null}]'
            self._last = b'","logprobs":null,"finish_reason":"%s","stop_reason":%s,"token_ids":null}]'

    def tokens(self, start: int, count: int, finish_reason: str | None) -> bool:
        """Send tokens as one event; see `Outlet`."""
        if start == 0 and self.ask.chat:
            self._put(self._role())
        self.count = start + count
        if self.ask.stop:
            return self._tokens_until_stop(finish_reason)
        if finish_reason is None:
            self._put(self._open + RING.escaped(self.start + start, count) + self._close + self._usage())
            return False
        shown = count - 1 if finish_reason == "stop" else count
        self._end(RING.escaped(self.start + start, shown), finish_reason)
        return False

    def _tokens_until_stop(self, finish_reason: str | None) -> bool:
        found = self._stop_string()
        self.stopped_at = found
        self.reason = "stop" if found is not None else finish_reason
        text = self.text()
        piece = json.dumps(text[self._sent_text :])[1:-1].encode()
        self._sent_text = len(text)
        if self.reason is None:
            self._put(self._open + piece + self._close + self._usage())
        else:
            self._end(piece, self.reason)
        return found is not None

    def _end(self, piece: bytes, reason: str) -> None:
        self.reason = reason
        stop = json.dumps(self.stopped_at).encode()
        self._put(self._open + piece + self._last % (reason.encode(), stop) + self._usage())
        if self._final:
            total = b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}' % (
                self._prompt,
                self._prompt + self.count,
                self.count,
            )
            self._put(self._head + b'],"usage":' + total + b',"system_fingerprint":' + self._tail_id + b"}\n\n")
        self._flush(DONE)
        self.done.set()

    def fail(self) -> None:
        """Tell the client as vLLM does: an error event, and [DONE] all the same."""
        error = {
            "error": {
                "message": "EngineCore encountered an issue. See stack trace (above) for the root cause.",
                "type": "InternalServerError",
                "param": None,
                "code": 500,
            }
        }
        self._flush(b"data: " + json.dumps(error, separators=(",", ":")).encode() + b"\n\n" + DONE)
        super().fail()

    def _role(self) -> bytes:
        delta = b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        return self._head + delta + self._usage(0)

    def _usage(self, count: int | None = None) -> bytes:
        if not self._continuous:
            return b"}\n\n" if self.ask.chat else b',"usage":null}\n\n'
        made = self.count if count is None else count
        return b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}\n\n' % (
            self._prompt,
            self._prompt + made,
            made,
        )

    def _put(self, event: bytes) -> None:
        if self._buffer is None:
            self._write(event)
        else:
            self._buffer.append(event)

    def _flush(self, last: bytes) -> None:
        if self._buffer is None:
            self._write(last)
        else:
            self._write(b"".join([*self._buffer, last]))
            self._buffer = []
