"""Why a boot failed: text, exit code, OOM flag, readiness and time together; the first cause, not the last traceback.

Exit codes lie: SGLang as process 1 of a container ends with 0 after a failure, and so does vLLM when its engine is killed while
it serves; 137 is a kill by anybody. They decide only where no line does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from nightsweep.engine.causes import CAUSE, CONSEQUENCE, HINT
from nightsweep.engine.failure_rules import REMEDIES_SGLANG
from nightsweep.engine.redact import redacted_text
from nightsweep.engine.scan import Hit, Scan, scan
from nightsweep.engine.values import BootFailure, FailureEvidence
from nightsweep.plan.words import AFTER_MEMORY, NEVER, OUTSIDE, SAME

KILLED = frozenset({137, -9})
SIGNALLED = frozenset({130, -2, 143, -15})
STOPPED_OUTSIDE = (
    "another hand stopped it (the watchdog, `nightsweep restore`, `docker stop`): that says nothing of its config, which is "
    "booted again"
)
STALL_REPEATS = 3
NEAR_THE_END = 20
"""Messages that may follow the exception on which a boot ended."""

_NUMBERS = frozenset(
    {
        "needed",
        "available",
        "length",
        "fits",
        "free",
        "total",
        "part",
        "wanted",
        "left",
        "asked",
        "most",
        "now",
        "least",
    }
)


def classify(evidence: FailureEvidence, *, kind: str | None = None) -> BootFailure:
    """Return why a boot failed; `unknown` with the best evidence when it cannot be told.

    Args:
        evidence: All that is known of the end.
        kind: The engine's kind, where known; only words of the remedy depend on it.
    """
    if evidence.launch_error is not None:
        return _launch(evidence.launch_error)
    whole = scan(evidence.lines)
    seen = whole.telling()
    ready = seen.ready or (evidence.ready and whole.before is None)
    best = _adjusted(seen, seen.best())
    if best is not None and best.cause.weight == CAUSE:
        return _from_hit(seen, best, ready=ready)
    return _from_circumstances(evidence, seen, best, ready=ready)


@dataclass(frozen=True)
class Verdict:
    """What a log alone tells: "healthy", "failed" or "unknown"; the failure where there is one."""

    state: str
    failure: BootFailure | None = None


def verdict(texts: Iterable[str], *, exit_code: int | None = None) -> Verdict:
    """Return whether a log is that of a healthy boot, of a failed one, or does not tell.

    An alarming line before readiness is no failure, and a reassuring one is no readiness: only the engine's own last word is.
    """
    return verdict_of(scan(texts), exit_code=exit_code)


def verdict_of(seen: Scan, *, exit_code: int | None = None) -> Verdict:
    """Return the verdict on a log that was gone through already."""
    best = _adjusted(seen, seen.best())
    if not _shows_failure(seen, best, exit_code):
        return Verdict("healthy" if seen.ready else "unknown")
    evidence = FailureEvidence(
        lines=(),
        exit_code=exit_code,
        oom_killed=None,
        ready=seen.ready,
        timed_out=False,
        killed_by_us=False,
        seconds=0.0,
    )
    if best is not None and best.cause.weight == CAUSE:
        return Verdict("failed", _from_hit(seen, best, ready=seen.ready))
    return Verdict("failed", _from_circumstances(evidence, seen, best, ready=seen.ready))


def _shows_failure(seen: Scan, best: Hit | None, exit_code: int | None) -> bool:
    if seen.ready and (seen.stopped_at is not None or best is None):
        crashed = seen.crashed and seen.stopped_at is None
        return crashed or (best is not None and not _while_stopping(seen, best))
    if best is None:
        return exit_code not in (None, 0) or (_ended_on_an_exception(seen) and not seen.ready)
    if best.cause.kind == "engine_stalled":
        return seen.waits.longest >= STALL_REPEATS or exit_code not in (None, 0)
    return True


def _ended_on_an_exception(seen: Scan) -> bool:
    """Whether an exception is the log's last word: only a few lines came after it, or none that the engine says in peace."""
    at = seen.last_exception_at
    return at is not None and at > seen.went_on_at and (seen.messages - at <= NEAR_THE_END or _last_word(seen, at))


def _last_word(seen: Scan, at: int | None) -> bool:
    """Whether nothing that the engine says in peace came after a message."""
    return at is not None and at > max(seen.spoke_at, seen.went_on_at)


def _while_stopping(seen: Scan, best: Hit) -> bool:
    """Whether an engine that was told to stop only says so."""
    return seen.stopped_at is not None and best.at > seen.stopped_at


