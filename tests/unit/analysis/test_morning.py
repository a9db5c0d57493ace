"""The morning's summary: what it must not leave out, in Markdown and in HTML."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser

import pytest

from nightsweep.analysis import markdown
from nightsweep.analysis.blocks import Paragraph
from nightsweep.analysis.morning import Night, night_named, night_of, summary_blocks, title_of
from nightsweep.analysis.notices import KINDS
from nightsweep.analysis.page import page
from nightsweep.analysis.telling import kind_of, notice_of
from nightsweep.analysis.values import ProductionRow
from nightsweep.measurement.traffic import Traffic
from tests.unit.analysis.builders import EVENING, an_event, seed_night

LATER = EVENING + timedelta(hours=4)
BACK = ProductionRow(
    container="vllm-qwen",
    opened=EVENING,
    stopped=EVENING,
    restore_by=EVENING + timedelta(hours=8),
    restore_started=LATER,
    closed=LATER + timedelta(minutes=6),
    outcome="restored",
    checks={"ready": "/health", "token": "served", "differences": ["args: --seed is gone"], "unchecked": []},
)
DOWN = BACK._replace(closed=None, outcome="it was started and has ended again")


def a_night(**changes: object) -> Night:
    sweep, boots, windows, prefills, plan = seed_night(simulated=False)
    night = Night(
        sweep=sweep,
        span=night_of(EVENING, zone="UTC"),
        zone="UTC",
        boots=boots,
        windows=windows,
        prefills=prefills,
        single_batches=(),
        events=(an_event(at=LATER, level="warning", kind="window_flagged", message="c=1: foreign_load"),),
        production=(BACK,),
        plan=plan,
        left=12,
        goes_on="by `nightsweep resume 1`",
    )
    return replace(night, **changes)  # type: ignore[arg-type]


def text_of(night: Night) -> str:
    return markdown.document(summary_blocks(night))


class Seen(HTMLParser):
    """Collects what a page shows, and what it would fetch."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.words = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href", "srcset", "data")]

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_summary_says_what_ran_what_is_left_and_when_it_goes_on() -> None:
    said = text_of(a_night())
    assert "# Night of Sat 28 November 2026: dflash2-depth" in said
    assert "23 of 48 planned repeats have a clean window, 12 left" in said
    assert "goes on: by `nightsweep resume 1`" in said
    assert "flagged: foreign_load ×1, underfilled ×3" in said
    assert "kv_too_small" in said
    assert "Remedy: lower max-model-len" in said
    assert "c=1: foreign_load" in said


def test_every_mean_stands_with_its_run_count_and_range_and_a_lead_says_whether_it_is_open() -> None:
    said = text_of(a_night())
    assert "34.8 tokens/s (n=3: 31.5–39.7)" in said
    assert "open, their runs do not tell them apart" in said
    assert "| n | boots |" in said


def test_production_is_told_with_when_it_went_when_it_came_back_and_what_was_checked() -> None:
    said = text_of(a_night())
    assert "| vllm-qwen | Sat 22:30 | Sun 02:30 | Sun 02:36 | 4 h 06 min | Sun 06:30 |" in said
    assert "a token was served" in said
    assert "DIFFERS from before: args: --seed is gone" in said


def test_what_production_had_served_is_told_where_it_is_known() -> None:
    begun = EVENING - timedelta(hours=10)
    counts = {"requests": 3120, "prompt_tokens": 3_757_415.0, "generation_tokens": 967_200.0}
    traffic = Traffic(EVENING, since=begun, request_seconds=11160.0, generated_tokens=967_200.0, **counts)
    said = text_of(a_night(production=(BACK._replace(traffic=traffic),)))
    assert (
        "vllm-qwen had served 3,120 requests since Sat 12:30: 1,204 prompt and 310 generated tokens on average, 0.31 at once"
        in said
    )
    few = replace(traffic, requests=3)
    for unknown in (None, few):
        assert "had served" not in text_of(a_night(production=(BACK._replace(traffic=unknown),)))


def test_production_that_does_not_serve_stands_on_top_and_is_what_the_message_says_first() -> None:
    night = a_night(production=(DOWN,))
    loud = [block for block in summary_blocks(night) if isinstance(block, Paragraph) and block.loud]
    assert "NOT SERVING" in loud[0].text
    notice = notice_of(night, problems=(), summary=None)
    assert (notice.kind, notice.level) == ("production_not_restored", "failure")
    assert notice.title.startswith("PRODUCTION IS NOT SERVING: vllm-qwen on spark-1")
    assert "Next: run `nightsweep restore`" in notice.body


def test_production_that_is_starting_when_its_sweep_is_told_to_end_is_no_alarm() -> None:
    notice = notice_of(a_night(production=(BACK._replace(closed=None, outcome=None),)), problems=(), summary=None)
    assert notice.kind == "night_over"
    assert "Production vllm-qwen: is starting since Sun 02:30 (UTC)" in notice.body
    never = BACK._replace(restore_started=None, closed=None, outcome=None)
    assert notice_of(a_night(production=(never,)), problems=(), summary=None).kind == "production_not_restored"


def test_only_how_it_stands_now_is_told_of_production_that_went_down_several_times() -> None:
    later = BACK._replace(opened=LATER, stopped=LATER)
    notice = notice_of(a_night(production=(later, DOWN)), problems=(), summary=None)
    assert notice.kind == "night_over"
    assert notice.body.count("Production vllm-qwen") == 1


