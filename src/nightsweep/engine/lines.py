"""Log lines as engines and their carriers write them: prefixes, colours, ranks and levels taken apart.

A physical line may come stacked in prefixes (docker compose, journald, Ray, a quoting mail program), coloured, cut, with two
writers on one line, or as a JSON object. Nothing here raises, and the cost is linear in the line's length.

Source:
    vLLM `logger.py`, `utils/system_utils.py`, 0.6.0 to 0.33.0; SGLang `srt/utils` and `entrypoints/engine.py`, 0.4.0 to
    0.5.23.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

MAX_LINE = 65_536
"""Characters of one line that are looked at; the rest of a longer line cannot hold a fact of ours."""

HEADER_WINDOW = 400
"""Where a header must begin: stacked prefixes are shorter than this."""

HEADER = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)? "
    r"(?:\[([^\]\s]{1,200}:\d{1,6})\]|([\w./\\-]{1,200}:\d{1,6})\]) ?"
    r"|\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?((?: [A-Z_]{2,12}\d{1,5})*)\] "
    r"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} - ([A-Z]{4,8}) - (?:[\w./-]{1,80}:\d{1,6} - )?"
)
"""The header of a vLLM line (level, [file:line]), of an SGLang line ([time ranks]), or of Python's own logging."""

_PREFIX = re.compile(
    r"\s+|>\s?|\[[oe]\]\s"  # indentation, quoting, stream tags
    r"|<\d{1,3}>|\[(?:pod|container)/[\w./-]{1,200}\]\s"  # syslog priority, kubectl --prefix
    r"|\([^()\n]{0,120}\bpid=\d+[^()\n]{0,120}\)\s?"  # (EngineCore pid=7), (RayWorkerWrapper pid=7, ip=10.0.0.2)
    r"|\[(?:Stage-\d+|rank\d+)\]:?\s?"  # vLLM-Omni stages, torch ranks
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)\s(?:std(?:out|err)\s[FP]\s)?"  # docker -t, CRI
    r"|(?:[A-Z][a-z]{2}\s[ \d]\d\s\d\d:\d\d:\d\d\s)?[\w.-]{1,80}\s[\w.@/-]{1,80}\[\d+\]:\s"  # journald, syslog
    r"|[A-Za-z0-9][\w.-]{0,80}\s{0,40}\|\s"  # docker compose
    r"|\d{1,7}\.\d{3}\s"  # seconds since start, as our own recordings have
    r"|\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?:\]:?\s?|:\s+|\s+(?=\S))"  # uvicorn and friends; a header cut behind its level
    r"|\[?[\w./\\-]{1,200}\.(?:py|cc|cpp):\d{1,6}(?:\]:?|:)?\s"  # a header cut before its file and line
    r"|\[?(?:\d{4}[-/])?\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?\]?(?:\s|(?=\[))"  # its date and time
    r"|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s"  # its time
    r"|[IWEF]\d{4}\s\d\d:\d\d:\d\d(?:\.\d+)?\s+(?:\d{1,7}\s)?"  # glog
    r"|[\w.=-]{0,40} ?\bpid=\d+\)\s|\((?:EngineCore|Worker|APIServer|VllmWorker)\w{0,40}\)\s"  # a cut or shortened writer
    r"|(?:EngineCore|Worker|APIServer|VllmWorker)\w{0,40}:\s"
    r"|\[\d{1,5},\d{1,5}\]<std(?:out|err)>:\s?|\d{1,5}:\s?(?=\D)|[a-z][a-z-]{0,40}\d{1,5}:\s"  # mpirun, srun --label, grep -n
    r"|[-*•»│|]\s|\d{1,3}\.\s|\*\*|`{1,3}|[\ufeff\u200b]"  # bullets, tables, code marks, byte-order mark
)
_WRITER = re.compile(r"\([\w.-]{1,60}(?: [\w=.]{1,40})? pid=\d+\) ")
_SECONDS = re.compile(r"\s*(\d{1,7}\.\d{3})\s")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\[\d{1,2}(?:;\d{1,2})*m")
_PIECES = re.compile(r"[\r\n]+")
_RANK = re.compile(r"(?<![A-Za-z])(DP|PP|TP)(\d{1,5})")
_PID = re.compile(r"\bpid=(\d{1,10})")
_WORKER_RANK = re.compile(r"\brank=?(\d{1,5})")
_ENGINE_INDEX = re.compile(r"EngineCore_(\d{1,5})\b")
_LEVEL = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
_JSON_MESSAGE = ("message", "msg", "log", "MESSAGE", "event")
_JSON_LEVEL = ("level", "levelname", "severity")

RankKey = tuple[int, int, int, int]


class Line(NamedTuple):
    """One message of one writer.

    Attributes:
        message: The text after all prefixes.
        level: "INFO", "WARNING", ...; "" where the line tells none.
        source: The writer's file and line number, as far as told.
        prefix: Everything before the header, or the stripped prefixes.
        raw: The line as it came, without colours.
        headed: Whether an engine's own header was there, so that the message is the engine's for sure.
        style: "vllm", "sglang" or "" by the form of the header.
    """

    message: str
    level: str
    source: str
    prefix: str
    raw: str
    headed: bool
    style: str

    @property
    def rank(self) -> str | None:
        """The writer's rank, such as "TP1" or "DP0_TP1"; None where the line tells none."""
        return rank_of(self.prefix)

    @property
    def writer(self) -> tuple[str | None, str]:
        """The process that wrote it, as far as told: rank and the last process number of the prefix ("" without one)."""
        numbers = _PID.findall(self.prefix) if "pid=" in self.prefix else ()
        return self.rank, numbers[-1] if numbers else ""


def pieces(text: str) -> Iterator[str]:
    """Yield the physical lines of a text, without colours, each cut at `MAX_LINE` characters; empty ones are left out."""
    parts = _PIECES.split(text) if "\n" in text or "\r" in text else (text,)
    for part in parts:
        if not part:
            continue
        cut = part[:MAX_LINE] if len(part) > MAX_LINE else part
        if "\x1b" in cut or "0m" in cut or "6m" in cut:
            cut = _ANSI.sub("", cut)
        yield cut


def usual_header_of(text: str) -> re.Match[str] | None:
    """Return the header where most lines have it: SGLang's at the start, vLLM's at level INFO behind one short prefix."""
    at = 0 if text[:3] == "[20" else text.find("INFO ", 0, HEADER_WINDOW)
    if at == 0 or (at > 0 and text.find("] ", 0, at) < 0):
        return HEADER.match(text, at)
    return None


def header_of(text: str) -> re.Match[str] | None:
    """Return the first header of a text, or None. Searching tries every place: the usual one is looked at first."""
    found = usual_header_of(text)
    if found is None and ("]" in text or " - " in text):
        found = HEADER.search(text, 0, HEADER_WINDOW)
    return found


def lines_of(text: str) -> Iterator[Line]:
    """Yield the messages of a text: several when it holds several physical lines, or two writers on one."""
    for piece in pieces(text):
        yield from messages(piece)


def messages(piece: str) -> Iterator[Line]:
    """Yield the messages of one physical line."""
    if piece[:1] == "{" or piece[:2] == " {":
        unpacked = _from_json(piece)
        if unpacked is not None:
            yield unpacked
            return
    rest = piece
    for _ in range(8):  # several writers on one physical line; more than a few is no log
        found = header_of(rest)
        if found is None:
            yield headless(rest)
            return
        inner = _inner_header(rest, after=found.end())
        yield headed(rest if inner is None else rest[:inner], found)
        if inner is None:
            return
        rest = rest[inner:]


def headed(text: str, found: re.Match[str]) -> Line:
    """Return the line of a text in which `found` is the header."""
    level, source, old_source, ranks, plain_level = found.groups()
    style = "vllm" if level else "sglang" if ranks is not None else ""
    prefix = text[: found.start()] + (ranks or "")
    message = _once(text[found.end() :])
    return Line(message, level or plain_level or "", source or old_source or "", prefix, text, True, style)


def headless(text: str) -> Line:
    """Return the line of a text without a header: known prefixes are taken off its front."""
    at, end = 0, len(text)
    for _ in range(12):
        found = _PREFIX.match(text, at, min(end, at + HEADER_WINDOW))
        if found is None or found.end() == at:
            break
        at = found.end()
    prefix = text[:at]
    level = _LEVEL.search(prefix) if prefix else None
    return Line(_once(text[at:]), level.group(1) if level else "", "", prefix, text, False, "")


def _once(message: str) -> str:
    """Return a message without Ray's word on how often it came: "... [repeated 3x across cluster]"."""
    at = message.find(" [repeated ") if message[-1:] in "])" else -1
    return message[:at] if at >= 0 and "x across " in message[at : at + 40] else message


def seconds_of(text: str) -> float | None:
    """Return the seconds since start that a recorded line begins with ("   12.166 (APIServer ..."), or None."""
    found = _SECONDS.match(text)
    return float(found.group(1)) if found else None


@lru_cache(maxsize=1024)
def rank_of(prefix: str) -> str | None:
    """Return the rank that a prefix tells: "TP1", "DP0_TP1", "DP1", or None."""
    if not prefix:
        return None
    parts = _ranks(prefix)
    return "_".join(f"{kind}{number}" for kind, number in parts.items()) or None


@lru_cache(maxsize=1024)
def rank_key(prefix: str) -> RankKey:
    """Return what orders writers: data, pipeline, tensor rank; a V0 worker process that does not tell its rank comes last."""
    if not prefix:
        return (0, 0, 0, 0)
    parts = _ranks(prefix)
    unnamed = 1 if "VllmWorkerProcess" in prefix or "RayWorkerWrapper" in prefix else 0
    return (parts.get("DP", 0), parts.get("PP", 0), parts.get("TP", 0), unnamed)


def _ranks(prefix: str) -> dict[str, int]:
    parts = {kind: int(number) for kind, number in _RANK.findall(prefix)}
    if "TP" not in parts and "rank" in prefix:
        worker = _WORKER_RANK.search(prefix)
        if worker:
            parts["TP"] = int(worker.group(1))
    if "DP" not in parts and "EngineCore_" in prefix:
        engine = _ENGINE_INDEX.search(prefix)
        if engine:
            parts["DP"] = int(engine.group(1))
    return parts


def _inner_header(text: str, *, after: int) -> int | None:
    """Return where a second writer's text begins on the same line, or None."""
    if text.find("pid=", after) >= 0 and text.find("(", after) >= 0:
        for header in HEADER.finditer(text, after):
            writer = _WRITER.search(text, max(after, header.start() - 160), header.start())
            if writer is not None:
                return writer.start()
    at = text.find("[20", after)
    return at if at >= 0 and HEADER.match(text, at) is not None else None


def _from_json(piece: str) -> Line | None:
    """Return the line that a JSON log record holds, or None when it is not one."""
    try:
        record = json.loads(piece)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    message = next((record[key] for key in _JSON_MESSAGE if isinstance(record.get(key), str)), None)
    if message is None:
        return None
    inner = next(iter(pieces(message)), "")
    found = HEADER.search(inner, 0, min(len(inner), HEADER_WINDOW))
    if found is not None:
        return headed(inner, found)
    line = headless(inner)
    level = next((record[key] for key in _JSON_LEVEL if isinstance(record.get(key), str)), "")
    process = record.get("process_name") or record.get("processName") or ""
    style = "vllm" if str(record.get("name", record.get("logger", ""))).startswith("vllm") else ""
    prefix = f"({process})" if isinstance(process, str) and process else line.prefix
    return Line(line.message, level.upper() or line.level, "", prefix, piece, bool(style), style)
