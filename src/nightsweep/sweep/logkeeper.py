"""The boot log: read while the engine boots, and kept as it comes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from nightsweep.engine.compilation import compiles_for_a_request
from nightsweep.engine.values import BootFacts, LogLine
from nightsweep.errors import HostError, StoreError
from nightsweep.ports import BootLogReader, EngineHandle, Host, Store
from nightsweep.units import Seconds

CHUNK_LINES = 500
TAIL_LINES = 4000
LAST_WORDS = Seconds(1.0)
"""For which the end of a log is waited for once its engine has ended."""
STORE_PATIENCE = 10.0
"""Seconds that the end of a boot waits for its log to be stored; with PostgreSQL away the thread goes on by itself."""


class LogKeeper:
    """Follows one engine's log in a thread: feeds the reader, stores chunks, keeps the tail for the classifier.

    Args:
        hide: Takes secrets out of a line, before anything else sees it.
        now: The monotonic clock that windows are measured on.
    """

    def __init__(
        self,
        host: Host,
        handle: EngineHandle,
        *,
        store: Store,
        boot_id: int,
        reader: BootLogReader,
        interval: Seconds,
        hide: Callable[[str], str] = str,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._handle = host, handle
        self._store, self._boot_id = store, boot_id
        self._reader, self._interval, self._hide = reader, interval, hide
        self._lock = threading.Lock()
        self._pending: list[LogLine] = []
        self._head: list[str] = []
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._now = now
        self._compilations: list[tuple[float, str]] = []
        self._seq = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to follow."""
        for work, name in ((self._follow, "boot-log"), (self._flush_often, "boot-log-store")):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def finish(self, *, patience: Seconds) -> None:
        """Read the log out (the engine has ended), store the rest, end the threads."""
        self._read_out(patience)
        self._stop.set()
        for thread, timeout in zip(self._threads, (5.0, STORE_PATIENCE), strict=False):
            thread.join(timeout=timeout)

    def last_words(self) -> str:
        """Return the last line of an engine that has ended; what it wrote at its end may still be on the way here."""
        self._read_out(LAST_WORDS)
        return self.last_line()

    def _read_out(self, patience: Seconds) -> None:
        for thread in self._threads[:1]:
            thread.join(timeout=patience)

    def lines(self) -> tuple[str, ...]:
        """Return the log's beginning and its last lines, for the classifier."""
        with self._lock:
            return (*self._head, *self._tail)

    def last_line(self) -> str:
        """Return the newest line that is not empty."""
        with self._lock:
            return next((line for line in reversed((*self._head, *self._tail)) if line.strip()), "")

    def compilations(self, *, opened: float, closed: float) -> tuple[str, ...]:
        """Return the lines that tell of a kernel compiled for a request, by their arrival between two monotonic times."""
        with self._lock:
            return tuple(line for at, line in self._compilations if opened <= at <= closed)

    def facts(self) -> BootFacts:
        """Return what the log has said so far."""
        with self._lock:
            return self._reader.facts()

    def _follow(self) -> None:
        try:
            for raw in self._host.follow_log(self._handle, stop=self._stop.is_set):
                line = replace(raw, text=self._hide(raw.text))
                came = self._now()
                with self._lock:
                    if compiles_for_a_request(line.text):
                        self._compilations.append((came, line.text))
                    self._reader.feed(line)
                    self._pending.append(line)
                    (self._head if len(self._head) < TAIL_LINES else self._tail).append(line.text)
        except HostError as error:  # the engine itself is watched by others: a log that cannot be read ends no boot
            self.problem = str(error)

    def _flush_often(self) -> None:
        """Store what comes, and at the end what is left. This thread alone numbers the chunks."""
        while not self._stop.wait(self._interval):
            self._flush()
        if self._threads:
            self._threads[0].join(timeout=5.0)  # its last lines belong to the log too
        self._flush()

    def _flush(self) -> None:
        """Store what is in hand. A store that is away is tried again at the next turn; nothing is dropped."""
        while True:
            with self._lock:
                chunk = self._pending[:CHUNK_LINES]
            if not chunk:
                return
            try:
                self._store.add_log(self._boot_id, self._seq, chunk)
            except StoreError:
                return
            with self._lock:
                del self._pending[: len(chunk)]
                self._seq += 1
