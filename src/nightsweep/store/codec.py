"""Plain documents for JSONB, and packed ones for what is bulky.

Nothing is rounded: what is taken out is what was put in. A float that JSON cannot hold is its name as text; text that PostgreSQL
cannot hold (NUL, half of a surrogate pair: engines print anything) becomes U+FFFD; a secret becomes `***`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import accumulate
from typing import Any

from nightsweep.engine.values import LogLine
from nightsweep.measurement.values import OccupancySample, RequestAcceptance, RequestTiming
from nightsweep.ports import Secret
from nightsweep.units import MonotonicSeconds

JSON_ZLIB = "json+zlib"
BYTES_ZLIB = "zlib"
LATER = ("acceptance", "repetition")
"""Fields of a request that came later: absent where they say nothing, so that older windows are what they were."""
HUNDREDTH = Decimal("0.01")
NANO = 1_000_000_000.0

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SECRET_FLAG = re.compile(
    r"^-{1,2}(?:.*[-_.])?(?:api[-_]?key|token|secret|password|passwd|credentials?)$", re.IGNORECASE
)


def clean_text(text: str) -> str:
    """Return the text as PostgreSQL can hold it."""
    return _UNSTORABLE.sub("\ufffd", text)


def two_decimals(temperature: Decimal | float) -> Decimal:
    """Return the temperature as it is stored, exact to two decimals."""
    return Decimal(str(temperature)).quantize(HUNDREDTH)


def plain(value: Any) -> Any:
    """Return the value as JSON knows it: dataclasses become objects by field name, Decimals and times text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return "***" if isinstance(value, Secret) else clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): plain(member) for key, member in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(member) for member in value]
    return value.isoformat() if isinstance(value, datetime) else clean_text(str(value))


def without_secrets(command: Sequence[str]) -> list[str]:
    """Return the command line with the values of flags that name a key, token or password left out."""
    shown: list[str] = []
    hide_next = False
    for word in command:
        flag, equals, _ = word.partition("=")
        named = bool(_SECRET_FLAG.match(flag))
        if hide_next and not word.startswith("--"):
            shown.append("***")
        else:
            shown.append(f"{flag}=***" if named and equals else plain(word))
        hide_next = named and not equals
    return shown


# --- packed documents --------------------------------------------------------------------------------------------


def pack(document: Any) -> tuple[bytes, int]:
    """Return the document as compressed JSON, with its length before compression."""
    text = json.dumps(document, separators=(",", ":")).encode()
    return zlib.compress(text), len(text)


def unpack(codec: str, data: bytes) -> Any:
    """Return a packed document.

    Raises:
        ValueError: Packed in a way that this program does not know.
    """
    if codec != JSON_ZLIB:
        raise ValueError(f"unknown codec {codec!r}: stored by a newer program")
    return json.loads(zlib.decompress(data))


def digest(*parts: bytes) -> str:
    """Return a hash over the parts and where each ends."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(len(part).to_bytes(8, "big"))
        sha.update(part)
    return sha.hexdigest()


def pack_lines(lines: Sequence[LogLine]) -> tuple[bytes, int]:
    """Return log lines as compressed JSON rows [text, seconds, stream], with the length before."""
    return pack([[line.text, line.seconds, line.stream] for line in lines])


def unpack_lines(codec: str, data: bytes) -> list[LogLine]:
    """Return packed log lines."""
    return [LogLine(text=text, seconds=seconds, stream=stream) for text, seconds, stream in unpack(codec, data)]


def load_of(requests: Sequence[RequestTiming], samples: Sequence[OccupancySample]) -> dict[str, Any]:
    """Return per-request timings and occupancy samples as one document."""
    return {
        "requests": [_request_document(request) for request in requests],
        "samples": [[sample.at, sample.running, sample.waiting] for sample in samples],
    }


def read_load(document: Mapping[str, Any]) -> tuple[tuple[RequestTiming, ...], tuple[OccupancySample, ...]]:
    """Return what `load_of` was given."""
    requests = tuple(_request(each) for each in document["requests"])
    samples = tuple(
        OccupancySample(at=MonotonicSeconds(at), running=running, waiting=waiting)
        for at, running, waiting in document["samples"]
    )
    return requests, samples


def _request_document(request: RequestTiming) -> dict[str, Any]:
    document = {field.name: getattr(request, field.name) for field in dataclasses.fields(request)}
    document["chunk_at"] = _times(request.chunk_at)
    document["chunk_tokens"] = None if request.chunk_tokens is None else _steps(request.chunk_tokens)
    document["acceptance"] = None if request.acceptance is None else plain(request.acceptance)
    return {name: value for name, value in document.items() if value is not None or name not in LATER}


def _request(document: Mapping[str, Any]) -> RequestTiming:
    tokens = document["chunk_tokens"]
    return RequestTiming(
        **{
            **document,
            "chunk_at": _read_times(document["chunk_at"]),
            "chunk_tokens": None if tokens is None else tuple(accumulate(tokens)),
            "acceptance": _acceptance(document.get("acceptance")),
        }
    )


def _acceptance(document: Mapping[str, Any] | None) -> RequestAcceptance | None:
    if document is None:
        return None
    counts = document["histogram"]
    return RequestAcceptance(**{**document, "histogram": None if counts is None else tuple(counts)})


def _times(times: Sequence[float]) -> dict[str, Any]:
    """Return monotonic times as steps in nanoseconds (a third of the size), or as they are where that would round them.

    A monotonic clock's seconds are whole nanoseconds divided by 10**9, so that the way back is exact.
    """
    whole = [round(at * NANO) for at in times]
    exact = all(ns / NANO == at for ns, at in zip(whole, times, strict=True))
    return {"ns": _steps(whole)} if exact else {"s": list(times)}


def _read_times(document: Mapping[str, Any]) -> tuple[float, ...]:
    if "s" in document:
        return tuple(document["s"])
    return tuple(ns / NANO for ns in accumulate(document["ns"]))


def _steps(numbers: Sequence[int]) -> list[int]:
    return [after - before for before, after in zip((0, *numbers), numbers, strict=False)]
