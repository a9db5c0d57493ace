"""KV cache in blocks, with a prefix cache: whole blocks of a prompt are found again until their room is needed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

BLOCK = 16
"""Tokens of a block."""


def block_hashes(ids: Sequence[int]) -> tuple[int, ...]:
    """Return the hashes of a prompt's whole blocks; each stands for all tokens up to its end."""
    hashes = []
    before = 0
    for start in range(0, len(ids) - len(ids) % BLOCK, BLOCK):
        before = hash((before, tuple(ids[start : start + BLOCK])))
        hashes.append(before)
    return tuple(hashes)


class KvPool:
    """Blocks in use, blocks whose content is kept for others (least recently used goes first), and empty ones."""

    def __init__(self, tokens: int, *, caching: bool) -> None:
        self.total = tokens // BLOCK
        self.caching = caching
        self._empty = self.total
        self._shared: dict[int, int] = {}  # hash -> holders
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def usage(self) -> float:
        """Share of blocks that running requests hold; kept content that nobody holds does not count."""
        return 1.0 - (self._empty + len(self._idle)) / self.total if self.total else 0.0

    @property
    def available(self) -> int:
        """Blocks that can be had, with or without pushing kept content out."""
        return self._empty + len(self._idle)

    def known(self, hashes: Sequence[int]) -> int:
        """Return how many leading blocks are here."""
        if not self.caching:
            return 0
        for count, value in enumerate(hashes):
            if value not in self._shared and value not in self._idle:
                return count
        return len(hashes)

    def hold(self, hashes: Sequence[int]) -> None:
        """Hold blocks that are here."""
        for value in hashes:
            if value in self._idle:
                del self._idle[value]
                self._shared[value] = 1
            else:
                self._shared[value] += 1

    def take(self, count: int) -> bool:
        """Take `count` blocks without content; False, and nothing taken, when there are not enough."""
        if count > self.available:
            return False
        self._empty -= count
        while self._empty < 0:
            self._idle.popitem(last=False)
            self._empty += 1
        return True

    def publish(self, hashes: Sequence[int]) -> list[int]:
        """Make blocks that the caller took findable for others; returns those that nobody else had published."""
        if not self.caching:
            return []
        published = []
        for value in hashes:
            if value in self._shared:
                continue
            if value in self._idle:  # computed twice: the older copy goes
                del self._idle[value]
                self._empty += 1
            self._shared[value] = 1
            published.append(value)
        return published

    def release(self, hashes: Sequence[int], *, private: int) -> None:
        """Give back held blocks (their content is kept) and `private` ones."""
        self._empty += private
        for value in reversed(hashes):
            left = self._shared[value] - 1
            if left:
                self._shared[value] = left
            else:
                del self._shared[value]
                self._idle[value] = None

    def forget(self) -> None:
        """Drop all kept content that nobody holds (`/reset_prefix_cache`)."""
        self._empty += len(self._idle)
        self._idle.clear()
