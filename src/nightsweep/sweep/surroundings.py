"""The box around a measurement: watched while a window runs, its page cache freed before a boot where the sweep says so."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nightsweep.measurement.boxstate import BoxRecord, BoxState, box_state
from nightsweep.measurement.values import WindowResult
from nightsweep.plan.model import EngineConfig
from nightsweep.ports import BoxWatch, EngineHandle
from nightsweep.sweep.tools import Tools
from nightsweep.units import GIB, Seconds

SAMPLING = Seconds(1.0)
SAMPLES_AT_LEAST = 4
"""Samples of a window shorter than as many seconds."""

EDGE = Seconds(1.5)
"""Samples so long before and after a window are kept with it."""

REMEDY = (
    "run the service as root, or free it yourself before the sweep: "
    "sudo sh -c 'sync; echo 1 > /proc/sys/vm/drop_caches'; inside a container, /proc/sys is read-only"
)


@contextlib.contextmanager
def watched(tools: Tools, handle: EngineHandle, *, window: Seconds) -> Iterator[BoxWatch | None]:
    """Watch the box until the block ends; None where nobody can."""
    if tools.box_sampler is None:
        yield None
        return
    with tools.box_sampler.watch(handle, every=Seconds(min(SAMPLING, window / SAMPLES_AT_LEAST))) as watch:
        yield watch


def with_box(tools: Tools, result: WindowResult, watch: BoxWatch | None, *, simulated: bool) -> WindowResult:
    """Return the window with what the box did in it, and the flags of that.

    A window that is flagged already keeps its flags alone: what the box did is told, and is no cause of theirs.
    """
    before, after = result.raw.before, result.raw.after
    if watch is None or tools.box_sampler is None or before is None or after is None:
        return result
    samples = watch.samples()
    state = box_state(
        samples,
        opened=before.at,
        closed=after.at,
        cores=tools.box_sampler.cores,
        tokens=None if result.numbers is None else result.numbers.generation_tokens,
        simulated=simulated,
    )
    if state is None:
        return result
    near = tuple(sample for sample in samples if before.at - EDGE <= sample.at <= after.at + EDGE)
    return _flagged(replace(result, box=BoxRecord(state=state, samples=near)), state)


def _flagged(result: WindowResult, state: BoxState) -> WindowResult:
    if result.flags or not state.flags:
        return result
    return replace(result, flags=tuple(state.flags), flag_details={**result.flag_details, **state.flags})


def cache_state(tools: Tools, config: EngineConfig) -> dict[str, Any]:
    """Free the page cache if the config says so, and return the state of caches that a cold start begins with.

    Units:
        bytes.
    """
    sampler = tools.box_sampler
    if sampler is None:
        return {}
    if not config.engine.drop_page_cache:
        return {"page_cache": "as it was", "page_cache_bytes": sampler.page_cache()}
    drop = sampler.drop_page_cache()
    found = {
        "page_cache": "dropped" if drop.refused is None else "not dropped",
        "page_cache_bytes": drop.after,
        "page_cache_bytes_before": drop.before,
        "reason": drop.refused,
    }
    return {key: value for key, value in found.items() if value is not None}


def say_cache_state(tools: Tools, state: Mapping[str, Any], *, name: str, sweep_id: int, boot_id: int) -> None:
    """Record as an event that the page cache was freed, or was not although it should have been."""
    if state.get("page_cache") == "dropped":
        freed = (state.get("page_cache_bytes_before") or 0) - (state.get("page_cache_bytes") or 0)
        text, level = f"{name}: the page cache was freed before the boot ({freed / GIB:.1f} GiB)", "info"
    elif state.get("page_cache") == "not dropped":
        text = f"{name}: the page cache could not be freed before the boot ({state.get('reason')}): {REMEDY}"
        level = "warning"
    else:
        return
    tools.store.event(
        "page_cache", text, level=level, sweep_id=sweep_id, boot_id=boot_id, data={"cache_state": dict(state)}
    )
