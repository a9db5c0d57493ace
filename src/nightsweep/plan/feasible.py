"""What a sweep file asks for against what its own engine arguments allow: requests too long, and more streams than are seated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightsweep.plan.mistakes import Mistake, Path
from nightsweep.plan.model import EngineConfig, ProbeSpec

LENGTHS = {"vllm": "max-model-len", "sglang": "context-length"}
SEATS = {"vllm": "max-num-seqs", "sglang": "max-running-requests"}
"""Arguments that limit a request's tokens, and the requests that run at once, by engine kind."""

LONG_ANYWHERE = 32_768
"""Tokens of a request that current models hold; a longer one where the file says no limit is worth a word."""
MOST_STREAMS = 4096
"""Streams at most: the probe is shown to be right up to 256, and no engine's default seats more than 1,024."""
SEATED_BY_DEFAULT = 256
"""Requests that vLLM runs at once where it is not told (1,024 on large accelerators)."""

_RANKS = ("data-parallel-size", "dp-size", "dp")
_SUFFIXES = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 1024, "M": 1024**2, "G": 1024**3}
_WHOLE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kmgKMG]?)")
_FEW = 3


@dataclass(frozen=True)
class Found:
    """What cannot be, and what is doubtful, each with its place in the file."""

    mistakes: tuple[Mistake, ...]
    warnings: tuple[tuple[Path, str], ...]


def feasible(configs: Sequence[EngineConfig], probe: ProbeSpec) -> Found:
    """Return what of the probe the configs' own arguments rule out.

    A request that is longer than a config's context fails in every boot of it, and is a mistake. So are more streams than any
    config seats; where only some seat too few, their windows are flagged, and that is a warning.
    """
    mistakes: list[Mistake] = []
    warnings: list[tuple[Path, str]] = []
    for path, what, tokens in _requests(probe):
        limits = _limits(configs, LENGTHS)
        key = " / ".join(sorted({LENGTHS[config.engine.kind] for config in configs}))
        short = [(name, limit) for _, name, limit in limits if limit < tokens]
        if short:
            mistakes.append(_too_long(path, what, tokens, short, key))
        elif len(limits) < len(configs) and tokens > LONG_ANYWHERE:
            text = f"{what} needs {tokens:,} tokens of context: {key} is not said, and the model's own must hold them"
            warnings.append((path, text))
    for path, what, streams in _loads(probe):
        _check_seats(configs, path, what, streams, mistakes, warnings)
    if probe.sampling.min_p > 0 and any(config.engine.kind == "vllm" and config.speculative for config in configs):
        text = "vLLM refuses min_p above 0 under speculation (HTTP 400): every request to such a config would fail"
        warnings.append((("probe", "sampling", "min_p"), text))
    return Found(tuple(mistakes), tuple(warnings))


def _requests(probe: ProbeSpec) -> Iterator[tuple[Path, str, int]]:
    """Yield where a request's length is said, what it is, and how many tokens of context it needs at least."""
    if probe.prefill is not None:
        longest = max(probe.prefill.lengths)
        yield ("probe", "prefill", "tokens"), f"a prefill of {longest:,} tokens and one of output", longest + 1
    if probe.single_batch is not None:
        asked = probe.single_batch
        what = f"a single batch of {asked.input:,} tokens of input and {asked.output:,} of output"
        yield ("probe", "single_batch", "input"), what, asked.input + asked.output
    most = probe.sampling.max_tokens
    yield ("probe", "sampling", "max_tokens"), f"a prompt and {most:,} tokens of output (max_tokens)", most + 1


def _loads(probe: ProbeSpec) -> Iterator[tuple[Path, str, int]]:
    """Yield where streams are asked for, what they are, and how many run at once."""
    most = max(probe.concurrency)
    yield ("probe", "concurrency"), f"{most:,} streams", most
    if probe.prefill is not None and probe.prefill.under_load:
        beside = probe.prefill.under_load
        yield ("probe", "prefill", "under_load"), f"{beside:,} streams and the prompt beside them", beside + 1


def _check_seats(
    configs: Sequence[EngineConfig],
    path: Path,
    what: str,
    streams: int,
    mistakes: list[Mistake],
    warnings: list[tuple[Path, str]],
) -> None:
    remedy = "Lower it, or set the engine's own limit higher."
    if streams > MOST_STREAMS:
        mistakes.append(Mistake(path, what, f"at most {MOST_STREAMS:,}", "Lower it: nothing is measured with so many."))
        return
    seats = [(name, limit * _ranks(config)) for config, name, limit in _limits(configs, SEATS)]
    few = [(name, limit) for name, limit in seats if limit < streams]
    key = " / ".join(sorted({SEATS[config.engine.kind] for config in configs}))
    if few and len(few) == len(configs):
        most = max(limit for _, limit in few)
        mistakes.append(Mistake(path, what, f"at most the {most:,} that {key} lets run at once", remedy))
    elif few:
        least = min(limit for _, limit in few)
        text = f"{what} are more than {key} {least:,} lets run: those windows will be flagged ({_named(few)})"
        warnings.append((path, text))
    elif len(seats) < len(configs) and streams > SEATED_BY_DEFAULT:
        text = f"{what}: {key} is not said, and vLLM seats {SEATED_BY_DEFAULT} (1,024 on large accelerators) by default"
        warnings.append((path, text))


def _too_long(path: Path, what: str, tokens: int, short: Sequence[tuple[str, int]], key: str) -> Mistake:
    least = min(limit for _, limit in short)
    allowed = f"what {key} {least:,} holds ({_named(short)})"
    return Mistake(
        path, f"{what}, {tokens:,} tokens in all", allowed, f"Lower it by {tokens - least:,}, or raise {key}."
    )


def _named(configs: Sequence[tuple[str, int]]) -> str:
    names = ", ".join(name for name, _ in configs[:_FEW])
    return names + (f" and {len(configs) - _FEW} more" if len(configs) > _FEW else "")


def _limits(configs: Sequence[EngineConfig], keys: Mapping[str, str]) -> list[tuple[EngineConfig, str, int]]:
    found = ((config, whole(config.engine.args.get(keys[config.engine.kind]))) for config in configs)
    return [(config, config.name, limit) for config, limit in found if limit is not None]


def _ranks(config: EngineConfig) -> int:
    """Return how many schedulers share the streams: each has the limit for itself."""
    args = config.engine.args
    return next((count for count in (whole(args.get(key)) for key in _RANKS) if count), 1)


def whole(value: Any) -> int | None:
    """Return a count as vLLM reads it (8192, "32k" is 32,000, "32K" is 32,768); None for what says none (-1, auto)."""
    matched = _WHOLE.fullmatch(str(value).strip()) if isinstance(value, int | float | str) else None
    if matched is None or isinstance(value, bool):
        return None
    count = int(float(matched[1]) * _SUFFIXES.get(matched[2], 1))
    return count if count > 0 else None
