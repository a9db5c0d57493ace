"""A box whose samples are written down: one is told each time that somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from nightsweep.measurement.boxstate import BoxSample
from nightsweep.ports import Clock, EngineHandle, PageCacheDrop
from nightsweep.units import Bytes, MonotonicSeconds, Seconds

CACHED = Bytes(7 << 30)


@dataclass
class FakeWatch:
    """Samples at every `every` seconds from its start to now."""

    clock: Clock
    sample_at: Callable[[MonotonicSeconds], BoxSample]
    every: Seconds
    began: MonotonicSeconds

    def samples(self) -> tuple[BoxSample, ...]:
        passed = self.clock.monotonic() - self.began
        moments = [MonotonicSeconds(self.began + self.every * place) for place in range(int(passed / self.every) + 1)]
        return tuple(replace(self.sample_at(at), at=at) for at in moments)


@dataclass
class FakeBoxSampler:
    """Implements `ports.BoxSampler`.

    Attributes:
        sample_at: What a sample at a moment says.
        refused: Why the page cache is not freed; None frees it.
        calls: What was asked, in order: ("watch", boot_key), ("drop", "").
    """

    clock: Clock
    sample_at: Callable[[MonotonicSeconds], BoxSample] = lambda at: BoxSample(at=at)
    cores: int = 8
    refused: str | None = None
    cached: Bytes = CACHED
    calls: list[tuple[str, str]] = field(default_factory=list)

    @contextmanager
    def watch(self, handle: EngineHandle, *, every: Seconds) -> Iterator[FakeWatch]:
        self.calls.append(("watch", handle.boot_key))
        yield FakeWatch(self.clock, self.sample_at, every, self.clock.monotonic())

    def page_cache(self) -> Bytes:
        return self.cached

    def drop_page_cache(self) -> PageCacheDrop:
        self.calls.append(("drop", ""))
        before = self.cached
        if self.refused is None:
            self.cached = Bytes(1 << 30)
        return PageCacheDrop(before=before, after=self.cached, refused=self.refused)
