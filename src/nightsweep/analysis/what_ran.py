"""What ran, and how: from the windows' stored conditions where there are windows, else from the sweep file.

A file is read again by the program of today, whose defaults may be others than those that were sent.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from nightsweep.analysis import listings, tables, text
from nightsweep.analysis.blocks import Block, Bullets, Details, Heading, Lines, Paragraph
from nightsweep.analysis.decision_read import repeats_said
from nightsweep.analysis.sides import Document
from nightsweep.analysis.values import BootRow, SweepRow
from nightsweep.plan.model import ProbeSpec, SweepPlan

NOT_SENT = "not sent"


def what_ran(
    sweep: SweepRow,
    *,
    boots: Sequence[BootRow],
    plan: SweepPlan | None,
    known: Sequence[Document],
    software_version: str,
) -> Iterator[Block]:
    """Yield the section on what ran.

    Args:
        boots: In the order they were made.
        known: Documents of the conditions that the decode windows were measured under, each once.
    """
    items = [f"box: {sweep.box}{f' ({text.SIMULATED})' if sweep.simulated else ''}"]
    items += [f"engine: {name}" for name in dict.fromkeys(map(listings.engine_name, boots)) if name != text.ABSENT]
    images = dict.fromkeys((boot.image, boot.image_digest) for boot in boots if boot.image or boot.image_digest)
    items += [f"image: {' '.join(f'`{part}`' for part in image if part)}" for image in images]
    items += (
        list(_probe_items(plan, known))
        if plan is not None
        else [f"sweep file: {sweep.source or 'not readable'}; conditions are with each window"]
    )
    items.append(f"report written by nightsweep {software_version}")
    yield Heading(2, "What ran")
    yield Bullets(tuple(items))
    yield from _configs(boots, plan=plan, simulated=sweep.simulated)


def _probe_items(plan: SweepPlan, known: Sequence[Document]) -> Iterator[str]:
    probe = plan.probe
    under = list(known) or [_asked(probe)]
    streams = ", ".join(str(at) for at in probe.concurrency)
    temperatures = ", ".join(text.temperature(value) for value in probe.temperature)
    yield f"model: {', '.join(dict.fromkeys(f'`{config.engine.model}`' for config in plan.configs))}"
    yield f"streams: {streams}; temperature: {temperatures}"
    window = _each(under, lambda one: _window(one.get("window_seconds")))
    yield f"window: {window}; {repeats_said(plan)}; warm-up up to {text.duration(probe.warmup)}"
    hashed = _each(under, lambda one: _hashed(one.get("prompts")))
    yield f"prompts: {probe.prompts}{hashed}, order seed {_value(under, 'prompt_seed')}"
    yield f"load: {_value(under, 'api')} requests, {_each(under, lambda one: _through(one.get('through_proxy')))}"
    said = "sampling sent with every request" if known else "sampling that the sweep file asks for"
    yield f"{said}: {', '.join(_sampling(under))}"
    if probe.prefill is not None:
        repeats = text.plural(probe.prefill.repeats, "run")
        lengths = ", ".join(text.count(length) for length in probe.prefill.lengths)
        streams = text.plural(probe.prefill.under_load, "decoding stream")
        beside = f", idle and beside {streams}" if probe.prefill.under_load else ""
        yield f"prefill: {lengths} fresh tokens, {repeats} per boot{beside}"
    if probe.single_batch is not None:
        single = probe.single_batch
        yield (
            f"single batch: {text.count(single.input)} random token ids in, {text.count(single.output)} tokens out, "
            f"{text.plural(single.runs, 'cold run')} of each config"
        )


def _asked(probe: ProbeSpec) -> Document:
    """Return what a sweep file asks for, by the names that conditions have."""
    return {
        "window_seconds": probe.window,
        "prompts": probe.prompts_hash,
        "prompt_seed": probe.prompt_seed,
        "api": probe.api,
        "through_proxy": probe.through,
        "sampling": asdict(probe.sampling),
    }


def _sampling(under: Sequence[Document]) -> Iterator[str]:
    """Yield each parameter that was sent in any window, with every value that it had; one that was not sent says so."""
    sent = [one.get("sampling") for one in under]
    found: list[Mapping[str, Any]] = [one if isinstance(one, Mapping) else {} for one in sent]
    for name in dict.fromkeys(name for one in found for name in one):
        if any(one.get(name) is not None for one in found):
            yield f"{name} {' / '.join(dict.fromkeys(_sent(one.get(name)) for one in found))}"


def _each(under: Sequence[Mapping[str, Any]], said: Callable[[Mapping[str, Any]], str]) -> str:
    """Return what is said of the conditions, each once."""
    return " / ".join(dict.fromkeys(map(said, under)))


def _value(under: Sequence[Document], name: str) -> str:
    return _each(under, lambda one: text.ABSENT if one.get(name) is None else str(one[name]))


def _sent(value: object) -> str:
    return NOT_SENT if value is None else str(value)


def _window(seconds: Any) -> str:
    return text.ABSENT if seconds is None else text.duration(float(seconds))


def _hashed(prompts: Any) -> str:
    return f" ({text.short(str(prompts))})" if prompts else ""


def _through(proxy: Any) -> str:
    return f"through `{proxy}`" if proxy else "straight to the engine"


def _configs(boots: Sequence[BootRow], *, plan: SweepPlan | None, simulated: bool) -> Iterator[Block]:
    """Engine configs with what makes them differ, and the command each was started with."""
    commands = {boot.config_fingerprint: (boot.config, boot.command) for boot in boots if boot.command}
    if plan is not None:
        rows = tuple(
            tables.Row((config.name, text.short(config.fingerprint), _settings(config.speculative)))
            for config in plan.configs
        )
        columns = tuple(tables.Column(heading, right=False) for heading in ("config", "fingerprint", "speculative"))
        title = f"{text.plural(len(rows), 'engine config')}"
        yield tables.Table(title, columns, (tables.Group("", rows),), simulated=simulated)
    if commands:
        listed: list[Block] = []
        for name, command in commands.values():
            listed += [Paragraph(f"{name}:"), Lines((shlex.join(command),), language="sh")]
        yield Details("Commands that the engine was started with", tuple(listed))


def _settings(speculative: object) -> str:
    return "none" if not speculative else json.dumps(speculative, sort_keys=True, default=str)
