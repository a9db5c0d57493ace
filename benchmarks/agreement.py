"""Our window beside `vllm bench serve` on one and the same real server: acceptance, and what its rate holds besides decoding.

In turn: a window of the probe's, the engine's own client with the same prompts, sampling and concurrency, a window again. While
that client runs, the engine's counters are read once a second, so that the same seconds are judged by both:

* acceptance length: of the counters, by both; equal within the standard error of so many drafts;
* counters: what the client says it drafted, accepted and generated is what they moved by;
* rate: its own stamps over the span in which all streams decoded, against the counters in that very span; then its rate over its
  whole duration, and what ramp and tail take from it; then our windows against that span, which are other seconds.

    python -m benchmarks.agreement --url http://127.0.0.1:8000 --model tiny --vllm /path/to/vllm --tokenizer DIR
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchmarks.bench_serve import Asked, Parts, Told, Where, bench_serve, parts_of
from benchmarks.common import Figure, Section, table, write
from nightsweep.engine.dialects import vllm_dialect
from nightsweep.measurement import rates
from nightsweep.measurement.derive import derive
from nightsweep.measurement.values import Reading, WindowResult
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import Target, WindowRequest
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.probe.prompts import load_prompts
from nightsweep.units import Seconds
from nightsweep.wiring import SystemClock

ATTEMPTS = 3
STANDARD_ERRORS = 3.0
READ_EVERY = 1.0
ORDER_SEED = 5


@dataclass(frozen=True)
class Load:
    """What both clients ask of the engine."""

    url: str
    model: str
    streams: int = 4
    temperature: float = 0.7
    max_tokens: int = 160
    requests: int = 64
    window: float = 12.0
    prompts: str = "code"

    def target(self) -> Target:
        """What the probe is pointed at."""
        return Target(self.url, self.url, self.model, vllm_dialect(None), api="completions")

    def request(self, *, first_prompt: int) -> WindowRequest:
        """The probe's window."""
        return WindowRequest(
            concurrency=self.streams,
            temperature=self.temperature,
            window=Seconds(self.window),
            sampling=SamplingSpec(max_tokens=self.max_tokens, ignore_eos=True),
            prompts=load_prompts(self.prompts).prompts,
            first_prompt=first_prompt,
            order_seed=ORDER_SEED,
        )

    def asked(self) -> Asked:
        """The other client's run."""
        request = self.request(first_prompt=0)
        return Asked(
            url=self.url,
            model=self.model,
            streams=self.streams,
            requests=self.requests,
            temperature=self.temperature,
            sampling=request.sampling,
            prompts=[str(prompt) for prompt in request.prompts],
            first_prompt=request.first_prompt,
            order_seed=request.order_seed,
        )


@dataclass(frozen=True)
class Acceptance:
    """Drafts, and accepted tokens by position, between two readings. Shape: (k,)."""

    drafts: float
    accepted: tuple[float, ...]

    @property
    def length(self) -> float:
        """Tokens of a verification step."""
        return 1.0 + sum(self.accepted) / self.drafts

    @property
    def positions(self) -> tuple[float, ...]:
        """Share of the drafts that kept position i."""
        return tuple(count / self.drafts for count in self.accepted)

    @property
    def error(self) -> float:
        """Standard error of the length, drafts taken as independent: exact for set acceptance, too small for a real drafter.

        Accepted tokens of a draft are the count of positions kept, so their mean square is the sum of (2 i + 1) p_i, from 0.
        """
        shares = self.positions
        square = sum((2 * place + 1) * share for place, share in enumerate(shares))
        return math.sqrt((square - sum(shares) ** 2) / self.drafts)

    def __add__(self, other: Acceptance) -> Acceptance:
        added = zip(self.accepted, other.accepted, strict=True)
        return Acceptance(self.drafts + other.drafts, tuple(one + two for one, two in added))


def acceptance_between(before: Reading, after: Reading) -> Acceptance | None:
    """What was drafted and accepted between two readings; None on an engine that does not draft."""
    drafts = rates.delta(before, after, "drafts")
    accepted = rates.accepted_by_position(before, after, num_speculative_tokens=None)
    return Acceptance(drafts, accepted) if drafts and accepted else None


@dataclass(frozen=True)
class Agreement:
    """Both clients on one server.

    Attributes:
        windows: Ours, before and after.
        told: The other client's result; `parts` what it is made of.
        readings: Of the counters: before its run, once a second meanwhile, after it.
    """

    windows: tuple[WindowResult, ...]
    told: Told
    parts: Parts
    readings: tuple[Reading, ...]

    @property
    def ours(self) -> Acceptance | None:
        """Acceptance in our windows."""
        found = [acceptance_between(*edges_of(result)) for result in self.windows]
        known = [one for one in found if one is not None]
        return sum(known[1:], start=known[0]) if known else None

    @property
    def theirs(self) -> Acceptance | None:
        """Acceptance in the other client's run, by the counters."""
        return acceptance_between(self.readings[0], self.readings[-1])

    @property
    def apart(self) -> float | None:
        """The two lengths' distance in standard errors of their difference."""
        if self.ours is None or self.theirs is None:
            return None
        return (self.ours.length - self.theirs.length) / math.hypot(self.ours.error, self.theirs.error)

    @property
    def window_rates(self) -> tuple[float, ...]:
        """Decode rates of our windows."""
        return tuple(float(result.numbers.decode_rate) for result in self.windows if result.numbers is not None)

    @property
    def counted_rate(self) -> float:
        """The decode rate by the counters within the span in which the other client's streams all decoded."""
        inside = [one for one in self.readings if self.parts.opened <= one.at <= self.parts.closed]
        rate = rates.decode_rate(inside[0], inside[-1])
        if rate is None:
            raise RuntimeError("the engine counts no generated tokens")
        return float(rate)


