"""Who reads which engine's log now."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from nightsweep.units import Seconds


class Followers:
    """Counts readers of logs by engine, so that a log is not removed under one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads: dict[str, list[int]] = {}

    @contextmanager
    def following(self, engine_id: str) -> Iterator[None]:
        """Count the calling thread as a reader."""
        thread = threading.get_ident()
        with self._changed:
            self._threads.setdefault(engine_id, []).append(thread)
        try:
            yield
        finally:
            with self._changed:
                self._threads[engine_id].remove(thread)
                self._changed.notify_all()

    def wait(self, engine_id: str, *, timeout: Seconds) -> bool:
        """Wait until nobody but the calling thread reads; False when somebody still does after `timeout`.

        The caller's own reader is at rest while the caller is here: waiting for it would be waiting for oneself.
        """
        mine = threading.get_ident()

        def others_done() -> bool:
            return all(thread == mine for thread in self._threads.get(engine_id, ()))

        with self._changed:
            return self._changed.wait_for(others_done, timeout)
