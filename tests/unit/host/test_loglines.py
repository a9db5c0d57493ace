from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightsweep.host.loglines import NANOS, FrameParser, HandedOut, LineAssembler, Record, nanoseconds, plain

STAMP = "2026-11-29T18:05:29.806976507Z"


def frame(body: bytes, *, stream: int = 1, stamp: str = STAMP) -> bytes:
    payload = stamp.encode() + b" " + body
    return struct.pack(">BxxxI", stream, len(payload)) + payload


def lines_of(*pieces: bytes) -> list[str]:
    assembler = LineAssembler()
    return [line for piece in pieces for line in assembler.feed(piece)] + assembler.flush()


def test_a_progress_bar_becomes_a_line_per_repaint() -> None:
    assert lines_of(b"load: 10%\rload: 50%\rload: 100%\nready\n") == ["load: 10%", "load: 50%", "load: 100%", "ready"]


def test_a_carriage_return_at_the_end_of_a_piece_does_not_make_an_empty_line() -> None:
    assert lines_of(b"one\r", b"\ntwo\r\n") == ["one", "two"]


def test_an_empty_line_is_kept_and_an_empty_repaint_is_not() -> None:
    assert lines_of(b"a\n\nb\n") == ["a", "", "b"]
    assert lines_of(b"a\r\r\rb\n") == ["a", "b"]


def test_colours_and_titles_are_taken_out() -> None:
    assert plain(b"\x1b[1;31mERROR\x1b[0m \x1b]0;title\x07here") == "ERROR here"


def test_bytes_that_are_not_text_become_replacement_characters() -> None:
    assert plain(b"a\xffb\x00c") == "a\ufffdb\ufffdc"


def test_a_character_cut_by_a_piece_is_whole_again() -> None:
    euro = "5 €".encode()
    assert lines_of(euro[:3], euro[3:] + b"\n") == ["5 €"]


def test_a_very_long_line_without_end_is_handed_out_in_parts() -> None:
    assembler = LineAssembler()
    got = [line for _ in range(300) for line in assembler.feed(b"x" * 16384)] + assembler.flush()
    assert len(got) == 2
    assert sum(len(line) for line in got) == 300 * 16384


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"])), max_size=20), st.data())
def test_lines_do_not_depend_on_how_the_bytes_were_cut(texts: list[str], data: st.DataObject) -> None:
    whole = "".join(f"{text}\n" for text in texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=10)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert lines_of(*pieces) == lines_of(whole)


@given(st.lists(st.binary(max_size=50), max_size=10), st.integers(1, 40))
def test_frames_do_not_depend_on_how_the_bytes_were_cut(bodies: list[bytes], size: int) -> None:
    whole = b"".join(frame(body, stream=1 + n % 2) for n, body in enumerate(bodies))
    parser = FrameParser()
    records = [r for at in range(0, len(whole), size) for r in parser.feed(whole[at : at + size])]
    assert [(r.stream, r.body) for r in records] == [(1 + n % 2, body) for n, body in enumerate(bodies)]


def test_a_stamp_is_exact_to_the_nanosecond() -> None:
    assert nanoseconds(STAMP) % NANOS == 806976507
    assert nanoseconds("2026-11-29T18:05:29.8Z") - nanoseconds("2026-11-29T18:05:29Z") == 8 * NANOS // 10
    assert nanoseconds("2026-11-29T19:05:29+01:00") == nanoseconds("2026-11-29T18:05:29Z")


def test_what_is_no_stamp_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a time"):
        nanoseconds("yesterday")


def records(*moments: float, body: bytes = b"x") -> list[Record]:
    return [Record(stream=1, nanos=int(moment * NANOS), body=body) for moment in moments]


def test_a_log_taken_up_again_gives_only_what_is_new() -> None:
    first, later = records(10.0, 10.0, 11.0), records(11.5)
    log = [*first, *later]
    handed_out = HandedOut()
    handed_out.rewind()
    assert all(handed_out.is_new(record) for record in first)

    since = float(handed_out.rewind())

    again = [record for record in log if record.nanos >= since * NANOS]
    assert [record for record in again if handed_out.is_new(record)] == later


def test_equal_pieces_with_one_stamp_are_counted() -> None:
    three = records(10.0, 10.0, 10.0)
    handed_out = HandedOut()
    handed_out.rewind()
    assert [handed_out.is_new(record) for record in three[:2]] == [True, True]

    handed_out.rewind()

    assert [handed_out.is_new(record) for record in three] == [False, False, True]


RECORDS = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 1000), st.integers(1, 2)), max_size=40)
FAULTS = st.lists(st.floats(0.0, 1.0), max_size=5)


@given(RECORDS, FAULTS)
def test_any_number_of_faults_loses_and_doubles_nothing(steps: list[tuple[int, int, int]], faults: list[float]) -> None:
    """Stamps are up to a second out of order (ms late), as two copying threads make them."""
    log, now = [], 1000 * NANOS
    for number, (jump, late, stream) in enumerate(steps):
        now += jump * 10**6
        log.append(Record(stream=stream, nanos=now - late * 10**6, body=b"%d" % (number // 3)))
    handed_out = HandedOut()
    got: list[Record] = []
    for breaks_after in [*faults, 1.0]:
        seconds, _, nanos = handed_out.rewind().partition(".")
        since = int(seconds) * NANOS + int(nanos)
        served = [record for record in log if record.nanos >= since]
        got += [record for record in served[: round(breaks_after * len(served))] if handed_out.is_new(record)]
    assert got == log
