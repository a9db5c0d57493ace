"""What reading costs: linear in a line's length and in a log's lines, also where everything is an error."""

from __future__ import annotations

import time

import pytest

from nightsweep.engine.bootlog import read
from nightsweep.engine.causes import Causes
from nightsweep.engine.failure_rules import CAUSES, CAUSES_IN_DRAFT
from nightsweep.engine.scan import scan
from tests.unit.engine.test_failure_wordings import FAILURES, HEALTHY

HEAD = "(EngineCore pid=7) ERROR 11-29 15:46:02 [core.py:1] "

NASTY = {
    "words before an error": "ab cd. ",
    "letters": "a",
    "equal signs": "=",
    "errors": "Error: ",
    "key errors": "KeyError ",
    "weights": "weight_",
    "a key error of weights": "KeyError weight_",
    "paths": "a/",
    "options": "--",
    "numbers": "1.",
    "memory": "Available memory (1/1 GiB) ",
    "architectures": "SpeculativeConfig Model architectures [DFlash",
    "heads": "number of attention heads must be ",
    "models": "Access to model ",
    "dead processes": "Engine core proc ",
    "core processes": "Failed core proc(s): {a: -9",
    "executables": 'exec: "a" ',
    "disks": "No space left on device ",
    "addresses": "[Errno 98] ",
    "values": "1 validation error for X Value error, ",
    "writers": "(a pid=1) ",
    "dots": "A.",
    "layers": "KeyError: 'layers.",
    "oom": "oom-kill:constraint=A,",
    "sockets": "server socket has failed to bind ",
    "decoding": "Speculative decoding ",
}


def seconds(text: str) -> float:
    """The processor's seconds for one line, the least of five."""
    least = float("inf")
    for _ in range(5):
        begin = time.process_time()
        scan([text])
        read([text])
        least = min(least, time.process_time() - begin)
    return least


@pytest.mark.parametrize("head", ["", HEAD, "RuntimeError: "], ids=["bare", "headed", "raised"])
@pytest.mark.parametrize("name", NASTY)
def test_twice_as_long_a_line_takes_about_twice_as_long(name: str, head: str) -> None:
    unit = NASTY[name]
    short, long = (head + unit * (size // len(unit)) for size in (3_500, 7_000))
    assert seconds(long) < 3.2 * seconds(short) + 0.002


@pytest.mark.parametrize("name", NASTY)
def test_no_line_takes_longer_than_a_blink(name: str) -> None:
    unit = NASTY[name]
    assert seconds("RuntimeError: failed " + unit * (60_000 // len(unit))) < 0.1


@pytest.mark.parametrize("text", [text for _, text in FAILURES] + HEALTHY, ids=lambda text: text[-50:])
@pytest.mark.parametrize("table", [CAUSES, CAUSES_IN_DRAFT], ids=["boot", "draft"])
def test_asking_by_words_misses_no_cause(table: Causes, text: str) -> None:
    for line in (*text.split("\n"), text.replace("\n", " ")):
        slow = next((cause for cause in table.table if cause.pattern.search(line)), None)
        found = table.first(line)
        assert (None if found is None else found[0]) == slow


def test_every_cause_has_a_word_by_which_it_is_found() -> None:
    assert [cause.pattern.pattern for cause in CAUSES_IN_DRAFT.table if not (cause.words or cause.needle)] == []
