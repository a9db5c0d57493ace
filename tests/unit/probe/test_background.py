from __future__ import annotations

import asyncio
import threading

import pytest

from nightsweep.probe.background import Background


def test_alive_is_asked_on_the_callers_thread_and_its_no_reaches_the_coroutine() -> None:
    asked: list[str] = []

    def alive() -> bool:
        asked.append(threading.current_thread().name)
        return len(asked) < 3

    async def until_gone(gone: asyncio.Event) -> str:
        await gone.wait()
        return "gone"

    background = Background()
    try:
        assert background.run(until_gone, alive=alive, poll=0.01) == "gone"
    finally:
        background.close()
    assert asked == [threading.current_thread().name] * 3


def test_an_exception_in_the_callers_thread_lets_the_coroutine_clean_up_first() -> None:
    cleaned: list[bool] = []

    def alive() -> bool:
        raise KeyboardInterrupt

    async def forever(_: asyncio.Event) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(True)

    background = Background()
    try:
        with pytest.raises(KeyboardInterrupt):
            background.run(forever, alive=alive, poll=0.01)
        assert cleaned == [True]
    finally:
        background.close()


def test_an_error_of_the_coroutine_reaches_the_caller_and_closing_twice_is_fine() -> None:
    async def fails(_: asyncio.Event) -> None:
        raise TimeoutError("its own")

    background = Background()
    with pytest.raises(TimeoutError, match="its own"):
        background.run(fails, alive=lambda: True, poll=0.01)
    background.close()
    background.close()
    assert not [t for t in threading.enumerate() if t.name == "nightsweep-probe" and t.is_alive()]
