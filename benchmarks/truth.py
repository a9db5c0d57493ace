"""The truth campaign: what the probe measures against what the simulated engine really did.

The engine keeps a journal of its steps on the machine's monotonic clock, which the probe stamps with too. So the truth of a
window is what was done between the two moments that the probe stamped, whatever the machine's load made of the set pace:

* decode rate: tokens of the steps that ended between the two stamps / time between them. Beside it, the same with the step
  under way counted by the part of it that was over (`fluid`): how far counters that move once a step can be from a rate;
* counters: both readings must be totals that held while the page was asked for, all counters of one and the same step;
* TPOT: the journal's own events through the same definition; the medians may differ by 1 ms + 1%;
* TTFT: from the probe's own stamp of sending to the moment at which the engine's first event left it; as TPOT. How long a
  request is on its way into the engine (both HTTP fronts: the probe's sending, the server's accepting) is part of any client's
  TTFT, and told beside.

Then faults: each is put in force inside a window and must raise its flag and no other; windows without one must raise none.

Each engine and its probe may have two processors of their own, so that a machine with many measures many windows at once.

    python -m benchmarks.truth [--windows N] [--fault-windows N] [--clean N] [--cases SHARE] [--jobs N]
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import os
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from benchmarks.common import Figure, Section, table, write
from benchmarks.simulated import Engine, acceptance_length, engine, speed_for
from nightsweep.measurement import client_times
from nightsweep.measurement.derive import derive
from nightsweep.measurement.values import Percentiles, Reading, RequestTiming, WindowResult
from nightsweep.plan.model import SamplingSpec
from nightsweep.ports import WindowRequest
from nightsweep.probe.http_probe import HttpProbe
from nightsweep.probe.window import Patience
from nightsweep.units import MonotonicSeconds, Seconds, Tokens
from nightsweep.wiring import SystemClock

MEDIAN_TARGET, WORST_TARGET = 0.003, 0.01
TIMES_SLACK, TIMES_SHARE = 0.001, 0.01
STEPS_AT_LEAST = 220
"""Steps of a window at least. Counters move once a step, and a step may end while a page is asked for: one step at each edge is
0.9% then. A real window of 40 s has 320 of the slowest steps of a GB10.
"""

_T = TypeVar("_T")

COUNTERS = ("generation_tokens", "drafts", "draft_tokens", "accepted_tokens", "steps")
PROMPTS = tuple(f"Write function number {number} of a module, and say what it is for." for number in range(64))


@dataclass(frozen=True)
class Case:
    """One cell: so many streams at depth k, at this decode rate in tokens/s, all streams together."""

    streams: int
    k: int
    rate: float

    @property
    def step(self) -> float:
        """Seconds of a step on the wall."""
        return self.streams * acceptance_length(self.k) / self.rate

    @property
    def window(self) -> float:
        """Seconds of a window."""
        return max(2.0, STEPS_AT_LEAST * self.step)

    @property
    def max_tokens(self) -> int:
        """Cut of an answer: about 90 steps of a stream, so that some begin and end inside a window, yet few at a time."""
        return max(12, min(1024, int(90 * acceptance_length(self.k))))

    def __str__(self) -> str:
        return f"{self.streams} streams, k={self.k}, {self.rate:g} tokens/s"


def cases() -> tuple[Case, ...]:
    """All cells whose steps an engine could have: 2 to 200 ms."""
    grid = (
        Case(streams, k, rate)
        for streams in (1, 4, 16, 64, 256)
        for k in (0, 1, 3, 5, 7)
        for rate in (20.0, 200.0, 2000.0, 20000.0)
    )
    return tuple(case for case in grid if 0.002 <= case.step <= 0.2)


@dataclass(frozen=True)
class Judged:
    """One window against the truth. Errors are relative; None: nothing of the kind happened in the window."""

    case: Case
    flags: tuple[str, ...]
    details: Mapping[str, str]
    rate_error: float
    fluid_error: float
    exact: bool
    own_residual: float
    uncertainty: float  # of the window's length, as the two readings' round trips tell it
    front: float | None = None  # median seconds from the probe's stamp of sending to the engine's of arrival
    ttft: tuple[float, float] | None = None  # measured, true: seconds
    tpot: tuple[float, float] | None = None


def within(pair: tuple[float, float] | None) -> bool:
    """Whether a measured time is within 1 ms + 1% of the true one."""
    return pair is None or abs(pair[0] - pair[1]) <= TIMES_SLACK + TIMES_SHARE * pair[1]


# --- windows -----------------------------------------------------------------------------------------------------


def request_for(case: Case, *, window: float | None = None, **fields: Any) -> WindowRequest:
    """The window that is asked for."""
    return WindowRequest(
        concurrency=case.streams,
        temperature=0.7,
        window=Seconds(window or case.window),
        sampling=SamplingSpec(max_tokens=fields.pop("max_tokens", case.max_tokens)),
        prompts=PROMPTS,
        first_prompt=fields.pop("first_prompt", 0),
        order_seed=5,
        ramp_timeout=Seconds(60.0),
    )


def a_probe() -> HttpProbe:
    """A probe with little patience: the simulated engine needs none."""
    return HttpProbe(clock=SystemClock(), patience=Patience(gauges=Seconds(1.5), dying=Seconds(3.0), idle=Seconds(2.0)))


def judge(made: Engine, probe: HttpProbe, case: Case, *, place: int) -> Judged:
    """Measure a window and hold it against the journal."""
    request = request_for(case, first_prompt=place * 37)
    raw = probe.window(made.target(), request, alive=made.alive)
    result = derive(raw, dialect=made.target().dialect, num_speculative_tokens=case.k or None)
    before, after, numbers = raw.before, raw.after, result.numbers
    if before is None or after is None or numbers is None:
        raise RuntimeError(f"{case}: no numbers: {dict(result.flag_details)}")
    slack = max(before.uncertainty, after.uncertainty, 3.0 * case.step)
    told = made.journal(before.at, after.at, slack=slack)
    seconds = after.at - before.at
    true = (told["until"][0] - told["since"][0]) / seconds
    fluid = (_fluid(told["closing"], after.at) - _fluid(told["opening"], before.at)) / seconds
    requests = tuple(timing_of(one) for one in told["requests"])
    first = _met(raw.requests, told["requests"], opened=before.at, closed=after.at)
    return Judged(
        case=case,
        flags=result.flags,
        details=result.flag_details,
        rate_error=numbers.decode_rate / true - 1.0,
        fluid_error=numbers.decode_rate / fluid - 1.0,
        exact=_exact(before, told["opening"]) and _exact(after, told["closing"]),
        uncertainty=float(numbers.relative_uncertainty),
        own_residual=0.0 if numbers.foreign_tokens is None else float(numbers.foreign_tokens),
        front=statistics.median(met.arrived - met.sent for met in first) if first else None,
        ttft=_medians([(met.came - met.sent, met.left - met.sent) for met in first]),
        tpot=_pair(
            numbers.tpot, client_times.percentiles(client_times.tpots(requests, opened=before.at, closed=after.at))
        ),
    )


def _exact(reading: Reading, rows: Sequence[Sequence[float]]) -> bool:
    """Whether a reading is what held, in all counters at once, at some moment of its own request."""
    begin, end = reading.at - reading.uncertainty, reading.at + reading.uncertainty
    seen = {name: reading.values[name] for name in COUNTERS if name in reading.values}
    for place, row in enumerate(rows):
        until = rows[place + 1][0] if place + 1 < len(rows) else float("inf")
        if row[0] <= end and until >= begin:
            held = dict(zip(COUNTERS, row[1:], strict=True))
            if all(held[name] == value for name, value in seen.items()):
                return True
    return False


def _fluid(rows: Sequence[Sequence[float]], moment: float) -> float:
    """Tokens at a moment, the step under way counted by the part of it that was over."""
    earlier = [row for row in rows if row[0] <= moment]
    later = [row for row in rows if row[0] > moment]
    if not earlier or not later:
        return float((earlier or later)[-1 if earlier else 0][1])
    (begin, made, *_), (end, made_then, *_) = earlier[-1], later[0]
    return float(made + (made_then - made) * (moment - begin) / (end - begin))


@dataclass(frozen=True)
class _Met:
    """A request's first token on both sides: sent and come by the probe's stamps, arrived and left by the engine's."""

    sent: float
    came: float
    arrived: float
    left: float


