"""Reads `expect` and `box`: what is expected before the run, and how fast the box reads its memory."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator

from nightsweep.plan import quantities
from nightsweep.plan.expect import ACCEPTANCE_LENGTH, DECODE_RATE, QUANTITIES, RATIO, STEP_TIME, matching
from nightsweep.plan.mistakes import Mistake, Path, Refused, gathered, nearest, shown
from nightsweep.plan.model import EngineConfig, Expectation, ProbeSpec
from nightsweep.plan.schema import Section, Text
from nightsweep.plan.sections import checked

_BANDWIDTH = re.compile(r"(\d+(?:\.\d+)?)\s*([MGT])B/s", re.IGNORECASE)
_BYTES = {"M": 1e6, "G": 1e9, "T": 1e12}

LONGEST_BARE_STEP = 10.0
"""Seconds from which a step time without a unit is taken for milliseconds that lack theirs."""
NO_DRAFT = 1
"""Tokens of a step without speculation."""

_above_zero = quantities.number(least=0, most=math.inf, above_least=True)
_one_on = quantities.number(least=NO_DRAFT, most=math.inf)
_duration = quantities.duration()


def bandwidth(value: Any) -> float:
    """Return a memory bandwidth in bytes / second; makers count in powers of ten."""
    matched = _BANDWIDTH.fullmatch(value.strip()) if isinstance(value, str) else None
    found = float(matched[1]) * _BYTES[matched[2].upper()] if matched else 0.0
    if found <= 0:
        raise Refused("a memory bandwidth such as 273 GB/s or 1.8 TB/s")
    return found


def _limits(reader: quantities.Reader, *, example: str) -> quantities.Reader:
    """Return a reader of one value, or of [low, high] with null for no limit, as (low, high)."""

    def read(value: Any) -> tuple[float | None, float | None]:
        if not isinstance(value, list):
            one = float(reader(value))
            return one, one
        if len(value) != 2 or value == [None, None]:
            raise Refused(f"a value, or [low, high] such as {example}; null is no limit on that side")
        limits: list[float | None] = [None, None]
        with gathered() as parts:
            for index, one in enumerate(value):
                with parts.at((index,), one):
                    limits[index] = None if one is None else float(reader(one))
        low, high = limits
        if low is not None and high is not None and low > high:
            raise Refused("[low, high] with low <= high", remedy="Exchange the two.")
        return low, high

    return read


def time_of_step(value: Any) -> float:
    """Return the time of an engine step in seconds; a bare number of 10 or more is milliseconds without their unit."""
    allowed = f"a duration > 0 such as 118ms, or a number of seconds below {LONGEST_BARE_STEP:g}"
    try:
        seconds = float(_duration(value))
    except Refused as refused:
        raise Refused(allowed, remedy=refused.remedy) from None
    bare = str(value).strip()
    if seconds >= LONGEST_BARE_STEP and not bare[-1].isalpha():
        raise Refused(allowed, remedy=f"Did you mean {bare}ms? ({bare}s, if it is seconds.)")
    return seconds


def _within(example: str, reader: quantities.Reader = _above_zero) -> Any:
    return BeforeValidator(_limits(reader, example=example))


class ExpectIn(Section):
    """One entry of `expect`."""

    config: Text
    concurrency: Annotated[Any, BeforeValidator(quantities.whole(least=1))] = None
    temperature: Annotated[Any, BeforeValidator(quantities.temperature)] = None
    decode_rate: Annotated[Any, _within("[38, 46]")] = None
    acceptance_length: Annotated[Any, _within("[3.2, 3.9]", _one_on)] = None
    step_time: Annotated[Any, _within("[118ms, 125ms]", time_of_step)] = None
    ratio: Annotated[Any, _within("[1.6, 2.4]")] = None
    against: Text = None


class BoxIn(Section):
    """`box`, written out; a bare name is the short form."""

    name: Text = None
    memory_bandwidth: Annotated[Any, BeforeValidator(bandwidth)] = None


def box_of(raw: Any, mistakes: list[Mistake]) -> tuple[str | None, float | None]:
    """Return the box's name and memory bandwidth (bytes / second), None each where the file does not say.

    Args:
        raw: A name, or `{name: NAME, memory_bandwidth: 273 GB/s}`.
    """
    if raw is None:
        return None, None
    section, found = checked(BoxIn, raw if isinstance(raw, dict) else {"name": raw}, path=("box",))
    mistakes += (
        [Mistake(("box",), one.found, one.allowed, one.remedy) for one in found] if isinstance(raw, str) else found
    )
    return (None, None) if section is None else (section.name, section.memory_bandwidth)


def expect_of(
    raw: Any, configs: Sequence[EngineConfig], probe: ProbeSpec, mistakes: list[Mistake]
) -> tuple[Expectation, ...]:
    """Return what the file expects; what is wrong with it is added to `mistakes`."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        remedy = "Write `expect: [{config: NAME, decode_rate: [38, 46]}]`."
        mistakes.append(Mistake(("expect",), shown(raw), "a list of expectations", remedy))
        return ()
    found: list[Expectation] = []
    for index, entry in enumerate(raw):
        path: Path = ("expect", index)
        section, wrong = checked(ExpectIn, entry, path=path)
        mistakes += wrong
        if section is not None and not wrong:
            mistakes += _misplaced(section, configs, probe, path)
            found += _expectations(section)
    return tuple(found)