def edges_of(result: WindowResult) -> tuple[Reading, Reading]:
    """Both readings of a window."""
    before, after = result.raw.before, result.raw.after
    if before is None or after is None:
        raise RuntimeError(f"the window has no readings: {dict(result.flag_details)}")
    return before, after


@contextmanager
def counters_read(load: Load, *, every: float) -> Iterator[list[Reading]]:
    """Read the counters at once, every so often beside the block, and when it ends."""
    found: list[Reading] = []
    over = threading.Event()
    with HttpProbe(clock=SystemClock()) as probe:

        def go_on() -> None:
            while not over.wait(every):
                found.append(probe.read(load.target()))

        found.append(probe.read(load.target()))
        thread = threading.Thread(target=go_on, name="counters")
        thread.start()
        try:
            yield found
        finally:
            over.set()
            thread.join()
            found.append(probe.read(load.target()))


def clean_window(probe: HttpProbe, load: Load, *, first_prompt: int) -> WindowResult:
    """A window without a flag, measured again as a sweep would (raises RuntimeError when none comes)."""
    target = load.target()
    for _ in range(ATTEMPTS):
        raw = probe.window(target, load.request(first_prompt=first_prompt), alive=lambda: True)
        result = derive(raw, dialect=target.dialect, num_speculative_tokens=None)
        if result.numbers is not None and not result.flags:
            return result
        print(f"   a flagged window: {dict(result.flag_details)}", flush=True)
    raise RuntimeError(f"no clean window in {ATTEMPTS}: {dict(result.flag_details)}")


def compare(load: Load, where: Where) -> Agreement:
    """Our window, the engine's own client, our window again."""
    with HttpProbe(clock=SystemClock()) as probe:
        probe.warm_up(load.target(), replace(load.request(first_prompt=0), window=Seconds(10.0)), alive=lambda: True)
        first = clean_window(probe, load, first_prompt=0)
        with counters_read(load, every=READ_EVERY) as readings:
            told = bench_serve(where, load.asked())
        last = clean_window(probe, load, first_prompt=0)
    parts = parts_of(told.result, streams=load.streams)
    return Agreement(windows=(first, last), told=told, parts=parts, readings=tuple(readings))


# --- figures -----------------------------------------------------------------------------------------------------


def section_of(found: Agreement) -> Section:
    """The comparison as a benchmark's section."""
    parts, counted = found.parts, found.counted_rate
    figures = [
        _percent(
            "steady part of `vllm bench serve` by its own stamps against the counters, same seconds",
            parts.steady_rate / counted - 1,
        ),
        _percent(
            "our windows' decode rate against that part, other seconds",
            statistics.fmean(found.window_rates) / counted - 1,
        ),
        _percent("what ramp takes from its rate", parts.ramp_share),
        _percent("what tail takes from its rate", parts.tail_share),
    ]
    ours, theirs, apart = found.ours, found.theirs, found.apart
    if ours is not None and theirs is not None and apart is not None:
        figures.append(
            Figure(
                name="acceptance length, ours",
                unit="",
                value=ours.length,
                beside=theirs.length,
                beside_name="`vllm bench serve`",
                note=f"{ours.drafts:,.0f} and {theirs.drafts:,.0f} drafts; {apart:+.2f} standard errors apart",
            )
        )
    return Section("agreement", tuple(figures), facts=facts_of(found))


def _percent(name: str, share: float) -> Figure:
    return Figure(name=name, unit="%", value=100 * share)


def facts_of(found: Agreement) -> dict[str, object]:
    """All that the comparison stands on."""
    ours, theirs = found.ours, found.theirs
    return {
        "window_rates": found.window_rates,
        "whole_rate": found.parts.whole_rate,
        "steady_rate": found.parts.steady_rate,
        "counted_rate": found.counted_rate,
        "ramp_share": found.parts.ramp_share,
        "tail_share": found.parts.tail_share,
        "steady_s": found.parts.closed - found.parts.opened,
        "whole_s": found.told.result["duration"],
        "ours": None if ours is None else {"drafts": ours.drafts, "positions": ours.positions, "error": ours.error},
        "theirs": None
        if theirs is None
        else {"drafts": theirs.drafts, "positions": theirs.positions, "error": theirs.error},
        "their_acceptance_length": found.told.result.get("spec_decode_acceptance_length"),
    }


def main(words: Sequence[str] | None = None) -> None:
    """Compare on a server that runs."""
    parser = argparse.ArgumentParser(description="Our window beside `vllm bench serve` on the same real server.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True, help="as it is served")
    parser.add_argument("--vllm", default="vllm", help="the vllm command (default: on PATH)")
    parser.add_argument("--tokenizer", required=True, help="folder or name of the model's tokenizer")
    for name, kind in (
        ("streams", int),
        ("requests", int),
        ("max-tokens", int),
        ("window", float),
        ("temperature", float),
    ):
        parser.add_argument(f"--{name}", type=kind, default=getattr(Load, name.replace("-", "_")))
    given = parser.parse_args(words)
    load = Load(
        url=given.url,
        model=given.model,
        streams=given.streams,
        requests=given.requests,
        max_tokens=given.max_tokens,
        window=given.window,
        temperature=given.temperature,
    )
    with tempfile.TemporaryDirectory(prefix="nsbench.") as folder:
        where = Where(prefix=(), vllm=(given.vllm,), tokenizer=given.tokenizer, folder=folder)
        section = section_of(compare(load, where))
    write(section)
    print(table((section,)))


if __name__ == "__main__":
    main()