def _met(
    requests: Sequence[RequestTiming], journal: Sequence[Mapping[str, Any]], *, opened: float, closed: float
) -> list[_Met]:
    """Match first tokens of the window: in the order in which they came, each with the earliest that can be it."""
    left = sorted((one["times"][0], one["arrived"]) for one in journal if one["times"])
    found, place = [], 0
    came = [one for one in requests if one.first_token is not None and one.sent >= opened and one.first_token <= closed]
    for one in sorted(came, key=lambda one: one.first_token or 0.0):
        while place < len(left) and left[place][1] < one.sent:
            place += 1
        if place < len(left) and one.first_token is not None and left[place][0] <= one.first_token:
            found.append(_Met(one.sent, one.first_token, left[place][1], left[place][0]))
            place += 1
    return found


def _medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    return (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)) if pairs else None


def timing_of(one: Mapping[str, Any]) -> RequestTiming:
    """A request as the engine itself saw it."""
    ended, times, tokens = one["ended"], tuple(one["times"]), tuple(one["tokens"])
    return RequestTiming(
        stream=0,
        prompt_index=0,
        sent=MonotonicSeconds(one["arrived"]),
        first_token=MonotonicSeconds(times[0]) if times else None,
        ended=None if ended is None else MonotonicSeconds(ended),
        chunk_at=times,
        chunk_tokens=tokens,
        completion_tokens=Tokens(tokens[-1]) if ended is not None else None,
    )


