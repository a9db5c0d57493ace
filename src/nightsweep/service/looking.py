"""The dispatcher's looks, one every few seconds; what is away for a while is told once and asked again at the next look."""

from __future__ import annotations

from collections.abc import Callable

from nightsweep.errors import SweepError
from nightsweep.ports import Clock
from nightsweep.service.dispatch import Dispatcher
from nightsweep.units import MonotonicSeconds, Seconds

EVERY = Seconds(2.0)


class Looking:
    """Called as often as one likes; looks every `EVERY` seconds."""

    def __init__(self, dispatcher: Dispatcher, *, clock: Clock, say: Callable[[str], None]) -> None:
        self._dispatcher, self._clock, self._say = dispatcher, clock, say
        self._next = clock.monotonic()
        self._trouble: str | None = None

    def __call__(self) -> None:
        """Look if it is time to. What is away ends no service: nothing is lost, and the next look does the same."""
        if self._clock.monotonic() < self._next:
            return
        try:
            self._dispatcher.tick(self._clock.now())
        except SweepError as error:
            self._tell(error, str(error))
        except Exception as error:  # noqa: BLE001  a sweep that runs on this service must not die of it
            self._tell(error, f"{type(error).__name__}: {error}")
        else:
            if self._trouble is not None:
                self._say("schedules: it answers again")
            self._trouble = None
        finally:
            self._next = MonotonicSeconds(self._clock.monotonic() + EVERY)

    def _tell(self, error: Exception, said: str) -> None:
        if self._trouble != type(error).__name__:
            self._say(f"schedules: {said}; it is tried again every few seconds")
        self._trouble = type(error).__name__
