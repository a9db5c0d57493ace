"""The client of the disturbance benchmark: a process that holds the streams, one way or the other, as it is told line by line.

    drain    bare sockets, whose bytes are thrown away; requests as the probe sends them, but without a token count in each chunk
    counts   the same, with the token counts that the probe asks for
    probe    the probe itself, as in a window of a sweep: its load, its stamps, its occupancy samples
    stop     ends what runs; answers when every stream is gone

Each line is answered by one line, "ok" or "failed REASON". Both send the same prompts with the same seeds: a segment is the same
work for the engine, whoever watches.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import sys
import threading
import urllib.parse
from typing import Protocol

from nightsweep.engine.dialects import vllm_dialect
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Target, WindowRequest
from nightsweep.probe.bodies import PromptOrder, path_of, sampling_of, streaming_body
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.probe.prompts import load_prompts
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock

WINDOW = 40.0
"""Seconds of an ordinary window: it says how often the probe samples. It is stopped long before."""

TEMPERATURE = 0.7


def target_of(url: str, model: str) -> Target:
    """The engine as the probe is pointed at it."""
    return Target(url, url, model, vllm_dialect(None), api="completions")


def window_of(*, streams: int, max_tokens: int) -> WindowRequest:
    """The load: always the same prompts, drawn with the same seeds."""
    return WindowRequest(
        concurrency=streams,
        temperature=TEMPERATURE,
        window=Seconds(WINDOW),
        sampling=SamplingSpec(max_tokens=max_tokens, ignore_eos=True, seed=1),
        prompts=load_prompts("code").prompts,
        first_prompt=0,
        order_seed=5,
    )


class Held(Protocol):
    """A load that runs until it is stopped."""

    def stop(self) -> None:
        """End it; return when its connections are closed."""


class Drained:
    """Streams on bare sockets; a thread reads and throws away."""

    def __init__(self, target: Target, window: WindowRequest, *, counts: bool) -> None:
        order = PromptOrder(len(window.prompts), seed=window.order_seed, first=window.first_prompt)
        parts = urllib.parse.urlsplit(target.load_url)
        address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._over = threading.Event()
        self._sockets = []
        for number in range(window.concurrency):
            prompt = window.prompts[order.next()]
            sampling = sampling_of(window.sampling, temperature=window.temperature, index=number)
            body = streaming_body(target, prompt, sampling=sampling, continuous=counts)
            sock = socket.create_connection(address)
            sock.sendall(_head(target, address, len(body)) + body)
            self._sockets.append(sock)
        self._thread = threading.Thread(target=self._drain, name="drain")
        self._thread.start()

    def _drain(self) -> None:
        with selectors.DefaultSelector() as selector:
            for sock in self._sockets:
                selector.register(sock, selectors.EVENT_READ)
            while not self._over.is_set() and selector.get_map():
                for key, _ in selector.select(timeout=0.1):
                    if not key.fileobj.recv(65536):  # type: ignore[union-attr]
                        selector.unregister(key.fileobj)

    def stop(self) -> None:
        """Close the sockets: the engine ends the requests."""
        self._over.set()
        self._thread.join()
        for sock in self._sockets:
            sock.close()


def _head(target: Target, address: tuple[str, int], length: int) -> bytes:
    lines = (
        f"POST {path_of(target.api)} HTTP/1.1",
        f"Host: {address[0]}:{address[1]}",
        "Content-Type: application/json",
        "Accept-Encoding: identity",
        f"Content-Length: {length}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


class Watched:
    """A window of the probe's, which ends when the engine is said to be gone."""

    def __init__(self, probe: HttpProbe, target: Target, window: WindowRequest) -> None:
        self._over = threading.Event()
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._measure, args=(probe, target, window), name="probe")
        self._thread.start()

    def _measure(self, probe: HttpProbe, target: Target, window: WindowRequest) -> None:
        raw = probe.window(target, window, alive=lambda: not self._over.is_set())
        if raw.before is None or not self._over.is_set():
            self.problem = raw.detail or "the window ended by itself"

    def stop(self) -> None:
        """End the window."""
        self._over.set()
        self._thread.join()
        if self.problem is not None:
            raise RuntimeError(self.problem)


def serve(target: Target, window: WindowRequest) -> None:
    """Do as the lines of stdin say."""
    held: Held | None = None
    with HttpProbe(clock=SystemClock()) as probe:
        for line in sys.stdin:
            word = line.strip()
            try:
                if word == "stop":
                    if held is not None:
                        running, held = held, None
                        running.stop()
                elif word == "probe":
                    held = Watched(probe, target, window)
                else:
                    held = Drained(target, window, counts=word == "counts")
            except (OSError, RuntimeError) as error:
                print(f"failed {error}", flush=True)
                continue
            print("ok", flush=True)
        if held is not None:
            held.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Holds the streams of the disturbance benchmark.")
    parser.add_argument("load", help="JSON: url, model, streams, max_tokens")
    given = json.loads(parser.parse_args().load)
    serve(
        target_of(given["url"], given["model"]),
        window_of(streams=given["streams"], max_tokens=given["max_tokens"]),
    )