def _pair(measured: Percentiles | None, true: Percentiles | None) -> tuple[float, float] | None:
    return None if measured is None or true is None else (measured.p50, true.p50)


def measure_cases(chosen: Sequence[Case], *, windows: int) -> Iterator[Judged]:
    """Measure every case, each on an engine of its own."""
    with a_probe() as probe:
        for case in chosen:
            with engine(speed=speed_for(case.rate, streams=case.streams, k=case.k), k=case.k) as made:
                probe.warm_up(made.target(), request_for(case, window=1.0), alive=made.alive)
                for place in range(windows):
                    yield judge(made, probe, case, place=place)


# --- faults ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FaultCase:
    """A fault that is put in force in a window, and the flag that it must raise; None: it must raise none.

    Attributes:
        faults: As `POST /sim/fault` takes them, one after another.
        delay: Seconds from the moment at which all streams run.
        deadly: The engine is gone afterwards: each window has one of its own.
        seats: `--max-num-seqs` of the engine.
        stall: Seconds for which the probe's own process stands still.
    """

    name: str
    flag: str | None
    faults: tuple[str, ...] = ()
    delay: float = 0.45
    deadly: bool = False
    seats: int = 64
    window: float = 1.2
    stall: float = 0.0

    @property
    def lasting(self) -> tuple[str, ...]:
        """Names of the faults that must be lifted."""
        return tuple(text.partition(":")[0] for text in self.faults)


FAULTED = Case(streams=4, k=7, rate=800.0)
FAULTS = (
    FaultCase("the engine's core dies", "engine_exited", ("exit_in_window:0",), deadly=True),
    FaultCase("the engine is killed", "engine_exited", ("exit_137:0",), deadly=True),
    FaultCase("the engine is killed while the load comes up", "engine_exited", ("exit_137:0",), delay=0.0, deadly=True),
    FaultCase("somebody else's heavy load", "foreign_load", ("foreign_load:400",)),
    FaultCase("somebody else's light load", "foreign_load", ("foreign_load:40",)),
    FaultCase("somebody else's burst", "foreign_load", ("foreign_burst:0,400,0.5",), delay=0.3),
    FaultCase("counters begin again", "counter_reset", ("counter_reset:0",)),
    FaultCase("a preemption", "preempted", ("preempt:0",)),
    FaultCase("three preemptions", "preempted", ("preempt:0", "preempt:0.1", "preempt:0.2")),
    FaultCase("some requests get 500", "request_failed", ("error_rate:0.5",)),
    FaultCase("some requests get 503", "request_failed", ("refuse:0.5",)),
    FaultCase("all requests get 503", "request_failed", ("refuse:1",)),
    FaultCase("streams are cut", "request_failed", ("cut_stream:0.5",)),
    FaultCase("streams end with an error event", "request_failed", ("stream_error:0.5",)),
    FaultCase("streams are empty", "request_failed", ("empty_stream:0.5",)),
    FaultCase("a proxy's page instead of a stream", "request_failed", ("garbage:0.5",)),
    FaultCase("streams without usage", "request_failed", ("lost_usage",), delay=0.2),
    FaultCase("counters cannot be read", "request_failed", ("metrics_down",)),
    FaultCase("requests are held back", "underfilled", ("hold:1",), delay=0.1, window=2.0),
    FaultCase("fewer seats than streams", "underfilled", seats=2),
    FaultCase("a stall", None, ("stall:0,0.3",)),
    FaultCase("a slow drift", None, ("slow_drift:0.05",)),
    FaultCase("a slow health check", None, ("slow_health:0.5",)),
    FaultCase("slow counters", None, ("slow_metrics:0.03",)),
    FaultCase("the probe itself stands still at the window's end", None, delay=1.1, stall=0.3),
)


