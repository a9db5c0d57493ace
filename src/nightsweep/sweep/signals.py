"""Signals wait while something is put back: a second Ctrl-C must not leave an engine running or production down."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]

INTERRUPTS = (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP))

QUIET = 5.0
"""Seconds after an interrupt in which no further one is delivered. A service manager tells the whole process group and a
supervisor tells its child again: the second one, milliseconds later, would hit the cleanup that the first one started."""


class Terminated(BaseException):
    """The process was asked to end (SIGTERM). Not an Exception: nothing but cleanup may see it."""

    def __init__(self, signum: int = signal.SIGTERM) -> None:
        self.signum = signum
        super().__init__(f"received {signal.Signals(signum).name}")


class _Calm:
    """Hands an interrupt on, and none of those that come within `QUIET` after it, whichever they are."""

    def __init__(self) -> None:
        self._last: float | None = None

    def wrap(self, handler: Handler) -> Handler:
        def calm(signum: int, frame: FrameType | None) -> Any:
            now = time.monotonic()
            if self._last is not None and now - self._last < QUIET:
                return None
            self._last = now
            return handler(signum, frame)

        return calm


def raise_on_sigterm() -> None:
    """Turn SIGTERM, SIGHUP of a lost terminal and Ctrl-C into exceptions in the main thread: every `with` ends properly.

    What is ignored stays ignored: a sweep under `nohup` outlives its terminal.
    """
    calm = _Calm()
    for signum in INTERRUPTS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, calm.wrap(_raise))


def _raise(signum: int, frame: FrameType | None) -> None:
    if signum == signal.SIGINT:
        raise KeyboardInterrupt
    raise Terminated(signum)


def interrupt_behind(error: BaseException) -> BaseException | None:
    """Return the interrupt that an error came of, None when there is none.

    A library whose call was interrupted may fail over its own cleanup, and raise that instead.
    """
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, KeyboardInterrupt | Terminated):
        seen = seen.__context__
    return seen


def ignore_interrupts() -> None:
    """Ignore every further interrupt: the process is ending, each step of that has a limit, and none may be skipped."""
    for signum in INTERRUPTS:
        signal.signal(signum, signal.SIG_IGN)


@contextlib.contextmanager
def one_interrupt() -> Iterator[None]:
    """Let the handlers that are set, whoever set them, see the first of several interrupts in a row only.

    Only the main thread handles signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    calm = _Calm()
    before: dict[int, Any] = {}
    for signum in INTERRUPTS:
        handler = signal.getsignal(signum)
        if callable(handler):
            before[signum] = signal.signal(signum, calm.wrap(handler))
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Hold SIGINT, SIGTERM and SIGHUP back inside the block, and deliver the first of them after it.

    Only the main thread handles signals; elsewhere this does nothing.
    """
    with signals_held():
        yield


@contextlib.contextmanager
def signals_held() -> Iterator[Callable[[], bool]]:
    """As `signals_deferred`; yields a function that says whether one came meanwhile, for what takes long inside the block."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    pending: list[int] = []
    before: dict[int, Any] = {}
    for signum in INTERRUPTS:
        before[signum] = signal.signal(signum, lambda got, frame: pending.append(got))
    try:
        yield lambda: bool(pending)
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler if handler is not None else signal.SIG_DFL)
        if pending:
            signal.raise_signal(pending[0])
