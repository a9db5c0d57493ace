"""Faults on request: what can go wrong with an engine, by name, at boot or while it serves.

A fault is written NAME or NAME:ARG[,ARG], its arguments in their order or by name (`stall:2`, `stall:SECONDS=0.5`). Seconds are
real ones, so that a test waits the same at any `--sim-speed`.
`AFTER` counts from the first generation request, or from the injection when it comes over `POST /sim/fault`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


class UnknownFault(ValueError):
    """No fault of this name, or arguments that it does not take."""


@dataclass(frozen=True)
class FaultKind:
    """One fault that can be asked for.

    Attributes:
        arguments: Names of its arguments; a default of None must be given.
        boot: Whether it strikes the boot; such a fault cannot be injected at run time.
    """

    name: str
    help: str
    arguments: tuple[tuple[str, float | None], ...] = ()
    boot: bool = False

    @property
    def usage(self) -> str:
        """How it is written."""
        if not self.arguments:
            return self.name
        return self.name + ":" + ",".join(n if default is None else f"{n}={default:g}" for n, default in self.arguments)


_ALL = (
    FaultKind("bad_flag", "boot ends as for an unknown argument, exit 2", boot=True),
    FaultKind("bad_spec_key", "boot ends as for an unknown key in --speculative-config, exit 1", boot=True),
    FaultKind("model_missing", "boot ends as for a model path that does not exist, exit 1", boot=True),
    FaultKind("free_memory_low", "boot ends because another process holds the accelerator's memory, exit 1", boot=True),
    FaultKind("gpu_oom", "boot ends out of memory while weights load, exit 1", boot=True),
    FaultKind("no_kv_memory", "boot ends with nothing left for the KV cache, exit 1", boot=True),
    FaultKind("kv_too_small", "boot ends because one full-length request does not fit, exit 1", boot=True),
    FaultKind("port_in_use", "boot ends as if the port were taken, exit 1", boot=True),
    FaultKind("killed", "SIGKILL to itself while weights load (the host's OOM killer)", boot=True),
    FaultKind("hang", "never ready: alive and silent after the weights", boot=True),
    FaultKind("silent_boot", "no log line for SECONDS after graph capture, then ready", (("SECONDS", 5.0),), boot=True),
    FaultKind("swallow_sigterm", "SIGTERM is ignored, in the boot and after", boot=True),
    FaultKind("exit_in_window", "the engine core dies: streams get an error, 503, then exit 0", (("AFTER", 1.0),)),
    FaultKind("exit_137", "SIGKILL to itself while serving", (("AFTER", 1.0),)),
    FaultKind("foreign_load", "RATE tokens/s (on the wall) of somebody else's requests", (("RATE", 50.0),)),
    FaultKind("counter_reset", "all counters begin at zero again", (("AFTER", 1.0),)),
    FaultKind("slow_drift", "steps take FRACTION longer with every second", (("FRACTION_PER_S", 0.01),)),
    FaultKind("slow_health", "/health answers after SECONDS", (("SECONDS", 2.0),)),
    FaultKind("slow_metrics", "/metrics answers after SECONDS", (("SECONDS", 0.5),)),
    FaultKind("stall", "no engine step for SECONDS", (("AFTER", 1.0), ("SECONDS", 1.0))),
    FaultKind("wrong_model", "another model is served than the one asked for", boot=True),
    FaultKind("lost_usage", "streams carry no usage"),
    FaultKind("error_rate", "FRACTION of requests get HTTP 500", (("FRACTION", 0.1),)),
    FaultKind("refuse", "FRACTION of requests get HTTP 503", (("FRACTION", 0.1),)),
    FaultKind("cut_stream", "FRACTION of streams end in the middle without a word", (("FRACTION", 0.1),)),
    FaultKind("stream_error", "FRACTION of streams end with an error event", (("FRACTION", 0.1),)),
    FaultKind("empty_stream", "FRACTION of streams hold [DONE] only", (("FRACTION", 0.1),)),
    FaultKind("garbage", "FRACTION of streams are a proxy's HTML page", (("FRACTION", 0.1),)),
    FaultKind("metrics_down", "/metrics answers HTTP 500"),
    FaultKind("hold", "at most STREAMS requests run at once, the rest waits", (("STREAMS", 1.0),)),
    FaultKind("foreign_burst", "foreign load of RATE tokens/s for SECONDS", (("AFTER", 1.0), ("RATE", 200.0), ("SECONDS", 1.0))),
    FaultKind("buffered_stream", "a stream's chunks all come at its end, as behind a buffering proxy"),
    FaultKind("preempt", "the latest running request is preempted once", (("AFTER", 1.0),)),
    FaultKind("jit_warning", "a kernel compiles in a request: WARNING, stall", (("AFTER", 1.0), ("SECONDS", 0.3))),
)  # fmt: skip
KINDS = {kind.name: kind for kind in _ALL}


@dataclass(frozen=True)
class Fault:
    """A fault that was asked for, its arguments by name."""

    name: str
    values: tuple[tuple[str, float], ...] = ()

    def value(self, argument: str) -> float:
        """Return one argument (KeyError when it takes none of that name)."""
        return dict(self.values)[argument]


def parse_fault(text: str) -> Fault:
    """Return the fault written in `text`.

    Raises:
        UnknownFault: With what is known.
    """
    name, _, rest = text.strip().partition(":")
    kind = KINDS.get(name)
    if kind is None:
        raise UnknownFault(f"unknown fault {name!r}: known are {', '.join(KINDS)}")
    given = [part.strip() for part in rest.split(",") if part.strip()]
    if len(given) > len(kind.arguments):
        raise _miswritten(kind, text)
    values: dict[str, float | None] = dict(kind.arguments)
    open_ones = [argument for argument, _ in kind.arguments]
    for position, part in enumerate(given):
        word, by_name, number = part.rpartition("=")
        argument = word if by_name else kind.arguments[position][0]
        if argument not in open_ones:  # of no such name, or given already
            raise _miswritten(kind, text)
        open_ones.remove(argument)
        try:
            values[argument] = float(number)
        except ValueError:
            raise _miswritten(kind, text) from None
    if None in values.values():
        raise _miswritten(kind, text)
    return Fault(name, tuple((argument, value) for argument, value in values.items() if value is not None))


def _miswritten(kind: FaultKind, text: str) -> UnknownFault:
    return UnknownFault(f"fault {kind.name} is written {kind.usage}, found {text!r}")


@dataclass
class FaultSet:
    """Faults in force."""

    active: dict[str, Fault] = field(default_factory=dict)

    @classmethod
    def of(cls, faults: Iterable[Fault]) -> FaultSet:
        """Return a set with these; of two of the same name the later counts."""
        return cls({fault.name: fault for fault in faults})

    def __contains__(self, name: str) -> bool:
        return name in self.active

    def value(self, name: str, argument: str) -> float | None:
        """Return an argument of a fault in force, None when it is not in force."""
        fault = self.active.get(name)
        return None if fault is None else fault.value(argument)

    def add(self, fault: Fault) -> None:
        """Put a fault in force."""
        self.active[fault.name] = fault

    def clear(self, name: str) -> bool:
        """Lift a fault; False when it was not in force."""
        return self.active.pop(name, None) is not None


def catalogue() -> str:
    """Return all faults as lines for `--help`."""
    width = max(len(kind.usage) for kind in _ALL) + 2
    boot = [f"  {kind.usage:<{width}}{kind.help}" for kind in _ALL if kind.boot]
    serving = [f"  {kind.usage:<{width}}{kind.help}" for kind in _ALL if not kind.boot]
    return "\n".join(["faults of a boot:", *boot, "faults while serving:", *serving])
