"""Boot-log readers: fed line by line while an engine boots, of a known engine or of one that shows itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from nightsweep.engine.bootlog_sglang import SglangLog
from nightsweep.engine.bootlog_vllm import VllmLog
from nightsweep.engine.lines import MAX_LINE, Line, header_of, lines_of, usual_header_of
from nightsweep.engine.values import BootFacts, LogLine
from nightsweep.errors import UnknownEngine

KINDS = ("vllm", "sglang")
MAX_WORDS = 4_096
"""First words whose answers are kept."""


class Listener(Protocol):
    """Somebody who wants some of a log's messages."""

    def wants(self, word: str, *, level: str) -> bool:
        """Return whether a message of this level that begins with this word matters."""


class _Log(Listener, Protocol):
    engine: str

    @property
    def recognised(self) -> bool: ...

    def take(self, line: Line, *, seconds: float | None) -> None: ...

    def facts(self) -> BootFacts: ...


class Skim:
    """Tells the many lines that hold no fact before they are taken apart, because most lines are such.

    Only a line of one writer is, with a header and a first word that no reader wants, or one whose end shows it to be a request
    or a progress bar.
    """

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)
        self._known: dict[tuple[str, str], bool] = {}

    def boring(self, text: str) -> bool:
        """Return whether nobody wants a text; any text is fine."""
        if not text:
            return True
        if len(text) > MAX_LINE or "\r" in text or "\n" in text or "\x1b" in text:
            return False
        found = usual_header_of(text)
        if found is None:
            end = text[-28:]
            if 'HTTP/1.1" ' in end or "it/s]" in end or "s/it]" in end:
                return text.count("pid=") < 2
            found = header_of(text)
            if found is None:
                return False
        at = found.end()
        if at == len(text):
            return True
        space = text.find(" ", at)
        word = text[at:space] if space >= 0 else text[at:]
        return not self._wanted(word, found.group(1) or "") and text.find("pid=", at) < 0 and text.find("[20", at) < 0

    def _wanted(self, word: str, level: str) -> bool:
        """Return whether somebody wants messages that begin so; words repeat, so that answers are kept."""
        known = self._known.get((level, word))
        if known is None:
            known = any(listener.wants(word, level=level) for listener in self._listeners)
            if len(self._known) < MAX_WORDS:
                self._known[(level, word)] = known
        return known


class Reader:
    """A reader of one engine's boot log; see `ports.BootLogReader`."""

    sure = True

    def __init__(self, log: _Log) -> None:
        self._log = log
        self.listeners: tuple[Listener, ...] = (log,)
        self._skim = Skim(self.listeners)

    def feed(self, line: LogLine) -> None:
        """Take the next line; any text is fine, nothing raises."""
        if self._skim.boring(line.text):
            return
        for message in lines_of(line.text):
            self.take(message, seconds=line.seconds)

    def take(self, message: Line, *, seconds: float | None = None) -> None:
        """Take the next message, when somebody else took the line apart."""
        self._log.take(message, seconds=seconds)

    def facts(self) -> BootFacts:
        """Return what is known so far."""
        return self._log.facts()


class DetectingReader:
    """A reader for a log of unknown origin: both engines' readers look until one is sure."""

    def __init__(self) -> None:
        self._vllm = VllmLog()
        self._sglang = SglangLog()
        self.listeners: tuple[Listener, ...] = (self._vllm, self._sglang)
        self._skim = Skim(self.listeners)
        self._seen = {"vllm": 0, "sglang": 0}  # lines with an engine's own header

    def feed(self, line: LogLine) -> None:
        """Take the next line; any text is fine, nothing raises."""
        if self.sure and self._skim.boring(line.text):
            return
        for message in lines_of(line.text):
            self.take(message, seconds=line.seconds)

    def take(self, message: Line, *, seconds: float | None = None) -> None:
        """Take the next message, when somebody else took the line apart."""
        seen = self._seen
        if message.style in seen:
            seen[message.style] += 1
        if seen["vllm"] >= seen["sglang"] or seen["sglang"] < _SURE:
            self._vllm.take(message, seconds=seconds)
        if seen["sglang"] >= seen["vllm"] or seen["vllm"] < _SURE:
            self._sglang.take(message, seconds=seconds)

    @property
    def sure(self) -> bool:
        """Whether enough lines with a header came that boring ones need not be counted any more."""
        return self._seen["vllm"] >= _SURE or self._seen["sglang"] >= _SURE

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
