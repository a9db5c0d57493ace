"""The rule that spends a night where a decision is open: on nights whose truth is known."""

from __future__ import annotations

import math
import random

from nightsweep.analysis.deciding import Place, Round, Rule, Run, first_round, next_round, opening, standings

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


def test_on_forty_known_nights_the_pick_is_the_best_or_within_a_hundredth_and_costs_a_third_of_the_grid() -> None:
    right, windows = 0, 0
    for seed in range(40):
        chance = random.Random(1000 + seed)
        top = chance.uniform(0.02, 0.10)
        ratios = [1.0, 1 / (1 + top)] + [1 / (1 + top) * math.exp(-chance.uniform(0, 0.12)) for _ in range(6)]
        chance.shuffle(ratios)
        night = Night({f"c{i}": 3.0 * ratio for i, ratio in enumerate(ratios)}, noise=0.2, seed=seed)
        pick = night.spend(RULE)
        right += night.truth[pick] >= 3.0 / 1.01
        windows += len(night.runs)
    assert right >= 38
    assert windows / 40 <= 240 / 3
