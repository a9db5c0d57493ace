"""The estimate that costs nothing: a decode step reads the weights once, so it takes at least weights / memory bandwidth.

It holds for a dense model whose weights are read whole in every step; of a mixture of experts a step reads less. Drafting,
attention and everything else come on top: it is a lower limit of the step time, and an upper one of the decode rate.

Sources:
    Bandwidths as the makers state them: NVIDIA's data sheets of each product (GB10: DGX Spark, 273 GB/s).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from nightsweep.plan.expect import DECODE_RATE, FROM_BANDWIDTH, STEP_TIME, Prediction, Resident
from nightsweep.plan.model import EngineConfig, ProbeSpec
from nightsweep.units import GIB

BANDWIDTHS: tuple[tuple[str, float], ...] = (
    ("GB10", 273e9),
    ("GB200", 8000e9),
    ("B200", 8000e9),
    ("GH200", 4000e9),
    ("H200 NVL", 4800e9),
    ("H200", 4800e9),
    ("H100 NVL", 3900e9),
    ("H100 PCIe", 2000e9),
    ("H100", 3350e9),
    ("A100-SXM4-80GB", 2039e9),
    ("A100 80GB PCIe", 1935e9),
    ("A100", 1555e9),
    ("RTX PRO 6000 Blackwell", 1792e9),
    ("RTX 6000 Ada", 960e9),
    ("RTX 5090", 1792e9),
    ("RTX 4090", 1008e9),
    ("RTX 3090", 936e9),
    ("L40S", 864e9),
    ("L4", 300e9),
)
"""Part of an accelerator's name -> bytes / second of its own memory; the first that fits counts."""


def bandwidth_of(facts: Mapping[str, Any], *, written: float | None) -> float | None:
    """Return the memory bandwidth of one accelerator of a box in bytes / second; None when it is not known.

    Args:
        facts: The box's.
        written: What the sweep file says; it counts first.
    """
    if written is not None:
        return written
    devices = facts.get("accelerators")
    names = (
        {str(one.get("name", "")) for one in devices if isinstance(one, Mapping)}
        if isinstance(devices, list)
        else set()
    )
    if len(names) != 1:
        return None  # none, or different ones: the slowest would count, and which has what is not known
    name = names.pop().split()
    return next((found for part, found in BANDWIDTHS if _within(part.split(), name)), None)


def _within(part: Sequence[str], name: Sequence[str]) -> bool:
    """Return whether the words of `part` follow each other in `name`: "L4" is no "L40S", and "H200" is in no "GH200"."""
    words = [word.upper() for word in name]
    wanted = [word.upper() for word in part]
    return any(words[at : at + len(wanted)] == wanted for at in range(len(words)))


def estimates(
    config: EngineConfig,
    probe: ProbeSpec,
    resident: Resident,
    *,
    bandwidth: float,
    acceptance: Mapping[tuple[int, Decimal], float],
) -> tuple[Prediction, ...]:
    """Return the least step time and the highest decode rate of every cell of a config.

    Args:
        bandwidth: Of one device's memory, bytes / second.
        acceptance: Acceptance length that the sweep file expects, by (concurrency, temperature); where there is none, every
            draft token counts as accepted: a limit that holds whatever the drafter does.
    """
    found: list[Prediction] = []
    for concurrency in probe.concurrency:
        for temperature in probe.temperature:
            step, basis = _step(resident, bandwidth, streams=concurrency, held=probe.sampling.max_tokens / 2)
            length, source = _length(config, acceptance.get((concurrency, temperature)))
            cell = (config.fingerprint, concurrency, temperature)
            found.append(Prediction(*cell, STEP_TIME, FROM_BANDWIDTH, step, None, basis=basis))
            if length is not None:
                most = concurrency * length / step
                rate = f"{concurrency} x {length:g} tokens ({source}) / {step * 1000:.1f} ms; {basis}"
                found.append(Prediction(*cell, DECODE_RATE, FROM_BANDWIDTH, None, most, basis=rate))
    return tuple(found)


def _step(known: Resident, bandwidth: float, *, streams: int, held: float) -> tuple[float, str]:
    """Return the least seconds of a step, and what they are made of."""
    weights = known.weights * GIB
    told = f"{known.weights:.2f} GiB of weights"
    cache = 0.0
    if known.kv_cache is not None and known.kv_tokens:
        cache = streams * held * known.kv_cache * GIB / known.kv_tokens
        told += f" and {cache / GIB:.2f} GiB of KV cache ({streams} x {held:.0f} tokens)"
    return (weights + cache) / bandwidth, f"{told} at {bandwidth / 1e9:g} GB/s"


def _length(config: EngineConfig, expected: float | None) -> tuple[float | None, str]:
    if expected is not None:
        return expected, "as expected"
    if not config.speculative:
        return 1.0, "no speculation"
    drafted = config.speculative.get("num_speculative_tokens", config.speculative.get("num_draft_tokens"))
    if isinstance(drafted, int) and not isinstance(drafted, bool):
        return 1.0 + drafted, "all drafts accepted"
    return None, ""
