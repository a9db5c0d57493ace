"""Applied-config proof: what was asked for against what the engine says it does.

Engines accept settings that then do nothing. What is found here makes a boot `not_applied`: its numbers are kept, and are never
silently compared under the name of the config that was asked for. What the engine does not tell is no finding.

Source:
    vLLM v1/sample/rejection_sampler.py (no `block` on the V1 model runner), config/speculative.py, the `non-default args` line;
    SGLang `server_args`, as resolved.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from nightsweep.engine.flags import argument
from nightsweep.engine.identity import tokens_of
from nightsweep.engine.second_source import budgets, disagreement
from nightsweep.engine.speculative_sglang import UNPREFIXED, bare_key
from nightsweep.engine.speculative_vllm import canonical_method
from nightsweep.engine.values import Applied, BootFacts, ServedIdentity
from nightsweep.plan.model import EngineConfig

MIN_DRAFTS = 50
"""Drafts below which nothing accepted may be chance."""

KV_ROUNDING = 0.06
"""GiB by which an engine's own figure may differ from what was asked for: it is rounded to one or two decimals."""

_UNKNOWN_VARIABLE = "Unknown vLLM environment variable detected: "
MAX_QUOTED = 200
"""Characters of an engine's own warning that are quoted."""

_FALLBACK = re.compile(
    r"fall(?:s|ing)? ?back|does not have native support|using the V1 model runner instead|lower(?:ed|ing) to PIECEWISE"
    r"|Async scheduling not supported",
    re.I,
)
_NO_MATTER = re.compile(r"autotune cache|tactics")
_CHANGED = re.compile(r"overrid|is adjusted to|mismatch|reducing \w+ to|will be ignored|has no effect", re.I)


def proof(
    config: EngineConfig,
    facts: BootFacts,
    served: ServedIdentity,
    *,
    page: str = "",
    answers: Mapping[str, Any] | None = None,
) -> Applied:
    """Return what of a config was not applied, what else a reader should know, and the KV budget from other sources.

    Args:
        page: The engine's metrics page after it was ready; "" when it did not come.
        answers: The engine's JSON answers, by the keys of `Engine.identity_paths`.
    """
    kv_second = budgets(page, answers or {})
    differing = (disagreement(facts, budget) for budget in kv_second)
    return Applied(
        not_applied=tuple(dict.fromkeys(not_applied(config, facts, served))),
        notes=tuple(dict.fromkeys((*(said for said in differing if said), *_fallbacks(facts)))),
        kv_second=kv_second,
    )


def not_applied(config: EngineConfig, facts: BootFacts, served: ServedIdentity | None = None) -> tuple[str, ...]:
    """Return what was asked for and not applied, one line each; empty when all that the boot tells agrees.

    Args:
        config: What was asked for.
        facts: What the boot's log says.
        served: What the engine says of itself once it answers.
    """
    length = None if served is None else served.max_model_len
    if config.engine.kind == "vllm":
        return (
            *_vllm(config, facts),
            *_variables(config, facts),
            *_attention(config, facts),
            *_kv_memory(config, facts),
            *_context(config, facts, length, "max-model-len"),
        )
    return (*_sglang(config, facts, served), *_context(config, facts, length, "context-length"))


def dead_drafter(*, drafts: float | None, accepted_tokens: float | None) -> str | None:
    """Return what a window says of a drafter of which nothing was ever accepted; None when it is alive or there is none.

    Neither engine warns of it: a draft that does not fit its target is rejected token by token, in silence.
    """
    if drafts is None or accepted_tokens is None or drafts < MIN_DRAFTS or accepted_tokens > 0:
        return None
    return (
        "dead drafter: not one draft token was accepted in the whole window (acceptance length 1.0), so the draft does not "
        "fit the target"
    )


# --- vLLM --------------------------------------------------------------------------------------------------------


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
    """Yield a schedule that does nothing: the engine said so, or a drafter of a fixed block shortens nothing."""
    if asked.get("num_speculative_tokens_per_batch_size") is None:
        return
    for warning in facts.warnings:
        if re.search(r"dynamic speculative|num_speculative_tokens_per_batch_size", warning, re.I) and re.search(
            r"fall(?:ing|s)? back|not supported|disabled|ignored", warning
        ):
            yield f"the schedule of draft lengths was not applied: {warning[:MAX_QUOTED]}"
            return


def _variables(config: EngineConfig, facts: BootFacts) -> Iterator[str]:
    """Yield variables of the config that the engine does not know: a typo, or a name of another release.

    Source:
        vLLM envs.py: "Unknown vLLM environment variable detected: NAME"; others' (a linked service's) are no concern of ours.
    """
    for warning in facts.warnings:
        name = warning.rpartition(_UNKNOWN_VARIABLE)[2].strip() if _UNKNOWN_VARIABLE in warning else ""
        if name in config.engine.env:
            yield f"environment variable {name} was set, and the engine knows none of that name"