def _expectations(section: ExpectIn) -> list[Expectation]:
    given = {quantity: getattr(section, quantity) for quantity in QUANTITIES}
    return [
        Expectation(
            config=section.config,
            quantity=quantity,
            low=limits[0],
            high=limits[1],
            concurrency=section.concurrency,
            temperature=section.temperature,
            against=section.against if quantity == RATIO else None,
        )
        for quantity, limits in given.items()
        if limits is not None
    ]


def _misplaced(section: ExpectIn, configs: Sequence[EngineConfig], probe: ProbeSpec, path: Path) -> list[Mistake]:
    """Return what an entry says of configs and cells that the sweep does not have."""
    names = tuple(config.name for config in configs)
    found: list[Mistake] = []
    if not matching(section.config, configs):
        allowed = "the name of a config, or a pattern such as dflash*"
        found.append(Mistake((*path, "config"), shown(section.config), allowed, nearest(section.config, names)))
    if section.against is not None and section.against not in names:
        told = Mistake(
            (*path, "against"), shown(section.against), "the name of a config", nearest(section.against, names)
        )
        found.append(told)
    for key in ("concurrency", "temperature"):
        wanted, there = getattr(section, key), getattr(probe, key)
        if wanted is not None and wanted not in there:
            listed = ", ".join(map(str, there))
            found.append(Mistake((*path, key), str(wanted), f"one that is measured: {listed}"))
    return found + _incomplete(section, path) + _impossible(section, matching(section.config, configs), path)


def _impossible(section: ExpectIn, meant: Sequence[EngineConfig], path: Path) -> list[Mistake]:
    """Return what no measurement can be: a ratio of a config to itself, and an acceptance length beyond what a step verifies."""
    found: list[Mistake] = []
    if section.ratio is not None and [config.name for config in meant] == [section.against]:
        itself = f"{shown(section.against)}, the config itself"
        remedy = "Name the config that it is held against, or leave the ratio out."
        found.append(Mistake((*path, "against"), itself, "another config", remedy))
    low, high = section.acceptance_length or (None, None)
    most = {config.name: at_most for config in meant if (at_most := most_accepted(config)) is not None}
    for name, at_most in most.items():
        if low is not None and low > at_most:
            return [*found, _beyond(low, name, at_most, several=len(meant) > 1, path=path)]
    if high is not None and most and len(most) == len(meant) and high > max(most.values()):
        name = max(most, key=lambda one: most[one])
        return [*found, _beyond(high, name, most[name], several=len(meant) > 1, path=path)]
    return found


def _beyond(length: float, name: str, at_most: int, *, several: bool, path: Path) -> Mistake:
    drafts = at_most > NO_DRAFT
    why = f"{at_most - 1} draft tokens and the bonus token" if drafts else "it does not speculate"
    remedy = "It is 1 + accepted tokens / drafts." if drafts else "Leave it out: each of its steps gives one token."
    if several:
        remedy = "Name the configs that it holds for, each by itself."
    return Mistake((*path, ACCEPTANCE_LENGTH), f"{length:g}", f"up to {at_most} for {name} ({why})", remedy)


def most_accepted(config: EngineConfig) -> int | None:
    """Return the largest acceptance length that a config can have; None where its settings do not tell.

    vLLM's `num_speculative_tokens` are proposals, to which the bonus token comes; SGLang's `num_draft_tokens` are all tokens that
    are verified, it among them.
    """
    settings = config.speculative
    if settings is None:
        return None if any("spec" in word for word in config.engine.command) else NO_DRAFT
    if "num_speculative_tokens_per_batch_size" in settings:
        return None
    name, bonus = ("num_speculative_tokens", 1) if config.engine.kind == "vllm" else ("num_draft_tokens", 0)
    count = settings.get(name)
    return count + bonus if isinstance(count, int) else None


def _incomplete(section: ExpectIn, path: Path) -> list[Mistake]:
    if all(getattr(section, quantity) is None for quantity in QUANTITIES):
        allowed = f"what is expected: {DECODE_RATE}, {ACCEPTANCE_LENGTH}, {STEP_TIME} or {RATIO}"
        return [Mistake(path, "nothing that is expected", allowed, "Add `decode_rate: [38, 46]`.")]
    if (section.ratio is None) != (section.against is None):
        missing = "against" if section.against is None else "ratio"
        remedy = "Write `ratio: [1.6, 2.4]` and `against: NAME`."
        return [Mistake((*path, missing), "nothing", "`ratio` and `against` together", remedy)]
    return []