@dataclass
class FaultTally:
    """What the windows of one fault raised."""

    case: FaultCase
    raised: Counter[tuple[str, ...]] = field(default_factory=Counter)
    details: list[str] = field(default_factory=list)

    @property
    def windows(self) -> int:
        """Windows measured."""
        return sum(self.raised.values())

    @property
    def wrong(self) -> int:
        """Windows that raised something else than their flag alone."""
        return self.windows - self.raised[self.right]

    @property
    def right(self) -> tuple[str, ...]:
        """What each window must raise."""
        return () if self.case.flag is None else (self.case.flag,)


def measure_faults(chosen: Sequence[FaultCase], *, windows: int) -> Iterator[FaultTally]:
    """Measure windows of every fault. What leaves its engine whole shares one with the others."""
    with a_probe() as probe, ExitStack() as shared:
        whole: Engine | None = None
        for case in chosen:
            tally = FaultTally(case)
            if case.deadly or case.seats < FAULTED.streams:
                for place in range(windows):
                    with _faulted_engine(case) as made:
                        _tally(tally, faulted_window(made, probe, case, place=place))
            else:
                if whole is None:
                    whole = shared.enter_context(_faulted_engine(case))
                    _age(whole, probe)
                for place in range(windows):
                    _tally(tally, faulted_window(whole, probe, case, place=place))
            yield tally


def _tally(tally: FaultTally, result: WindowResult) -> None:
    tally.raised[result.flags] += 1
    if result.flags != tally.right:
        tally.details.append(f"{result.flags}: {dict(result.flag_details)}")


def _age(made: Engine, probe: HttpProbe) -> None:
    """Let an engine count for a while: no real one begins again within a second of its start."""
    probe.window(made.target(), request_for(FAULTED, window=2.5, max_tokens=1000), alive=made.alive)


def _faulted_engine(case: FaultCase) -> AbstractContextManager[Engine]:
    speed = speed_for(FAULTED.rate, streams=FAULTED.streams, k=FAULTED.k)
    return engine(speed=speed, k=FAULTED.k, more=("--max-num-seqs", str(case.seats)))


def faulted_window(made: Engine, probe: HttpProbe, case: FaultCase, *, place: int) -> WindowResult:
    """Measure one window with the fault in it, and lift it again."""
    striker = threading.Thread(target=_strike, args=(made, case))
    request = request_for(FAULTED, window=case.window, max_tokens=40, first_prompt=place * 37)
    striker.start()
    try:
        raw = probe.window(made.target(), request, alive=made.alive)
    finally:
        striker.join()
        if not case.deadly:
            for name in case.lasting:
                made.lift(name)
    return derive(raw, dialect=made.target().dialect, num_speculative_tokens=FAULTED.k)


def _strike(made: Engine, case: FaultCase) -> None:
    if not case.faults and not case.stall:
        return
    end = time.monotonic() + 20.0
    wanted = FAULTED.streams if case.delay else 1
    while made.running() < wanted and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(case.delay)
    if case.stall:
        ctypes.PyDLL(None).usleep(int(1e6 * case.stall))  # keeps the interpreter's lock: no thread of ours runs
    for text in case.faults:
        made.fault(text)


