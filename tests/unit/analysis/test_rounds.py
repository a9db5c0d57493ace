"""A decision's rounds, played again from what is stored: on nights whose truth is known."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from nightsweep.analysis.decision_said import decision_document, decision_said, decision_table
from nightsweep.analysis.racing import Standing
from nightsweep.analysis.rounds import DECIDED, MOST, NOBODY, OPEN, OPENING, Decision, Held, decision_of
from nightsweep.plan.drawn import Drawn
from nightsweep.plan.model import CONTROL_ROUND, BootTask, SweepPlan
from nightsweep.plan.remaining import window_key
from nightsweep.plan.sweepfile import load

FILE = """\
name: which
engine: {kind: vllm, host: process, command: [vllm, serve], model: org/target}
configs:
  - name: plain
  - {name: "k={num_speculative_tokens}", speculative: {method: mtp}, grid: {num_speculative_tokens: [2, 3, 4]}}
probe:
  concurrency: [1, 4, 16]
  temperature: [0.7, 1.0]
  repeats: {mode: decide, between: "k=*", incumbent: k=2, max: 12}
"""


def a_plan(*changes: tuple[str, str]) -> SweepPlan:
    text = FILE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return load(text)


@dataclass
class Night:
    """Measures what a decision asks for, on configs whose acceptance is known by name."""

    plan: SweepPlan
    truth: dict[str, float]
    noise: float = 0.1
    drawn: list[Drawn] = field(default_factory=list)
    windows: dict[tuple[str, int, str, int], tuple[bool, int]] = field(default_factory=dict)
    failed: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    boots: int = 0

    def decision(self) -> Decision:
        assert self.plan.decide is not None
        return decision_of(self.plan, self.plan.decide, Held(self.drawn, self.windows, self.failed))

    def measure(self, task: BootTask, *, windows: int | None = None, not_applied: tuple[str, ...] = ()) -> None:
        """Make a boot; of its windows the first so many only."""
        self.boots += 1
        chance = random.Random(f"{task.config.name}/{task.boot_round}")
        boot = math.exp(chance.gauss(0, 0.003))
        for repeat in task.repeats[:windows]:
            key = window_key(repeat)
            prompts = random.Random(f"{key[1:]}").gauss(0, 1)
            luck = 0.8 * prompts + 0.6 * random.Random(f"{key}").gauss(0, 1)
            length = self.truth.get(task.config.name, 1.0) * math.exp(self.noise / math.sqrt(key[1]) * luck)
            told = length if task.config.speculative else None
            self.windows[key] = (True, 1)
            self.drawn.append(Drawn(key, self.boots, key[1] * length / (0.1 * boot), told, "same", not_applied))

    def spend(self, *, rounds: int = 50) -> list[Decision]:
        """Measure round after round; return how the decision stood before each, and at the end."""
        seen = [self.decision()]
        while seen[-1].left and len(seen) <= rounds:
            for task in seen[-1].left:
                self.measure(task)
            seen.append(self.decision())
        return seen


CLEAR = {"k=2": 2.0, "k=3": 2.6, "k=4": 2.3}
CLOSE = {"k=2": 2.5, "k=3": 2.55, "k=4": 1.8}


def names(left: Sequence[BootTask]) -> list[str]:
    return [task.config.name for task in left]


def test_the_opening_is_of_all_configs_and_later_rounds_of_contenders_only() -> None:
    night = Night(a_plan(), CLEAR)
    seen = night.spend()
    assert (seen[0].state, names(seen[0].left)) == (OPENING, ["plain", "k=2", "k=3", "k=4"])
    assert (seen[1].state, set(names(seen[1].left))) == (OPEN, {"k=2", "k=3"}), "winner and incumbent are confirmed"
    assert "confirmed by a fresh boot" in seen[1].why
    assert (seen[-1].state, seen[-1].standings[0].config) == (DECIDED, "k=3")
    assert decision_said(seen[-1]).startswith("decided after 2 rounds: k=3 leads k=4 by")


def test_what_is_close_is_measured_again_in_turned_order_and_what_is_behind_is_not() -> None:
    seen = Night(a_plan(), CLOSE, noise=0.2).spend()
    later = [names(one.left) for one in seen[1:] if one.left]
    assert len(later) > 1
    assert "k=4" not in {name for left in later for name in left}
    assert later[:2] == [["k=3", "k=2"], ["k=2", "k=3"]]
    assert all("may still be the best" in one.why for one in seen[1:3])


def test_a_sweep_that_is_killed_in_a_round_finds_the_same_round_again() -> None:
    whole, cut = Night(a_plan(), CLOSE, noise=0.2), Night(a_plan(), CLOSE, noise=0.2)
    for night in (whole, cut):
        for task in night.decision().left:
            night.measure(task)
    asked = whole.decision()
    first, *others = cut.decision().left
    cut.measure(first, windows=1)
    again = cut.decision()
    assert (again.number, again.why, again.begun) == (asked.number, asked.why, True)
    assert not asked.begun
    assert again.left == (replace(first, repeats=first.repeats[1:]), *others)
    for task in again.left:
        cut.measure(task)
    for task in asked.left:
        whole.measure(task)
    assert cut.decision().why.split(":")[0] == whole.decision().why.split(":")[0]


def other_incumbent(night: Night, name: str) -> Night:
    """Return the same data under a file that says another config serves now."""
    changed = a_plan(("incumbent: k=2", f"incumbent: {name}"))
    return replace(night, plan=changed, drawn=list(night.drawn), windows=dict(night.windows))


def counted(decision: Decision) -> dict[str, tuple[int, int]]:
    return {one.config: (one.windows, one.boots) for one in decision.standings}


def stored(night: Night) -> dict[str, tuple[int, int]]:
    names = {config.fingerprint: config.name for config in night.plan.configs}
    drawn = [one for one in night.drawn if names[one.place[0]] != "plain"]
    return {
        name: (
            sum(names[one.place[0]] == name for one in drawn),
            len({one.boot_id for one in drawn if names[one.place[0]] == name}),
        )
        for name in {names[one.place[0]] for one in drawn}
    }


def test_another_incumbent_asks_anew_from_all_that_is_stored() -> None:
    night = Night(a_plan(), CLEAR)
    end = night.spend()[-1]
    assert counted(end) == stored(night)
    changed = other_incumbent(night, "k=4")
    asked = changed.decision()
    assert counted(asked) == stored(changed), "the old incumbent was confirmed, and nobody asks for that now"
    assert "k=4" in names(asked.left)
    after = changed.spend()[-1]
    assert (after.state, after.standings[0].config) == (DECIDED, "k=3")
    assert counted(after) == stored(changed)


def test_a_round_after_another_incumbent_is_found_again_in_its_middle() -> None:
    night = Night(a_plan(), CLOSE, noise=0.2)
    night.spend()
    changed = other_incumbent(night, "k=4")
    rounds = 0
    while (asked := changed.decision()).left:
        task, windows = asked.left[0], sum(len(one.repeats) for one in asked.left)
        for window in range(1, min(len(task.repeats) + 1, windows)):
            cut = replace(changed, drawn=list(changed.drawn), windows=dict(changed.windows))
            cut.measure(task, windows=window)
            again = cut.decision()
            assert (again.number, again.why) == (asked.number, asked.why)
            assert sum(len(one.repeats) for one in again.left) == windows - window
        for task in asked.left:
            changed.measure(task)
        rounds += 1
    assert rounds > 0
    assert counted(changed.decision()) == stored(changed)


def test_a_window_that_stayed_flagged_lets_no_later_rounds_windows_in_early() -> None:
    night = Night(a_plan(), CLOSE, noise=0.2)
    for task in night.decision().left:
        night.measure(task)
    second = night.decision()
    for task in second.left:
        night.measure(task)
    lost = window_key(second.left[0].repeats[0])
    night.windows[lost] = (False, 3)
    night.drawn = [one for one in night.drawn if one.place != lost]
    third = night.decision()
    night.measure(third.left[0], windows=1)
    assert (night.decision().number, night.decision().why) == (third.number, third.why)
    night.spend()
    assert counted(night.decision()) == stored(night)


def test_equal_configs_stop_at_the_most_windows_undecided_and_a_higher_most_goes_on() -> None:
    night = Night(a_plan(("max: 12", "max: 3")), {"k=2": 2.5, "k=3": 2.5, "k=4": 2.5}, noise=0.25)
    end = night.spend()[-1]
    assert (end.state, end.left) == (MOST, ())
    assert max(key[3] for key in night.windows) == 2
    assert "undecided, with `max` windows spent where they tell most (a higher `max` goes on)" in decision_said(end)
    before = dict(night.windows)
    night.plan = a_plan(("max: 12", "max: 6"))
    more = night.decision()
    assert more.state == OPEN
    assert not before.keys() & {window_key(repeat) for task in more.left for repeat in task.repeats}


def test_a_contender_that_does_not_come_up_is_out_with_a_word_and_the_others_go_on() -> None:
    night = Night(a_plan(), CLEAR)
    never = night.plan.configs[2].fingerprint
    night.failed[never, 0] = ("never",)
    for task in night.decision().left:
        night.measure(task)
    later = night.decision()
    assert later.dropped == {"k=3": "its engine does not come up"}
    assert [one.config for one in later.standings] == ["k=4", "k=2"]
    assert "k=3 is out: its engine does not come up" in decision_said(later)
    table = decision_table(later, simulated=True)
    assert table is not None
    assert "out: its engine does not come up" in str(table)


def test_one_that_fails_in_a_later_round_is_out_from_there() -> None:
    night = Night(a_plan(), CLOSE, noise=0.2)
    for task in night.decision().left:
        night.measure(task)
    asked = night.decision()
    lost = asked.left[0]
    night.failed[lost.config.fingerprint, lost.boot_round] = ("same", "same")
    for task in asked.left[1:]:
        night.measure(task)
    later = night.decision()
    assert later.dropped == {lost.config.name: f"its engine did not come up in round {lost.boot_round + 1}"}
    assert lost.config.name not in [one.config for one in later.standings]


def test_windows_that_stayed_flagged_in_the_opening_leave_their_contender_out() -> None:
    night = Night(a_plan(), CLEAR)
    for task in night.decision().left:
        night.measure(task, windows=3 if task.config.name == "k=4" else None)
    (left,) = night.decision().left
    for repeat in left.repeats:
        night.windows[window_key(repeat)] = (False, 3)
    assert "stayed flagged" in night.decision().dropped["k=4"]


def test_numbers_of_what_was_not_applied_decide_nothing() -> None:
    night = Night(a_plan(), CLEAR)
    for task in night.decision().left:
        night.measure(task, not_applied=("num_speculative_tokens",) if task.config.name == "k=3" else ())
    later = night.decision()
    assert later.dropped == {"k=3": "not applied as asked: num_speculative_tokens"}
    assert later.standings[0].config == "k=4"


def test_places_that_are_weighed_and_never_measured_are_named_until_they_are() -> None:
    objective = ("max: 12", "max: 12, objective: {concurrency: {1: 2, 16: 1}}")
    night = Night(a_plan(objective), CLEAR)
    assert night.decision().not_measured == (), "before the opening is over nobody leads"
    assert night.spend()[-1].not_measured == ((1, Decimal("1.00")),)
    each = Night(a_plan(objective, ("max: 12", "pooled: false, max: 12")), CLEAR)
    end = each.spend()[-1]
    assert (end.state, end.not_measured) == (DECIDED, ())


def test_without_any_contender_nothing_is_decided() -> None:
    night = Night(a_plan(), CLEAR)
    for config in night.plan.configs[1:]:
        night.failed[config.fingerprint, 0] = ("never",)
    for task in night.decision().left:
        night.measure(task)
    end = night.decision()
    assert (end.state, end.left, end.standings) == (NOBODY, (), ())
    assert decision_said(end).startswith("undecided: no contender could be measured")


def test_a_control_is_booted_through_later_rounds_too_and_at_the_end() -> None:
    night = Night(a_plan(("probe:", "control: {config: k=2, every: 2}\nprobe:")), CLOSE, noise=0.2)
    seen = night.spend()
    extra = [task.boot_round for one in seen for task in one.left if task.boot_round >= CONTROL_ROUND]
    own = sum(task.boot_round < CONTROL_ROUND for one in seen for task in one.left)
    assert extra == [CONTROL_ROUND + number for number in range(len(extra))]
    assert len(extra) == math.ceil(own / 2)
    assert seen[-1].left == ()


def test_what_is_left_of_the_opening_does_not_count_the_controls_windows() -> None:
    night = Night(a_plan(("probe:", "control: {config: k=2, every: 2}\nprobe:")), CLOSE, noise=0.2)
    own = sum(len(task.repeats) for task in night.decision().left if task.boot_round < CONTROL_ROUND)
    every = sum(len(task.repeats) for task in night.decision().left)
    assert own < every
    assert decision_said(night.decision()) == f"undecided: {own} windows of the opening are left"


def test_a_speculating_engine_that_tells_no_acceptance_is_held_by_its_rates_at_every_place() -> None:
    night = Night(a_plan(), CLEAR)
    for task in night.decision().left:
        night.measure(task)
    night.drawn = [replace(one, acceptance_length=None) for one in night.drawn]
    later = night.decision()
    config = night.plan.configs[2].fingerprint
    asked = {window_key(repeat)[1:3] for task in later.left for repeat in task.repeats if task.config.name == "k=3"}
    had = {key[1:3] for key in night.windows if key[0] == config}
    assert asked | had == {(streams, degree) for streams in (1, 4, 16) for degree in ("0.70", "1.00")}
    assert not asked & had
    assert any("without telling how much is accepted" in said for said in later.caveats)


def test_two_sets_of_conditions_are_told() -> None:
    night = Night(a_plan(), CLEAR)
    night.spend()
    night.drawn[-1] = replace(night.drawn[-1], conditions="another image")
    assert any("under 2 sets of conditions: the decision" in said for said in night.decision().caveats)
    documents = {"same": {"box": "b", "config": "k"}, "another image": {"box": "b", "sampling": {"min_p": 0.0}}}
    assert night.plan.decide is not None
    held = Held(night.drawn, night.windows, night.failed, conditions=documents)
    caveats = decision_of(night.plan, night.plan.decide, held).caveats
    assert any(
        "2 sets of conditions (they differ in sampling.min_p): the decision mixes them" in one for one in caveats
    )


def test_a_lead_is_told_in_one_measure_in_sentence_and_table_with_its_own_interval() -> None:
    leader = Standing("k=3", 0.0, 0.0, 9.0, 1.0, open=True, windows=9, boots=3)
    behind = Standing("k=4", math.log(1.186), 0.03, 9.0, 0.0, open=False, windows=5, boots=2)
    decision = Decision(DECIDED, 3, "", (), (leader, behind))
    low, high = behind.lead_span(0.95) or (0.0, 0.0)
    span = f"{100 * low:.1f} to {100 * high:.1f}"
    assert (
        decision_said(decision)
        == f"decided after 3 rounds: k=3 leads k=4 by 18.6% (95%: {span}%; 9 windows in 3 boots)"
    )
    table = decision_table(decision, simulated=False)
    assert table is not None
    assert table.groups[0].rows[1].values[1:3] == ("18.6", span)


def test_a_lead_whose_interval_holds_nothing_says_by_what_the_next_one_is_out() -> None:
    leader = Standing("k=3", 0.0, 0.0, 9.0, 1.0, open=True, windows=9, boots=3)
    behind = Standing("k=4", math.log(1.036), 0.02, 9.0, 0.021, open=False, windows=5, boots=2)
    said = decision_said(Decision(DECIDED, 3, "", (), (leader, behind)))
    assert "k=3 leads k=4 by 3.6% (95%: -1.0 to 8.4%; 9 windows in 3 boots): " in said
    assert "the chance that k=4 is better by more than 1% is 2.1%, and below 5% it is out" in said


def test_the_document_has_numbers_that_json_knows() -> None:
    night = Night(a_plan(), CLOSE, noise=0.2)
    for task in night.decision().left:
        night.measure(task)
    document = decision_document(night.decision())
    assert document["state"] == OPEN
    assert document["standings"][0]["behind"] == 0
    assert set(document["left"]) == {"k=2", "k=3"}
    assert all(math.isfinite(one["within"]) for one in document["standings"])
