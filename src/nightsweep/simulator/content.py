"""What the simulator answers, and what hangs on a prompt's content: how hard it is to draft, how long its answer is.

Everything follows from the prompt's key and the seeds, so that the same prompt is as easy or hard under every config.
"""

from __future__ import annotations

import hashlib
import json
import math
from itertools import accumulate
from statistics import NormalDist

from nightsweep.simulator import tokenizer

_NORMAL = NormalDist()
_SOURCE = '''
def parse_header(line):
    """Return a dict of the fields in a header line."""
    result = {}
    for part in line.split(";"):
        key, value = part.split("=", 1)
        result[key.strip().lower()] = value.strip()
    return result


class Record:
    """One row of the table, with its state and the time of its last update."""

    def __init__(self, name, values=None):
        self.name = name
        self.values = list(values or [])
        self.state = "new"

    def append(self, value):
        if value is None:
            raise ValueError("a record takes no empty value")
        self.values.append(value)
        return len(self.values)

    def total(self):
        return sum(item for item in self.values if item > 0)


async def read_all(source, *, limit=100):
    """Read lines from the source until it ends or the limit is reached."""
    lines = []
    while len(lines) < limit:
        line = await source.read()
        if not line:
            break
        lines.append(line)
    return lines


def merge(first, second):
    """Merge two sorted lists into one sorted list."""
    merged = []
    i = j = 0
    while i < len(first) and j < len(second):
        if first[i] <= second[j]:
            merged.append(first[i])
            i += 1
        else:
            merged.append(second[j])
            j += 1
    merged.extend(first[i:])
    merged.extend(second[j:])
    return merged


def load_config(path):
    with open(path) as file:
        data = json.load(file)
    for key in ("name", "version", "items"):
        if key not in data:
            raise KeyError(f"missing key: {key}")
    return data


def test_merge_keeps_the_order():
    assert merge([1, 3, 5], [2, 4]) == [1, 2, 3, 4, 5]
    assert merge([], [1]) == [1]
'''.lstrip("\n")


class _Ring:
    """The source text as an endless ring of tokens: any run of tokens is one slice of bytes."""

    def __init__(self, text: str) -> None:
        pieces = [tokenizer.decode([token]) for token in tokenizer.encode(text)]
        self.size = len(pieces)
        escaped = [json.dumps(piece)[1:-1].encode() for piece in pieces]
        self._plain = (text * 2).encode()
        self._plain_at = list(accumulate((len(p.encode()) for p in pieces * 2), initial=0))
        self._escaped = b"".join(escaped * 2)
        self._escaped_at = list(accumulate((len(e) for e in escaped * 2), initial=0))

    def escaped(self, start: int, count: int) -> bytes:
        """Return tokens start..start+count as they stand inside a JSON string."""
        start %= self.size
        if count > self.size:
            whole, rest = divmod(count, self.size)
            return self.escaped(start, self.size) * whole + self.escaped(start, rest)
        return self._escaped[self._escaped_at[start] : self._escaped_at[start + count]]

    def plain(self, start: int, count: int) -> str:
        """Return tokens start..start+count as text."""
        start %= self.size
        whole, rest = divmod(count, self.size)
        piece = self._plain[self._plain_at[start] : self._plain_at[start + rest]]
        if not whole:
            return piece.decode()
        lap = self._plain[self._plain_at[start] : self._plain_at[start + self.size]]
        return (lap * whole + piece).decode()


RING = _Ring(_SOURCE)
"""What all answers are cut from."""


def uniform(key: bytes, what: str, seed: int = 0) -> float:
    """Return a number in (0, 1) that hangs on the key, on what it is for and on a seed."""
    digest = hashlib.blake2b(key + what.encode(), digest_size=8, salt=seed.to_bytes(8, "big", signed=True)).digest()
    return (int.from_bytes(digest, "big") + 0.5) / 2**64


def difficulty(key: bytes, *, seed: int = 0) -> float:
    """Return how easy a prompt is to draft for, in standard deviations: standard normal over prompts."""
    return _NORMAL.inv_cdf(uniform(key, "difficulty", seed))


def answer_tokens(key: bytes, *, mean: float, minimum: float, seed: int = 0, request_seed: int | None = None) -> int:
    """Return the tokens of the natural answer: a least length and an exponential rest, by prompt and request seed."""
    u = uniform(key + (request_seed or 0).to_bytes(9, "big", signed=True), "answer", seed)
    return max(1, round(minimum - math.log(u) * (mean - minimum)))


def answer_start(key: bytes, *, request_seed: int | None = None) -> int:
    """Return where in the ring the answer begins."""
    return int(uniform(key + (request_seed or 0).to_bytes(9, "big", signed=True), "start") * RING.size)