# --- from what a line says ---------------------------------------------------------------------------------------


def _adjusted(seen: Scan, hit: Hit | None) -> Hit | None:
    """Return the hit with its class as the surroundings have it, or None when they take its meaning away."""
    if hit is None:
        return None
    if hit.cause.kind == "gpu_oom" and seen.early(hit):
        cause = replace(
            hit.cause,
            kind="gpu_memory_busy",
            retry=AFTER_MEMORY,
            remedy="the accelerator's memory was full before anything was loaded: wait until it is given back, then "
            "try again",
        )
        return replace(hit, cause=cause, stage="load")
    if hit.cause.kind == "draft_quant_mismatch":
        return _draft_quantisation(seen, hit)
    return hit


def _draft_quantisation(seen: Scan, hit: Hit) -> Hit | None:
    if hit.cause.weight == CAUSE:
        if seen.load_started and not hit.after_target and not hit.in_draft:
            return replace(hit, cause=replace(hit.cause, kind="model_quant_mismatch"))
        return hit
    if seen.drafter_configured or seen.drafter_next or hit.in_draft:
        return replace(hit, cause=replace(hit.cause, weight=CAUSE))
    return replace(
        hit, cause=replace(hit.cause, kind="unknown", remedy="layers of two types meet: the line says which")
    )


def _from_hit(seen: Scan, hit: Hit, *, ready: bool) -> BootFailure:
    kind, retry = hit.cause.kind, hit.cause.retry
    remedy = REMEDIES_SGLANG[kind] if seen.sglang and kind in REMEDIES_SGLANG else remedy_of(hit)
    if ready and kind == "gpu_oom":
        kind = "oom_during_probe"
    if kind == "kv_too_small" and seen.cold_compile:
        retry = SAME
        remedy += "; the compile cache was cold, which leaves less: a second boot may fit"
    return BootFailure(
        kind=kind, stage=hit.stage, lines=_kept(hit.lines), retry=retry, remedy=remedy, numbers=numbers_of(hit)
    )


def numbers_of(hit: Hit) -> dict[str, float]:
    """Return the numbers that the deciding line states, by name."""
    numbers: dict[str, float] = {}
    for name, text in hit.found.groupdict().items():
        if name in _NUMBERS and text:
            try:
                numbers[name] = float(text)
            except ValueError:
                continue
    return numbers


def remedy_of(hit: Hit) -> str:
    """Return one line for people, with the numbers of the deciding line."""
    told = {name: redacted_text(text or "") for name, text in hit.found.groupdict().items()}  # never our own words
    if hit.cause.remedy == "kv_too_small":
        return _kv_remedy(told)
    try:
        if told.get("free") and told.get("total"):
            told["held"] = f"{float(told['total']) - float(told['free']):.2f}"
        return hit.cause.remedy.format(**told).strip()
    except (KeyError, IndexError, ValueError):
        return hit.cause.remedy


def _kv_remedy(told: dict[str, str]) -> str:
    need = f"needs {told['needed']} GiB of KV cache" if told.get("needed") else "the KV cache is too small"
    if told.get("length"):
        need += f" for {int(told['length']):,} tokens"
    has = f", has {told['available']}" if told.get("available") else ""
    lower = f"lower max-model-len to {int(told['fits']):,}" if told.get("fits") else "lower max-model-len"
    return f"{need}{has}: {lower}, or give it more memory (kv-cache-memory-bytes, gpu-memory-utilization) or fewer draft tokens"


# --- from everything else ----------------------------------------------------------------------------------------


def _from_circumstances(evidence: FailureEvidence, seen: Scan, best: Hit | None, *, ready: bool) -> BootFailure:
    stage = "serving" if ready else seen.stage
    evident = _evident(seen, best)
    if evidence.oom_killed:
        return BootFailure(
            "host_oom_killed",
            stage,
            evident,
            NEVER,
            "the memory limit of container or box was reached: raise it, or ask for less",
        )
    if evidence.timed_out:
        return _timeout(evidence, seen, evident, ready=ready)
    if evidence.killed_by_us:
        return BootFailure("stopped", stage, evident, SAME, "it was stopped on purpose")
    if best is not None and best.cause.weight == HINT:
        return _from_hit(seen, best, ready=ready)
    if evidence.taken_away or (ready and _was_told_to_stop(evidence, seen, best)):
        return BootFailure("killed", stage, evident, OUTSIDE, STOPPED_OUTSIDE)
    if evidence.exit_code in KILLED and not _died_of_itself(seen, best, ready=ready):
        return BootFailure(
            "killed",
            stage,
            evident,
            SAME,
            "it was killed (SIGKILL) by somebody: the kernel's OOM killer would stand in dmesg; an operator or "
            "watchdog may be it too",
        )
    if evidence.exit_code in SIGNALLED or any("KeyboardInterrupt" in line for _, line in seen.exceptions):
        return BootFailure("killed", stage, evident, SAME, "it was told to stop by a signal from outside")
    return _leftovers(evidence, seen, best, evident, ready=ready)


