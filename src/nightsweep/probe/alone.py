"""One request by itself: what prefill and single-batch probes send."""

from __future__ import annotations

import asyncio

import httpx

from nightsweep.ports import Clock, Target
from nightsweep.probe.bodies import headers_of
from nightsweep.probe.client import DirectClient
from nightsweep.probe.stream import RequestLog, stream_once


async def stream_alone(
    client: DirectClient, target: Target, path: str, *, body: bytes, clock: Clock, gone: asyncio.Event
) -> RequestLog:
    """Send one request through the target's load URL and return what came, at its end or when the engine is gone.

    Args:
        gone: Set from outside when the engine is no longer alive.
    """
    log = RequestLog(stream=0, prompt_index=0)
    request = asyncio.create_task(
        stream_once(
            client,
            httpx.URL(target.load_url + path),
            body=body,
            headers=httpx.Headers(headers_of(target)),
            log=log,
            clock=clock,
            timeout=target.request_timeout,
        )
    )
    ending = asyncio.create_task(gone.wait())
    await asyncio.wait({request, ending}, return_when=asyncio.FIRST_COMPLETED)
    for task in (request, ending):
        task.cancel()
    await asyncio.gather(request, ending, return_exceptions=True)
    return log
