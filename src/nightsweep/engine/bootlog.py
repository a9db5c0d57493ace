"""Boot-log readers: fed line by line while an engine boots, of a known engine or of one that shows itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from nightsweep.engine.bootlog_sglang import SglangLog
from nightsweep.engine.bootlog_vllm import VllmLog
from nightsweep.engine.lines import Line, lines_of
from nightsweep.engine.values import BootFacts, LogLine
from nightsweep.errors import UnknownEngine

KINDS = ("vllm", "sglang")


class _Log(Protocol):
    engine: str

    @property
    def recognised(self) -> bool: ...

    def take(self, line: Line, *, seconds: float | None) -> None: ...

    def facts(self) -> BootFacts: ...


class Reader:
    """A reader of one engine's boot log; see `ports.BootLogReader`."""

    def __init__(self, log: _Log) -> None:
        self._log = log

    def feed(self, line: LogLine) -> None:
        """Take the next line; any text is fine, nothing raises."""
        for message in lines_of(line.text):
            self._log.take(message, seconds=line.seconds)

    def facts(self) -> BootFacts:
        """Return what is known so far."""
        return self._log.facts()


class DetectingReader:
    """A reader for a log of unknown origin: both engines' readers look until one is sure."""

    def __init__(self) -> None:
        self._vllm = VllmLog()
        self._sglang = SglangLog()
        self._seen = {"vllm": 0, "sglang": 0}  # lines with an engine's own header

    def feed(self, line: LogLine) -> None:
        """Take the next line; any text is fine, nothing raises."""
        for message in lines_of(line.text):
            if message.style in self._seen:
                self._seen[message.style] += 1
            if self._seen["sglang"] <= self._seen["vllm"] or self._seen["vllm"] < _SURE:
                self._vllm.take(message, seconds=line.seconds)
            if self._seen["vllm"] <= self._seen["sglang"] or self._seen["sglang"] < _SURE:
                self._sglang.take(message, seconds=line.seconds)

    def facts(self) -> BootFacts:
        """Return what is known so far; `engine` is None while neither engine was recognised."""
        vllm, sglang = self._vllm.facts(), self._sglang.facts()
        if not self._vllm.recognised and not self._sglang.recognised:
            return self._unnamed()
        order = (self._seen["vllm"], _own(vllm)) >= (self._seen["sglang"], _own(sglang))
        return vllm if order else sglang

    def _unnamed(self) -> BootFacts:
        if self._seen["vllm"] != self._seen["sglang"]:
            return BootFacts(engine=max(self._seen, key=lambda kind: self._seen[kind]))
        return BootFacts()


_SURE = 50


def _own(facts: BootFacts) -> int:
    """Count the facts that only this engine words so; uvicorn's sentence is everybody's."""
    return sum(fact.name not in ("ready", "http_up") for fact in facts.facts)


def reader_for(kind: str | None) -> Reader | DetectingReader:
    """Return a fresh boot-log reader of an engine kind, or one that finds out when `kind` is None.

    Raises:
        UnknownEngine: `kind` is none that the product knows.
    """
    if kind is None:
        return DetectingReader()
    if kind == "vllm":
        return Reader(VllmLog())
    if kind == "sglang":
        return Reader(SglangLog())
    raise UnknownEngine(kind=kind, known=", ".join(KINDS))


def read(texts: Iterable[str], *, kind: str | None = None) -> BootFacts:
    """Return the facts of a whole log."""
    reader = reader_for(kind)
    for text in texts:
        reader.feed(LogLine(text=text))
    return reader.facts()