def _attention(config: EngineConfig, facts: BootFacts) -> Iterator[str]:
    asked = argument(config.engine.args, "attention-backend") or config.engine.env.get("VLLM_ATTENTION_BACKEND")
    told = [str(fact.value) for fact in facts.facts if fact.name == "attention_backend"]
    if not isinstance(asked, str) or asked.lower() == "auto" or not told:
        return
    if _backend(asked) not in {_backend(name) for name in told}:
        yield f"attention backend {asked!r} was asked for, and the engine uses {told[0]!r}"


def _kv_memory(config: EngineConfig, facts: BootFacts) -> Iterator[str]:
    """Yield a KV cache of another size than was asked for: on the CPU, VLLM_CPU_KVCACHE_SPACE outweighs the argument."""
    asked = tokens_of(argument(config.engine.args, "kv-cache-memory-bytes", "kv-cache-memory"))
    if asked is None or facts.kv_cache is None:
        return
    wanted = asked / 2**30
    if abs(facts.kv_cache - wanted) > max(KV_ROUNDING, 0.01 * wanted):
        yield f"kv-cache-memory-bytes {asked:,} ({wanted:.2f} GiB) was asked for, and the engine took {facts.kv_cache:g} GiB"


def _backend(name: str) -> str:
    """Return a backend's name without what differs between releases: FLASH_ATTN_VLLM_V1, Flash Attention, FlashAttn."""
    plain = re.sub(r"_?vllm_v1$|[^a-z0-9_]", "", name.lower().replace("attention", "attn"))
    return plain.replace("_", "").removesuffix("attn")


# --- both --------------------------------------------------------------------------------------------------------


def _context(config: EngineConfig, facts: BootFacts, served: int | None, name: str) -> Iterator[str]:
    asked = tokens_of(argument(config.engine.args, name))
    lengths = [fact.value for fact in facts.facts if fact.name == "max_model_len"]
    used = served if served is not None else lengths[-1] if lengths else None
    if asked is not None and used is not None and used != asked:
        yield f"{name} {asked:,} was asked for, and the engine uses {used:,}"


def _fallbacks(facts: BootFacts) -> Iterator[str]:
    """Yield the engine's own words on what it fell back to: nobody asked for that kernel, and nobody measures it unknowing."""
    for warning in facts.warnings:
        if _FALLBACK.search(warning) and not _NO_MATTER.search(warning):
            yield f"the engine says: {warning[:MAX_QUOTED]}"


# --- SGLang ------------------------------------------------------------------------------------------------------


def _sglang(config: EngineConfig, facts: BootFacts, served: ServedIdentity | None) -> Iterator[str]:
    resolved = {**(facts.non_default_args or {}), **(served.extra if served is not None else {})}
    asked, told = argument(config.engine.args, "attention-backend"), resolved.get("attention_backend")
    if asked is not None and told is not None and not _same(asked, told):
        yield f"attention backend {asked!r} was asked for, and the engine uses {told!r}"
    if resolved:
        yield from _sglang_speculation(config, facts, resolved)


def _sglang_speculation(config: EngineConfig, facts: BootFacts, resolved: Mapping[str, Any]) -> Iterator[str]:
    if not config.speculative:
        algorithm = resolved.get("speculative_algorithm")
        if algorithm is not None:
            yield f"no speculation was asked for, and the engine speculates by {algorithm!r}"
        return
    for name, value in config.speculative.items():
        bare = bare_key(name)
        field = bare if bare in UNPREFIXED else f"speculative_{bare}"
        if field in resolved and value is not None and not _same_setting(bare, value, resolved[field]):
            yield f"speculative {bare} {value!r} was asked for, and the engine resolved it to {resolved[field]!r}"
    for warning in facts.warnings:
        if _CHANGED.search(warning):
            yield f"the engine changed a setting: {warning[:MAX_QUOTED]}"


def _same_setting(bare: str, asked: Any, told: Any) -> bool:
    """Whether a setting is what was asked for; NEXTN is EAGLE with the model's own head, and is resolved so."""
    if bare == "algorithm" and str(asked).upper() == "NEXTN" and str(told).upper() in ("EAGLE", "NEXTN"):
        return True
    return _same(asked, told)


def _same(asked: Any, told: Any) -> bool:
    """Whether two values are the same to an engine: 7 and "7", a list and a tuple, EAGLE and eagle."""
    if isinstance(asked, list | tuple) and isinstance(told, list | tuple):
        return len(asked) == len(told) and all(_same(a, b) for a, b in zip(asked, told, strict=True))
    if isinstance(asked, bool) or isinstance(told, bool):
        return bool(asked) == bool(told)
    if isinstance(asked, int | float | Decimal) and isinstance(told, int | float | Decimal):
        return float(asked) == float(told)
    return str(asked).lower() == str(told).lower()