def _was_told_to_stop(evidence: FailureEvidence, seen: Scan, best: Hit | None) -> bool:
    """Whether an engine in good health says that it was told to stop, and ended as one does that was.

    A kill alone (137 and no word) may be the kernel's, for want of the box's memory: that is the config's doing as well.
    """
    if seen.stopped_at is None or seen.crashed or evidence.exit_code not in {None, 0} | KILLED | SIGNALLED:
        return False
    real = seen.real_exception
    return (best is None or best.at > seen.stopped_at) and (real is None or real[0] > seen.stopped_at)


def _died_of_itself(seen: Scan, best: Hit | None, *, ready: bool) -> bool:
    """Whether the log states an exception that ended the engine: SGLang kills itself then, and others are killed for it."""
    passed_on = best is not None and best.cause.kind in ("engine_died", "unknown_engine_init")
    if ready:
        return seen.crashed or (passed_on and seen.real_exception is not None)
    return seen.real_exception is not None and (passed_on or _last_word(seen, seen.last_exception_at))


def _leftovers(
    evidence: FailureEvidence, seen: Scan, best: Hit | None, evident: tuple[str, ...], *, ready: bool
) -> BootFailure:
    if ready:
        stalled = best is not None and best.cause.kind == "engine_stalled"
        kind = "engine_stalled" if stalled else "engine_died"
        return BootFailure(
            kind, "serving", evident, SAME, "the engine ended while it served: its last lines are all there is"
        )
    if seen.real_exception is not None and (best is None or best.cause.weight == CONSEQUENCE):
        return BootFailure(
            "unknown", seen.stage, evident, SAME, "no known cause: the deciding line is the engine's own"
        )
    if seen.exceptions and not _only_generic(seen, best):
        return BootFailure(
            "unknown", seen.stage, evident, SAME, "no known cause: the deciding line is the engine's own"
        )
    if best is not None:
        return _from_hit(seen, best, ready=ready)
    code = "" if evidence.exit_code is None else f" (exit code {evidence.exit_code})"
    return BootFailure("unknown", seen.stage, evident, SAME, f"it ended without saying why{code}")


def _timeout(evidence: FailureEvidence, seen: Scan, evident: tuple[str, ...], *, ready: bool) -> BootFailure:
    if ready:
        return BootFailure("engine_stalled", "serving", evident, SAME, "it stopped answering")
    return BootFailure(
        "boot_timeout",
        seen.stage,
        evident,
        SAME,
        f"not ready after {evidence.seconds:.0f} s (it was at: {seen.stage}): raise engine.boot_timeout if the log "
        f"still moved",
    )


def _only_generic(seen: Scan, best: Hit | None) -> bool:
    """Whether the first exception comes only after a line that already says that something else failed."""
    return best is not None and best.cause.weight == CONSEQUENCE and seen.exceptions[0][0] > best.at


def _evident(seen: Scan, best: Hit | None) -> tuple[str, ...]:
    asked = next((line for _, line in seen.exceptions if "KeyboardInterrupt" in line), None)
    told = seen.exceptions[:1] if seen.real_exception is None else [seen.real_exception]
    first = (asked,) if asked is not None else tuple(line for _, line in told)
    from_best = best.lines if best is not None else ()
    return _kept((*first, *from_best)) or _kept((seen.last_line,) if seen.last_line else ())


def _kept(lines: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(redacted_text(line) for line in lines if line)


def _launch(error: str) -> BootFailure:
    seen = scan([error])
    best = next((hit for hit in sorted(seen.hits, key=lambda hit: -hit.cause.weight)), None)
    if best is None:
        return BootFailure(
            "container_start_failed",
            "launch",
            _kept((error[:1000],)),
            NEVER,
            "the host refused to start it: its own words say why",
        )
    return BootFailure(best.cause.kind, "launch", _kept((error[:1000],)), best.cause.retry, remedy_of(best))
