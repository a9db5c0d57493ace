"""Applied-config proof: what was asked for against what the engine says it does.

Engines accept settings that then do nothing. What is found here makes a boot `not_applied`: its numbers are kept, and are never
silently compared under the name of the config that was asked for. What the log does not tell is no finding.

Source:
    vLLM v1/sample/rejection_sampler.py (no `block` on the V1 model runner), config/speculative.py, the `non-default args` line;
    SGLang `server_args`, as resolved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from nightsweep.engine.flags import argument
from nightsweep.engine.identity import tokens_of
from nightsweep.engine.speculative_sglang import UNPREFIXED, bare_key
from nightsweep.engine.speculative_vllm import canonical_method
from nightsweep.engine.values import BootFacts
from nightsweep.plan.model import EngineConfig


def not_applied(config: EngineConfig, facts: BootFacts) -> tuple[str, ...]:
    """Return what was asked for and not applied, one line each; empty when all that the boot tells agrees.

    Args:
        config: What was asked for.
        facts: What the boot's log says.
    """
    if config.engine.kind == "vllm":
        return (*_vllm(config, facts), *_context(config, facts))
    return tuple(_sglang(config, facts))


def dead_drafter(*, drafts: float | None, accepted_tokens: float | None) -> str | None:
    """Return what a window says of a drafter of which nothing was ever accepted; None when it is alive or there is none.

    Neither engine warns of it: a draft that does not fit its target is rejected token by token, in silence.
    """
    if drafts is None or accepted_tokens is None or drafts < MIN_DRAFTS or accepted_tokens > 0:
        return None
    return f"none of the tokens of {drafts:,.0f} drafts was accepted: the draft does not fit the target (acceptance length 1.0)"


MIN_DRAFTS = 50
"""Drafts below which nothing accepted may be chance."""


def _vllm(config: EngineConfig, facts: BootFacts) -> Iterator[str]:
    asked = config.speculative
    told = {fact.name: fact.value for fact in reversed(facts.facts)}
    method = told.get("speculative_method")
    if asked is None:
        if method is not None:
            yield f"no speculation was asked for, and the engine speculates by {method!r}"
        return
    started = "engine_generation" in told
    if method is None:
        if started and facts.engine_version is not None:
            yield "speculation was asked for, and the engine's own configuration names none"
        return
    if asked.get("method") is not None and canonical_method(asked["method"]) != canonical_method(method):
        yield f"method {asked['method']!r} was asked for, and the engine runs {method!r}"
    wanted, given = asked.get("num_speculative_tokens"), told.get("speculative_tokens")
    if isinstance(wanted, int) and given is not None and wanted != given:
        yield f"num_speculative_tokens {wanted} was asked for, and the engine runs {given}"
    yield from _echo(asked, facts)
    yield from _sampling(asked, facts)
    yield from _schedule(asked, facts)


def _echo(asked: Mapping[str, Any], facts: BootFacts) -> Iterator[str]:
    """Yield keys that the engine echoes otherwise than they were asked, or not at all."""
    echoed = (facts.non_default_args or {}).get("speculative_config")
    if not isinstance(echoed, Mapping):
        return
    for name, value in asked.items():
        if name not in echoed:
            yield f"speculative {name} was asked for, and the engine was started without it"
        elif not _same(value, echoed[name]):
            yield f"speculative {name} {value!r} was asked for, and the engine was started with {echoed[name]!r}"


def _sampling(asked: Mapping[str, Any], facts: BootFacts) -> Iterator[str]:
    if asked.get("rejection_sample_method") != "block" or facts.model_runner != "V1":
        return
    yield "rejection_sample_method 'block' is silently ignored: this boot runs on the V1 model runner"
    if asked.get("draft_sample_method") == "probabilistic":
        yield "draft_sample_method 'probabilistic' is switched off by 'block' on the V1 model runner: drafts are greedy"


def _schedule(asked: Mapping[str, Any], facts: BootFacts) -> Iterator[str]:
    if asked.get("num_speculative_tokens_per_batch_size") is None:
        return
    for warning in facts.warnings:
        if "Dynamic speculative decoding" in warning and ("falling back" in warning or "not supported" in warning):
            yield f"the schedule of draft lengths was not applied: {warning[:200]}"
            return


def _context(config: EngineConfig, facts: BootFacts) -> Iterator[str]:
    asked = tokens_of(argument(config.engine.args, "max-model-len"))
    lengths = [fact.value for fact in facts.facts if fact.name == "max_model_len"]
    if asked is not None and lengths and lengths[-1] != asked:
        yield f"max-model-len {asked:,} was asked for, and the engine uses {lengths[-1]:,}"


def _sglang(config: EngineConfig, facts: BootFacts) -> Iterator[str]:
    resolved = facts.non_default_args
    if not resolved:
        return
    if not config.speculative:
        algorithm = resolved.get("speculative_algorithm")
        if algorithm is not None:
            yield f"no speculation was asked for, and the engine speculates by {algorithm!r}"
        return
    for name, value in config.speculative.items():
        bare = bare_key(name)
        field = bare if bare in UNPREFIXED else f"speculative_{bare}"
        if field in resolved and value is not None and not _same(value, resolved[field]):
            yield f"speculative {bare} {value!r} was asked for, and the engine resolved it to {resolved[field]!r}"
    for warning in facts.warnings:
        if "overriding" in warning or "is adjusted to" in warning or "mismatch" in warning:
            yield f"the engine changed a setting: {warning[:200]}"


def _same(asked: Any, told: Any) -> bool:
    """Whether two values are the same to an engine: 7 and "7", a list and a tuple, EAGLE and eagle."""
    if isinstance(asked, list | tuple) and isinstance(told, list | tuple):
        return len(asked) == len(told) and all(_same(a, b) for a, b in zip(asked, told, strict=True))
    if isinstance(asked, bool) or isinstance(told, bool):
        return bool(asked) == bool(told)
    if isinstance(asked, int | float | Decimal) and isinstance(told, int | float | Decimal):
        return float(asked) == float(told)
    return str(asked).lower() == str(told).lower()
