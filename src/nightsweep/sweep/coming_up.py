"""What is said while a measurement waits: for hundreds of streams to come up, for the engine to run them or to be idle.

That takes tens of seconds, in which nothing else is heard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from nightsweep.ports import Clock, WindowRequest
from nightsweep.units import MonotonicSeconds

SAID_EVERY = 10.0
"""Seconds between two words of one load."""


@dataclass
class ComingUp:
    """Says how many streams have had their first token: every `SAID_EVERY` seconds until all have, and once more then.

    What else the probe waits for is said as seldom, for as long as it does.

    Attributes:
        what: The load, for people.
        streams: 0 where there is no load, and only the rest is said.
    """

    what: str
    streams: int
    say: Callable[[str, str], None]
    clock: Clock
    _up: int = 0
    _told: bool = False
    _waiting: str = ""
    _begun: MonotonicSeconds = field(init=False)
    _said: MonotonicSeconds = field(init=False)

    def __post_init__(self) -> None:
        self._begun = self._said = self.clock.monotonic()

    def note(self, up: int) -> None:
        """Note how many are up; called by the probe, in a thread of its own."""
        self._up = up

    def note_waiting(self, what: str) -> None:
        """Note what is waited for, "" for nothing any more; called by the probe, in a thread of its own."""
        self._waiting = what

    def look(self) -> None:
        """Say what is to be said by now; called by the loop, several times a second."""
        now = self.clock.monotonic()
        if self._up >= self.streams and self._told:
            self._told = False
            which = "the stream is up" if self.streams == 1 else f"all {self.streams} streams are up"
            self.say("ramp", f"{self.what}: {which}, after {now - self._begun:.0f} s")
        waiting = self._waiting
        if waiting and now - self._said >= SAID_EVERY:
            self._said = now
            self.say("waiting", f"{self.what}: waiting {waiting}, after {now - self._begun:.0f} s")
        elif self._up < self.streams and now - self._said >= SAID_EVERY:
            self._said, self._told = now, True
            which = (
                "the stream has had no token yet"
                if self.streams == 1
                else f"{self._up} of {self.streams} streams have had their first token"
            )
            said = f"{which}, after {now - self._begun:.0f} s"
            self.say("ramp", f"{self.what}: {said}")

    def noted_in(self, request: WindowRequest) -> WindowRequest:
        """Return the request with its streams noted here."""
        return replace(request, coming_up=self.note, waiting=self.note_waiting)

    def beside(self, alive: Callable[[], bool]) -> Callable[[], bool]:
        """Return `alive`, which is asked several times a second, with a look here."""

        def ask() -> bool:
            self.look()
            return alive()

        return ask
