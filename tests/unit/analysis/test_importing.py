"""Other tools' files become rows: what they state, what they leave out, and what is wrong with those that are broken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from nightsweep.analysis.import_file import sweep_file
from nightsweep.analysis.import_reading import Said, read_file, said_columns
from nightsweep.analysis.imported import NO_COUNT, NO_DATE, WHOLE, ImportedFile, ImportedRow, contents
from nightsweep.errors import InvalidImport
from nightsweep.plan.sweepfile import load
from nightsweep.plan.words import UNKNOWN_TEMPERATURE

DATA = Path(__file__).parents[2] / "data"
BENCH = DATA / "vllm_bench"
HEADER = "config,engine,model,box,concurrency,temperature,decode_rate"
LINE = "mtp k=3,vllm,org/model,spark-1,1,0.7,20.8"


def a_csv(*lines: str, header: str = HEADER, said: Said | None = None) -> ImportedFile:
    text = "\n".join((header, *lines)) + "\n"
    return read_file(text.encode(), name="table.csv", said=said or Said())


def a_row(line: str = LINE, *, more: str = "", value: str = "", said: Said | None = None) -> ImportedRow:
    header = f"{HEADER},{more}" if more else HEADER
    return a_csv(f"{line},{value}" if more else line, header=header, said=said).rows[0]


def refused(*lines: str, header: str = HEADER) -> list[str]:
    with pytest.raises(InvalidImport) as caught:
        a_csv(*lines, header=header)
    problems: tuple[str, ...] = caught.value.facts["problems"]
    return list(problems)


def a_result(**changes: Any) -> dict[str, Any]:
    """As `vllm bench serve` of 0.32.0 writes it, on a real server; see tests/data/vllm_bench/README.md."""
    found: dict[str, Any] = json.loads((BENCH / "depth" / "SERVE-k3-BENCH-c4" / "run=0.json").read_text())
    for key in ("run_number", "max_num_seqs", "speculative_config", "temperature"):
        del found[key]
    return found | changes


def read(value: Any, *, given: Mapping[str, str] | None = None, **more: Any) -> ImportedFile:
    columns = {"box": "spark-1", "temperature": "0.7", **(given or {})}
    return read_file(json.dumps(value).encode(), name="results.json", said=Said(columns, **more))


# --- the plain CSV ---------------------------------------------------------------------------------------------------


def test_a_row_has_what_its_line_states_and_nothing_else() -> None:
    row = a_row()
    assert (row.config, row.kind, row.concurrency, row.temperature, row.rate) == (
        "mtp k=3",
        "decode",
        1,
        Decimal("0.70"),
        20.8,
    )
    assert row.document == {"engine": "vllm", "model": "org/model"}
    assert (row.date, row.runs, row.boot, row.numbers, row.boot_facts) == (None, None, None, {}, {})
    assert row.all_conditions == {
        "source": "imported:csv",
        "config": row.fingerprint,
        "engine": "vllm",
        "model": "org/model",
        "box": row.box_fingerprint,
    }
    assert NO_COUNT in row.all_notes
    assert NO_DATE in row.all_notes


def test_config_columns_make_the_config_that_a_sweep_file_would() -> None:
    header = f"{HEADER},image,args.max-num-seqs,speculative.method,speculative.num_speculative_tokens,env.VLLM_X"
    row = a_csv(f"{LINE},vllm/vllm-openai:v0.28.0,16,mtp,3,1", header=header).rows[0]
    plan = load(
        """
