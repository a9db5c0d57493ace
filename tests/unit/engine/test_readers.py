"""The readers take any text: nothing raises, nothing is invented, duplicates and ranks go by rule."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nightsweep.engine.bootlog import read, reader_for
from nightsweep.engine.failures import classify, verdict
from nightsweep.engine.lines import HEADER_WINDOW, lines_of, rank_of
from nightsweep.engine.traffic import speculation_line
from nightsweep.engine.values import LogLine
from nightsweep.errors import UnknownEngine
from tests.unit.engine.data import evidence, lines_of_file, names

SAMPLES = [name for name in names("bootlogs", suffix=".log") if "cuda" not in name and "-cpu-" not in name]
CORPUS = [line for name in SAMPLES for line in lines_of_file("bootlogs", name)[1:] if line]
CORPUS += [line for name in names("failures", suffix=".log") for line in lines_of_file("failures", name)[1:6] if line]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A real line, cut, doubled, mixed with another, or with junk in it."""
    line, other = draw(st.sampled_from(CORPUS)), draw(st.sampled_from(CORPUS))
    at = draw(st.integers(0, len(line)))
    junk = draw(st.text(max_size=12))
    return draw(
        st.sampled_from([line[:at], line[at:], line[:at] + other, line[:at] + junk + line[at:], line + "\r" + other])
    )


@settings(max_examples=250, deadline=None)
@given(st.lists(mutated(), max_size=12), st.sampled_from(["vllm", "sglang", None]))
def test_no_mutation_of_real_lines_raises(lines: list[str], kind: str | None) -> None:
    facts = read(lines, kind=kind)
    classify(evidence(lines, exit_code=1))
    verdict(lines)
    for line in lines:
        speculation_line(line)
    for fact in facts.facts:
        if isinstance(fact.value, float):
            assert any(char.isdigit() for char in fact.line)


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=300), st.binary(max_size=300).map(lambda raw: raw.decode("utf-8", errors="replace"))))
def test_junk_states_nothing(text: str) -> None:
    for kind in ("vllm", "sglang", None):
        assert read([text], kind=kind).facts == ()
    assume("Error" not in text and "Exception" not in text)  # the bare name of an exception does say something
    assert verdict([text]).state == "unknown"


@pytest.mark.parametrize("name", SAMPLES)
def test_every_beginning_of_a_log_states_a_beginning_of_its_facts(name: str) -> None:
    lines = lines_of_file("bootlogs", name)
    whole = [(fact.name, fact.value) for fact in read(lines).facts]
    kind = name.split("-")[0]
    for end in range(len(lines)):
        part = [(fact.name, fact.value) for fact in read(lines[:end], kind=kind).facts]
        assert part == whole[: len(part)]


def test_a_line_of_five_megabytes_is_read_where_facts_can_be() -> None:
    head = "(EngineCore pid=7) INFO 11-29 16:16:39 [gpu_worker.py:1] Available KV cache memory: 3.50 GiB "
    facts = read([head + "x" * 5_000_000, "y" * 5_000_000])
    assert facts.kv_cache == 3.5
    assert all(len(fact.line) <= 2_000 for fact in facts.facts)


def test_two_writers_on_one_line_are_both_heard() -> None:
    first = "(Worker_TP1 pid=8) INFO 11-29 16:16:39 [model_runner.py:1] Loading model from scratch..."
    second = "(EngineCore pid=7) INFO 11-29 16:16:39 [gpu_worker.py:1] Available KV cache memory: 3.50 GiB"
    assert read([first + second]).kv_cache == 3.5
    assert [line.rank for line in lines_of(first + second)] == ["TP1", None]


def test_a_fact_behind_a_progress_bar_is_found() -> None:
    bar = "Loading safetensors checkpoint shards: 100% Completed | 3/3 [00:02<00:00,  1.14it/s]\r"
    assert read([bar + "INFO 11-29 16:16:39 [gpu_worker.py:1] Available KV cache memory: 3.50 GiB"]).kv_cache == 3.5


