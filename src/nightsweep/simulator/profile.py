"""Profiles: what a simulated box does, as data. The JSON files beside this module are the calibrated ones.

All times are simulated seconds, as the real box would need them. Where a published report gives a figure, the entry says
`"source": "report"`; what lies between is an `"estimate"`, and says so too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any

ByBatch = tuple[tuple[float, float], ...]
"""(batch, value) pairs in rising order of batch; straight lines between, held (or prolonged) outside."""


class ProfileError(ValueError):
    """The profile does not exist, or its file is not one."""


@dataclass(frozen=True)
class Entry:
    """One measured (or estimated) engine config of a box.

    Attributes:
        k: num_speculative_tokens; 0 without speculation.
        step: Seconds of one decode step by batch, speculation and verification included.
        shape: Unconditional acceptance by position; only its shape counts. Shape: (k,).
        lengths: Acceptance length by temperature, each by batch.
        draft_share: Share of steps that draft at all (n-gram and suffix often find nothing).
        kv_tokens: KV cache tokens at the profile's `kv_reference_bytes`.
        draft_gib: Part of `weights_gib` that is the draft's.
        draft_load, draft_compile: Seconds that the draft adds to a boot.
        reported: Aggregate decode rate by temperature and batch, from the report; for tests.
    """

    method: str | None
    k: int
    draft_sample: str
    rejection: str
    step: ByBatch
    shape: tuple[float, ...]
    lengths: tuple[tuple[float, ByBatch], ...]
    draft_share: float
    weights_gib: float
    draft_gib: float
    kv_tokens: int
    draft_load: float
    draft_compile: float
    runner: str
    source: str
    reported: tuple[tuple[float, ByBatch], ...] = ()


@dataclass(frozen=True)
class Spread:
    """How far content moves acceptance, in logit units.

    Attributes:
        prompt: Standard deviation between prompts, by temperature.
        drift: Standard deviation of the slow drift within a request.
        drift_steps: Steps after which the drift has forgotten where it was (autocorrelation 1/e).
    """

    prompt: ByBatch
    drift: float
    drift_steps: float


@dataclass(frozen=True)
class BootStages:
    """Seconds of a cold start, in the order in which they pass. The draft's own parts come with the config."""

    imports: float
    engine_init: float
    load: float
    compile: float
    profile_kv: float
    warmup: float
    graphs: float
    api: float


@dataclass(frozen=True)
class Profile:
    """A simulated box and the model it serves.

    Units:
        prefill_rate: prompt tokens / second. memory_gib: GiB. stop_mean, stop_minimum: tokens of a natural answer.
    """

    name: str
    accelerator: str
    memory_gib: float
    free_gib: float
    overhead_gib: float
    vllm_version: str
    architecture: str
    derived_max_len: int
    attention_backend: str
    gemm_kernel: str | None
    shards: int
    max_num_seqs: int
    max_num_batched_tokens: int
    prefill_rate: float
    stop_mean: float
    stop_minimum: float
    kv_reference_bytes: int
    graph_gib: float
    spread: Spread
    boot: BootStages
    entries: tuple[Entry, ...] = field(repr=False, default=())

    def family(self, method: str | None, draft_sample: str, rejection: str) -> tuple[Entry, ...]:
        """Return the entries of a method with these rules, by rising k; a method without such rules gives what it has."""
        of_method = [entry for entry in self.entries if entry.method == method]
        exact = [e for e in of_method if (e.draft_sample, e.rejection) in ((draft_sample, rejection), ("any", "any"))]
        standard = [e for e in of_method if (e.draft_sample, e.rejection) == ("greedy", "standard")]
        return tuple(sorted(exact or standard or of_method, key=lambda entry: entry.k))


def at(table: ByBatch, x: float, *, prolong: bool = False) -> float:
    """Return the table's value at x: straight between its points, held outside, or prolonged above when asked."""
    first, last = table[0], table[-1]
    if x <= first[0] or len(table) == 1:
        return first[1]
    if x >= last[0]:
        if not prolong:
            return last[1]
        before = table[-2]
        return last[1] + (x - last[0]) * max(0.0, (last[1] - before[1]) / (last[0] - before[0]))
    for (x0, y0), (x1, y1) in pairwise(table):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return last[1]


@cache
def load_profile(name: str) -> Profile:
    """Return a profile by its name (gb10, h200, 5090) or from a JSON file.

    Raises:
        ProfileError: No such profile, or the file does not hold one.
    """
    try:
        return _profile(json.loads(_text(name)))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ProfileError(f"no usable simulator profile {name!r}: {error}") from error


def profile_names() -> tuple[str, ...]:
    """Return the names of the bundled profiles."""
    folder = resources.files("nightsweep.simulator") / "profiles"
    return tuple(sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json")))


def _text(name: str) -> str:
    if name.endswith(".json"):
        return Path(name).read_text(encoding="utf-8")
    file = resources.files("nightsweep.simulator") / "profiles" / f"{name}.json"
    if not file.is_file():
        raise ValueError(f"known are {', '.join(profile_names())}, or the path of a .json file")
    return file.read_text(encoding="utf-8")


def _profile(data: Mapping[str, Any]) -> Profile:
    plain = {key: value for key, value in data.items() if key not in {"entries", "spread", "boot", "notes"}}
    spread = data["spread"]
    return Profile(
        **plain,
        spread=Spread(
            prompt=_by_batch(spread["prompt"]), drift=float(spread["drift"]), drift_steps=float(spread["drift_steps"])
        ),
        boot=BootStages(**{key: float(value) for key, value in data["boot"].items()}),
        entries=tuple(_entry(item) for item in data["entries"]),
    )


def _entry(item: Mapping[str, Any]) -> Entry:
    shape = tuple(float(rate) for rate in item.get("shape", ()))
    k = int(item.get("k", 0))
    if len(shape) != k:
        raise ValueError(f"{item.get('method')} k={k}: {len(shape)} positions")
    return Entry(
        method=item.get("method"),
        k=k,
        draft_sample=item.get("draft_sample", "any"),
        rejection=item.get("rejection", "any"),
        step=_by_batch(item["step"]),
        shape=shape,
        lengths=_by_temperature(item.get("lengths", {})),
        draft_share=float(item.get("draft_share", 1.0)),
        weights_gib=float(item["weights_gib"]),
        draft_gib=float(item.get("draft_gib", 0.0)),
        kv_tokens=int(item["kv_tokens"]),
        draft_load=float(item.get("draft_load", 0.0)),
        draft_compile=float(item.get("draft_compile", 0.0)),
        runner=item.get("runner", "V2"),
        source=item.get("source", "estimate"),
        reported=_by_temperature(item.get("reported", {})),
    )


def _by_temperature(data: Mapping[str, Any]) -> tuple[tuple[float, ByBatch], ...]:
    return tuple(sorted((float(temperature), _by_batch(value)) for temperature, value in data.items()))


def _by_batch(value: Any) -> ByBatch:
    if isinstance(value, (int, float)):
        return ((1.0, float(value)),)
    return tuple(sorted((float(batch), float(number)) for batch, number in value.items()))
