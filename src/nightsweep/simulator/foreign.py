"""Somebody else's requests inside the engine: they take their share of each step and count like anybody's."""

from __future__ import annotations

import math

from nightsweep.simulator.configtruth import ConfigTruth


class ForeignLoad:
    """Tokens at a set rate, made by as many streams as that takes at the config's acceptance length.

    Attributes:
        rate: Tokens per second, on the clock that `step` is given; 0 is none.
        streams: Streams that the last step had; they count in its batch.
    """

    def __init__(self) -> None:
        self.streams = 0
        self._rate = 0.0
        self._carry = 0.0

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self._rate

    @rate.setter
    def rate(self, value: float) -> None:
        self._rate = value
        self._carry = 0.0
        self.streams = 1 if value else 0

    def step(self, seconds: float, truth: ConfigTruth) -> tuple[int, list[int]]:
        """Return the tokens of a step of this length, and how many streams accepted 0, 1, ... k draft tokens."""
        due = self._rate * seconds + self._carry
        tokens = int(due)
        self._carry = due - tokens
        wanted = max(1, round(tokens / truth.acceptance_length(1.0, 1)), math.ceil(tokens / (truth.k + 1)))
        streams = min(tokens, wanted)
        self.streams = max(1, streams)
        accepted_by = [0] * (truth.k + 1)
        if streams:
            each, more = divmod(tokens - streams, streams)
            accepted_by[each] += streams - more
            if more:
                accepted_by[each + 1] += more
        return tokens, accepted_by
