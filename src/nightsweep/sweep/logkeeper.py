"""The boot log: read while the engine boots, and kept as it comes."""

from __future__ import annotations

import threading
from collections import deque

from nightsweep.engine.values import BootFacts, LogLine
from nightsweep.errors import StoreError
from nightsweep.ports import BootLogReader, Clock, EngineHandle, Host, Store
from nightsweep.units import Seconds

CHUNK_LINES = 500
TAIL_LINES = 4000


class LogKeeper:
    """Follows one engine's log in a thread: feeds the reader, stores chunks, keeps the tail for the classifier."""

    def __init__(
        self,
        host: Host,
        handle: EngineHandle,
        *,
        store: Store,
        boot_id: int,
        reader: BootLogReader,
        clock: Clock,
        interval: Seconds,
    ) -> None:
        self._host, self._handle = host, handle
        self._store, self._boot_id = store, boot_id
        self._reader, self._clock, self._interval = reader, clock, interval
        self._lock = threading.Lock()
        self._pending: list[LogLine] = []
        self._head: list[str] = []
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._seq = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="boot-log", daemon=True)
        self._flusher = threading.Thread(target=self._flush_often, name="boot-log-store", daemon=True)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()
        self._flusher.start()

    def finish(self, *, patience: Seconds) -> None:
        """Read the log out (the engine has ended), store the rest, end the threads."""
        self._thread.join(timeout=patience)
        self._stop.set()
        self._thread.join(timeout=5.0)
        self._flusher.join(timeout=5.0)
        self._flush()

    def lines(self) -> tuple[str, ...]:
        """Return the log's beginning and its last lines, for the classifier."""
        with self._lock:
            return (*self._head, *self._tail)

    def last_line(self) -> str:
        """Return the newest line that is not empty."""
        with self._lock:
            return next((line for line in reversed((*self._head, *self._tail)) if line.strip()), "")

    def facts(self) -> BootFacts:
        """Return what the log has said so far."""
        with self._lock:
            return self._reader.facts()

    def _follow(self) -> None:
        for line in self._host.follow_log(self._handle, stop=self._stop.is_set):
            with self._lock:
                self._reader.feed(line)
                self._pending.append(line)
                (self._head if len(self._head) < TAIL_LINES else self._tail).append(line.text)

    def _flush_often(self) -> None:
        while not self._stop.wait(self._interval):
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
