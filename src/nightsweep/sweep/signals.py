"""Signals wait while something is put back: a second Ctrl-C must not leave an engine running or production down."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Terminated(BaseException):
    """The process was asked to end (SIGTERM). Not an Exception: nothing but cleanup may see it."""

    def __init__(self, signum: int = signal.SIGTERM) -> None:
        self.signum = signum
        super().__init__(f"received {signal.Signals(signum).name}")


def raise_on_sigterm() -> None:
    """Turn SIGTERM, and SIGHUP of a lost terminal, into `Terminated` in the main thread: every `with` ends properly."""

    def handler(signum: int, frame: FrameType | None) -> None:
        raise Terminated(signum)

    signal.signal(signal.SIGTERM, handler)
    with contextlib.suppress(ValueError, OSError):
        signal.signal(signal.SIGHUP, handler)


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Hold SIGINT, SIGTERM and SIGHUP back inside the block, and deliver the first of them after it.

    Only the main thread handles signals; elsewhere this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    before: dict[int, Any] = {}
    for signum in (int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP)):
        before[signum] = signal.signal(signum, lambda got, frame: pending.append(got))
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler if handler is not None else signal.SIG_DFL)
        if pending:
            signal.raise_signal(pending[0])
