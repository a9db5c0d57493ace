"""The endpoints. Generation is served below Starlette: its events go from the engine's step straight to the connection.

uvicorn's `send` is a bound method of the connection's request cycle, whose transport takes bytes without an await. A step
over 256 streams would otherwise wake 256 tasks; this way it writes 256 times, and the journal's time of an event is that of its
last byte in the socket. Where there is no such transport (another
server), events go through a queue and `send`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nightsweep.simulator import tokenizer
from nightsweep.simulator.answers import Answer, Stream
from nightsweep.simulator.faults import UnknownFault, parse_fault
from nightsweep.simulator.requests import Ask, Refused, chat_ids, known_model, prompt_ids, read_ask
from nightsweep.simulator.service import SimEngine
from nightsweep.simulator.spoiled import SpoiledStream

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_GENERATION = {"/v1/chat/completions": True, "/v1/completions": False}
_SSE = [(b"content-type", b"text/event-stream; charset=utf-8")]
_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class SimApp:
    """The ASGI application of one simulated engine."""

    def __init__(self, engine: SimEngine) -> None:
        self._engine = engine
        self._fingerprint = f"vllm-{engine.version}-{engine.truth.profile.name}"
        self._others = _others(engine)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event."""
        if scope["type"] == "http" and scope["path"].startswith("/v1") and not self._allowed(scope):
            await _reply(send, 401, {"error": "Unauthorized"})
        elif scope["type"] == "http" and scope["method"] == "POST" and scope["path"] in _GENERATION:
            await self._generate(scope, receive, send)
        else:
            await self._others(scope, receive, send)

    def _allowed(self, scope: Scope) -> bool:
        key = self._engine.settings.api_key
        return key is None or (b"authorization", f"Bearer {key}".encode()) in scope["headers"]

    async def _generate(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _body(receive)
        engine = self._engine
        status = 500 if engine.dead else engine.refusal()
        if status is not None:
            kind = "InternalServerError" if status == 500 else "ServiceUnavailableError"
            await _reply(send, status, Refused(_DEAD, status=status, kind=kind).body)
            return
        try:
            ask = read_ask(_json(body), chat=_GENERATION[scope["path"]], limits=engine.limits)
        except Refused as refused:
            await _reply(send, refused.status, refused.body)
            return
        if ask.stream:
            await self._stream(ask, receive, send)
        else:
            await self._whole(ask, receive, send)

    async def _whole(self, ask: Ask, receive: Receive, send: Send) -> None:
        engine = self._engine
        request, answer = engine.admit(ask, lambda start, name: Answer(ask, start=start, request_id=name))
        try:
            if not await _ended(answer, receive):
                return
        finally:
            engine.done(request)
        if answer.dead:
            await _reply(send, 500, Refused(_DEAD, status=500, kind="InternalServerError").body)
            return
        usage = engine.usage(request, answer.count)
        await _reply(send, 200, answer.body(usage=usage, fingerprint=self._fingerprint))

    async def _stream(self, ask: Ask, receive: Receive, send: Send) -> None:
        engine = self._engine
        await send({"type": "http.response.start", "status": 200, "headers": _SSE})
        transport = getattr(getattr(send, "__self__", None), "transport", None)
        queue: asyncio.Queue[bytes] | None = None if transport is not None else asyncio.Queue()
        write = queue.put_nowait if queue is not None else _chunk_writer(transport)

        spoiling = engine.spoiling()

        def stream(start: int, name: str) -> Stream:
            settings: dict[str, Any] = {
                "start": start,
                "request_id": name,
                "write": write,
                "fingerprint": self._fingerprint,
                "lost_usage": "lost_usage" in engine.faults,
                "buffered": "buffered_stream" in engine.faults,
            }
            if spoiling is None:
                return Stream(ask, **settings)
            return SpoiledStream(ask, how=spoiling, cut=_cutter(transport), **settings)

        request, answer = engine.admit(ask, stream)
        try:
            forward = asyncio.ensure_future(_forward(queue, send)) if queue is not None else None
            alive = await _ended(answer, receive)
            if forward is not None and queue is not None:
                await queue.join()
                forward.cancel()
        finally:
            engine.done(request)
        if alive:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _cutter(transport: Any) -> Callable[[], None]:
    def cut() -> None:
        if transport is not None:
            transport.abort()

    return cut


def _chunk_writer(transport: Any) -> Callable[[bytes], None]:
    """Return a writer of chunks that leave at once: the event loop would keep those of a whole step until the step is over.

    What the socket does not take at once goes the loop's way, and whatever comes behind it too.
    """
    put, closing, waiting = transport.write, transport.is_closing, transport.get_write_buffer_size
    place = transport.get_extra_info("socket").fileno()

    def write(event: bytes) -> None:
        if closing():  # uvloop raises on a closed transport, and a client may go away within a step
            return
        chunk = b"%x\r\n%b\r\n" % (len(event), event)
        if not waiting():
            with contextlib.suppress(OSError):  # full: the loop has more patience; broken: the loop notices by itself
                chunk = chunk[os.write(place, chunk) :]
        if chunk:
            put(chunk)

    return write


async def _forward(queue: asyncio.Queue[bytes], send: Send) -> None:
    while True:
        event = await queue.get()
        await send({"type": "http.response.body", "body": event, "more_body": True})
        queue.task_done()


async def _ended(answer: Answer, receive: Receive) -> bool:
    """Wait for the answer's end; False when the client went away before."""
    ended = asyncio.ensure_future(answer.done.wait())
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({ended, gone}, return_when=asyncio.FIRST_COMPLETED)
        return ended.done()
    finally:
        ended.cancel()
        gone.cancel()


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise Refused(
            f"[{{'type': 'json_invalid', 'loc': ('body', 0), 'msg': 'JSON decode error', 'ctx': {{'error': {str(error)!r}}}}}]"
        ) from None


async def _reply(send: Send, status: int, body: Any) -> None:
    data = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data, "more_body": False})


