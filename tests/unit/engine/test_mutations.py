"""Ten thousand damaged logs, every beginning of every sample, one endless line, binary junk: nothing raises or is invented.

NIGHTSWEEP_TEST_MUTATIONS sets how many damaged logs there are (default 10,000).
"""

from __future__ import annotations

import io
import os
import random
import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nightsweep.cli.parse_log import Report, document, read_log, text
from nightsweep.cli.parse_log import _decoded as decoded
from nightsweep.engine.failures import classify
from nightsweep.engine.values import Fact
from tests.unit.engine.data import DATA, evidence, names

MUTATIONS = int(os.environ.get("NIGHTSWEEP_TEST_MUTATIONS", "10000"))
PARTS = 4
PHASES = (Phase.generate,)
FILES = [
    *(DATA / "bootlogs" / name for name in names("bootlogs", suffix=".log")),
    *(DATA / "failures" / name for name in names("failures", suffix=".log")),
]
SAMPLES = [path for path in FILES if path.stat().st_size < 6_000]
CORPUS = [line for path in FILES for line in path.read_bytes().decode("utf-8", "replace").split("\n") if line.strip()]
TELLING = [
    line for line in CORPUS if re.search(r"\d (?:GiB|GB|tokens|seconds|secs|s\b)|Error|rror:|version|Using |x$", line)
]
JUNK = (
    "\x00",
    "\x1b[31m",
    "\r",
    "{",
    '"',
    "…",
    "...",
    "\ufffd",
    "GiB",
    ",",
    ".",
    "-",
    "9" * 400,
    "(",
    "[",
    "]",
    "\u2028",
    "\t",
)


def report_of(raw: bytes, *, engine: str | None = None) -> Report:
    return read_log(decoded(io.BytesIO(raw)), engine=engine)


def damaged(seed: int) -> tuple[list[str], str | None]:
    """A few real lines with cuts, doublings, mixtures, junk and flipped characters, and the engine that reads them."""
    chance = random.Random(seed)
    lines = []
    for _ in range(chance.randint(1, 4)):
        line, other = chance.choice(TELLING), chance.choice(CORPUS)
        at, end = chance.randint(0, len(line)), chance.randint(0, len(other))
        lines.append(
            chance.choice(
                (
                    line[:at],
                    line[at:],
                    line[:at] + other[end:],
                    line[:at] + chance.choice(JUNK) + line[at:],
                    line[:at] + chance.choice(JUNK) + line[min(len(line), at + 1) :],
                    line + "\r" + other,
                    line + other,
                    other[:end] + line,
                )
            )
        )
    return lines, chance.choice(("vllm", "sglang", None))


def invented(fact: Fact) -> bool:
    """Whether a number is not in the line that is said to state it, or only a part of a number there.

    A pool that one sentence states in two parts is their sum, and no number of the line.
    """
    if isinstance(fact.value, bool) or not isinstance(fact.value, int | float):
        return False
    if fact.name.endswith("kv_cache") and "K size" in fact.line:
        return False
    numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?", fact.line)
    return not any(float(number.replace(",", "")) == fact.value for number in numbers)


def check(lines: list[str], engine: str | None) -> None:
    report = report_of("\n".join(lines).encode("utf-8", "replace"), engine=engine)
    classify(evidence(lines, exit_code=1))
    for fact in report.facts.facts:
        assert not invented(fact), fact


@pytest.mark.parametrize("part", range(PARTS))
def test_no_damage_raises_and_none_makes_a_number(part: int) -> None:
    @settings(
        max_examples=MUTATIONS // PARTS,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=PHASES,
    )
    @given(st.integers(part << 60, ((part + 1) << 60) - 1))
    def try_one(seed: int) -> None:
        check(*damaged(seed))

    try_one()


def beginnings(raw: bytes) -> Iterator[bytes]:
    return (raw[:end] for end in range(len(raw) + 1))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_every_beginning_of_a_sample_states_nothing_that_the_whole_does_not(path: object) -> None:
    """Byte by byte, as a log is while it is written: the last line may end anywhere."""
    raw = path.read_bytes()  # type: ignore[attr-defined]
    whole = {(fact.name, repr(fact.value)) for fact in report_of(raw).facts.facts}
    whole |= {(fact.name, repr(fact.value)) for fact in report_of(raw, engine=path.name.split("-")[0]).facts.facts}  # type: ignore[attr-defined]
    step = max(1, len(raw) // 400)
    for begin in range(0, len(raw), step):
        part = raw[: begin + random.Random(begin).randint(0, step)]
        if b"\n" not in part:
            continue  # one line alone is taken as it is
        said = {(fact.name, repr(fact.value)) for fact in report_of(part).facts.facts}
        assert said <= whole, (part[-120:], said - whole)


def test_a_line_of_five_megabytes_takes_no_time_and_states_nothing_of_its_end() -> None:
    head = b"(EngineCore pid=7) INFO 11-29 16:16:39 [gpu_worker.py:1] "
    begin = time.perf_counter()
    report = report_of(
        b"x" * 5_000_000 + head + b"Available KV cache memory: 3.50 GiB\n" + head + b"(" * 5_000_000 + b"\n"
    )
    assert report.facts.kv_cache in (None, 3.5)
    assert time.perf_counter() - begin < 5.0


@pytest.mark.parametrize("seed", range(20))
def test_binary_junk_states_nothing_and_accuses_nobody(seed: int) -> None:
    raw = random.Random(seed).randbytes(200_000)
    report = report_of(raw)
    assert report.facts.facts == ()
    assert report.verdict.state == "unknown"
    assert text(report)
    assert document(report)["facts"]["engine"] is None
