"""The probe as the sweep sees it: blocking calls over an event loop that stays inside."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from nightsweep.measurement.values import PrefillResult, RawWindow, Reading
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Clock, Reached, Secret, SingleBatchRequest, Target, WindowRequest
from nightsweep.probe.background import ALIVE_POLL, Background
from nightsweep.probe.bodies import authorization, headers_of, path_of, prompt_fields
from nightsweep.probe.client import DirectClient, make_client, make_direct_client
from nightsweep.probe.draining import drained
from nightsweep.probe.load import Load, UsageModes
from nightsweep.probe.prefill import PrefillRun
from nightsweep.probe.readings import fetch_reading
from nightsweep.probe.single_batch import SingleBatchRun
from nightsweep.probe.window import Patience, WindowRun
from nightsweep.units import Seconds, Tokens

T = TypeVar("T")

PATIENCE = Patience()


@dataclass(frozen=True)
class Clients:
    """The two ways to the engine: counters and questions straight to it, load where the target says."""

    control: DirectClient
    load: DirectClient


class HttpProbe:
    """Implements `ports.Probe` over HTTP. Use as a context, or call `close`; it also ends with the program.

    Args:
        poll: Seconds between occupancy samples in a window; never more than four a second are taken.
    """

    def __init__(self, *, clock: Clock, poll: Seconds = Seconds(0.25), patience: Patience = PATIENCE) -> None:
        self._clock = clock
        self._patience = patience
        self._poll = poll
        self._background = Background()
        self._usage = UsageModes()

    def __enter__(self) -> HttpProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the event loop. Idempotent."""
        self._background.close()

    def healthy(self, url: str, *, timeout: Seconds) -> bool:
        """Return whether `url` answers 200 within `timeout`."""

        async def ask(client: httpx.AsyncClient) -> bool:
            try:
                async with asyncio.timeout(float(timeout)):
                    return (await client.get(url)).status_code == 200
            except (httpx.HTTPError, httpx.InvalidURL, TimeoutError):
                return False

        return self._with_client(ask, url, timeout=timeout)

    def reach(self, url: str, *, timeout: Seconds, api_key: Secret | None = None) -> Reached:
        """Return what answers at `url`, whatever it is. A connection that is closed without a byte is nobody.

        Docker's own proxy of a published port accepts every connection, and closes it while nobody listens behind it.
        """
        headers = {} if api_key is None else authorization(api_key)

        async def ask(client: httpx.AsyncClient) -> Reached:
            try:
                async with asyncio.timeout(float(timeout)):
                    return Reached(listening=True, status=(await client.get(url, headers=headers)).status_code)
            except httpx.RemoteProtocolError:
                return Reached(listening=await _says_anything(url, timeout=timeout))
            except (httpx.ReadTimeout, TimeoutError):
                return Reached(listening=True)
            except (httpx.HTTPError, httpx.InvalidURL):
                return Reached(listening=False)

        return self._with_client(ask, url, timeout=timeout)

    def served_token(self, target: Target, *, timeout: Seconds, check: Callable[[], None] = lambda: None) -> str | None:
        """Ask the engine itself, not a proxy, for one token. Return None when one was served, else the reason why not."""
        api = "completions" if target.api == "generate" else target.api
        body = {
            "model": target.model,
            "max_tokens": 1,
            "temperature": 0.0,
            "stream": False,
            **prompt_fields("Say one word.", api=api),
        }

        async def ask(client: httpx.AsyncClient) -> str | None:
            url = target.base_url + path_of(api)
            try:
                async with asyncio.timeout(float(timeout)):
                    response = await client.post(url, json=body, headers=headers_of(target))
            except TimeoutError:
                return f"no token within {timeout:g} s"
            except httpx.HTTPError as error:
                return f"{type(error).__name__}: {error}"
            return _why_no_token(response)

        def go_on() -> bool:
            check()
            return True

        return self._with_client(ask, target.base_url, timeout=timeout, alive=go_on)

    def ask(
        self, base_url: str, paths: Mapping[str, str], *, timeout: Seconds, api_key: Secret | None = None
    ) -> Mapping[str, Any]:
        """Return the JSON answers by key; a path that does not answer with JSON and 200 is absent."""
        headers = {} if api_key is None else authorization(api_key)

        async def ask(client: httpx.AsyncClient) -> Mapping[str, Any]:
            answers = await asyncio.gather(
                *(_json_of(client, base_url + path, timeout=timeout, headers=headers) for path in paths.values())
            )
            return {key: answer for key, answer in zip(paths, answers, strict=True) if answer is not None}

        return self._with_client(ask, base_url, timeout=timeout)

    def read(self, target: Target) -> Reading:
        """Return one reading of the target's counters (raises MetricsUnreadable)."""

        async def ask(clients: Clients, _: asyncio.Event) -> Reading:
            return await fetch_reading(clients.control, target, clock=self._clock)

        return self._with_load(ask, target)

    def warm_up(self, target: Target, request: WindowRequest, *, alive: Callable[[], bool]) -> None:
        """Run an uncounted load until every stream has had some tokens, or `request.window` is over; then let it drain.

        Raises:
            RequestFailed: Streams kept failing.
        """

        async def run(clients: Clients, gone: asyncio.Event) -> None:
            await self._window_run(clients, target, request, gone).warm_up()

        self._with_load(run, target, alive=alive)

    def window(self, target: Target, request: WindowRequest, *, alive: Callable[[], bool]) -> RawWindow:
        """Measure one decode window.

        A load that does not come up gives a window that `ended_early` as "underfilled", so that it is kept; an
        engine that
        ends gives "engine_exited" at once.

        Raises:
            DialectMismatch: The engine does not count generated tokens as they come.
        """

        async def run(clients: Clients, gone: asyncio.Event) -> RawWindow:
            return await self._window_run(clients, target, request, gone).measure()

        return self._with_load(run, target, alive=alive)

    def prefill(
        self,
        target: Target,
        *,
        tokens: Tokens,
        salt: str,
        sampling: SamplingSpec,
        alive: Callable[[], bool],
        load: WindowRequest | None = None,
        waiting: Callable[[str], None] = lambda what: None,
    ) -> PrefillResult:
        """Measure one prefill of exactly `tokens` fresh tokens, on an idle engine.

        Args:
            salt: Another one for every prefill: the prompt follows from it.
            load: Streams that decode meanwhile; they run alone for `load.window` first. None is an idle engine.
            waiting: Told what is waited for, and "" when that is over.

        Raises:
            MetricsUnreadable: The engine's counters could not be read.
        """

        async def run(clients: Clients, gone: asyncio.Event) -> PrefillResult:
            return await PrefillRun(
                client=clients.control,
                load_client=clients.load,
                target=target,
                tokens=tokens,
                salt=salt,
                sampling=sampling,
                clock=self._clock,
                usage=self._usage,
                gone=gone,
                load=load,
                waiting=waiting,
            ).measure()

        return self._with_load(run, target, alive=alive)

    def single_batch(self, target: Target, request: SingleBatchRequest, *, alive: Callable[[], bool]) -> RawWindow:
        """Measure one request alone on an idle engine; the raw window holds it, and the readings before and after.

        Raises:
            MetricsUnreadable: The engine's counters could not be read.
        """

        async def run(clients: Clients, gone: asyncio.Event) -> RawWindow:
            return await SingleBatchRun(
                client=clients.control,
                load_client=clients.load,
                target=target,
                request=request,
                clock=self._clock,
                usage=self._usage,
                gone=gone,
            ).measure()

        return self._with_load(run, target, alive=alive)

    def drain(self, target: Target, *, timeout: Seconds) -> bool:
        """Wait until the engine reports nothing running or waiting; False when it does not within `timeout`."""

        async def ask(clients: Clients, _: asyncio.Event) -> bool:
            return await drained(clients.control, target, clock=self._clock, timeout=timeout)

        return self._with_load(ask, target)

    def _window_run(self, clients: Clients, target: Target, request: WindowRequest, gone: asyncio.Event) -> WindowRun:
        return WindowRun(
            client=clients.control,
            load=Load(clients.load, target, request, clock=self._clock, usage=self._usage),
            target=target,
            request=request,
            clock=self._clock,
            poll=self._poll,
            gone=gone,
            patience=self._patience,
        )

    def _with_client(
        self,
        ask: Callable[[httpx.AsyncClient], Coroutine[Any, Any, T]],
        url: str,
        *,
        timeout: Seconds,
        alive: Callable[[], bool] | None = None,
    ) -> T:
        async def run(_: asyncio.Event) -> T:
            async with make_client(url, timeout=timeout) as client:
                return await ask(client)

        return self._background.run(run, alive=alive, poll=ALIVE_POLL)

    def _with_load(
        self,
        measure: Callable[[Clients, asyncio.Event], Coroutine[Any, Any, T]],
        target: Target,
        *,
        alive: Callable[[], bool] | None = None,
    ) -> T:
        async def run(gone: asyncio.Event) -> T:
            timeout, now = target.request_timeout, self._clock.monotonic
            async with (
                make_direct_client(target.base_url, timeout=timeout, now=now, ca=target.ca) as control,
                make_direct_client(target.load_url, timeout=timeout, now=now, ca=target.ca, http2=target.http2) as load,
            ):
                return await measure(Clients(control=control, load=load), gone)

        return self._background.run(run, alive=alive, poll=ALIVE_POLL)


async def _says_anything(url: str, *, timeout: Seconds) -> bool:
    """Return whether a listener that speaks no HTTP sends a byte before it closes."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(float(timeout)):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            with contextlib.closing(writer):
                writer.write(b"GET / HTTP/1.0\r\n\r\n")
                return bool(await reader.read(1))
    except OSError:  # TimeoutError is one, too
        return False


async def _json_of(client: httpx.AsyncClient, url: str, *, timeout: Seconds, headers: dict[str, str]) -> Any:
    try:
        async with asyncio.timeout(float(timeout)):
            response = await client.get(url, headers=headers)
        return response.json() if response.status_code == 200 else None
    except (httpx.HTTPError, ValueError, TimeoutError):
        return None


def _why_no_token(response: httpx.Response) -> str | None:
    if response.status_code != 200:
        return f"HTTP {response.status_code}: {response.text[:300].strip()}"
    try:
        answer = response.json()
    except ValueError:
        return "the answer is not JSON"
    if not isinstance(answer, dict) or not answer.get("choices"):
        return f"the answer holds no choice: {response.text[:300].strip()}"
    usage = answer.get("usage")
    counted = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return "the engine counted no output token" if counted == 0 else None
