"""Comparing what was measured on the simulator with the truth that was set: the check that a real engine cannot offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nightsweep import wiring
from nightsweep.cli.outputs import echo

if TYPE_CHECKING:
    from nightsweep.analysis.values import CellSummary
    from nightsweep.plan.model import EngineConfig, SweepPlan

BEYOND = 3.0
"""Standard errors that a mean may be off."""

NEVER = 4.5
"""Standard errors that no mean may be off: chance alone gives that once in 150,000 cells."""

BY_CHANCE = 0.025
"""Share of cells that chance alone may put beyond `BEYOND`: with 40 cells one; two happen in 1 of 200 sound runs."""


@dataclass(frozen=True)
class Deviation:
    """How far a cell's mean decode rate is from the truth.

    Units:
        measured, truth, standard_error: tokens / second, all streams together, on this machine's clock.
    """

    config: str
    concurrency: int
    temperature: str
    n: int
    measured: float
    truth: float
    standard_error: float

    @property
    def errors(self) -> float:
        """The deviation in standard errors."""
        return (self.measured - self.truth) / self.standard_error


def compare_with_truth(cells: Sequence[CellSummary], file_text: str, *, base: Path | None = None) -> bool:
    """Print how the cells' means agree with the simulator's set truth; return whether they do."""
    plan, prompts = wiring.load_plan(file_text, source="demo", base=base)
    deviations = [found for cell in cells if (found := deviation(cell, plan, prompts)) is not None]
    if not deviations:
        click.echo("no cell to compare with the set truth", err=True)
        return False
    far = [found for found in deviations if abs(found.errors) > BEYOND]
    worst = max(deviations, key=lambda found: abs(found.errors))
    echo(
        f"set truth: {len(deviations) - len(far)} of {len(deviations)} cell means within {BEYOND:.0f} standard errors; "
        f"farthest {worst.config} c={worst.concurrency} T={worst.temperature}: measured {worst.measured:.1f}, "
        f"set {worst.truth:.1f} tokens/s ({worst.errors:+.1f} standard errors, n={worst.n})"
    )
    for found in far:
        echo(
            f"  beyond: {found.config} c={found.concurrency} T={found.temperature}: measured {found.measured:.1f}, "
            f"set {found.truth:.1f} tokens/s ({found.errors:+.1f})"
        )
    return agree(deviations)


def agree(deviations: Sequence[Deviation]) -> bool:
    """Return whether deviations are no more than chance: none beyond `NEVER`, few beyond `BEYOND`."""
    far = sum(abs(found.errors) > BEYOND for found in deviations)
    allowed = max(1, int(BY_CHANCE * len(deviations)))
    return far <= allowed and all(abs(found.errors) <= NEVER for found in deviations)


def deviation(cell: CellSummary, plan: SweepPlan, prompts: Sequence[Any]) -> Deviation | None:
    """Return the deviation of one cell; None when nothing clean was measured in it."""
    from nightsweep.simulator.truth import expected, standard_error

    if cell.decode_rate is None:
        return None
    config = plan.config(cell.config_fingerprint)
    pace, sampling = _argument(config, "sim-speed", 1.0), plan.probe.sampling
    window = float(plan.probe.window)
    truth = expected(
        str(config.engine.args.get("sim-profile", "gb10")),
        config.speculative,
        cell.concurrency,
        float(cell.temperature),
        prompts if all(isinstance(prompt, str) for prompt in prompts) else None,
        window_seconds=window * pace,
        max_tokens=sampling.max_tokens,
        ignore_eos=sampling.ignore_eos,
        seed=int(_argument(config, "sim-seed", 0)),
    ).at_speed(pace)
    return Deviation(
        config=cell.config,
        concurrency=cell.concurrency,
        temperature=str(cell.temperature),
        n=cell.decode_rate.n,
        measured=cell.decode_rate.mean,
        truth=truth.decode_rate,
        standard_error=standard_error(truth, windows=cell.decode_rate.n, window_seconds=window),
    )


def _argument(config: EngineConfig, name: str, default: float) -> float:
    value = config.engine.args.get(name, default)
    return float(value) if value is not None else default
