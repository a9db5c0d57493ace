"""What a boot measures besides its decode windows: prefills and single-batch runs."""

from __future__ import annotations

from nightsweep.plan.model import SINGLE_BATCH, Cell, PrefillRepeat, ProbeSpec, Repeat


def prefills_of(probe: ProbeSpec, config: str, *, boot_round: int) -> tuple[PrefillRepeat, ...]:
    """Return the prefills of one boot: on the idle engine first, then under load, each length with all its repeats.

    Args:
        config: The config's fingerprint.
    """
    spec = probe.prefill
    if spec is None:
        return ()
    first = boot_round * spec.repeats
    return tuple(
        PrefillRepeat(config=config, index=first + each, boot_round=boot_round, tokens=tokens, under_load=streams)
        for streams in ((0, spec.under_load) if spec.under_load else (0,))
        for tokens in spec.lengths
        for each in range(spec.repeats)
    )


def single_batches_of(probe: ProbeSpec, config: str, *, boot_round: int) -> tuple[Repeat, ...]:
    """Return the single-batch runs of one boot; run r belongs to boot round r % boots."""
    spec = probe.single_batch
    if spec is None:
        return ()
    cell = Cell(config=config, concurrency=1, temperature=spec.temperature, kind=SINGLE_BATCH)
    indices = range(boot_round, spec.runs, probe.boots)
    return tuple(Repeat(cell=cell, index=index, boot_round=boot_round) for index in indices)