def measure_clean(*, windows: int, window: float = 1.2) -> Iterator[WindowResult]:
    """Measure windows without any fault."""
    with a_probe() as probe, _faulted_engine(FaultCase("none", None)) as made:
        for place in range(windows):
            request = request_for(FAULTED, window=window, max_tokens=200, first_prompt=place * 37)
            raw = probe.window(made.target(), request, alive=made.alive)
            yield derive(raw, dialect=made.target().dialect, num_speculative_tokens=FAULTED.k)


# --- several at once ---------------------------------------------------------------------------------------------

PART = 25
"""Windows of a fault, or clean ones, that are measured in one go."""


def _parts(windows: int) -> list[int]:
    return [min(PART, windows - done) for done in range(0, windows, PART)]


def _cases_of(chosen: Sequence[Case], windows: int) -> list[Judged]:
    return list(measure_cases(chosen, windows=windows))


def _faults_of(chosen: Sequence[FaultCase], windows: int) -> list[FaultTally]:
    return list(measure_faults(chosen, windows=windows))


def _clean_of(windows: int) -> list[WindowResult]:
    return list(measure_clean(windows=windows))


@dataclass
class Crew:
    """Carries calls out in this process, or in several with two processors each; what they return comes in order."""

    pool: ProcessPoolExecutor | None

    def results(self, calls: Sequence[tuple[Callable[..., _T], tuple[Any, ...]]]) -> Iterator[_T]:
        """Yield what the calls return."""
        if self.pool is None:
            yield from (call(*given) for call, given in calls)
        else:
            yield from [one.result() for one in [self.pool.submit(call, *given) for call, given in calls]]


@contextmanager
def crew(jobs: int) -> Iterator[Crew]:
    """Have a crew for the block.

    Raises:
        SystemExit: The machine has fewer than two processors for each job.
    """
    if jobs == 1:
        yield Crew(None)
        return
    allowed = sorted(os.sched_getaffinity(0))
    if 2 * jobs > len(allowed):
        raise SystemExit(f"--jobs {jobs}: an engine and its probe want two processors, and there are {len(allowed)}")
    spawning = multiprocessing.get_context("spawn")
    places = spawning.SimpleQueue()
    for job in range(jobs):
        places.put(allowed[2 * job : 2 * job + 2])
    with ProcessPoolExecutor(jobs, mp_context=spawning, initializer=_take_place, initargs=(places,)) as pool:
        yield Crew(pool)


def _take_place(places: Any) -> None:
    os.sched_setaffinity(0, places.get())


# --- all of it ---------------------------------------------------------------------------------------------------


def figures(judged: Sequence[Judged]) -> tuple[Figure, ...]:
    """The cases as figures."""
    errors = [100.0 * abs(one.rate_error) for one in judged]
    fluid = [100.0 * abs(one.fluid_error) for one in judged]
    ttft = [one.ttft for one in judged if one.ttft is not None]
    tpot = [one.tpot for one in judged if one.tpot is not None]
    fronts = tuple(1e3 * one.front for one in judged if one.front is not None) or (0.0,)
    worst = max(judged, key=lambda one: abs(one.rate_error))
    return (
        Figure("decode rate, median error", "%", statistics.median(errors), tuple(errors), 100 * MEDIAN_TARGET),
        Figure(
            "decode rate, worst window",
            "%",
            max(errors),
            (),
            100 * WORST_TARGET,
            note=f"{worst.case}, whose readings say {100 * worst.uncertainty:.2f}% of themselves",
        ),
        Figure("decode rate against a fluid engine, median error", "%", statistics.median(fluid), tuple(fluid)),
        Figure("decode rate against a fluid engine, worst window", "%", max(fluid)),
        _count("windows with a reading that is no total of the engine's", sum(not one.exact for one in judged)),
        _times_figure("TTFT", ttft),
        Figure(
            "requests on their way into the engine, median of the windows' medians",
            "ms",
            statistics.median(fronts),
            fronts,
        ),
        _times_figure("TPOT", tpot),
        _count("clean cases with a flag", sum(bool(one.flags) for one in judged)),
    )


