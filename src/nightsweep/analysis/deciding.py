"""Where the night's time goes when a decision is wanted, and not a table: the rule, as pure functions.

Successive rounds of racing (O. Maron and A. Moore, NIPS 6, 1994; Even-Dar, Mannor and Mansour, JMLR 7, 2006): all configs are
measured a little, then only those are measured again that may still be the best, until the best is known or the night ends. Two
things of this field make it cheap. Every config draws the same prompts in the same order, so what a prompt does to acceptance
falls out of a difference (common random numbers, as blocks). And a rate is acceptance length times the rest, of which the rest is
nearly exact and acceptance is the same at every concurrency where the data allow that: so it is measured where one window tells
most of it, at the highest concurrency.

An objective is a weighted geometric mean of rates over concurrency and temperature: a ratio means the same at every concurrency.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nightsweep.analysis.distributions import student_quantile
from nightsweep.analysis.racing import Rule, Run, Standing
from nightsweep.analysis.standings import pooling_p, scores_without, standings
from nightsweep.plan.opening import Place
from nightsweep.plan.opening import opening as opening_of

UNPOOLED_LEVEL = 0.02
"""How often acceptance is measured at every place although one number for all concurrencies would have done."""
MOST_AT_ONCE = 3
"""Windows of a place in one boot of a round at most: a boot costs as much as several, and a few too many cost less than one."""
CONFIRMED = 2
"""Boots of the winner, and of the incumbent, before the decision stands."""


@dataclass(frozen=True)
class Round:
    """What to measure next: for each config, in one fresh boot, the places in order; one that is twice in it is drawn twice.

    Attributes:
        why: For people: what is open, and why this is next.
    """

    places: Mapping[str, tuple[Place, ...]]
    why: str


# --- rounds ----------------------------------------------------------------------------------------------------------


def opening(rule: Rule) -> tuple[Place, ...]:
    """Return the places that every config is measured at once; see `nightsweep.plan.opening`."""
    return opening_of(rule.weights, pooled=rule.pooled)


def first_round(configs: Sequence[str], rule: Rule, *, runs: Sequence[Run] = ()) -> Round:
    """Return the opening, or what is left of it: every place of it once for each config."""
    seen = {(run.config, run.place) for run in runs}
    places = {config: tuple(p for p in opening(rule) if (config, p) not in seen) for config in configs}
    each = max(map(len, places.values()))
    told = "nothing is known yet" if each == len(opening(rule)) else "not every place is known yet"
    return Round(
        places, f"{told}: each of {len(configs)} configs once where it was not measured (up to {each} windows each)"
    )


def next_round(runs: Sequence[Run], configs: Sequence[str], rule: Rule) -> Round | None:
    """Return what to measure next; None when the decision stands (or cannot be had with `rule.most` windows a place)."""
    missing = [config for config in configs if not _opened(runs, config, rule)]
    if missing:
        return first_round(missing, rule, runs=runs)
    found = standings(runs, configs, rule)
    if rule.pooled and (p := pooling_p(runs, rule)) is not None and p < UNPOOLED_LEVEL:
        return _apart(runs, found, rule, p=p)
    contenders = [one for one in found if one.open]
    if len(contenders) > 1:
        return _again(runs, contenders, found, rule)
    return _doubted(runs, found, rule) or _confirmation(runs, found, rule)


def final_standings(runs: Sequence[Run], configs: Sequence[str], rule: Rule) -> list[Standing]:
    """Return how the configs stand as `next_round` judges it, the leader first; those that need every place and lack some, last.

    Every config must have been opened.
    """
    found = standings(runs, configs, rule)
    if not rule.pooled or (p := pooling_p(runs, rule)) is None or p >= UNPOOLED_LEVEL:
        return found
    apart = replace(rule, pooled=False)
    known = [one.config for one in found if one.open and _opened(runs, one.config, apart)]
    if not known:
        return found
    return [*standings(runs, known, apart), *(one for one in found if one.config not in known)]


def _opened(runs: Sequence[Run], config: str, rule: Rule) -> bool:
    seen = {run.place for run in runs if run.config == config}
    return all(place in seen for place in opening(rule))


def _apart(runs: Sequence[Run], found: Sequence[Standing], rule: Rule, *, p: float) -> Round | None:
    """Return the next round where configs differ from each other otherwise at other concurrencies: every place is measured."""
    apart = replace(rule, pooled=False)
    contenders = [one.config for one in found if one.open]
    missing = {
        config: tuple(
            place for place in opening(apart) if not any((r.config, r.place) == (config, place) for r in runs)
        )
        for config in contenders
    }
    missing = {config: places for config, places in missing.items() if places}
    if missing:
        why = f"acceptance differs between concurrencies in another way from config to config (p={p:.3f})"
        return Round(missing, f"{why}: {len(missing)} configs are measured where they were not yet")
    return next_round(runs, contenders, apart)


def _again(runs: Sequence[Run], contenders: Sequence[Standing], found: Sequence[Standing], rule: Rule) -> Round | None:
    leader, *others = contenders
    closest = min(others, key=lambda one: one.behind)
    times = _times(runs, leader, closest, rule)
    places = _telling(runs, [one.config for one in contenders], rule, times=times)
    if not places:
        return None
    return Round(
        places, f"{len(contenders)} of {len(found)} configs may still be the best: {_led(leader, closest, rule)}"
    )


def _led(leader: Standing, closest: Standing, rule: Rule) -> str:
    led = f"{leader.config} leads {closest.config} by {closest.lead_said(rule.confidence)}"
    if not math.isfinite(closest.se):
        return f"{led}, and one window does not tell how far that is luck"
    return f"{led}; measured again where a window tells most"


def _times(runs: Sequence[Run], leader: Standing, closest: Standing, rule: Rule) -> int:
    """Return how many windows of a place to draw in one boot: what would tell the two apart, if their difference stays."""
    needed = closest.behind + math.log1p(rule.indifferent)
    if not math.isfinite(closest.se):
        return 1
    reach = student_quantile(closest.df, rule.confidence) * closest.se
    top = max(place[0] for place in rule.weights)
    have = max(Counter(run.place for run in runs if run.config == leader.config and run.place[0] == top).values())
    return max(1, min(MOST_AT_ONCE, math.ceil(have * ((reach / needed) ** 2 - 1))))


def _telling(runs: Sequence[Run], configs: Sequence[str], rule: Rule, *, times: int) -> dict[str, tuple[Place, ...]]:
    """Return the places of a further round: by pooled acceptance the highest concurrency alone, else all of them."""
    counts = Counter((run.config, run.place) for run in runs)
    top = max(place[0] for place in rule.weights)
    wanted = [place for place in opening(rule) if not rule.pooled or place[0] == top]
    places = {
        config: tuple(p for turn in range(times) for p in wanted if counts[config, p] + turn < rule.most)
        for config in configs
    }
    return {config: found for config, found in places.items() if found}


# --- before it stands ------------------------------------------------------------------------------------------------


def _doubted(runs: Sequence[Run], found: Sequence[Standing], rule: Rule) -> Round | None:
    """Return a round for single runs that carry the decision: without one of them another config would lead."""
    configs = [one.config for one in found]
    leader = configs[0]
    counts = Counter((run.config, run.place) for run in runs)
    alone = [run for run in runs if counts[run.config, run.place] == 1 < rule.most]
    asked: dict[str, dict[Place, None]] = {}
    for run, scores in scores_without(alone, runs, configs, rule):
        for other in configs[1:]:
            if run.config in (leader, other) and scores[other] > scores[leader]:
                for config in (leader, other):
                    asked.setdefault(config, {}).setdefault(run.place)
    if not asked:
        return None
    places = {config: tuple(wanted) for config, wanted in asked.items()}
    where = ", ".join(sorted({f"c={p[0]} T={p[1]:g}" for wanted in places.values() for p in wanted}))
    return Round(places, f"{leader} leads by a single run at {where}: measured again, as it would change the decision")


def _confirmation(runs: Sequence[Run], found: Sequence[Standing], rule: Rule) -> Round | None:
    """Return the last round: winner and incumbent once more in fresh boots, unless both had two already."""
    winner = found[0].config
    pair = [winner, *([rule.incumbent] if rule.incumbent not in (None, winner) else [])]
    boots = {one.config: one.boots for one in found}
    if all(boots.get(str(config), 0) >= CONFIRMED for config in pair):
        return None
    places = _telling(runs, [str(config) for config in pair], rule, times=1)
    names = " and ".join(str(name) for name in pair)
    return Round(places, f"{names} confirmed by a fresh boot") if places else None
