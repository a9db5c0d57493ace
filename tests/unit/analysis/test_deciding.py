"""The rule that spends a night where a decision is open: on nights whose truth is known."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from nightsweep.analysis.deciding import Round, first_round, next_round, opening
from nightsweep.analysis.racing import Rule, Run
from nightsweep.analysis.standings import standings
from nightsweep.plan.opening import Place

PLACES: tuple[Place, ...] = tuple((streams, degree) for streams in (1, 2, 4, 8, 16) for degree in (0.7, 1.0))
RULE = Rule({place: 1.0 for place in PLACES})


class Night:
    """Draws windows of configs whose acceptance is known: common prompts, content noise, boots that differ a little."""

    def __init__(self, truth: dict[str, float], *, noise: float, seed: int) -> None:
        self.truth, self.noise = truth, noise
        self.chance = random.Random(seed)
        self.content: dict[tuple[Place, int], float] = {}
        self.drawn: dict[tuple[str, Place], int] = {}
        self.runs: list[Run] = []
        self.boots = 0

    def measure(self, asked: Round) -> None:
        for config, places in asked.places.items():
            self.boots += 1
            boot = self.chance.gauss(0, 0.005)
            for place in places:
                draw = self.drawn.get((config, place), 0)
                self.drawn[config, place] = draw + 1
                sd = self.noise / math.sqrt(place[0])
                shared = self.content.setdefault((place, draw), self.chance.gauss(0, 1))
                luck = math.sqrt(0.5) * shared + math.sqrt(0.5) * self.chance.gauss(0, 1)
                length = self.truth[config] * math.exp(sd * luck)
                step = 0.12 * (1 + 0.02 * place[0]) * math.exp(boot + self.chance.gauss(0, 0.002))
                self.runs.append(Run(config, self.boots, place, draw, place[0] * length / step, length))

    def spend(self, rule: Rule) -> str:
        configs = list(self.truth)
        while (asked := next_round(self.runs, configs, rule)) is not None:
            self.measure(asked)
        return standings(self.runs, configs, rule)[0].config


def test_the_opening_sees_every_concurrency_once_and_the_highest_at_each_temperature() -> None:
    assert opening(RULE) == ((16, 0.7), (16, 1.0), (8, 0.7), (4, 1.0), (2, 0.7), (1, 1.0))
    assert set(opening(Rule(RULE.weights, pooled=False))) == set(PLACES)
    assert next_round((), ["a", "b"], RULE) == first_round(["a", "b"], RULE)


def test_what_is_clearly_behind_is_not_measured_again() -> None:
    night = Night({"best": 3.3, "near": 3.25, "far": 2.0}, noise=0.2, seed=1)
    night.measure(first_round(list(night.truth), RULE))
    asked = next_round(night.runs, list(night.truth), RULE)
    assert asked is not None
    assert set(asked.places) == {"best", "near"}
    assert {place[0] for places in asked.places.values() for place in places} == {16}
    assert "may still be the best" in asked.why


def test_winner_and_incumbent_have_two_boots_before_the_decision_stands() -> None:
    night = Night({"best": 4.0, "serves": 2.5, "other": 2.4}, noise=0.05, seed=2)
    rule = Rule(RULE.weights, incumbent="serves")
    assert night.spend(rule) == "best"
    boots = {one.config: one.boots for one in standings(night.runs, list(night.truth), rule)}
    assert boots["best"] >= 2
    assert boots["serves"] >= 2
    assert boots["other"] == 1


def test_equal_configs_end_the_night_at_the_most_windows_and_not_later() -> None:
    night = Night({"a": 3.0, "b": 3.0}, noise=0.25, seed=3)
    rule = Rule(RULE.weights, most=4)
    night.spend(rule)
    assert max(night.drawn.values()) <= 4


def test_the_same_data_give_the_same_next_round() -> None:
    night = Night({"a": 3.0, "b": 3.1, "c": 2.9}, noise=0.2, seed=4)
    night.measure(first_round(list(night.truth), RULE))
    assert next_round(night.runs, list(night.truth), RULE) == next_round(tuple(night.runs), ["a", "b", "c"], RULE)


def test_without_speculation_rates_alone_decide() -> None:
    runs = [
        Run(config, boot, place, 0, rate * place[0], None)
        for boot, (config, rate) in enumerate((("slow", 10.0), ("fast", 12.0)))
        for place in PLACES
    ]
    found = standings(runs, ["slow", "fast"], RULE)
    assert found[0].config == "fast"
    assert math.isclose(found[1].behind, math.log(1.2), rel_tol=1e-9)


def test_a_config_without_speculation_is_held_against_what_acceptance_really_is() -> None:
    night = Night({"a": 3.0, "b": 2.9}, noise=0.2, seed=5)
    configs = ["a", "b", "plain"]
    night.measure(first_round(["a", "b"], RULE))
    plain = [Run("plain", 99, place, 0, place[0] / (0.12 * (1 + 0.02 * place[0])), None) for place in opening(RULE)]
    found = {one.config: one for one in standings([*night.runs, *plain], configs, RULE)}
    assert found["plain"].behind == pytest.approx(math.log(3.0), abs=0.15)
    assert not found["plain"].open
    near = [Run("plain", 99, run.place, 0, run.rate * 2.9, None) for run in plain]
    close = {one.config: one for one in standings([*night.runs, *near], configs, RULE)}
    assert close["plain"].open, "the prompts drawn may have been lucky ones"


def test_a_single_run_that_carries_the_decision_is_measured_again_before_it_stands() -> None:
    night = Night({"good": 3.3, "lucky": 3.0}, noise=0.01, seed=6)
    night.measure(first_round(list(night.truth), RULE))
    odd = next(at for at, run in enumerate(night.runs) if (run.config, run.place) == ("lucky", (1, 1.0)))
    night.runs[odd] = replace(night.runs[odd], rate=night.runs[odd].rate * 2.2)
    assert standings(night.runs, ["good", "lucky"], RULE)[0].config == "lucky"
    asked = next_round(night.runs, ["good", "lucky"], RULE)
    assert asked is not None
    assert asked.places == {"good": ((1, 1.0),), "lucky": ((1, 1.0),)}
    assert "lucky leads by a single run at c=1 T=1" in asked.why
    assert night.spend(RULE) == "good"


def test_where_configs_differ_otherwise_at_other_concurrencies_every_place_is_measured() -> None:
    night = Night({"a": 3.0, "b": 3.02}, noise=0.02, seed=7)
    night.measure(first_round(list(night.truth), RULE))
    night.measure(Round({"a": ((16, 0.7), (16, 1.0)) * 2, "b": ((16, 0.7), (16, 1.0)) * 2}, "again"))
    tilted = [
        replace(run, acceptance=run.acceptance * 1.3, rate=run.rate * 1.3)
        if run.config == "b" and run.place[0] < 4 and run.acceptance
        else run
        for run in night.runs
    ]
    asked = next_round(tilted, ["a", "b"], RULE)
    assert asked is not None
    assert "acceptance differs between concurrencies" in asked.why
    assert set(asked.places["a"]) == set(PLACES) - {run.place for run in night.runs}


def test_one_window_of_each_is_no_difference_until_something_tells_its_noise() -> None:
    rule = Rule({(1, 0.7): 1.0})
    runs = [Run("a", 1, (1, 0.7), 0, 30.0, 3.0), Run("b", 2, (1, 0.7), 0, 20.0, 2.0)]
    assert [one.open for one in standings(runs, ["a", "b"], rule)] == [True, True]
    assert "one window does not tell" in str(next_round(runs, ["a", "b"], rule))


def test_on_thirty_known_nights_the_pick_is_the_best_or_within_a_hundredth_and_costs_a_third_of_the_grid() -> None:
    right, windows = 0, 0
    for seed in range(30):
        chance = random.Random(1000 + seed)
        top = chance.uniform(0.02, 0.10)
        ratios = [1.0, 1 / (1 + top)] + [1 / (1 + top) * math.exp(-chance.uniform(0, 0.12)) for _ in range(6)]
        chance.shuffle(ratios)
        night = Night({f"c{i}": 3.0 * ratio for i, ratio in enumerate(ratios)}, noise=0.2, seed=seed)
        pick = night.spend(RULE)
        right += night.truth[pick] >= 3.0 / 1.01
        windows += len(night.runs)
    assert right >= 28
    assert windows / 30 <= 240 / 3
