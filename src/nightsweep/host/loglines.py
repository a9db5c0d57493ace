"""From raw output to log lines: frames, timestamps, carriage returns, colours, bad bytes. Pure.

Source:
    Docker Engine API, "Stream format" of POST /containers/{id}/attach: 8 bytes of header (stream, 0, 0, 0, big-endian length).
"""

from __future__ import annotations

import re
import struct
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

ANSI = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")
SEGMENT = re.compile(rb"([^\r\n]*)(\r\n|\r|\n)")
STREAMS = {1: "stdout", 2: "stderr"}
NANOS = 10**9
LONGEST_LINE = 4 * 1024 * 1024
"""Bytes after which an unended line is handed out in parts: a binary stream must not fill the memory."""


class LineAssembler:
    """Puts pieces of one stream together to lines.

    A progress bar's carriage returns end lines of their own; empty repaints are dropped, truly empty lines are kept.
    """

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_length = 0
        self._after_return = False

    def feed(self, piece: bytes) -> list[str]:
        """Return the lines that `piece` completes. Linear in the length of all pieces, also of one endless line."""
        cut = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        lines: list[str] = []
        if cut:
            complete = b"".join((*self._rest, piece[:cut]))
            self._rest, self._rest_length = [], 0
            for match in SEGMENT.finditer(complete):
                lines.extend(self._line(match.group(1), ended_by=match.group(2)))
        if piece[cut:]:
            self._rest.append(piece[cut:])
            self._rest_length += len(piece) - cut
        if self._rest_length > LONGEST_LINE:
            lines.extend(self.flush())
        return lines

    def flush(self) -> list[str]:
        """Return what was left without a line end."""
        rest = b"".join(self._rest)
        self._rest, self._rest_length = [], 0
        return [plain(rest)] if rest else []

    def _line(self, segment: bytes, *, ended_by: bytes) -> list[str]:
        repainting = self._after_return or ended_by == b"\r"
        self._after_return = ended_by == b"\r"
        text = plain(segment)
        return [text] if text or not repainting else []


def plain(segment: bytes) -> str:
    """Return text without terminal colours and trailing blanks; a byte that is not UTF-8 becomes U+FFFD, NUL too."""
    return ANSI.sub(b"", segment).decode("utf-8", "replace").replace("\x00", "\ufffd").rstrip()


@dataclass(frozen=True)
class Record:
    """One record of a container's log: at most 16 KiB of one line."""

    stream: int
    nanos: int
    body: bytes


class FrameParser:
    """Docker's multiplexed log stream (no tty) with timestamps, cut into records."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Yield the records that `chunk` completes."""
        self._buffer += chunk
        start = 0
        while len(self._buffer) - start >= 8:
            stream, length = struct.unpack_from(">BxxxI", self._buffer, start)
            end = start + 8 + length
            if len(self._buffer) < end:
                break
            stamp, _, body = bytes(self._buffer[start + 8 : end]).partition(b" ")
            start = end
            yield Record(stream=stream, nanos=nanoseconds(stamp.decode("ascii")), body=body)
        del self._buffer[:start]


class HandedOut:
    """Remembers the newest records, so that a log can be taken up again: nothing lost, nothing doubled.

    Docker stamps a record before it is written, and stdout and stderr are copied by two threads: the file is not quite in
    the order of its stamps. So reading starts again `MARGIN` before the newest stamp, and what was handed out already is
    skipped, counted (the 16 KiB pieces of a long line share one stamp and may be equal).
    """

    MARGIN = 2 * NANOS

    def __init__(self) -> None:
        self._newest = 0
        self._recent: deque[tuple[int, int, int]] = deque()
        self._expected: Counter[tuple[int, int, int]] = Counter()

    def rewind(self) -> str:
        """Begin to read again; return where, as Docker's `since` takes it: "<seconds>.<nanoseconds>"."""
        self._expected = Counter(self._recent)
        since = max(0, self._newest - self.MARGIN)
        return f"{since // NANOS}.{since % NANOS:09d}"

    def is_new(self, record: Record) -> bool:
        """Return whether this record was not handed out before, and remember it."""
        key = (record.nanos, record.stream, hash(record.body))
        if self._expected[key] > 0:
            self._expected[key] -= 1
            return False
        self._newest = max(self._newest, record.nanos)
        self._recent.append(key)
        while self._recent[0][0] < self._newest - self.MARGIN:
            self._recent.popleft()
        return True


def nanoseconds(stamp: str) -> int:
    """Return nanoseconds since 1970 of an RFC 3339 time with up to nine decimals, as Docker writes it.

    Raises:
        ValueError: It is not such a time.
    """
    match = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", stamp)
    if match is None:
        raise ValueError(f"not a time as Docker writes it: {stamp!r}")
    whole, decimals, zone = match.groups()
    seconds = int(datetime.fromisoformat(whole + zone.replace("Z", "+00:00")).timestamp())
    return seconds * NANOS + int((decimals or "").ljust(9, "0"))
