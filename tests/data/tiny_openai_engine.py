"""A very small OpenAI-compatible engine for tests: asyncio and nothing else, with counters that are exact by construction.

Once per step every running request gets `1 + accepted` tokens, `accepted` from a fixed cycle; a queue holds what is beyond
`max_running`. It is deterministic, unlike the product's simulator, and every fault is a plain attribute.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

MODEL = "tiny"


@dataclass
class _Request:
    tokens: int
    prompt: int
    queue: asyncio.Queue[int] = field(default_factory=asyncio.Queue)
    made: int = 0
    begun: bool = False
    accepted: list[int] = field(default_factory=list)


class TinyEngine:
    """Use as a context: serves on a free port, in a thread of its own.

    Attributes:
        step: Seconds per step.
        cycle: Accepted tokens of successive drafts.
        k: Draft length; 0 is no speculation: no such series on the page.
        prefill_rate: Prompt tokens per second; a prefill delays the request's first token.
        max_running: More requests wait in the queue.
        refuse_continuous: Answer 400 to `continuous_usage_stats`.
        without_usage: Leave the final usage away.
        status: Answer requests with this status instead of 200.
        error_after: After so many steps of a request, report an error inside the stream.
        cut_after: After so many steps of a request, close its connection.
        foreign: Tokens that others generate in every step.
        lying_running: Added to the running gauge.
        preempt: Count a preemption with every step.
        cached: Cached tokens that every prompt claims.
        metrics_delay: Seconds before /metrics answers.
        tokenizes: Whether /tokenize is there.
        api_key: What paths under /v1 ask for; None asks for nothing.
        hold: Events of a stream that are collected and sent in one write, as a buffering proxy does; 1 sends each.
        tells: Put per-request acceptance into the final usage, as vLLM does with `--per-request-spec-decode-metrics`.
        others_accept: Accepted tokens of drafts that others make, one in each step; None has no others.
        vocabulary: Ids beyond are refused, inside a stream of status 200 or (not `refuses_in_stream`) with a 400.
        dull: Say one word over and over.
        seen: Every request body to the model, in order.
        keys: Authorization header of each request to a path under /v1.
    """

    def __init__(self, *, step: float = 0.01, cycle: tuple[int, ...] = (2, 0, 1), k: int = 3) -> None:
        self.step, self.cycle, self.k = step, cycle, k
        self.prefill_rate = 1e9
        self.max_running = 10_000
        self.refuse_continuous = False
        self.without_usage = False
        self.status = 200
        self.error_after: int | None = None
        self.cut_after: int | None = None
        self.foreign = 0
        self.lying_running = 0
        self.preempt = False
        self.cached = 0
        self.metrics_delay = 0.0
        self.metrics_status = 200
        self.tokenizes = True
        self.api_key: str | None = None
        self.hold = 1
        self.tells = False
        self.others_accept: int | None = None
        self.vocabulary = 10**9
        self.refuses_in_stream = True
        self.dull = False
        self.keys: list[str | None] = []
        self.seen: list[dict[str, Any]] = []
        self.disconnects = 0
        self.started = time.time()
        self.zero()
        self._running: list[_Request] = []
        self._waiting: list[_Request] = []
        self._drafted = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.port = 0

    def zero(self) -> None:
        """Set all counters to 0, as a restart would."""
        self.generated = self.steps = self.drafts = self.accepted = self.preemptions = 0
        self.prompts = self.hits = self.prefills = self.gaps = 0
        self.prefill_seconds = 0.0
        self.by_position = [0] * self.k

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> TinyEngine:
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        """Close all connections and the port at once. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(5)

    def _serve(self) -> None:
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        stepping = asyncio.create_task(self._steps())
        self._ready.set()
        await self._stop.wait()
        server.close()
        stepping.cancel()
        for writer in list(self._writers):
            writer.transport.abort()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _steps(self) -> None:
        due = time.monotonic()
        while True:
            due += self.step
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            while self._waiting and len(self._running) < self.max_running:
                self._running.append(self._waiting.pop(0))
            if self._running:
                self._one_step()

    def _one_step(self) -> None:
        self.steps += 1
        self.generated += self.foreign
        self.preemptions += self.preempt
        if self.others_accept is not None:
            self.drafts += 1
            self.accepted += self.others_accept
        for request in list(self._running):
            self._advance(request)

    def _advance(self, request: _Request) -> None:
        if not request.begun:
            request.begun = True
            self.prompts += request.prompt
            self.hits += min(self.cached, request.prompt)
            count = 1
        else:
            count = self._drafting()
            request.accepted.append(count - 1)
            self.gaps += 1
        count = min(count, request.tokens - request.made)
        request.made += count
        self.generated += count
        request.queue.put_nowait(count)
        if request.made >= request.tokens:
            self._running.remove(request)
            self.prefills += 1
            self.prefill_seconds += request.prompt / self.prefill_rate

    def _drafting(self) -> int:
        if not self.k:
            return 1
        accepted = self.cycle[self._drafted % len(self.cycle)]
        self._drafted += 1
        self.drafts += 1
        self.accepted += accepted
        for position in range(accepted):
            self.by_position[position] += 1
        return 1 + accepted

    def _words(self, start: int, count: int) -> str:
        return "x " * count if self.dull else "".join(f"{(start + n) * 7919 % 10007:x} " for n in range(count))

    def _told(self, request: _Request) -> dict[str, Any]:
        """Return vLLM's per-request numbers (0.32: `SpeculativeDecodingMetrics`)."""
        drafts, accepted = len(request.accepted), sum(request.accepted)
        return {
            "mean_acceptance_length": 1 + accepted / drafts if drafts else 0.0,
            "draft_acceptance_rate": accepted / (drafts * self.k) if drafts else 0.0,
            "acceptance_histogram": [request.accepted.count(n) for n in range(self.k + 1)],
            "num_spec_steps": drafts,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": drafts * self.k,
            "num_spec_tokens": self.k,
        }

    def page(self) -> str:
        """Return the metrics page, in vLLM's names."""
        label = '{engine="0",model_name="tiny"}'
        values = {
            "generation_tokens_total": self.generated,
            "generation_tokens_created": self.started,
            "prompt_tokens_total": self.prompts,
            "prefix_cache_hits_total": self.hits,
            "num_preemptions_total": self.preemptions,
            "num_requests_running": len(self._running) + self.lying_running,
            "num_requests_waiting": len(self._waiting),
            "iteration_tokens_total_count": self.steps,
            "inter_token_latency_seconds_count": self.gaps,
            "inter_token_latency_seconds_sum": self.gaps * self.step,
            "request_prefill_time_seconds_sum": self.prefill_seconds,
            "request_prefill_time_seconds_count": self.prefills,
        }
        if self.k:
            values |= {
                "spec_decode_num_drafts_total": self.drafts,
                "spec_decode_num_draft_tokens_total": self.drafts * self.k,
                "spec_decode_num_accepted_tokens_total": self.accepted,
            }
        lines = [f"vllm:{name}{label} {float(value)}" for name, value in values.items()]
        for position, count in enumerate(self.by_position if self.k else ()):
            name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
            lines.append(f'{name}{{engine="0",model_name="tiny",position="{position}"}} {float(count)}')
        lines.append(f"process_start_time_seconds {self.started}")
        return "# HELP nothing of note\n" + "\n".join(lines) + "\n"

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
                length = 0
                for line in head.decode().lower().split("\r\n"):
                    if line.startswith("content-length:"):
                        length = int(line.split(":")[1])
                body = json.loads(await reader.readexactly(length)) if length else {}
                if path.startswith("/v1") and not self._allowed(head):
                    _plain(writer, 401, json.dumps({"error": "Unauthorized"}))
                else:
                    await self._answer(method, path, body, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError, OSError):
                await writer.wait_closed()

    def _allowed(self, head: bytes) -> bool:
        lines = head.decode().split("\r\n")
        told = next(
            (line.split(":", 1)[1].strip() for line in lines if line.lower().startswith("authorization:")), None
        )
        self.keys.append(told)
        return self.api_key is None or told == f"Bearer {self.api_key}"

    async def _answer(
        self, method: str, path: str, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if path == "/metrics":
            await asyncio.sleep(self.metrics_delay)
            _plain(writer, self.metrics_status, self.page(), kind="text/plain")
        elif path == "/health":
            _plain(writer, 200, "")
        elif path == "/v1/models":
            _plain(writer, 200, json.dumps({"data": [{"id": MODEL, "max_model_len": 4096}]}))
        elif path == "/version":
            _plain(writer, 200, json.dumps({"version": "0.32.0"}))
        elif path == "/tokenize" and self.tokenizes:
            ids = [10 + sum(word.encode()) % 900 for word in body["prompt"].split()]
            _plain(writer, 200, json.dumps({"count": len(ids), "tokens": ids}))
        elif path in ("/v1/chat/completions", "/v1/completions"):
            await self._complete(path, body, reader, writer)
        else:
            _plain(writer, 404, json.dumps({"detail": "Not Found"}))
        await writer.drain()

    async def _complete(
        self, path: str, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.seen.append(body)
        options = body.get("stream_options") or {}
        if self.status != 200:
            _plain(writer, self.status, json.dumps({"error": {"message": "out of order", "code": self.status}}))
            return
        if options.get("continuous_usage_stats") and self.refuse_continuous:
            _plain(writer, 400, json.dumps({"error": {"message": "unknown field continuous_usage_stats"}}))
            return
        prompt = body.get("prompt")
        if isinstance(prompt, list) and max(prompt) >= self.vocabulary:  # vLLM 0.32 tells it in a stream of status 200
            error = json.dumps({"error": {"message": f"Token id {max(prompt)} is out of vocabulary", "code": 400}})
            text = f"data: {error}\n\ndata: [DONE]\n\n" if self.refuses_in_stream else error
            _plain(writer, 200 if self.refuses_in_stream else 400, text, kind="text/event-stream")
            return
        words = len(prompt) if isinstance(prompt, list) else len(json.dumps(prompt or body["messages"]).split())
        request = _Request(tokens=body["max_tokens"], prompt=words)
        await asyncio.sleep(words / self.prefill_rate)
        self._waiting.append(request)
        try:
            if body.get("stream"):
                await self._stream(path, body, request, reader, writer)
            else:
                while request.made < request.tokens:
                    await request.queue.get()
                usage = _usage(request, self.cached)
                choice = {"message": {"role": "assistant", "content": "word"}, "finish_reason": "length"}
                _plain(writer, 200, json.dumps({"choices": [choice], "usage": usage}))
        finally:
            for crowd in (self._running, self._waiting):
                if request in crowd:
                    crowd.remove(request)

    async def _stream(
        self,
        path: str,
        body: dict[str, Any],
        request: _Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        chat = path.endswith("chat/completions")
        continuous = bool((body.get("stream_options") or {}).get("continuous_usage_stats"))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        raw, writer = writer, _Holding(writer, self.hold)  # type: ignore[assignment]
        watch = asyncio.create_task(reader.read(1))
        try:
            if chat:
                _event(
                    writer, _choice({"role": "assistant", "content": ""}, chat), _usage(request, 0, made=0), continuous
                )
            told = turns = 0
            while told < request.tokens:
                getter = asyncio.create_task(request.queue.get())
                await asyncio.wait({getter, watch}, return_when=asyncio.FIRST_COMPLETED)
                if watch.done():
                    getter.cancel()
                    self.disconnects += 1
                    raise ConnectionResetError
                told += getter.result()
                turns += 1
                if turns == self.cut_after:
                    writer.transport.abort()
                    raise ConnectionResetError
                if turns == self.error_after:
                    _chunk(writer, b'data: {"error":{"message":"EngineCore died","code":500}}\n\n')
                    break
                delta = {"content": self._words(told - getter.result(), getter.result())}
                _event(writer, _choice(delta, chat), _usage(request, self.cached, made=told), continuous)
                await writer.drain()
            else:
                _event(writer, _choice({}, chat, finish="length"), _usage(request, self.cached), continuous)
                if not self.without_usage:
                    more = {"metrics": {"speculative_decoding": self._told(request)}} if self.tells else {}
                    _event(writer, [], _usage(request, self.cached), usage_wanted=True, more=more)
            _chunk(writer, b"data: [DONE]\n\n")
            writer.flush()  # type: ignore[attr-defined]
            raw.write(b"0\r\n\r\n")
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)


class _Holding:
    """A writer that collects so many chunks before it writes them."""

    def __init__(self, writer: asyncio.StreamWriter, count: int) -> None:
        self._writer, self._count, self._held = writer, count, list[bytes]()
        self.transport = writer.transport

    def write(self, data: bytes) -> None:
        self._held.append(data)
        if len(self._held) >= self._count:
            self.flush()

    def flush(self) -> None:
        self._writer.write(b"".join(self._held))
        self._held.clear()

    async def drain(self) -> None:
        await self._writer.drain()


def _usage(request: _Request, cached: int, *, made: int | None = None) -> dict[str, Any]:
    count = request.made if made is None else made
    return {
        "prompt_tokens": request.prompt,
        "total_tokens": request.prompt + count,
        "completion_tokens": count,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _choice(delta: dict[str, Any], chat: bool, *, finish: str | None = None) -> list[Any]:
    told = {"delta": delta} if chat else {"text": delta.get("content", "")}
    return [{"index": 0, **told, "finish_reason": finish}]


def _event(
    writer: asyncio.StreamWriter,
    choices: list[Any],
    usage: dict[str, Any],
    usage_wanted: bool,
    more: dict[str, Any] | None = None,
) -> None:
    body: dict[str, Any] = {"id": "1", "object": "chunk", "model": MODEL, "choices": choices, **(more or {})}
    if usage_wanted:
        body["usage"] = usage
    _chunk(writer, b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n")


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def _plain(writer: asyncio.StreamWriter, status: int, text: str, *, kind: str = "application/json") -> None:
    data = text.encode()
    writer.write(f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n\r\n".encode() + data)


class TinySGLang(TinyEngine):
    """The same engine in SGLang's words: its native /generate and its series; drafts are told by request only.

    Source:
        SGLang 0.5.23 `srt/managers/io_struct.py` and `srt/metrics/collector.py` (names); the stream's text is cumulative.

    Attributes:
        state: What `/server_info` answers; None is no such page.
    """

    state: dict[str, Any] | None = None

    def page(self) -> str:
        """Return the metrics page, in SGLang's names."""
        label = 'model_name="tiny",engine_type="unified",tp_rank="0",pp_rank="0"'
        lines = [
            f'sglang:realtime_tokens_total{{{label},mode="decode"}} {float(self.generated)}',
            f'sglang:realtime_tokens_total{{{label},mode="prefill_compute"}} {float(self.prompts - self.hits)}',
            f'sglang:realtime_tokens_total{{{label},mode="prefill_cache"}} {float(self.hits)}',
            f"sglang:prompt_tokens_total{{{label}}} {float(self.prompts)}",
            f"sglang:num_running_reqs{{{label}}} {float(len(self._running))}",
            f"sglang:num_queue_reqs{{{label}}} {float(len(self._waiting))}",
            f"process_start_time_seconds {self.started}",
        ]
        return "\n".join(lines) + "\n"

    async def _answer(
        self, method: str, path: str, body: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if path == "/server_info" and self.state is not None:
            _plain(writer, 200, json.dumps(self.state))
            return
        if path != "/generate":
            await super()._answer(method, path, body, reader, writer)
            return
        self.seen.append(body)
        ids, wanted = body.get("input_ids") or body["text"].split(), body["sampling_params"]["max_new_tokens"]
        request = _Request(tokens=wanted, prompt=len(ids))
        await asyncio.sleep(len(ids) / self.prefill_rate)
        self._waiting.append(request)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        told = 0
        while told < request.tokens:
            told += await request.queue.get()
            _chunk(writer, b"data: " + json.dumps(self._native(request, told)).encode() + b"\n\n")
            await writer.drain()
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _native(self, request: _Request, told: int) -> dict[str, Any]:
        meta: dict[str, Any] = {
            "id": "1",
            "finish_reason": {"type": "length", "length": told} if told >= request.tokens else None,
            "prompt_tokens": request.prompt,
            "completion_tokens": told,
            "cached_tokens": min(self.cached, request.prompt),
        }
        if self.k:
            accepted = request.accepted
            meta |= {
                "spec_verify_ct": len(accepted),
                "spec_accept_length": told / len(accepted) if accepted else 0.0,
                "spec_num_correct_drafts": sum(accepted),
                "spec_num_proposed_drafts": len(accepted) * self.k,
                "spec_correct_drafts_histogram": [accepted.count(n) for n in range(self.k + 1)],
            }
        return {"text": "x " * told, "meta_info": meta}