def _count(name: str, value: int, *, note: str = "") -> Figure:
    """A count that must be none."""
    return Figure(name, "", float(value), (), 0.5, note=note)


def _times_figure(name: str, pairs: Sequence[tuple[float, float]]) -> Figure:
    outside = [pair for pair in pairs if not within(pair)]
    most = max((abs(a - b) * 1e3 for a, b in pairs), default=0.0)
    note = f"largest difference {most:.2f} ms; outside: " + (
        ", ".join(f"{a * 1e3:.2f} for {b * 1e3:.2f} ms" for a, b in outside[:5]) or "none"
    )
    errors = tuple(abs(a - b) * 1e3 for a, b in pairs)
    return Figure(
        f"{name} p50, windows beyond 1 ms + 1% of {len(pairs)}", "", float(len(outside)), errors, 0.5, note=note
    )


def measure(
    *, windows: int = 2, fault_windows: int = 5, clean: int = 40, share: float = 1.0, jobs: int = 1
) -> tuple[Section, Section]:
    """The campaign; `share` of the cases, evenly taken, in `jobs` processes."""
    chosen = cases()[:: max(1, round(1.0 / share))]
    judged: list[Judged] = []
    tallies = [FaultTally(case) for case in FAULTS]
    faults = [(place, part) for place in range(len(FAULTS)) for part in _parts(fault_windows)]
    with crew(jobs) as hands:
        for found in hands.results([(_cases_of, ([case], windows)) for case in chosen]):
            judged += found
            for one in found:
                print(f"   {one.case}: {_told(one)}", flush=True)
        parts = hands.results([(_faults_of, ([FAULTS[place]], part)) for place, part in faults])
        for (place, _), (tally,) in zip(faults, parts, strict=True):
            tallies[place].raised += tally.raised
            tallies[place].details += tally.details
        for tally in tallies:
            print(f"   {tally.case.name}: {dict(tally.raised)} {tally.details[:2] or ''}", flush=True)
        results = [one for part in hands.results([(_clean_of, (part,)) for part in _parts(clean)]) for one in part]
    unclean = [result for result in results if result.flags]
    return (
        Section(
            name="truth", figures=figures(judged), facts={"windows": len(judged), "cases": len(chosen), "jobs": jobs}
        ),
        Section(
            name="faults",
            figures=(
                Figure(
                    f"windows with a fault that raised another flag than its own, of {sum(t.windows for t in tallies)}",
                    "",
                    float(sum(tally.wrong for tally in tallies)),
                    (),
                    0.5,
                    note="; ".join(f"{t.case.name}: {t.details[0]}" for t in tallies if t.wrong),
                ),
                Figure(f"windows without a fault that raised a flag, of {clean}", "", float(len(unclean)), (), 0.5),
            ),
            facts={tally.case.name: {str(flags): count for flags, count in tally.raised.items()} for tally in tallies},
        ),
    )


def _told(one: Judged) -> str:
    front = "-" if one.front is None else f"{1e3 * one.front:.2f} ms"
    return (
        f"{100 * one.rate_error:+.3f}% of +-{100 * one.uncertainty:.2f} (fluid {100 * one.fluid_error:+.3f}%), "
        f"exact {one.exact}, "
        f"TTFT {_ms(one.ttft)} (front {front}), TPOT {_ms(one.tpot)} {dict(one.details) or ''}"
    )


def _ms(pair: tuple[float, float] | None) -> str:
    return "-" if pair is None else f"{pair[0] * 1e3:.2f}/{pair[1] * 1e3:.2f} ms"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The probe against the set truth.")
    parser.add_argument("--windows", type=int, default=2)
    parser.add_argument("--fault-windows", type=int, default=5)
    parser.add_argument("--clean", type=int, default=40)
    parser.add_argument("--cases", type=float, default=1.0, help="share of the cases")
    parser.add_argument("--jobs", type=int, default=1, help="engines at once, with two processors each")
    given = parser.parse_args()
    sections = measure(
        windows=given.windows,
        fault_windows=given.fault_windows,
        clean=given.clean,
        share=given.cases,
        jobs=given.jobs,
    )
    for each in sections:
        write(each)
    print(table(sections))
