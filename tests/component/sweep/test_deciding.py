"""A short decision from end to end: the simulator, a real PostgreSQL; killed in the middle of a round, and gone on with."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any

from nightsweep.analysis.decision_read import decision_in
from nightsweep.analysis.decision_said import decision_said
from nightsweep.analysis.values import Event
from tests.component.sweep.kit import EVERYTHING, PLAIN, Bench, a_file, until

DEEP = {"name": "deep", "speculative": {"method": "mtp", "num_speculative_tokens": 3}}
SHALLOW = {"name": "shallow", "speculative": {"method": "mtp", "num_speculative_tokens": 1}}
QUICK: dict[str, Any] = {"concurrency": [2, 4], "window": "400ms"}


def a_decision(**repeats: Any) -> str:
    asked = {"mode": "decide", "between": ["deep", "shallow"], "incumbent": "shallow", "max": 2, **repeats}
    return a_file(PLAIN, DEEP, SHALLOW, repeats=asked, **QUICK)


def rounds(events: Iterable[Event]) -> list[str]:
    """Return what was said of each round, oldest first."""
    found = sorted((event for event in events if event.kind == "decision_round"), key=lambda event: event.at)
    return [event.message for event in found]


def test_a_decision_is_killed_in_the_middle_of_a_round_goes_on_with_it_and_is_told(bench: Bench) -> None:
    file = str(bench.file(a_decision()))
    with bench.command("run", file) as command:
        command.wait_for("round 2 begins", seconds=60)
        until(lambda: any(row.repeat > 0 for row in bench.windows()) or command.process.poll() is not None, seconds=30)
        command.send(signal.SIGKILL)
        command.end()
    (asked,) = (said for said in rounds(bench.events()) if said.startswith("round 2"))
    before = {row.window_id for row in bench.windows()}
    clean, planned = bench.sweep().repeats_clean, bench.sweep().repeats_planned
    assert planned > 6, "the opening is of six: what the round asks for is planned, too"
    assert clean <= planned
    outcome = bench.play(a_decision())
    assert outcome.state == "done"
    said = rounds(bench.events())
    if asked.replace("begins", "goes on") not in said:  # the whole of round 2 was stored when it was killed
        assert not any(one.startswith("round 2 begins") for one in said[2:])
    assert set(bench.clean_counts().values()) == {1}
    assert before <= {row.window_id for row in bench.windows()}
    counts = {name: sum(key[0] == name for key in bench.clean_counts()) for name in ("plain", "deep", "shallow")}
    assert counts["plain"] == 2, "what does not contend gets the opening only"
    assert min(counts["deep"], counts["shallow"]) > 2

    sweep = bench.sweep()
    plan = bench.queries.sweep_plan(sweep.sweep_id)
    assert plan is not None
    decision = decision_in(plan, windows=bench.windows(), boots=bench.queries.boots(EVERYTHING))
    assert decision is not None
    assert decision.over
    assert decision.left == ()
    assert sweep.note is not None
    assert decision.standings[0].config in sweep.note
    assert sweep.repeats_clean == sweep.repeats_planned == sum(counts.values())
    assert decision_said(decision) in sweep.note