def test_a_message_holds_what_was_done_what_is_ahead_problems_and_what_to_do_next() -> None:
    notice = notice_of(a_night(), problems=("config x: boom",), summary="summaries/n.html")
    assert notice.kind == "night_over"
    assert notice.title == "dflash2-depth: night over, work left, 23 of 48 windows"
    lines = notice.body.splitlines()
    assert lines[0].startswith("23 of 48 planned windows done, 12 left.")
    assert "Production vllm-qwen: serves again since Sun 02:36 (UTC)." in lines
    assert any("(n=3: 31.5–39.7)" in line for line in lines)
    assert any(line.startswith("Conditions: engine 0.28.0, box spark-1") for line in lines)
    assert lines[-4:] == [
        "Problems (1):",
        "- config x: boom",
        "Next: by `nightsweep resume 1`",
        "Summary: summaries/n.html",
    ]


def test_a_message_of_a_sweep_that_is_done_says_which_configs_failed_and_is_no_success() -> None:
    night = a_night()
    done = replace(night, sweep=night.sweep._replace(state="done", configs=4), left=0)
    notice = notice_of(done, problems=(), summary=None, failed=("a", "b", "c"))
    assert (notice.kind, notice.level) == ("done", "warning")
    assert notice.title.startswith("dflash2-depth: done, but 3 of 4 configs failed, 23 of 48 windows")
    assert notice_of(done, problems=(), summary=None).level == "success"


@pytest.mark.parametrize(
    ("state", "clean", "kind"),
    [
        ("done", 48, "done"),
        ("done", 0, "failed"),
        ("failed", 5, "failed"),
        ("partial", 5, "night_over"),
        ("interrupted", 5, "night_over"),
        ("cancelled", 5, "cancelled"),
        ("paused", 5, "cancelled"),
    ],
)
def test_each_end_of_a_sweep_is_one_kind_of_news(state: str, clean: int, kind: str) -> None:
    night = a_night()
    assert kind in KINDS
    assert kind_of(replace(night, sweep=night.sweep._replace(state=state, repeats_clean=clean))) == kind


def test_the_page_shows_what_the_markdown_says_and_fetches_nothing() -> None:
    night = a_night()
    seen = Seen(page(summary_blocks(night), title=title_of(night)))
    assert seen.fetched == []
    assert not {"script", "link", "img", "iframe"} & set(seen.tags)
    for words in ("34.8 tokens/s (n=3: 31.5–39.7)", "a token was served", "foreign_load", "nightsweep resume 1"):
        assert words in seen.words
    assert "prefers-color-scheme: dark" in seen.words


def test_what_comes_from_outside_is_shown_and_not_obeyed() -> None:
    night = a_night()
    evil = night.sweep._replace(name="<script>alert(1)</script> `x`", note="\x1b[31m<b>red</b> | `unpaired")
    content = page(summary_blocks(replace(night, sweep=evil)), title="<i>")
    seen = Seen(content)
    assert not {"script", "b", "i"} & set(seen.tags)
    assert "<script>alert(1)</script>" in seen.words
    assert "\x1b" not in content
    assert "\\<script\\>" in text_of(replace(night, sweep=evil))


def test_a_night_lasts_from_noon_to_noon_of_its_zone_also_when_the_clock_is_put_forward() -> None:
    night = night_of(datetime(2027, 3, 28, 3, 30, tzinfo=UTC), zone="Europe/Amsterdam")
    assert night.name == date(2027, 3, 27)
    assert (night.begins, night.ends) == (
        datetime(2027, 3, 27, 11, tzinfo=UTC),
        datetime(2027, 3, 28, 10, tzinfo=UTC),
    )
    assert night == night_named(date(2027, 3, 27), zone="Europe/Amsterdam")
    assert night_of(night.ends, zone="Europe/Amsterdam").name == date(2027, 3, 28)


def test_a_night_in_which_nothing_ran_says_so() -> None:
    quiet = a_night(boots=(), windows=(), prefills=(), events=(), production=(), plan=None, left=None)
    said = text_of(quiet)
    assert "No engine was booted." in said
    assert "Nothing was measured" in said
    assert "No production container was taken down" in said
    assert "None." in said


TAKEN = BACK._replace(taken_over_by=7, taken_over=EVENING + timedelta(hours=1))


def test_production_that_a_later_sweep_took_over_is_told_with_who_has_it_and_when_it_came_back() -> None:
    told = "vllm-qwen was taken over by sweep 7 on Sat 23:30; it serves again since Sun 02:36"
    night = a_night(production=(TAKEN,))
    assert told in text_of(night)
    assert f"Production {told}." in notice_of(night, problems=(), summary=None).body


def test_production_that_a_later_sweep_still_has_down_is_no_alarm_of_the_earlier_ones() -> None:
    night = a_night(production=(TAKEN._replace(restore_started=None, closed=None, outcome=None),))
    told = "vllm-qwen was taken over by sweep 7 on Sat 23:30; it is down for sweep 7, which brings it back"
    assert told in text_of(night)
    assert "NOT SERVING" not in text_of(night)
    assert notice_of(night, problems=(), summary=None).kind != "production_not_restored"
    failed = a_night(production=(TAKEN._replace(closed=None, outcome="it was started and has ended again"),))
    assert notice_of(failed, problems=(), summary=None).kind == "production_not_restored", "nobody brought it back"
