"""A container's log, followed over faults of the daemon: nothing lost, nothing doubled.

A followed stream that ends proves nothing: it ends normally when the daemon is restarted. So Docker is asked whether the
container has ended, and the log is taken up again where it was left until that is so and everything is read.

What Docker's own log file has lost cannot be had back: a character that straddles two 16 KiB pieces of one line becomes U+FFFD
there, and a progress bar shows only when its line ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import docker
import docker.errors
import requests

from nightsweep.engine.values import LogLine
from nightsweep.host.docker_client import AWAY, ClientFactory
from nightsweep.host.loglines import NANOS, STREAMS, FrameParser, HandedOut, LineAssembler, Record, nanoseconds
from nightsweep.ports import Clock
from nightsweep.units import Seconds

PAUSE = Seconds(0.2)
"""Between two tries to take the log up again, and between two looks at `stop`."""


class DockerLog:
    """Follows the log of one container, with a client of its own: a silent stream keeps its connection busy."""

    def __init__(
        self, container_id: str, *, client_factory: ClientFactory, stop: Callable[[], bool], clock: Clock
    ) -> None:
        self._id = container_id
        self._factory = client_factory
        self._stop = stop
        self._clock = clock
        self._client: docker.DockerClient | None = None
        self._started: int | None = None

    def lines(self) -> Iterator[LogLine]:
        """Yield lines until the container ended and all is read, or `stop()`."""
        assemblers: dict[int, LineAssembler] = {}
        last: Record | None = None
        try:
            for last in self._records():
                assembler = assemblers.setdefault(last.stream, LineAssembler())
                for text in assembler.feed(last.body):
                    yield self._line(text, last.stream, last.nanos)
            for stream, assembler in assemblers.items():
                for text in assembler.flush():
                    yield self._line(text, stream, last.nanos if last else None)
        finally:
            self._drop_client()

    def _line(self, text: str, stream: int, nanos: int | None) -> LogLine:
        known = nanos is not None and self._started is not None
        seconds = (nanos - self._started) / NANOS if known else None  # type: ignore[operator]
        return LogLine(text=text, seconds=seconds, stream=STREAMS.get(stream, ""))

    def _records(self) -> Iterator[Record]:
        handed_out = HandedOut()
        while not self._stop():
            try:
                ended = self._has_ended()
                for record in self._read(since=handed_out.rewind(), follow=not ended):
                    if handed_out.is_new(record):
                        yield record
                if ended:
                    return
            except docker.errors.NotFound:
                return
            except AWAY:
                self._drop_client()
            if not self._stop():
                self._clock.sleep(PAUSE)

    def _has_ended(self) -> bool:
        if self._client is None:
            self._client = self._factory()
        state = self._client.api.inspect_container(self._id)["State"]
        if not state["StartedAt"].startswith("0001-"):
            self._started = nanoseconds(state["StartedAt"])
        return not state["Running"] and not state.get("Restarting")

    def _read(self, *, since: str, follow: bool) -> Iterator[Record]:
        assert self._client is not None
        api = self._client.api
        # The SDK's own `logs` takes `since` in whole seconds or as a float; only the raw form is exact to the nanosecond.
        response = api.get(
            f"{api.base_url}/v{api.api_version}/containers/{self._id}/logs",
            params={"stdout": "1", "stderr": "1", "timestamps": "1", "follow": str(int(follow)), "since": since},
            stream=True,
            timeout=(10, None if follow else 60),
        )
        try:
            if response.status_code == requests.codes.not_found:
                raise docker.errors.NotFound("the container is gone")
            response.raise_for_status()
            frames = FrameParser()
            with _ended_by(self._stop, response):
                for chunk in response.iter_content(65536):
                    yield from frames.feed(chunk)
        finally:
            response.close()

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()


@contextmanager
def _ended_by(stop: Callable[[], bool], response: Any) -> Iterator[None]:
    """End a blocked read of `response` soon after `stop()` has become true."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(PAUSE):
            if stop():
                with suppress(ValueError, RuntimeError, OSError):  # the stream ended by itself meanwhile
                    response.raw.shutdown()
                return

    watcher = threading.Thread(target=watch, name="log-watch", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
