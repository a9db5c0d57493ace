"""Signals wait while something is put back: a second Ctrl-C must not leave an engine running or production down."""

from __future__ import annotations

import contextlib
import functools
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


PLAIN = "nightsweep_plain"
"""Attribute of a calmed handler: the one that it hands interrupts on to."""


class Terminated(BaseException):
    """The process was asked to end (SIGTERM). Not an Exception: nothing but cleanup may see it."""

    def __init__(self, signum: int = signal.SIGTERM) -> None:
        self.signum = signum
        super().__init__(f"received {signal.Signals(signum).name}")


class Calm:
    """Hands an interrupt on, and none of those that come within `QUIET` after it, whichever they are."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._handed_on: Callable[[], Any] | None = None

    def wrap(self, handler: Handler) -> Handler:
        """Return the handler that is to be set in place of this one."""

        def calm(signum: int, frame: FrameType | None) -> Any:
            now = time.monotonic()
            if self._last is not None and now - self._last < QUIET:
                return None
            self._last = now
            self._handed_on = functools.partial(getattr(handler, PLAIN, handler), signum, None)
            return handler(signum, frame)

        setattr(calm, PLAIN, getattr(handler, PLAIN, handler))  # a calm one around it must not be calmed twice
        return calm

    def again(self) -> None:
        """Hand an interrupt on once more whose exception was swallowed: for places that are not reached after one.

        Python drops what is raised while it runs a finalizer or a weak reference's callback, and an interrupt may well strike
        there. Only the main thread handles signals; elsewhere this does nothing.
        """
        handed_on = self._handed_on
        if handed_on is not None and threading.current_thread() is threading.main_thread():
            self._handed_on = None
            handed_on()


def raise_on_sigterm(tell: Callable[[str], object] = lambda name: None) -> Calm:
    """Turn SIGTERM, SIGHUP of a lost terminal and Ctrl-C into exceptions in the main thread: every `with` ends properly.

    What is ignored stays ignored: a sweep under `nohup` outlives its terminal. Returns what can hand one on again.

    Args:
        tell: Called with the signal's name when one is heeded: what follows may take minutes, and somebody waits.
    """

    def heed(signum: int, frame: FrameType | None) -> None:
        tell(signal.Signals(signum).name)
        _raise(signum, frame)

    calm = Calm()
    for signum in INTERRUPTS:
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, calm.wrap(heed))
    return calm


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
def one_interrupt() -> Iterator[Calm]:
    """Let the handlers that are set, whoever set them, see the first of several interrupts in a row only.

    Yields what can hand an interrupt on again.

    Only the main thread handles signals; elsewhere this does nothing.
    """
    calm = Calm()
    if threading.current_thread() is not threading.main_thread():
        yield calm
        return
    before: dict[int, Any] = {}
    for signum in INTERRUPTS:
        handler = signal.getsignal(signum)
        if callable(handler):
            before[signum] = signal.signal(signum, calm.wrap(handler))
    try:
        yield calm
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