def test_json_records_are_unpacked() -> None:
    message = "Available KV cache memory: 3.50 GiB"
    shapes = [
        {"levelname": "INFO", "name": "vllm.v1.worker", "message": message},
        {"log": f"(EngineCore pid=7) INFO 11-29 16:16:39 [gpu_worker.py:1] {message}\n", "stream": "stdout"},
        {"MESSAGE": message, "PRIORITY": "6"},
    ]
    for shape in shapes:
        assert read([json.dumps(shape)], kind="vllm").kv_cache == 3.5


def test_the_lowest_rank_counts_and_nothing_is_added_up() -> None:
    lines = [
        f"(Worker_TP{rank} pid={rank}) INFO 11-29 16:16:39 [model_runner.py:1] "
        f"Model loading took {size} GiB memory and {rank}.5 seconds"
        for rank, size in ((2, 11.3), (0, 11.1), (1, 11.2))
    ]
    facts = read(lines)
    assert (facts.weights, facts.weights_seconds) == (11.1, 0.5)
    assert {fact.rank: fact.value for fact in facts.facts if fact.name == "weights"} == {
        "TP2": 11.3,
        "TP0": 11.1,
        "TP1": 11.2,
    }


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [
        ("(Worker_DP1_TP0_EP0 pid=9) ", "DP1_TP0"),
        ("(EngineCore_DP0 pid=9) ", "DP0"),
        ("(EngineCore_0 pid=9) (VllmWorker TP1 pid=9) ", "TP1_DP0"),
        ("(VllmWorker rank=3 pid=9) ", "TP3"),
        ("[rank2]: ", "TP2"),
        ("(APIServer pid=1) ", None),
        ("", None),
    ],
)
def test_a_prefix_tells_its_rank(prefix: str, rank: str | None) -> None:
    assert rank_of(prefix) == rank


def test_secrets_of_the_argument_line_are_hidden_in_value_and_line() -> None:
    line = (
        "(APIServer pid=1) INFO 11-29 16:16:18 [api_utils.py:273] non-default args: "
        "{'model': 'm', 'api_key': ['s3cret'], 'hf_token': 's3cret', 'max_tokens_per_doc': 7}"
    )
    facts = read([line])
    assert facts.non_default_args == {"model": "m", "api_key": "***", "hf_token": "***", "max_tokens_per_doc": 7}
    assert "s3cret" not in repr(facts)
    sglang = (
        "[2026-08-29 21:00:00] server_args=ServerArgs(model_path='m', api_key='s3cret', page_size=1, mode=<Mode.X: 1>)"
    )
    found = read([sglang], kind="sglang")
    assert found.non_default_args is not None
    assert found.non_default_args["model_path"] == "m"
    assert "s3cret" not in repr(found)


def test_an_argument_line_with_objects_or_cut_off_is_no_error() -> None:
    header = "(APIServer pid=1) INFO 11-29 16:16:18 [api_utils.py:273] non-default args: "
    with_object = read([header + "{'model': 'm', 'backend': <Backend.X: 1>}"])
    assert with_object.non_default_args == {"model": "m", "backend": "<Backend.X: 1>"}
    assert read([header + "{'model': 'm', 'backend"]).non_default_args is None


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownEngine, match="vllm, sglang"):
        reader_for("llama.cpp")


def test_memory_stays_flat_however_often_a_line_comes() -> None:
    reader = reader_for("vllm")
    for number in range(20_000):
        reader.feed(LogLine(f"INFO 11-29 16:16:39 [x.py:1] Available KV cache memory: {number}.50 GiB"))
        reader.feed(LogLine(f"WARNING 11-29 16:16:39 [x.py:1] something odd {number}"))
    facts = reader.facts()
    assert len(facts.facts) <= 2_000
    assert len(facts.warnings) == 1
    assert facts.kv_cache == 0.5


def test_a_header_far_into_a_line_is_no_header() -> None:
    line = "x" * (HEADER_WINDOW + 1) + "INFO 11-29 16:16:39 [x.py:1] Available KV cache memory: 3.50 GiB"
    assert read([line], kind="vllm").facts == ()
