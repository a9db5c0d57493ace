"""The rounds of a decision, played again from what is stored: which one is in hand, what is left of it, and how it stands.

A round is asked for by the data of the rounds before it, and by nothing else: so a sweep that is killed in the middle of a round
finds the same round again, and goes on with what is left of it. Pure, as the rule itself is.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from nightsweep.analysis.deciding import Round, final_standings, next_round
from nightsweep.analysis.differing import differences, flat
from nightsweep.analysis.racing import Rule, Run, Standing
from nightsweep.analysis.text import several
from nightsweep.plan.drawn import Drawn
from nightsweep.plan.model import CONTROL_ROUND, BootTask, Cell, DecideSpec, EngineConfig, SweepPlan
from nightsweep.plan.opening import Place
from nightsweep.plan.order import boot_task, cells_of, control_boots, decision_task
from nightsweep.plan.remaining import (
    FailedBoots,
    GivenUp,
    Prefills,
    Windows,
    left_of_boot,
    remaining,
    temperature_key,
    window_key,
)

OPENING, OPEN, DECIDED, MOST, NOBODY = "opening", "open", "decided", "most", "nobody"
"""States of a decision: not every contender is measured yet; a round is in hand; it stands; it cannot be had with the windows
that may be spent; no contender could be measured."""


@dataclass(frozen=True)
class Held:
    """All that is stored of a sweep, as far as a decision asks for it; see `plan.remaining` for the keys.

    Attributes:
        conditions: Documents of the windows' conditions by fingerprint, to name what differs; empty where they were not read.
    """

    drawn: Sequence[Drawn]
    windows: Windows
    failed_boots: FailedBoots = field(default_factory=dict)
    prefills: Prefills = field(default_factory=dict)
    single_batches: Windows = field(default_factory=dict)
    conditions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """How a decision stands.

    Attributes:
        number: Of the round in hand, or of the last one; the opening is round 1.
        why: Why that round is measured, for people.
        left: Boots that are still to be made for it.
        standings: By all complete rounds, the leader first, by names of configs; empty before every contender was opened.
        dropped: Contenders that are out for another reason than their numbers, with that.
        caveats: What else is to be known of it, a sentence each.
        begun: Whether a window of the round in hand is stored already.
        not_measured: Places (streams, temperature) that the objective weighs and at which a config that may be the best has no
            window: other places' acceptance and step times tell it.
    """

    state: str
    number: int
    why: str
    left: tuple[BootTask, ...]
    standings: tuple[Standing, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    caveats: tuple[str, ...] = ()
    begun: bool = False
    not_measured: tuple[tuple[int, Decimal], ...] = ()

    @property
    def over(self) -> bool:
        """Whether no further round will be asked for."""
        return self.state in (DECIDED, MOST, NOBODY)


def rule_of(plan: SweepPlan, spec: DecideSpec) -> Rule:
    """Return what is asked, as the rule takes it: configs by name."""
    return Rule(
        weights={(streams, float(degree)): weight for streams, degree, weight in spec.weights},
        most=spec.most,
        incumbent=None if spec.incumbent is None else plan.config(spec.incumbent).name,
        pooled=spec.pooled,
    )


def decision_of(plan: SweepPlan, spec: DecideSpec, held: Held) -> Decision:
    """Return how the decision stands by what is stored."""
    return _Replay(plan, spec, held).play()


class _Replay:
    """Plays the rounds again; see `decision_of`."""

    def __init__(self, plan: SweepPlan, spec: DecideSpec, held: Held) -> None:
        self.plan, self.spec, self.held = plan, spec, held
        self.given_up = GivenUp(held.failed_boots)
        self.by_name = {plan.config(one).name: plan.config(one) for one in spec.between}
        self.untold = _untold(held.drawn, self.by_name)
        self.rule = replace(rule_of(plan, spec), pooled=spec.pooled and not self.untold)
        self.drawn = {one.place: one for one in held.drawn}
        self.exact = {(streams, float(degree)): degree for streams, degree, _ in spec.weights}
        self.taken: Counter[tuple[str, Place]] = Counter()
        self.used: set[tuple[str, int, str, int]] = set()
        self.runs: list[Run] = []
        self.dropped: dict[str, str] = {}
        self.boots = 0

    def play(self) -> Decision:
        left = self._opening()
        if any(task.repeats for task in left):
            return Decision(OPENING, 1, self._opening_said(), left, begun=bool(self.held.windows))
        number, why = 1, self._opening_said()
        while self.active:
            asked = next_round(self.runs, self.active, self.rule)
            tasks = self._tasks(asked, number) if asked is not None else []
            if self._take_older(tasks):
                continue  # it is asked anew, with all that was known then
            if asked is None or not tasks:
                break  # nothing is asked for, or nothing of it can be had any more
            number, why = number + 1, asked.why
            undone = (*left, *self._left_of(tasks))
            if undone:
                begun = any(window_key(repeat) in self.held.windows for task in tasks for repeat in task.repeats)
                return replace(self._told(OPEN, number, why, undone), begun=begun)
        return self._told(self._ending(), number, why, (*left, *self._control(last=True)))

    def _told(self, state: str, number: int, why: str, left: tuple[BootTask, ...]) -> Decision:
        caveats = [
            f"{name} speculates without telling how much is accepted: its rates are taken as they are, with more noise"
            for name in sorted(self.untold)
        ]
        caveats += _mixed(self.held, self.by_name)
        found = self._standings()
        return Decision(
            state, number, why, left, found, self.dropped, tuple(caveats), not_measured=self._not_measured(found)
        )

    @property
    def active(self) -> list[str]:
        """Contenders that are in it still."""
        return [name for name in self.by_name if name not in self.dropped]

    def _standings(self) -> tuple[Standing, ...]:
        return tuple(final_standings(self.runs, self.active, self.rule)) if self.active else ()

    def _not_measured(self, found: Sequence[Standing]) -> tuple[tuple[int, Decimal], ...]:
        seen = {(run.config, run.place) for run in self.runs}
        may_be_best = [one.config for one in found if one.open]
        return tuple(
            (place[0], degree)
            for place, degree in self.exact.items()
            if any((name, place) not in seen for name in may_be_best)
        )

    def _ending(self) -> str:
        if not self.active:
            return NOBODY
        return MOST if sum(one.open for one in self._standings()) > 1 else DECIDED

    # --- the opening

    def _opening_said(self) -> str:
        each = len(cells_of(self.plan, ""))
        return f"the opening: each of {len(self.plan.configs)} configs once at {each} places, before anything is known"

    def _opening(self) -> tuple[BootTask, ...]:
        """Take in the opening's windows; return what is left of it, with all else that a first boot measures."""
        held = self.held
        left = remaining(
            self.plan,
            windows=held.windows,
            prefills=held.prefills,
            failed_boots=held.failed_boots,
            single_batches=held.single_batches,
        )
        for name, config in self.by_name.items():
            self._take(name, [(cell, 0) for cell in cells_of(self.plan, config.fingerprint)])
            self._drop_if_lost(name, config)
        return left

    def _drop_if_lost(self, name: str, config: EngineConfig) -> None:
        """Leave a contender out whose numbers would not be of it, or that has not all of the opening."""
        not_applied = next(
            (one.not_applied for one in self.held.drawn if self._of(one, config) and one.not_applied), ()
        )
        lost = [c for c in cells_of(self.plan, config.fingerprint) if _key(c, 0) not in self.drawn]
        if not_applied:
            self.dropped[name] = f"not applied as asked: {'; '.join(not_applied)}"
        elif lost and self.given_up(config.fingerprint, 0):
            self.dropped[name] = "its engine does not come up"
        elif lost:
            where = ", ".join(f"c={cell.concurrency} T={cell.temperature}" for cell in lost)
            self.dropped[name] = f"its windows at {where} stayed flagged"

    def _of(self, drawn: Drawn, config: EngineConfig) -> bool:
        return drawn.place[0] == config.fingerprint and drawn.place[3] < CONTROL_ROUND

    # --- later rounds

    def _take_older(self, tasks: Sequence[BootTask]) -> bool:
        """Take in the oldest boot's windows that no round asked for and that are older than this round's; False where none is.

        There are such after a change of what is asked (another incumbent, objective or `between`): windows of rounds that are not
        asked for any more count as they are. They come in by the order in which they were measured, so that windows which the
        rounds asked for since do not change it. Without such a change every window is one of a round, and there are none.
        """
        wanted = {window_key(repeat) for task in tasks for repeat in task.repeats}
        undone = not tasks or any(self._open(task) is not None for task in tasks)
        of_round = [self.drawn[key].boot_id for key in wanted if key in self.drawn]
        until = math.inf if undone else max(of_round, default=0)
        names = {self.by_name[name].fingerprint: name for name in self.active}
        places = {(streams, temperature_key(degree)): degree for (streams, _), degree in self.exact.items()}
        older = [
            one
            for key, one in self.drawn.items()
            if key not in self.used | wanted and one.boot_id < until and key[0] in names
            if key[3] < CONTROL_ROUND and key[1:3] in places
        ]
        first = min((one.boot_id for one in older), default=None)
        for one in older:
            if one.boot_id == first:
                config, streams, degree, index = one.place
                self._take(names[config], [(Cell(config, streams, places[streams, degree]), index)])
        return first is not None

    def _tasks(self, asked: Round, boot_round: int) -> list[BootTask]:
        """Return the boots of a round, every other one the other way round: a drift of the box falls on all alike."""
        order = [name for name in self.by_name if name in asked.places]
        tasks = []
        for name in order if boot_round % 2 == 0 else reversed(order):
            config = self.by_name[name]
            wanted: list[tuple[Cell, int]] = []
            for place in asked.places[name]:
                index = self.taken[name, place] + sum(self._place(cell) == place for cell, _ in wanted)
                if index < self.spec.most:
                    wanted.append((Cell(config.fingerprint, place[0], self.exact[place]), index))
            if wanted:
                tasks.append(decision_task(self.plan, config, boot_round, wanted))
        return tasks

    def _left_of(self, tasks: Sequence[BootTask]) -> tuple[BootTask, ...]:
        """Take in the windows of a round; return what is left of it, with the control's boots that fall into it."""
        out: list[BootTask] = []
        for task in tasks:
            left = self._open(task)
            out += [] if left is None else [left]
            self._take(task.config.name, [(repeat.cell, repeat.index) for repeat in task.repeats])
            if left is None and not any(window_key(repeat) in self.drawn for repeat in task.repeats):
                failed = self.given_up(task.config.fingerprint, task.boot_round)
                why = "its engine did not come up" if failed else "its windows stayed flagged"
                self.dropped[task.config.name] = f"{why} in round {task.boot_round + 1}"
            self.boots += 1
            out += self._control()
        return tuple(out)

    def _open(self, task: BootTask) -> BootTask | None:
        return left_of_boot(self.plan, task, windows=self.held.windows, given_up=self.given_up)

    def _control(self, *, last: bool = False) -> Iterator[BootTask]:
        """Yield the control's extra boot that is due after the boots so far, if it is not measured."""
        control = self.plan.control
        if control is None or self.boots == 0 or (self.boots % control.every == 0) == last:
            return
        number = control_boots(self.plan) + (self.boots - 1) // control.every
        task = boot_task(self.plan, self.plan.config(control.config), CONTROL_ROUND + number)
        left = self._open(task)
        if left is not None:
            yield left

    def _take(self, name: str, wanted: Sequence[tuple[Cell, int]]) -> None:
        for cell, index in wanted:
            place = self._place(cell)
            self.taken[name, place] = max(self.taken[name, place], index + 1)
            found = self.drawn.get(_key(cell, index))
            if found is not None:
                self.used.add(found.place)
                self.runs.append(
                    Run(name, found.boot_id, place, index, found.decode_rate, self._acceptance(name, found))
                )

    def _acceptance(self, name: str, found: Drawn) -> float | None:
        """Return what scatters with the prompts: acceptance, or the whole rate of an engine that drafts and does not tell it."""
        return found.decode_rate if name in self.untold else found.acceptance_length

    def _place(self, cell: Cell) -> Place:
        return cell.concurrency, float(cell.temperature)


def _untold(drawn: Sequence[Drawn], by_name: Mapping[str, EngineConfig]) -> frozenset[str]:
    """Return the contenders that speculate, and whose engine does not tell the acceptance length of each window."""
    untold = {one.place[0] for one in drawn if one.acceptance_length is None}
    return frozenset(name for name, config in by_name.items() if config.speculative and config.fingerprint in untold)


def _mixed(held: Held, by_name: Mapping[str, EngineConfig]) -> Iterator[str]:
    """Yield a sentence for each contender whose windows are of different conditions."""
    seen = {(one.place[0], one.conditions) for one in held.drawn if one.place[3] < CONTROL_ROUND}
    for name, config in by_name.items():
        sets = sorted(conditions for fingerprint, conditions in seen if fingerprint == config.fingerprint)
        if len(sets) > 1:
            first, *others = (flat(held.conditions.get(one, {})) for one in sets)
            differ = sorted({one.name for other in others for one in differences(first, other)})
            why = f" (they differ in {several(differ)})" if differ else ""
            yield f"{name} was measured under {len(sets)} sets of conditions{why}: the decision mixes them"


def _key(cell: Cell, index: int) -> tuple[str, int, str, int]:
    return cell.config, cell.concurrency, temperature_key(cell.temperature), index
