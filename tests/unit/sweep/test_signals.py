"""Interrupts: the first of several counts, and none strikes while something is put back."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from nightsweep.sweep import signals
from nightsweep.sweep.signals import Terminated, interrupt_behind, one_interrupt, raise_on_sigterm, signals_deferred


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {signum: signal.getsignal(signum) for signum in signals.INTERRUPTS}
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def send(signum: int) -> None:
    os.kill(os.getpid(), signum)


def test_sigterm_becomes_an_exception_that_only_cleanup_sees() -> None:
    raise_on_sigterm()
    with pytest.raises(Terminated, match="SIGTERM"):
        send(signal.SIGTERM)
    assert not issubclass(Terminated, Exception)


def test_a_second_interrupt_soon_after_the_first_is_not_delivered_whichever_it_is() -> None:
    raise_on_sigterm()
    with pytest.raises(Terminated):
        send(signal.SIGTERM)
    send(signal.SIGTERM)
    send(signal.SIGINT)


def test_an_interrupt_long_after_the_first_is_delivered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "QUIET", 0.0)
    raise_on_sigterm()
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            send(signal.SIGINT)


def test_what_is_ignored_stays_ignored_so_that_nohup_works() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise_on_sigterm()
    send(signal.SIGHUP)


def test_handlers_of_somebody_else_see_one_interrupt_of_a_row_and_are_put_back() -> None:
    seen: list[int] = []

    def theirs(signum: int, frame: object) -> None:
        seen.append(signum)

    signal.signal(signal.SIGTERM, theirs)
    with one_interrupt():
        send(signal.SIGTERM)
        send(signal.SIGTERM)
    assert seen == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is theirs


def test_deferred_signals_come_after_the_block_once() -> None:
    raise_on_sigterm()
    finished = []
    with pytest.raises(Terminated), signals_deferred():
        send(signal.SIGTERM)
        send(signal.SIGTERM)
        finished.append(True)
    assert finished == [True]


def test_an_interrupt_is_found_behind_the_error_that_a_library_made_of_it() -> None:
    try:
        try:
            raise Terminated
        finally:
            raise ValueError("connection in no state to be rolled back")
    except ValueError as error:
        assert isinstance(interrupt_behind(error), Terminated)
    assert interrupt_behind(ValueError("alone")) is None


def test_outside_the_main_thread_nothing_is_changed() -> None:
    problems: list[BaseException] = []

    def work() -> None:
        try:
            with signals_deferred(), one_interrupt():
                pass
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert problems == []


def test_an_interrupt_that_was_swallowed_is_handed_on_again_once() -> None:
    raise_on_sigterm()
    with one_interrupt() as interrupts:
        interrupts.again()  # none has come
        with contextlib.suppress(Terminated):  # as Python does in a finalizer
            send(signal.SIGTERM)
        with pytest.raises(Terminated):
            interrupts.again()
        interrupts.again()