def _others(engine: SimEngine) -> Starlette:
    """Return everything but generation."""

    async def health(_: WebRequest) -> Response:
        await asyncio.sleep(engine.faults.value("slow_health", "SECONDS") or 0.0)
        return Response(status_code=503 if engine.dead else 200)

    async def models(_: WebRequest) -> Response:
        return JSONResponse({"object": "list", "data": [_card(engine, name) for name in engine.limits.names]})

    async def version(_: WebRequest) -> Response:
        return JSONResponse({"version": engine.version, "simulated": True})

    async def metrics(_: WebRequest) -> Response:
        return await _metrics(engine)

    async def load(_: WebRequest) -> Response:
        return JSONResponse({"server_load": len(engine.core.running) + len(engine.core.waiting)})

    async def reset(_: WebRequest) -> Response:
        engine.core.pool.forget()
        return JSONResponse({"success": True})

    async def truth(_: WebRequest) -> Response:
        return JSONResponse(engine.truth_page())

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/ping", health, methods=["GET", "POST"]),
            Route("/v1/models", models),
            Route("/version", version),
            Route("/metrics", metrics),
            Route("/load", load),
            Route("/tokenize", _guarded(lambda body: _tokenize(engine, body)), methods=["POST"]),
            Route("/detokenize", _guarded(_detokenize), methods=["POST"]),
            Route("/reset_prefix_cache", reset, methods=["POST"]),
            Route("/sim/truth", truth),
            Route("/sim/journal", functools.partial(_journal, engine)),
            Route("/sim/fault", _guarded(lambda body: _fault(engine, body)), methods=["POST"]),
        ]
    )


async def _metrics(engine: SimEngine) -> Response:
    await asyncio.sleep(engine.faults.value("slow_metrics", "SECONDS") or 0.0)
    if "metrics_down" in engine.faults:
        return Response("Internal Server Error", status_code=500, media_type="text/plain")
    return Response(engine.metrics_page(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def _journal(engine: SimEngine, request: WebRequest) -> Response:
    """Return what was done between two moments (?since=S&until=S&slack=S, seconds of the machine's monotonic clock)."""
    if engine.journal is None:
        return JSONResponse({"error": "started without --sim-journal"}, status_code=404)
    try:
        since, until = (float(request.query_params[name]) for name in ("since", "until"))
        slack = float(request.query_params.get("slack", "0"))
    except (KeyError, ValueError):
        return JSONResponse({"error": "write ?since=SECONDS&until=SECONDS"}, status_code=400)
    return JSONResponse(engine.journal.between(since, until, slack=slack))


def _guarded(answer: Callable[[Any], dict[str, Any]]) -> Callable[[WebRequest], Awaitable[Response]]:
    async def endpoint(request: WebRequest) -> Response:
        try:
            return JSONResponse(answer(_json(await request.body())))
        except Refused as refused:
            return JSONResponse(refused.body, status_code=refused.status)

    return endpoint


def _card(engine: SimEngine, name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": int(engine.metrics.process_start),
        "owned_by": "vllm",
        "root": engine.settings.model,
        "parent": None,
        "max_model_len": engine.limits.max_model_len,
        "permission": [],
    }


def _tokenize(engine: SimEngine, body: Any) -> dict[str, Any]:
    known_model(body, engine.limits)
    ids = chat_ids(body) if "messages" in body else (prompt_ids(body["prompt"]) if body.get("prompt") else [])
    texts = [tokenizer.decode([token]) for token in ids] if body.get("return_token_strs") else None
    return {"count": len(ids), "max_model_len": engine.limits.max_model_len, "tokens": ids, "token_strs": texts}


def _detokenize(body: Any) -> dict[str, Any]:
    tokens = body.get("tokens")
    if not isinstance(tokens, list) or not all(type(t) is int and 0 <= t < tokenizer.VOCABULARY for t in tokens):
        raise Refused("tokens must be a list of token ids within the vocabulary.", param="tokens")
    return {"prompt": tokenizer.decode(tokens)}


def _fault(engine: SimEngine, body: Any) -> dict[str, Any]:
    """Put a fault in force (`{"fault": "stall:0,2"}`) or lift one (`{"clear": "foreign_load"}`)."""
    if "clear" in body:
        return {"cleared": engine.lift(str(body["clear"])), "faults": sorted(engine.faults.active)}
    try:
        engine.inject(parse_fault(str(body.get("fault", ""))))
    except (UnknownFault, ValueError) as error:
        raise Refused(str(error), param="fault") from None
    return {"faults": sorted(engine.faults.active)}
