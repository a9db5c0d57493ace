"""`nightsweep import` of what cannot be meant, and what it says of names that configs and sweeps have already."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nightsweep.cli.cells import command as cells
from nightsweep.cli.decide import command as decide
from nightsweep.cli.importing import command as import_
from nightsweep.errors import InvalidImport, NotFound, StillNeeded
from tests.component.cli.test_importing import LINE, Desk, a_table, desk

__all__ = ["desk"]  # pytest finds a fixture by its name here

PLAIN = "config,engine,model,box,concurrency,temperature,decode_rate,n,date"
FAST, SLOW = "fast,vllm,m,two,1,0.7,100,1,2026-05-12", "slow,vllm,m,two,1,0.7,50,1,2026-05-12"
TABLES = ("sweeps", "windows", "boots", "cells", "configs", "sweep_configs", "imports", "events", "cell_summaries")


def all_counts(desk: Desk) -> list[int]:
    return [desk.count(table) for table in TABLES]


# --- a removal that is tried -----------------------------------------------------------------------------------------


def test_a_removal_that_is_tried_says_what_would_go_and_takes_nothing_out(desk: Desk, tmp_path: Path) -> None:
    other = LINE.replace("box-a", "box-b")
    desk.bring(a_table(tmp_path, f"{LINE},20.0,2026-05-12", f"{LINE},21.0,2026-05-12", f"{other},9.0,2026-05-12"))
    before, listed = all_counts(desk), desk.listed(cells)
    said = desk.call(import_, "--remove", "spring", "--dry-run").output.splitlines()
    assert said == [
        "sweep spring of box box-a (id 1): 2 imported rows would be removed",
        "sweep spring of box box-b (id 2): 1 imported row would be removed",
    ]
    told = json.loads(desk.call(import_, "--remove", "spring", "--dry-run", "--json").stdout)
    assert (told["removed"], [one["rows_removed"] for one in told["sweeps"]]) == (False, [2, 1])
    assert (all_counts(desk), desk.listed(cells)) == (before, listed)
    told = json.loads(desk.call(import_, "--remove", "spring", "--json").stdout)
    assert told == {
        "name": "spring",
        "removed": True,
        "sweeps": [
            {"sweep_id": 1, "box": "box-a", "rows_removed": 2},
            {"sweep_id": 2, "box": "box-b", "rows_removed": 1},
        ],
    }
    assert desk.count("windows") == 0


def test_a_removal_that_is_tried_is_refused_as_the_removal_would_be(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="sweeps --imported"):
        desk.call(import_, "--remove", "spring", "--dry-run")
    header = f"{PLAIN},speculative.num_speculative_tokens"
    desk.bring(a_table(tmp_path, f"{FAST},3", f"{SLOW},4", header=header))
    desk.call(decide, "spring", "--choose", "fast", "--fallback", "slow")
    with pytest.raises(StillNeeded, match="decision 1 rests on it"):
        desk.call(import_, "--remove", "spring", "--dry-run")


@pytest.mark.parametrize(
    "option", [("--box", "box-a"), ("--name", "spring"), ("--set", "config=a"), ("--skip-open-loop",)]
)
def test_a_removal_takes_no_option_that_would_be_ignored(desk: Desk, tmp_path: Path, option: tuple[str, ...]) -> None:
    desk.bring(a_table(tmp_path, f"{LINE},20.0,"))
    refused = desk.call(import_, "--remove", "spring", *option)
    assert (refused.exit_code, desk.count("windows")) == (2, 1)
    assert f"leave {option[0]} out" in refused.output


# --- names of one config ---------------------------------------------------------------------------------------------


def test_two_names_of_one_content_are_refused_with_both_and_what_to_do(desk: Desk, tmp_path: Path) -> None:
    with pytest.raises(InvalidImport) as refused:
        desk.call(import_, a_table(tmp_path, FAST, SLOW, SLOW, header=PLAIN))
    (problem,) = refused.value.facts["problems"]
    assert problem == (
        'spring.csv:3: config: found "slow", and "fast" in spring.csv:2 has the same content: both would be one config; '
        "add a column that tells them apart (args.KEY, speculative.KEY, env.KEY, image, model_revision), or give both one name"
    )
    one, two = a_table(tmp_path, FAST, name="1.csv", header=PLAIN), a_table(tmp_path, SLOW, name="2.csv", header=PLAIN)
    for words in ((one, two), (one, two, "--dry-run")):
        with pytest.raises(InvalidImport, match=r'2.csv:2: config: found "slow", and "fast" in 1.csv:2 has the same'):
            desk.call(import_, *words)
    assert all_counts(desk) == [0] * len(TABLES)


def test_what_is_no_part_of_a_config_is_told_as_that_and_a_column_of_a_config_tells_two_names_apart(
    desk: Desk, tmp_path: Path
) -> None:
    versions = (f"{FAST},0.27.1", f"{SLOW},0.28.0")
    with pytest.raises(InvalidImport, match=r"\(engine_version keeps rows apart, and is no part of a config\)"):
        desk.call(import_, a_table(tmp_path, *versions, header=f"{PLAIN},engine_version"))
    desk.bring(a_table(tmp_path, f"{FAST},3", f"{SLOW},4", header=f"{PLAIN},args.block-size"))
    rates = {one["config"]: one["decode_rate_tokens_per_second"] for one in desk.listed(cells)["cells"]}
    assert {name: (rate["mean"], rate["n"]) for name, rate in rates.items()} == {"fast": (100.0, 1), "slow": (50.0, 1)}


def test_a_config_may_be_called_otherwise_on_another_box(desk: Desk, tmp_path: Path) -> None:
    desk.bring(a_table(tmp_path, FAST, SLOW.replace(",two,", ",three,"), header=PLAIN))
    assert sorted(one["config"] for one in desk.listed(cells)["cells"]) == ["fast", "slow"]


def test_results_of_clients_that_differ_in_their_label_alone_are_refused_with_how_to_say_it(
    desk: Desk, tmp_path: Path
) -> None:
    run = Path(__file__).parents[2] / "data" / "vllm_bench" / "depth" / "SERVE-k3-BENCH-c4" / "run=0.json"
    written = json.loads(run.read_text())
    kept: dict[str, Any] = {key: value for key, value in written.items() if key not in ("run_number", "max_num_seqs")}
    del kept["speculative_config"]
    paths = [tmp_path / f"{label}.json" for label in ("a", "b")]
    for day, path in enumerate(paths, start=10):
        path.write_text(json.dumps(kept | {"label": path.stem, "date": f"202605{day}-101500"}))
    with pytest.raises(
        InvalidImport, match=r'b.json: config: found "b", and "a" in a.json .*both as one: --set config=NAME'
    ):
        desk.call(import_, *paths, "--box", "b")
    assert desk.bring(*paths, "--box", "b", "--set", "config=one")["boxes"][0]["rows_added"] == 2


def test_a_later_import_of_a_config_under_another_name_says_so(desk: Desk, tmp_path: Path) -> None:
    desk.bring(a_table(tmp_path, FAST, name="one.csv", header=PLAIN))
    path = a_table(tmp_path, SLOW, name="two.csv", header=PLAIN)
    shown = desk.call(import_, path, "--dry-run").output
    said = "config slow has the content of fast in sweep one: one config, of which equal conditions pool"
    assert said in shown
    assert said in desk.call(import_, path).output
    (box,) = desk.bring(a_table(tmp_path, SLOW.replace(",50,", ",60,"), name="3.csv", header=PLAIN), "--name", "one")[
        "boxes"
    ]
    assert box["other_names"] == [
        {"config": "slow", "known_as": "fast", "sweep": "one", "stored_as": "fast"},
    ]
    shown = desk.call(import_, a_table(tmp_path, SLOW.replace(",50,", ",70,"), header=PLAIN), "--name", "one").output
    assert "config slow has the content of fast, and is called so: in sweep one the first name stands" in shown
    again = a_table(tmp_path, FAST.replace(",100,", ",101,"), name="one.csv", header=PLAIN)
    assert "has the content of" in desk.call(import_, again).output, "fast is called slow in sweep two"


@pytest.mark.parametrize("sweep", ["one", "two"])
def test_a_row_that_comes_again_under_another_name_of_its_config_is_left_alone(
    desk: Desk, tmp_path: Path, sweep: str
) -> None:
    desk.bring(a_table(tmp_path, FAST, FAST, name="one.csv", header=PLAIN))
    renamed = FAST.replace("fast", "quick")
    path = a_table(tmp_path, renamed, renamed, name="again.csv", header=PLAIN)
    before = all_counts(desk)
    said = desk.call(import_, path, "--name", sweep).output
    assert "nothing new for box two" in said
    assert "  2 rows stored already, in sweep one: left alone" in said
    assert "config quick is called fast there: rows that differ in the config's name alone are not stored twice" in said
    assert all_counts(desk) == before
    others = (renamed.replace(",two,", ",three,"), renamed.replace(",100,", ",101,"), renamed.replace("-12", "-13"))
    path = a_table(tmp_path, renamed, renamed, renamed, *others, name="again.csv", header=PLAIN)
    found = {one["box"]: one for one in desk.bring(path, "--name", sweep)["boxes"]}
    told = {box: (one["rows_added"], one["rows_known"], one["rows_known_as"]) for box, one in found.items()}
    assert told == {"two": (3, {"one": 2}, {"quick": "fast"}), "three": (1, {}, {})}, "a third run is one more"
    fast = a_table(
        tmp_path, *[line.replace("quick", "fast") for line in (renamed, renamed, renamed, *others)], header=PLAIN
    )
    assert [one["rows_added"] for one in desk.bring(fast)["boxes"]] == [0, 0], "nor under the first name again"


def test_results_of_a_named_sweep_are_not_stored_again_under_a_name_that_is_said(desk: Desk, tmp_path: Path) -> None:
    run = Path(__file__).parents[2] / "data" / "vllm_bench" / "depth" / "SERVE-k3-BENCH-c4" / "run=0.json"
    folder = tmp_path / "s" / "SERVE--deep-BENCH--four"
    folder.mkdir(parents=True)
    (folder / "run=0.json").write_text(json.dumps(json.loads(run.read_text()) | {"_benchmark_name": "four"}))
    assert [one["rows_added"] for one in desk.bring(tmp_path / "s", "--box", "b")["boxes"]] == [1]
    (box,) = desk.bring(tmp_path / "s", "--box", "b", "--set", "config=mine")["boxes"]
    assert (box["rows_added"], desk.count("windows")) == (0, 1)


def test_a_row_that_two_files_of_one_import_have_is_stored_once(desk: Desk, tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "data" / "vllm_bench" / "depth"
    (box,) = desk.bring(folder, folder / "summary.csv", "--box", "cpu")["boxes"]
    assert (box["rows_added"], box["rows_known"]) == (8, {"depth": 8})
    one, two = (
        a_table(tmp_path, FAST, FAST, *more, name=name, header=PLAIN) for name, *more in (("1.csv",), ("2.csv", FAST))
    )
    (box,) = desk.bring(one, two, "--name", "both")["boxes"]
    assert (box["rows_added"], box["rows_known"]) == (3, {"both": 2}), (
        "a row that stands three times in one file is three runs"
    )


# --- what is said of it ----------------------------------------------------------------------------------------------


def test_the_sweeps_of_several_boxes_are_named_by_id_and_each_lists_its_own(desk: Desk, tmp_path: Path) -> None:
    lines = [FAST.replace(",two,", f",{box},") for box in ("bx1", "bx2")]
    said = desk.call(import_, a_table(tmp_path, *lines, name="twobox.csv", header=PLAIN)).output
    assert "`nightsweep cells --sweep 1` and `nightsweep cells --sweep 2` list them" in said
    assert [desk.listed(cells, "--sweep", one)["cells"][0]["box"] for one in (1, 2)] == ["bx1", "bx2"]
    more = FAST.replace(",two,", ",bx1,").replace(",100,", ",101,")  # the older one, whose name lists the newer
    said = desk.call(import_, a_table(tmp_path, more, name="twobox.csv", header=PLAIN)).output
    assert "`nightsweep cells --sweep 1` lists them" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--temperature", "0.8", "--set", "temperature=0.9"), "--temperature 0.8 and --set temperature=0.9: say one"),
        (("--box", "a", "--set", "box=b"), "--box a and --set box=b: say one"),
        (("--date", "2026-05", "--set", "date=unknown"), "--date 2026-05 and --set date=unknown: say one"),
        (("--set", "image=a:1", "--set", "image=a:2"), 'image is said twice: "a:1" and "a:2"; say it once'),
    ],
)
def test_a_column_of_which_two_things_are_said_is_refused(
    desk: Desk, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    path = a_table(tmp_path, f"{LINE},20.0,")
    refused = desk.call(import_, path, *words)
    assert refused.exit_code == 2
    assert said in " ".join(refused.output.split())
    assert desk.count("windows") == 0
    assert desk.call(import_, path, "--temperature", "0.8", "--set", "temperature=0.8").exit_code == 0


@pytest.mark.parametrize("value", ["1e-200", "1e-12", "1e12"])
def test_the_smallest_and_the_largest_number_of_a_column_have_a_place_in_the_database(
    desk: Desk, tmp_path: Path, value: str
) -> None:
    columns = ("step_time_s", "tokens_per_step_and_stream", "window_s", "ttft_p50_s", "weights_gib", "cold_start_s")
    rows = [",".join(("a,vllm,m,b,1,0.7", value, "2026-05-12", *[value] * len(columns)))] * 2
    path = a_table(tmp_path, *rows, header=f"{PLAIN.replace(',n', '')},{','.join(columns)}")
    try:
        desk.bring(path)
    except InvalidImport as refused:
        assert "write a number" in str(refused)
        return
    for words in ((), ("--sweep", "spring"), ("--group-by", "config", "--imported")):
        assert desk.listed(cells, *words)
