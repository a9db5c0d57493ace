"""The one event loop: it runs in a thread of its own, and the caller's thread waits and watches."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

ALIVE_POLL = 0.5
"""Seconds: an engine's end must be noticed within one, and each question (a container is inspected) takes the streams' time."""

GIVE_UP = 10.0


class Background:
    """Runs coroutines from sync code. The loop starts with the first call and ends with `close`, or with the object.

    While a coroutine runs, the calling thread asks `alive` twice a second: what `alive` touches (a Docker
    client,
    a database session, a cancel request) stays on the caller's thread, and never delays a time stamp.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize[Any, Background] | None = None

    def run(
        self,
        make: Callable[[asyncio.Event], Coroutine[Any, Any, T]],
        *,
        alive: Callable[[], bool] | None = None,
        poll: float = ALIVE_POLL,
    ) -> T:
        """Return what the coroutine returns; an exception here (also KeyboardInterrupt) cancels it and lets it clean up.

        Args:
            make: Gets an event that is set once `alive` says no, and makes the coroutine.
            poll: Seconds between two questions to `alive`.
        """
        loop = self._started()
        gone = asyncio.Event()
        future: Future[T] = asyncio.run_coroutine_threadsafe(make(gone), loop)
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        try:
            while not done.wait(None if alive is None or gone.is_set() else poll):
                if alive is not None and not alive():
                    loop.call_soon_threadsafe(gone.set)
                    done.wait(poll)
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                _await_cleanup(loop)
            raise

    def close(self) -> None:
        """End the loop and its thread. Idempotent; a later call starts anew."""
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = None
            self._loop = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = _new_loop()
                thread = threading.Thread(target=loop.run_forever, name="nightsweep-probe", daemon=True)
                thread.start()
                self._loop = loop
                self._finalizer = weakref.finalize(self, _end, loop, thread)
            return self._loop


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return uvloop's loop where it is installed (reading a chunk costs half), else asyncio's."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _await_cleanup(loop: asyncio.AbstractEventLoop) -> None:
    """Wait until what was cancelled has run its `finally` blocks."""
    with contextlib.suppress(Exception):
        asyncio.run_coroutine_threadsafe(_all_ended(), loop).result(timeout=GIVE_UP)


async def _all_ended() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    if others:
        await asyncio.wait(others, timeout=GIVE_UP)


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    with contextlib.suppress(Exception):
        asyncio.run_coroutine_threadsafe(_cancel_all(), loop).result(timeout=GIVE_UP)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=GIVE_UP)
    if not thread.is_alive():
        loop.close()


async def _cancel_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
