"""A config that was not applied as asked is said wherever its numbers stand, and never leads under its name."""

from __future__ import annotations

from datetime import timedelta

from nightsweep.analysis.caveats import caveats
from nightsweep.analysis.cell_documents import cell_document
from nightsweep.analysis.documents import boot_document
from nightsweep.analysis.listings import boots_table
from nightsweep.analysis.report import report_markdown
from nightsweep.analysis.summary import summarise
from nightsweep.analysis.tables import cells_table, pivot_table

from .builders import EVENING, a_boot, a_sweep, a_window

WHY = "rejection_sample_method 'block' is silently ignored: this boot runs on the V1 model runner"
DEAD = "dead drafter: not one draft token was accepted in the whole window"

HONEST = [a_window(window_id=n, repeat=n, decode_rate=20.0 + n, config="a", config_fingerprint="fp-a") for n in (1, 2)]
CLAIMED = [
    a_window(
        window_id=n,
        repeat=n,
        decode_rate=90.0 + n,
        config="b",
        config_fingerprint="fp-b",
        conditions="x",
        not_applied=(WHY,),
    )
    for n in (3, 4)
]


def test_cells_say_what_was_not_applied_in_a_column_and_below() -> None:
    table = cells_table(summarise([*HONEST, *CLAIMED]), title="t")
    assert table.columns[-1].heading == "as asked"
    assert [row.values[-1] for group in table.groups for row in group.rows] == ["yes", "not applied"]
    assert f"not applied: {WHY} (b)" in table.notes


def test_cells_that_were_applied_have_no_such_column() -> None:
    table = cells_table(summarise(HONEST), title="t")
    assert all(column.heading != "as asked" for column in table.columns)


def test_a_config_that_was_not_applied_is_never_the_strong_one() -> None:
    other = [a_window(window_id=9, decode_rate=21.0, config="c", config_fingerprint="fp-c")]
    (group,) = pivot_table(summarise([*HONEST, *CLAIMED, *other]), title="t").groups
    strong = {row.values[0]: bool(row.strong) for row in group.rows}
    assert strong["b [not applied]"] is False
    assert any(strong.values())


def test_boots_of_one_config_that_applied_it_and_did_not_are_rows_of_their_own() -> None:
    applied = [a_window(window_id=n, repeat=n, config="b", config_fingerprint="fp-b", conditions="y") for n in (6, 7)]
    cells = summarise([*CLAIMED, *applied])
    assert [(cell.not_applied, cell.decode_rate.n if cell.decode_rate else 0) for cell in cells] == [
        ((WHY,), 2),
        ((), 2),
    ]


def test_a_boot_says_it_in_its_outcome_and_below_the_table() -> None:
    table = boots_table([a_boot(not_applied=(WHY,), notes=("the engine says: falling back",))], title="t")
    assert table.groups[0].rows[0].values[1] == "stopped, not applied"
    assert table.notes == (f"boot 1 (mtp): not applied: {WHY}", "boot 1 (mtp): the engine says: falling back")


def test_a_second_sources_kv_tokens_stand_only_where_the_log_states_none_and_name_their_source() -> None:
    budget = {"vllm:cache_config_info": {"tokens": 74_880, "source": "vllm:cache_config_info"}}
    rows = [
        a_boot(kv_second=budget),
        a_boot(boot_id=2, kv_tokens=None, kv_second=budget),
        a_boot(boot_id=3, kv_tokens=None),
    ]
    shown = [row.values[4] for group in boots_table(rows, title="t").groups for row in group.rows]
    assert shown == ["1,014,892", "74,880 (vllm:cache_config_info)", "–"]
    assert boot_document(rows[1])["kv_cache_tokens"] is None
    assert boot_document(rows[1])["kv_second"] == budget


def test_the_report_says_it_in_caveats_boots_and_cells() -> None:
    report = report_markdown(
        a_sweep(),
        boots=[a_boot(config="b", config_fingerprint="fp-b", started=EVENING + timedelta(hours=1), not_applied=(WHY,))],
        windows=[*HONEST, *CLAIMED],
        prefills=[],
        plan=None,
        software_version="1",
    )
    assert report.count(WHY.replace("_", "\\_")) + report.count(WHY) >= 3
    assert "Not applied as asked" in report


def test_a_lead_is_not_given_to_what_was_not_applied() -> None:
    close = [a_window(window_id=8, decode_rate=21.5, config="c", config_fingerprint="fp-c")]
    (open_lead,) = [
        line for line in caveats(a_sweep(), boots=[], cells=summarise([*HONEST, *CLAIMED, *close])) if "is open" in line
    ]
    assert "(a and c)" in open_lead or "(c and a)" in open_lead


def test_a_dead_drafter_is_a_number_with_a_loud_mark() -> None:
    cells = summarise([a_window(notes=(DEAD,), acceptance_length=1.0), a_window(window_id=2, repeat=1, notes=(DEAD,))])
    assert cells[0].decode_rate is not None
    assert cells[0].decode_rate.n == 2
    table = cells_table(cells, title="t")
    assert table.groups[0].rows[0].values[-1] == "dead drafter"
    assert f"note: {DEAD} (mtp)" in table.notes
    assert any(line.startswith("Dead drafter") for line in caveats(a_sweep(), boots=[], cells=cells))
    assert cell_document(cells[0])["notes"] == [DEAD]