name: n
engine: {kind: vllm, image: "vllm/vllm-openai:v0.28.0", model: org/model, args: {max-num-seqs: 16}, env: {VLLM_X: "1"}}
configs: [{name: mtp, speculative: {method: mtp, num_speculative_tokens: 3}}]
probe: {concurrency: [1], temperature: [0.7]}
"""
    )
    assert row.fingerprint == plan.configs[0].fingerprint


@pytest.mark.parametrize("value", ["true", "False", "08", "1e3", "1.50", "null", "'a'", "0x10", "1_000"])
def test_a_value_of_the_environment_is_the_text_that_is_written(value: str) -> None:
    said = Said(said_columns([f"env.VLLM_X={value}"]))
    given = {"engine": "vllm", "env.VLLM_X": value}
    folder = BENCH / "depth" / "SERVE-k3-BENCH-c4"
    of_sweep = Said({"box": "b", "temperature": "0.7", "env.VLLM_X": value})
    rows = (
        a_row(more="env.VLLM_X", value=value),
        a_row(said=said),
        read(a_result(**{"env.VLLM_X": value}), given={"engine": "vllm"}).rows[0],  # as --metadata writes it
        read(a_result(), given=given).rows[0],
        read_file((folder / "run=0.json").read_bytes(), name="run=0.json", said=of_sweep, of_sweep=True).rows[0],
    )
    assert [row.document["env"] for row in rows] == [{"VLLM_X": value}] * 5
    plan = load(sweep_file("again", [(row.config, row.document) for row in rows[:1]], cells=[(1, Decimal("0.7"))]))
    assert plan.configs[0].fingerprint == rows[0].fingerprint


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("image", ["", "org/image:1"])
def test_the_file_that_is_written_gives_the_same_configs_again(engine: str, image: str) -> None:
    starter = "algorithm" if engine == "sglang" else "method"
    header = f"{HEADER},image,args.a,args.b,speculative.{starter}"
    lines = [
        f'"one {{k}}",{engine},org/model,s,1,0.7,2,{image},1,2,',
        f"two,{engine},org/model,s,4,1.0,2,{image},1,3,mtp",
        f"two,{engine},org/other,s,4,1.0,2,{image},1,,mtp",
    ]
    rows = a_csv(*lines, header=header).rows
    places = [(row.concurrency, row.temperature) for row in rows]
    plan = load(sweep_file("again", [(row.config, row.document) for row in rows], cells=places))
    assert [config.fingerprint for config in plan.configs] == [row.fingerprint for row in rows]
    assert len({config.name for config in plan.configs}) == 3
    assert (plan.probe.concurrency, plan.probe.temperature) == ((1, 4), (Decimal("0.7"), Decimal("1.0")))


def test_the_rate_column_says_what_kind_of_rate_it_is() -> None:
    for column, kind in (("whole_run_rate", "whole_run"), ("single_batch_rate", "single_batch")):
        row = a_csv(LINE, header=HEADER.replace("decode_rate", column)).rows[0]
        assert (row.kind, row.rate) == (kind, 20.8)
    assert "a row has one of decode_rate" in refused(f"{LINE},3", header=f"{HEADER},whole_run_rate")[0]


def test_a_mean_of_several_runs_says_so_and_an_unknown_temperature_stays_unknown() -> None:
    assert "a mean of 3 runs, of which each is not known" in a_row(more="n", value="3").all_notes
    assert a_row(LINE.replace("0.7", "unknown")).temperature == UNKNOWN_TEMPERATURE


@pytest.mark.parametrize(
    ("written", "moment", "left_open"),
    [
        ("2026-05-12T22:30+02:00", datetime(2026, 5, 12, 20, 30, tzinfo=UTC), None),
        ("2026-05-12T22:30", datetime(2026, 5, 12, 20, 30, tzinfo=UTC), None),
        ("2026-05-12", datetime(2026, 5, 11, 22, 0, tzinfo=UTC), "date known to the day"),
        ("2026-05", datetime(2026, 4, 30, 22, 0, tzinfo=UTC), "date known to the month"),
        ("unknown", None, NO_DATE),
    ],
)
def test_a_date_is_read_with_what_it_leaves_open(written: str, moment: datetime | None, left_open: str | None) -> None:
    row = a_row(more="date", value=written, said=Said(zone=ZoneInfo("Europe/Amsterdam")))
    assert row.date == moment
    assert left_open is None or left_open in row.all_notes


@pytest.mark.parametrize(
    "written",
    ["9999-12-31T23:59-12:00", "0001-01-01T00:00+12:00", "0001-01-01", "00010101-000000", "2026-13", "2026-02-30"],
)
def test_a_date_that_no_calendar_has_is_refused_in_one_line(written: str) -> None:
    with pytest.raises(InvalidImport) as caught:
        a_row(more="date", value=written, said=Said(zone=ZoneInfo("Asia/Tokyo")))
    (problem,) = caught.value.facts["problems"]
    assert "write 2026-05-12, 2026-05 or 2026-05-12T22:30+02:00" in problem


def test_comments_empty_lines_and_a_byte_order_mark_say_nothing() -> None:
    text = f"\ufeff# where it is from\n{HEADER}\n\n{LINE}\n# the end\n"
    (row,) = read_file(text.encode(), name="t.csv", said=Said()).rows
    assert (row.config, row.line) == ("mtp k=3", 4)


def test_what_the_caller_says_stands_for_every_row() -> None:
    said = Said(said_columns(["image=org/image:1", "temperature=1.0"]))
    row = a_row(said=said)
    assert (row.document["image"], row.temperature) == ("org/image:1", Decimal("1.00"))
    with pytest.raises(ValueError, match="Did you mean `image`"):
        said_columns(["imagee=x"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (LINE.replace("20.8", "20,8"), "table.csv:2: the line: it has 8 fields, the header 7"),
        (LINE.replace("20.8", "fast"), 'table.csv:2: decode_rate: found "fast"; write a number with a decimal point'),
        (LINE.replace("20.8", "0"), 'table.csv:2: decode_rate: found "0"; write a number above 0'),
        (LINE.replace("20.8", "nan"), "write a number"),
        (LINE.replace("20.8", "1e300"), "write a number above 0 to 1e+12"),
        (LINE.replace("20.8", "1e-300"), 'decode_rate: found "1e-300"; write a number from 1e-12'),
        (LINE.replace(",1,", ",99999999999,"), "write a number from 1 to 1e+06"),
        (LINE.replace("org/model", "org/\0"), "NUL"),
        (LINE.replace("20.8", ""), "table.csv:2: decode_rate: found no rate"),
        (LINE.replace("vllm", "tgi"), 'table.csv:2: engine: found "tgi"; write vllm or sglang'),
        (LINE.replace("spark-1", ""), "table.csv:2: box: nothing is there"),
        (LINE.replace(",1,", ",1.5,"), "write a whole number"),
        (LINE.replace("0.7", ""), "say --temperature T (`unknown` where nobody knows)"),
        (LINE.replace("org/model", "hf_abcdefghijklmnop"), "secrets are not stored"),
    ],
)
def test_a_line_that_cannot_be_meant_names_file_line_column_and_remedy(line: str, said: str) -> None:
    (problem,) = refused(line)
    assert said in problem
    assert "hf_abc" not in problem


@pytest.mark.parametrize(
    ("columns", "values", "said"),
    [
        ("ttft_p50_s,ttft_p99_s", "0.5,0.3", "ttft_p50_s: it is above ttft_p99_s (0.5 s and 0.3 s)"),
        ("tpot_p90_s,tpot_p99_s", "0.5,0.3", "tpot_p90_s: it is above tpot_p99_s"),
        ("accepted_tokens,draft_tokens", "101,100", "accepted_tokens: found 101, and draft_tokens is 100"),
    ],
)
def test_numbers_of_a_row_that_contradict_each_other_are_refused(columns: str, values: str, said: str) -> None:
    (problem,) = refused(f"{LINE},{values}", header=f"{HEADER},{columns}")
    assert f"table.csv:2: {said}" in problem
    equal = ",".join([values.split(",")[0]] * 2)
    assert a_csv(f"{LINE},{equal}", header=f"{HEADER},{columns}").rows


def test_a_result_whose_percentiles_contradict_each_other_is_refused_by_its_own_keys() -> None:
    with pytest.raises(InvalidImport, match=r"median_ttft_ms: it is above p99_ttft_ms \(0.9 s and 0.3 s\)"):
        read(a_result(median_ttft_ms=900, p99_ttft_ms=300))


def test_every_bad_line_is_told_at_once() -> None:
    problems = refused(LINE, LINE.replace("20.8", "x"), LINE.replace("vllm", "tgi"))
    assert [problem.split(": ")[0] for problem in problems] == ["table.csv:3", "table.csv:4"]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (HEADER.replace("decode_rate", "decode_rates"), "Did you mean `decode_rate`?"),
        (HEADER.replace(",", ";"), "columns are separated by commas"),
        (f"{HEADER},box", "column box is there 2 times"),
        (f"{HEADER},", "a column without a name"),
    ],
)
def test_a_header_that_cannot_be_meant_is_told(header: str, said: str) -> None:
    assert any(said in problem for problem in refused(LINE, header=header))


def test_ratios_are_ratios_and_percent_is_refused_with_what_was_meant() -> None:
    assert a_row(more="positions", value="0.75 0.52").numbers == {"positions": [0.75, 0.52]}
    (problem,) = refused(f"{LINE},52", header=f"{HEADER},acceptance_rate")
    assert "52% is 0.52" in problem
    (problem,) = refused(f"{LINE},sk-abcdefgh12345", header=f"{HEADER},args.api-key")
    assert "args.api-key" in problem
    assert "sk-abc" not in problem


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "it is empty"), (b"\xff\xfe\x00a", "no UTF-8"), (b'a,"b', "no CSV")]
)
def test_a_broken_file_says_how_it_is_broken(content: bytes, said: str) -> None:
    with pytest.raises(InvalidImport, match=said):
        read_file(content, name="t.csv", said=Said())


def test_a_row_is_known_by_its_content_and_equal_rows_of_a_file_are_several_runs() -> None:
    once, twice = a_csv(LINE).rows, a_csv("mtp k=5,vllm,m,b,1,0.7,2", LINE, LINE).rows
    assert contents(once)[0] == contents(twice)[1]
    assert len(set(contents(twice))) == 3
    assert contents(a_csv(LINE, LINE).rows) == contents(a_csv(LINE, LINE).rows)


# --- vLLM's client and sweeps ----------------------------------------------------------------------------------------


def test_a_clients_rate_is_one_of_a_whole_run_and_no_decode_rate() -> None:
    result = a_result()
    (row,) = read(result, given={"speculative.method": "draft_model"}).rows
    assert (row.kind, row.rate, row.concurrency, row.runs) == ("whole_run", result["output_throughput"], 4, 1)
    assert WHOLE in row.all_notes
    assert row.numbers["acceptance_length"] == result["spec_decode_acceptance_length"]
    assert row.numbers["acceptance_rate"] == pytest.approx(result["spec_decode_acceptance_rate"] / 100)
    assert row.numbers["positions"] == result["spec_decode_per_position_acceptance_rates"]
    assert row.numbers["ttft"]["p50"] == pytest.approx(result["median_ttft_ms"] / 1000)
    assert row.numbers["seconds"] == result["duration"]
    assert row.conditions["client"] == {"backend": "openai", "num_prompts": 8, "request_rate": "inf", "burstiness": 1.0}
    assert row.document == {"engine": "vllm", "model": "tiny", "speculative": {"method": "draft_model"}}


def test_what_the_client_does_not_write_must_be_said_and_is_not_guessed() -> None:
    with pytest.raises(InvalidImport, match="temperature: nothing is there"):
        read(a_result(), given={"temperature": ""})
    plain = {key: value for key, value in a_result().items() if not key.startswith("spec_decode_")}
    with pytest.raises(InvalidImport, match="--set engine="):
        read(plain)
    (row,) = read(plain, given={"engine": "sglang"}).rows
    assert (row.document["engine"], "acceptance_length" in row.numbers) == ("sglang", False)


def test_results_of_older_versions_are_read_by_the_keys_that_they_have() -> None:
    """Composed after the writer of 0.8: no label, no failed, `request_goodput:` with its colon, and a p99 alone."""
    old = {
        "date": "20250312-101500",
        "backend": "vllm",
        "model_id": "org/model",
        "tokenizer_id": "org/model",
        "num_prompts": 300,
        "request_rate": 10.0,
        "burstiness": 1.0,
        "max_concurrency": 8,
        "duration": 36.0,
        "completed": 300,
        "total_input_tokens": 299700,
        "total_output_tokens": 81050,
        "request_throughput": 8.3,
        "request_goodput:": None,
        "output_throughput": 2249.2,
        "total_token_throughput": 10566.3,
        "mean_ttft_ms": 54.6,
        "median_ttft_ms": 53.0,
        "std_ttft_ms": 9.3,
        "p99_ttft_ms": 89.8,
    }
    (row,) = read(old, given={"engine": "vllm"}).rows
    assert row.date == datetime(2025, 3, 12, 10, 15, tzinfo=UTC)
    assert row.numbers["ttft"] == pytest.approx({"mean": 0.0546, "p50": 0.053, "p99": 0.0898})
    assert row.conditions["client"]["request_rate"] == 10.0
    assert row.flags == {}


def test_a_run_with_failed_requests_enters_no_mean() -> None:
    assert read(a_result(failed=2)).rows[0].flags == {"request_failed": "2 requests failed"}
    old = {key: value for key, value in a_result(completed=5).items() if key != "failed"}
    assert read(old).rows[0].flags == {"request_failed": "5 of 8 requests were completed"}


NOTHING_CAME = {"completed": 0, "failed": 8, "output_throughput": 0, "total_output_tokens": 0, "mean_ttft_ms": 0.0}


def test_a_run_of_which_every_request_failed_is_flagged_and_has_no_number_that_it_did_not_bring() -> None:
    (row,) = read(a_result(**NOTHING_CAME)).rows
    assert (row.rate, row.kind, row.concurrency) == (None, "whole_run", 4)
    assert row.flags == {"request_failed": "8 requests failed"}
    assert sorted(row.numbers) == ["generation_tokens", "seconds"]
    with pytest.raises(InvalidImport, match="output_throughput: found 0; write a number above 0"):
        read(a_result(**NOTHING_CAME | {"completed": 8, "failed": 0}))
    with pytest.raises(InvalidImport, match="output_throughput: found 0; write a number above 0"):
        read(a_result(failed=1, output_throughput=0))  # tokens came, so it was not 0


def test_a_run_without_a_number_of_streams_is_refused_or_left_out() -> None:
    both = [a_result(max_concurrency=None, request_rate=4.0), a_result()]
    with pytest.raises(InvalidImport, match=r"result 1: max_concurrency: it is null.*--skip-open-loop"):
        read(both)
    found = read(both, skip_open_loop=True)
    assert len(found.rows) == 1
    assert found.skipped == ("results.json: 1 run without a number of streams left out",)


def test_results_that_were_appended_to_one_file_are_all_read() -> None:
    text = json.dumps(a_result()) + "\n" + json.dumps(a_result(date="20261130-030000"))
    found = read_file(text.encode(), name="r.json", said=Said({"box": "b", "temperature": "0"}))
    assert len(found.rows) == 2


def test_metadata_becomes_the_column_of_its_name_or_a_condition() -> None:
    said = a_result(**{"image": "org/image:1", "speculative.method": "mtp", "version": "0.32.0"})
    (row,) = read(said).rows
    assert (row.document["image"], row.document["speculative"]) == ("org/image:1", {"method": "mtp"})
    assert row.conditions["version"] == "0.32.0"
    with pytest.raises(InvalidImport, match="secrets are not stored"):
        read(a_result(api_key="sk-abcdefgh12345"))


def test_a_real_detailed_result_is_read_without_its_texts() -> None:
    content = (BENCH / "detailed.json").read_bytes()
    said = Said({"box": "b", "temperature": "0.7", "engine": "vllm"})
    (row,) = read_file(content, name="detailed.json", said=said).rows
    assert (row.concurrency, row.conditions["max_model_len"], row.document["image"]) == (2, 1024, "none")
    kept = json.dumps(row.record)
    assert json.loads(content)["generated_texts"][0] not in kept
    assert len(kept) < 2000


def test_a_real_sweeps_runs_have_the_servers_settings_as_config_and_the_clients_as_load() -> None:
    said = Said({"box": "b"})
    paths = sorted((BENCH / "depth").rglob("run=*.json"))
    rows = [read_file(p.read_bytes(), name=p.name, said=said, of_sweep=True).rows[0] for p in paths]
    assert len(rows) == 8
    assert {row.document["speculative"]["num_speculative_tokens"] for row in rows} == {3, 5}
    assert rows[0].document["args"] == {"max-num-seqs": 4}
    assert {row.boot for row in rows} == {rows[0].boot, rows[-1].boot}
    assert (rows[0].temperature, "temperature" in rows[0].conditions["client"]) == (Decimal("0.00"), False)
    summed = read_file((BENCH / "depth" / "summary.csv").read_bytes(), name="summary.csv", said=said).rows
    assert sorted(contents(rows)) == sorted(contents(summed))
    listed = (BENCH / "depth" / "SERVE-k3-BENCH-c1" / "summary.json").read_bytes()
    assert set(contents(read_file(listed, name="summary.json", said=said).rows)) <= set(contents(rows))


def test_a_run_that_a_stopped_sweep_left_behind_is_left_out_and_said() -> None:
    found = read_file(json.dumps(a_result()).encode(), name="run=0.json", said=Said({"box": "b"}), of_sweep=True)
    assert found.rows == ()
    assert "the sweep was stopped" in found.skipped[0]


def test_an_option_of_the_client_that_a_sweep_set_is_no_config() -> None:
    one = a_result(run_number=0, random_input_len=512, **{"max-num-batched-tokens": 2048, "num-prompts": 8})
    (row,) = read(one).rows
    assert row.document["args"] == {"max-num-batched-tokens": 2048}
    assert row.conditions["client"]["random_input_len"] == 512


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"output_throughput": 1', "r.json:1: it is no JSON"),
        (b"[]", "it holds no result"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[3]", "it is no object"),
        (b'{"avg_latency": 3}', "bench latency"),
        (b'{"error_type": "RuntimeError"}', "it is a failure that the sweep wrote"),
        (b'{"a": 1}', "output_throughput is absent"),
    ],
)
def test_what_is_no_result_says_what_it_seems_to_be(content: bytes, said: str) -> None:
    with pytest.raises(InvalidImport, match=said):
        read_file(content, name="r.json", said=Said())


def test_a_rate_that_its_own_tokens_and_time_contradict_is_refused() -> None:
    with pytest.raises(InvalidImport, match=r"output_throughput: found 999, but total_output_tokens / duration is 305"):
        read(a_result(output_throughput=999, total_output_tokens=610, duration=2.0))
    assert read(a_result(output_throughput=304.9, total_output_tokens=610, duration=2.0)).rows[0].rate == 304.9


def test_nothing_was_measured_after_its_import() -> None:
    said = Said(now=datetime(2026, 11, 30, 12, 0, tzinfo=UTC))
    with pytest.raises(InvalidImport, match=r"table.csv:2: date: found 2027-05-12 00:00 UTC, which is yet to come"):
        a_row(more="date", value="2027-05-12", said=said)
    assert a_row(more="date", value="2026-12-01T01:00", said=said).date is not None, "a zone may be ahead of UTC"


def test_a_temperature_that_cells_cannot_be_told_apart_by_is_refused_and_not_rounded() -> None:
    assert 'temperature: found "0.755"; write two decimals at most' in refused(LINE.replace("0.7", "0.755"))[0]
    assert a_row(LINE.replace("0.7", "0.70")).temperature == Decimal("0.7")


def test_what_is_no_number_is_answered_with_what_the_column_takes() -> None:
    assert 'concurrency: found "one"; write a whole number' in refused(LINE.replace(",1,", ",one,"))[0]
    assert (
        'temperature: found "warm"; write a number such as 0.7, or `unknown`' in refused(LINE.replace("0.7", "warm"))[0]
    )


# --- named combinations of a sweep -----------------------------------------------------------------------------------


def a_named_run(server: int, bench: str, **changes: Any) -> dict[str, Any]:
    """As `--serve-params` and `--bench-params` that are objects leave it: the server's name is written over by the client's."""
    streams = {"one": 1, "four": 4}[bench]
    given = {"run_number": 0, "_benchmark_name": bench, "max_num_seqs": server, "max_concurrency": streams}
    return a_result(**given, temperature=0, **changes)


def in_folder(folder: str, value: Any) -> ImportedRow:
    content, said = json.dumps(value).encode(), Said({"box": "b"})
    return read_file(content, name=f"{folder}/run=0.json", said=said, of_sweep=True, folder=folder).rows[0]


def test_a_named_servers_config_has_its_own_name_and_not_the_clients() -> None:
    found = [
        in_folder(f"SERVE--{name}-BENCH--{bench}", a_named_run(server, bench)).config
        for name, server in (("shallow", 4), ("deep", 8))
        for bench in ("one", "four")
    ]
    assert found == ["shallow", "shallow", "deep", "deep"]


@pytest.mark.parametrize(
    ("folder", "name", "config"),
    [
        ("SERVE--a-BENCH--b-BENCH--one", "one", "a-BENCH--b"),  # a server's name may hold anything
        ("SERVE--shallow-BENCH--one-WL--max_concurrency=1", "one", "shallow"),
        ("SERVE--shallow-BENCH--max_concurrency=1", "shallow", "shallow"),  # the name is the server's
        ("SERVE--org_k3-BENCH--a_one", "a/one", "org_k3"),  # a path has no slash
        ("BENCH--one", "one", "max_num_seqs=4"),  # the server has no name
        ("elsewhere", "one", "one"),  # the folder was renamed: the name is all there is
        ("SERVE--shallow", "shallow", "shallow"),
    ],
)
def test_the_folder_tells_whose_name_it_is(folder: str, name: str, config: str) -> None:
    assert in_folder(folder, a_named_run(4, "one") | {"_benchmark_name": name}).config == config


def test_a_summary_does_not_call_servers_by_the_clients_names_and_brings_no_row_twice() -> None:
    runs = [a_named_run(server, bench) for server in (4, 8) for bench in ("one", "four")]
    said = Said({"box": "b"})
    summed = read_file(json.dumps(runs).encode(), name="all.json", said=said).rows
    assert [row.config for row in summed] == ["max_num_seqs=4"] * 2 + ["max_num_seqs=8"] * 2
    folders = [f"SERVE--{name}-BENCH--{bench}" for name in ("shallow", "deep") for bench in ("one", "four")]
    apart = [in_folder(folder, run) for folder, run in zip(folders, runs, strict=True)]
    assert contents(apart) == contents(summed)


def test_a_summary_of_named_servers_alone_keeps_their_names() -> None:
    runs = [
        a_named_run(server, bench) | {"_benchmark_name": name}
        for name, server in (("shallow", 4), ("deep", 8))
        for bench in ("one", "four")
    ]
    summed = read_file(json.dumps(runs).encode(), name="all.json", said=Said({"box": "b"})).rows
    assert [row.config for row in summed] == ["shallow", "shallow", "deep", "deep"]
